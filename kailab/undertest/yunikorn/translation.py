"""KAI's words said in those of YuniKorn.

The queues are one ConfigMap, written anew with each change of them. Work is an application in a leaf of them, by annotations of its
pods. A gang is an application of one task group: placeholders hold its room until all of it can be had. Work that KAI would not preempt
says that it is not to be preempted; that it may not go beyond its quota either YuniKorn has no words for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from kailab.cluster.protocol import Cluster, Object
from kailab.model.kinds import kind_key
from kailab.model.manifests import object_name
from kailab.scheduler.reading.requests import of_pod
from kailab.undertest.contract import NotExpressible
from kailab.undertest.translation.queues import Queues
from kailab.undertest.translation.templates import said
from kailab.undertest.translation.work import Reading, Work
from kailab.undertest.yunikorn import words
from kailab.undertest.yunikorn.queues import config_map, path

_TASK_GROUP = "workers"


def translate(objects: Sequence[Object], there: Cluster) -> Sequence[Sequence[Object]]:
    """See ``SchedulerUnderTest.translate``."""
    queues = Queues(objects, there)
    reading = Reading(objects, there, words.NAME)
    changed = [index for index, obj in enumerate(objects) if kind_key(obj) == "Queue"]
    if changed:
        queues.refuse_weights(words.NAME)
        queues.refuse_overcommitted(words.NAME)
        queues.refuse_min_runtimes(words.NAME)
    became = [list(_said(obj, queues, reading)) for obj in objects]
    if changed:
        # KAI's own stay: labs count by them, and this scheduler does not look at them.
        became[changed[-1]].append(config_map(queues))
    return became


def _said(obj: Object, queues: Queues, reading: Reading) -> Iterator[Object]:
    if kind_key(obj) == "PodGroup":
        queues.check_work(reading.of_group(obj).queue, words.NAME, object_name(obj))
    works = reading.of(obj)
    for work in works:
        queues.check_work(work.queue, words.NAME, object_name(obj))
    if not works:
        yield obj
        return
    if any(work.gang for work in works) and len(works) > 1:
        raise NotExpressible(words.NAME, "gang of several kinds of pods", object_name(obj))

    def say(metadata: dict[str, Any], spec: dict[str, Any], work: Work) -> None:
        notes = metadata.setdefault("annotations", {})
        notes[words.APP_ID] = work.gang or application(obj)
        notes[words.QUEUE] = path(queues, work.queue)
        if not work.preemptible:
            notes[words.ALLOW_PREEMPTION] = "false"
        if work.gang:
            notes |= _gang(spec, work)

    yield said(obj, works, words.SCHEDULER_NAME, say)


def application(obj: Object) -> str:
    """The application of the pods of one object."""
    metadata = obj["metadata"]
    return f"{obj['kind'].lower()}-{metadata.get('name') or metadata.get('generateName', '').rstrip('-')}"


def _gang(spec: dict[str, Any], work: Work) -> dict[str, str]:
    """Placeholders go where the pods themselves may go. Hard: rather none of them than some, as in KAI."""
    group: dict[str, Any] = {"name": _TASK_GROUP, "minMember": work.min_member, "minResource": _least(spec)}
    for field in ("nodeSelector", "tolerations", "affinity", "topologySpreadConstraints"):
        if spec.get(field):
            group[field] = spec[field]
    return {
        words.TASK_GROUP: _TASK_GROUP,
        words.TASK_GROUPS: json.dumps([group], sort_keys=True),
        words.GANG_POLICY: "gangSchedulingStyle=Hard",
    }


def _least(spec: dict[str, Any]) -> dict[str, str]:
    return {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in sorted(of_pod(spec).items())}
