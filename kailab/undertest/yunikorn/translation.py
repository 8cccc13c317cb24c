"""Translate KAI's queues and work for YuniKorn.

The queues are one ConfigMap, rewritten at each change: quota is ``guaranteed``, limit is ``max``, and priority is an offset. As in KAI,
priorities of work count only within their queue (``priority.policy: fence``), and owned capacity comes back at once
(``preemption.delay`` has YuniKorn's smallest value).

Work is an application in a leaf queue, named by annotations of its pods. A gang is an application with one task group: placeholders
reserve its room until all of it fits. Non-preemptible work is annotated as such. YuniKorn can't express that it must stay within quota.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from kailab.cluster.protocol import Cluster
from kailab.engine.snapshot.records import UNLIMITED, Queue
from kailab.model.kinds import kind_key
from kailab.model.manifests import object_name
from kailab.model.objects import Object
from kailab.scheduler.reading.queues import DEFAULT_QUEUE_PRIORITY
from kailab.scheduler.reading.requests import pod_amounts
from kailab.undertest.contract import NotExpressible
from kailab.undertest.translation import (
    RESOURCE_NAMES,
    RESOURCES,
    AppliedQueues,
    TemplateWork,
    WorkReader,
    format_amount,
    rewrite_templates,
    share_of,
)
from kailab.undertest.yunikorn import messages
from kailab.undertest.yunikorn.messages import CONFIG_KEY, CONFIG_MAP, NAME, NAMESPACE, ROOT

_NAMES = {**RESOURCE_NAMES, "cpu": "vcore"}
_QUEUE_NAME = re.compile(r"[a-zA-Z0-9_:#/@-]{1,64}")
_PREEMPTION_DELAY = "1s"
_NO_BOUND = {"pods": "1000000"}
"""YuniKorn ignores a ``max`` with only zeros (``setResources`` in pkg/scheduler/objects/queue.go of yunikorn-core 1.8.0), so the zeros get
another resource beside them, of which every pod has one."""

Amounts = dict[str, int]


def config_map(queues: AppliedQueues) -> Object:
    """The ConfigMap with its whole configuration."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIG_MAP, "namespace": NAMESPACE},
        "data": {CONFIG_KEY: yaml.safe_dump(configuration(queues), sort_keys=False)},
    }


def configuration(queues: AppliedQueues) -> dict[str, Any]:
    """The content of ``queues.yaml``. Raises NotExpressible."""
    tops = [_queue(queues, queue, {}) for queue in queues.below("")]
    root: dict[str, Any] = {"name": ROOT, "submitacl": "*"}
    if tops:
        root["queues"] = tops
    # A pod may be seen before the configuration with its queue. The queue is then created, and gets its amounts when the configuration is
    # read.
    placement = [{"name": "provided", "create": True}]
    return {"partitions": [{"name": "default", "placementrules": placement, "queues": [root]}]}


def queue_path(queues: AppliedQueues, name: str) -> str:
    """The path of a queue, as work names it."""
    return ".".join((ROOT, *queues.line(name)))


def _queue(queues: AppliedQueues, queue: Queue, above: Amounts) -> dict[str, Any]:
    """``above``: the limits of all ancestors."""
    if not _QUEUE_NAME.fullmatch(queue.name):
        raise NotExpressible(NAME, "queue of such a name", f"Queue/{queue.name}")
    most = _max_amounts(queue, above)
    least = _guaranteed_amounts(queues, queue, most)
    children = [_queue(queues, child, most) for child in queues.below(queue.name)]
    result: dict[str, Any] = {"name": queue.name}
    if children:
        result["parent"] = True
    resources = {
        "guaranteed": _amount_texts(least),
        "max": _amount_texts(most) | (_NO_BOUND if most and not any(most.values()) else {}),
    }
    result["resources"] = {name: amounts for name, amounts in resources.items() if amounts}
    result["properties"] = {
        "priority.policy": "fence",
        "priority.offset": str(queue.priority - DEFAULT_QUEUE_PRIORITY),
        "preemption.delay": _PREEMPTION_DELAY,
    }
    if children:
        result["queues"] = children
    return result


def _max_amounts(queue: Queue, above: Amounts) -> Amounts:
    """The limits, bounded by those of all ancestors: YuniKorn refuses a ``max`` beyond the parent's."""
    own = {name: share_of(queue, name).limit for name in RESOURCES if share_of(queue, name).limit != UNLIMITED}
    return {name: min(limit, above.get(name, limit)) for name, limit in own.items()}


def _guaranteed_amounts(queues: AppliedQueues, queue: Queue, most: Amounts) -> Amounts:
    result = {}
    for name in RESOURCES:
        quota = share_of(queue, name).quota
        if quota == UNLIMITED:
            # An unlimited quota would guarantee all capacity; a resource that nobody lacks needs no guarantee.
            if name != "gpu" or queue.name in queues.parents:
                continue
            quota = queues.capacity(name)
        result[name] = min(quota, most.get(name, quota))
    return result


def _amount_texts(amounts: Amounts) -> dict[str, str]:
    # It reads thousandths of CPUs only.
    if amounts.get("gpu", 0) % 1000:
        raise NotExpressible(NAME, "part of a GPU", "quota or limit of a Queue")
    return {_NAMES[name]: format_amount(name, amount) for name, amount in amounts.items()}


# --- work -------------------------------------------------------------------------------------------------------------

_TASK_GROUP = "workers"


def translate(objects: Sequence[Object], there: Cluster) -> Sequence[Sequence[Object]]:
    """See ``SchedulerUnderTest.translate``."""
    queues = AppliedQueues(objects, there)
    reading = WorkReader(objects, there, messages.NAME)
    changed = [index for index, obj in enumerate(objects) if kind_key(obj) == "Queue"]
    if changed:
        queues.refuse_weights(messages.NAME)
        queues.refuse_overcommitted(messages.NAME)
        queues.refuse_min_runtimes(messages.NAME)
    translations = [list(_translate_object(obj, queues, reading)) for obj in objects]
    if changed:
        # KAI's own objects stay, because labs count by them; this scheduler ignores them.
        translations[changed[-1]].append(config_map(queues))
    return translations


def _translate_object(obj: Object, queues: AppliedQueues, reading: WorkReader) -> Iterator[Object]:
    if kind_key(obj) == "PodGroup":
        queues.check_work(reading.of_group(obj).queue, messages.NAME, object_name(obj))
    works = reading.of(obj)
    for work in works:
        queues.check_work(work.queue, messages.NAME, object_name(obj))
    if not works:
        yield obj
        return
    if any(work.gang for work in works) and len(works) > 1:
        raise NotExpressible(messages.NAME, "gang of several kinds of pods", object_name(obj))

    def say(metadata: dict[str, Any], spec: dict[str, Any], work: TemplateWork) -> None:
        notes = metadata.setdefault("annotations", {})
        notes[messages.APP_ID] = work.gang or application(obj)
        notes[messages.QUEUE] = queue_path(queues, work.queue)
        if not work.preemptible:
            notes[messages.ALLOW_PREEMPTION] = "false"
        if work.gang:
            notes |= _gang(spec, work)

    yield rewrite_templates(obj, works, messages.SCHEDULER_NAME, say)


def application(obj: Object) -> str:
    """The application ID of the pods of one object."""
    metadata = obj["metadata"]
    return f"{obj['kind'].lower()}-{metadata.get('name') or metadata.get('generateName', '').rstrip('-')}"


def _gang(spec: dict[str, Any], work: TemplateWork) -> dict[str, str]:
    """Placeholders may go where the pods may go. Hard: all placeholders or none, as in KAI."""
    group: dict[str, Any] = {"name": _TASK_GROUP, "minMember": work.min_member, "minResource": _minimum_resources(spec)}
    for field in ("nodeSelector", "tolerations", "affinity", "topologySpreadConstraints"):
        if spec.get(field):
            group[field] = spec[field]
    return {
        messages.TASK_GROUP: _TASK_GROUP,
        messages.TASK_GROUPS: json.dumps([group], sort_keys=True),
        messages.GANG_POLICY: "gangSchedulingStyle=Hard",
    }


def _minimum_resources(spec: dict[str, Any]) -> dict[str, str]:
    return {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in sorted(pod_amounts(spec).items())}
