"""Work in Kueue's words: which LocalQueue it is submitted to, its priority, and how much of it must start together.

| KAI | Kueue (tasks/run) |
|---|---|
| queue of a Job, CronJob, pod, Deployment | label queue-name, and a LocalQueue of that name in its namespace |
| priority class | label priority-class, and a WorkloadPriorityClass of that name (concepts/workload_priority_class) |
| a Job whose pods start together | a Job: all of it is admitted, or nothing |
| a Job of which some pods are enough | annotation job-min-parallelism: partial admission |
| pods that name one group | a pod group: label pod-group-name, annotation pod-group-total-count |
| pods of a Deployment | each pod is admitted for itself (tasks/run/deployment) |

Pods are kube-scheduler's to place.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Sequence

from kailab.cluster.protocol import Cluster, Object
from kailab.model import labels
from kailab.model.kinds import kind_key
from kailab.model.manifests import object_name
from kailab.model.validation.hints import pod_templates
from kailab.undertest.contract import NotExpressible
from kailab.undertest.kueue.names import (
    API,
    GROUP_NAME,
    GROUP_TOTAL,
    MIN_PARALLELISM,
    PRIORITY_CLASS,
    QUEUE_NAME,
    queue_for,
)
from kailab.undertest.translation.queues import Queues
from kailab.undertest.translation.work import Reading, Work

_KINDS = ("Pod", "Job", "CronJob", "Deployment")


class Submitted:
    """Objects that are to be applied together. ``who``: the scheduler that is to have words for them."""

    def __init__(self, objects: Sequence[Object], there: Cluster, queues: Queues, who: str) -> None:
        self._reading = Reading(objects, there, who)
        self._queues = queues
        self._who = who
        self._works = [self._reading.of(obj) for obj in objects]
        self._members = Counter(work.gang for works in self._works for work in works if work.gang)
        self._brought: set[tuple[str, str]] = set()

    def became(self, number: int, obj: Object) -> list[Object]:
        """What the object of that number becomes, with what it is submitted to before it. Raises NotExpressible."""
        works = self._works[number]
        if not works:
            return [obj]
        if kind_key(obj) not in _KINDS:
            raise self._lacks(f"integration here for the kind {obj['kind']}", obj)
        # Templates of one object are one workload to Kueue.
        if len({(work.queue, work.priority_class, work.preemptible) for work in works}) > 1:
            raise self._lacks("workload whose parts have different queues or priorities", obj)
        work = works[0]
        self._queues.check_work(work.queue, self._who, object_name(obj))
        new = copy.deepcopy(obj)
        for _, template in pod_templates(new):
            template["spec"]["schedulerName"] = labels.DEFAULT_SCHEDULER_NAME
            # KAI reads it of an owner, too; whoever counts pods reads it of them.
            template.setdefault("metadata", {}).setdefault("labels", {}).setdefault(labels.QUEUE, work.queue)
        self._submit(new, works)
        return [*self._brings(work), new]

    def _submit(self, obj: Object, works: Sequence[Work]) -> None:
        work = works[0]
        holder = obj["spec"]["jobTemplate"] if obj["kind"] == "CronJob" else obj
        own = holder.setdefault("metadata", {}).setdefault("labels", {})
        own[QUEUE_NAME] = queue_for(work.queue, work.preemptible)
        if work.priority_class:
            own[PRIORITY_CLASS] = work.priority_class
        if obj["kind"] in ("Job", "CronJob"):
            self._gang(holder, work)
        elif obj["kind"] == "Pod" and work.gang:
            if self._members[work.gang] != work.min_member:
                raise self._lacks("group of pods of which some are enough", obj)
            own[GROUP_NAME] = work.gang
            holder["metadata"].setdefault("annotations", {})[GROUP_TOTAL] = str(work.min_member)

    def _gang(self, job: Object, work: Work) -> None:
        spec = job["spec"]
        parallelism = spec.get("parallelism", 1)
        completions = spec.get("completions")
        most = parallelism if completions is None else min(parallelism, completions)
        if work.min_member < most:
            job["metadata"].setdefault("annotations", {})[MIN_PARALLELISM] = str(work.min_member)

    def _brings(self, work: Work) -> Iterator[Object]:
        """What work is submitted to and ranked by, once for all of it."""
        name = queue_for(work.queue, work.preemptible)
        if (work.namespace, name) not in self._brought:
            self._brought.add((work.namespace, name))
            metadata = {"name": name, "namespace": work.namespace}
            yield {"apiVersion": API, "kind": "LocalQueue", "metadata": metadata, "spec": {"clusterQueue": name}}
        if work.priority_class and ("", work.priority_class) not in self._brought:
            self._brought.add(("", work.priority_class))
            about = f"The PriorityClass {work.priority_class}."
            metadata = {"name": work.priority_class}
            yield {"apiVersion": API, "kind": "WorkloadPriorityClass", "metadata": metadata, "value": work.priority,
                   "description": about}  # fmt: skip

    def _lacks(self, concept: str, obj: Object) -> NotExpressible:
        return NotExpressible(self._who, concept, object_name(obj))
