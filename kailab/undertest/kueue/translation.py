"""Translate KAI's queues and work into Kueue's objects.

| KAI queue | Kueue (concepts/cohort, concepts/cluster_queue) |
|---|---|
| a queue | a Cohort; below the Cohort of a leaf there are two ClusterQueues, for preemptible and for non-preemptible work |
| quota of a leaf | nominalQuota of its ClusterQueue for non-preemptible work, which lends all of it and borrows nothing |
| quota of a parent | what exceeds its children's quotas: nominalQuota of its Cohort |
| capacity that no queue owns | nominalQuota of the Cohort at the root: the nodes' resources beyond all quotas |
| limit | borrowingLimit of the Cohort: limit - quota |
| overQuotaWeight | fairSharing.weight of the Cohort |
| an unlimited quota | nominalQuota of all that the nodes have |
| who may reclaim from whom | reclaimWithinCohort Any; withinClusterQueue LowerPriority where work is preemptible |

Kueue has no preemptibility of single workloads. A ClusterQueue that borrows nothing never has to give anything back, so its work is as
safe as KAI's non-preemptible work within quota.

| KAI work | Kueue (tasks/run) |
|---|---|
| queue of a Job, CronJob, pod, Deployment | label queue-name, and a LocalQueue of that name in its namespace |
| priority class | label priority-class, and a WorkloadPriorityClass of that name (concepts/workload_priority_class) |
| a Job whose pods start together | a Job, admitted as a whole |
| a Job of which some pods are enough | annotation job-min-parallelism: partial admission |
| pods that name one group | a pod group: label pod-group-name, annotation pod-group-total-count |
| pods of a Deployment | each pod is admitted by itself (tasks/run/deployment) |

kube-scheduler places the pods.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Sequence

from kailab.cluster.protocol import Cluster
from kailab.engine.snapshot.records import UNLIMITED, Queue
from kailab.model import labels
from kailab.model.kinds import kind_key
from kailab.model.manifests import object_name
from kailab.model.objects import Object
from kailab.model.validation.advice import pod_templates
from kailab.undertest.contract import NotExpressible
from kailab.undertest.kueue.messages import (
    API,
    CLUSTER_QUEUE,
    FLAVOR,
    GROUP_NAME,
    GROUP_TOTAL,
    MIN_PARALLELISM,
    PRIORITY_CLASS,
    QUEUE_NAME,
    ROOT,
    queue_for,
)
from kailab.undertest.translation import RESOURCES, AppliedQueues, TemplateWork, WorkReader, share_of

_NAMES = {"gpu": labels.GPU_RESOURCE, "cpu": "cpu", "memory": "memory"}


def translate_tree(queues: AppliedQueues, there: Cluster, who: str) -> list[Object]:
    """All objects of the tree, in the order of applying. Raises NotExpressible."""
    queues.refuse_min_runtimes(who)
    queues.refuse_priorities(who)
    queues.refuse_overcommitted(who)
    return list(_TreeTranslation(queues, there, who).objects())


class _TreeTranslation:
    def __init__(self, queues: AppliedQueues, there: Cluster, who: str) -> None:
        self._queues = queues
        self._there = there
        self._who = who
        # Only resources that a queue bounds, because Kueue requires an amount for each resource that it covers.
        self._covered = [name for name in RESOURCES if name == "gpu" or self._bounded(name)]
        self._has = {name: queues.capacity(name) for name in self._covered}

    def objects(self) -> Iterator[Object]:
        yield _flavor()
        tops = self._queues.below("")
        free = {name: max(0, self._has[name] - sum(self._quota(one, name) for one in tops)) for name in self._covered}
        yield _object("Cohort", ROOT, {"resourceGroups": self._groups(free, {})})
        for name in self._queues.by_name:
            yield self._cohort(self._queues.by_name[name])
        for leaf in self._queues.leaves:
            owned = {name: self._quota(leaf, name) for name in self._covered}
            nothing = dict.fromkeys(self._covered, 0)
            yield self._cluster_queue(leaf, True, self._groups(nothing, {}))
            yield self._cluster_queue(leaf, False, self._groups(owned, nothing))
        yield from self._left_behind()

    def _left_behind(self) -> Iterator[Object]:
        """ClusterQueues of queues that were leaves when they were applied and have children now: their quota moves to the Cohort and the
        children."""
        there = {obj["metadata"]["name"] for obj in self._there.list(CLUSTER_QUEUE)}
        nothing = dict.fromkeys(self._covered, 0)
        for name in sorted(self._queues.parents):
            for preemptible in (True, False):
                if queue_for(name, preemptible) in there:
                    queue = self._queues.by_name[name]
                    yield self._cluster_queue(queue, preemptible, self._groups(nothing, nothing))

    def _bounded(self, resource: str) -> bool:
        shares = [share_of(queue, resource) for queue in self._queues.by_name.values()]
        return any(one.limit != UNLIMITED or one.quota not in (0, UNLIMITED) for one in shares)

    def _quota(self, queue: Queue, resource: str) -> int:
        own = share_of(queue, resource)
        if resource == "gpu" and any(amount > 0 and amount % 1000 for amount in (own.quota, own.limit)):
            raise self._lacks("quota of a part of a device", queue)
        quota = self._has[resource] if own.quota == UNLIMITED else own.quota
        return quota if own.limit == UNLIMITED else min(quota, own.limit)

    def _cohort(self, queue: Queue) -> Object:
        if queue.parent and queue.parent not in self._queues.by_name:
            raise self._lacks(f"queue whose work waits until its parent exists ({queue.parent})", queue)
        pool, borrowed = {}, {}
        children = self._queues.below(queue.name)
        for name in self._covered:
            quota = self._quota(queue, name)
            # The ClusterQueue of a leaf has its quota.
            pool[name] = max(0, quota - sum(self._quota(child, name) for child in children)) if children else 0
            if (limit := share_of(queue, name).limit) != UNLIMITED:
                borrowed[name] = max(0, limit - quota)
        spec = {
            "parentName": queue.parent or ROOT,
            "resourceGroups": self._groups(pool, borrowed),
            "fairSharing": {"weight": self._weight(queue)},
        }
        return _object("Cohort", queue.name, spec)

    def _weight(self, queue: Queue) -> str:
        weights = {share_of(queue, name).weight for name in self._covered}
        if len(weights) > 1:
            raise self._lacks("weight for each resource", queue)
        return f"{float(weights.pop()):g}"

    def _cluster_queue(self, queue: Queue, preemptible: bool, groups: list[Object]) -> Object:
        spec = {
            "cohortName": queue.name,
            "namespaceSelector": {},  # work of all namespaces
            "preemption": {
                "reclaimWithinCohort": "Any",
                "withinClusterQueue": "LowerPriority" if preemptible else "Never",
            },
            "resourceGroups": groups,
        }
        return _object("ClusterQueue", queue_for(queue.name, preemptible), spec)

    def _groups(self, nominal: dict[str, int], borrowed: dict[str, int]) -> list[Object]:
        """``borrowed``: the most that may be borrowed of each bounded resource."""
        resources: list[Object] = []
        for name, amount in nominal.items():
            bound = {"borrowingLimit": _amount(name, borrowed[name])} if name in borrowed else {}
            resources.append({"name": _NAMES[name], "nominalQuota": _amount(name, amount), **bound})
        flavors = [{"name": FLAVOR, "resources": resources}]
        return [{"coveredResources": [one["name"] for one in resources], "flavors": flavors}]

    def _lacks(self, concept: str, queue: Queue) -> NotExpressible:
        return NotExpressible(self._who, concept, f"Queue/{queue.name}")


def _amount(resource: str, amount: int) -> str:
    """An amount of a record as a quantity, with GPUs as whole devices."""
    if resource == "gpu":
        return str(amount // 1000)
    return f"{amount}m" if resource == "cpu" else str(amount)


def _flavor() -> Object:
    # One flavor for all nodes: quota does not depend on nodes, and pods select theirs.
    return _object("ResourceFlavor", FLAVOR, {"tolerations": [{"key": labels.FAKE_NODE_TAINT, "operator": "Exists"}]})


def _object(kind: str, name: str, spec: Object) -> Object:
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}


# --- work -------------------------------------------------------------------------------------------------------------

_KINDS = ("Pod", "Job", "CronJob", "Deployment")


class WorkTranslation:
    """Objects that are applied together. ``who``: the scheduler under test, for errors."""

    def __init__(self, objects: Sequence[Object], there: Cluster, queues: AppliedQueues, who: str) -> None:
        self._reading = WorkReader(objects, there, who)
        self._queues = queues
        self._who = who
        self._works = [self._reading.of(obj) for obj in objects]
        self._members = Counter(work.gang for works in self._works for work in works if work.gang)
        self._brought: set[tuple[str, str]] = set()

    def translate_object(self, number: int, obj: Object) -> list[Object]:
        """The translation of the object with that number, preceded by its LocalQueue and priority class. Raises NotExpressible."""
        works = self._works[number]
        if not works:
            return [obj]
        if kind_key(obj) not in _KINDS:
            raise self._lacks(f"integration here for the kind {obj['kind']}", obj)
        # In Kueue all templates of one object are one workload.
        if len({(work.queue, work.priority_class, work.preemptible) for work in works}) > 1:
            raise self._lacks("workload whose parts have different queues or priorities", obj)
        work = works[0]
        self._queues.check_work(work.queue, self._who, object_name(obj))
        new = copy.deepcopy(obj)
        for _, template in pod_templates(new):
            template["spec"]["schedulerName"] = labels.DEFAULT_SCHEDULER_NAME
            # KAI also reads the owner's label; code that counts pods reads the pod's.
            template.setdefault("metadata", {}).setdefault("labels", {}).setdefault(labels.QUEUE, work.queue)
        self._submit(new, works)
        return [*self._brings(work), new]

    def _submit(self, obj: Object, works: Sequence[TemplateWork]) -> None:
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

    def _gang(self, job: Object, work: TemplateWork) -> None:
        spec = job["spec"]
        parallelism = spec.get("parallelism", 1)
        completions = spec.get("completions")
        most = parallelism if completions is None else min(parallelism, completions)
        if work.min_member < most:
            job["metadata"].setdefault("annotations", {})[MIN_PARALLELISM] = str(work.min_member)

    def _brings(self, work: TemplateWork) -> Iterator[Object]:
        """The LocalQueue and WorkloadPriorityClass of work that were not yielded before."""
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
