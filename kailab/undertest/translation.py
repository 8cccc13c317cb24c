"""The meaning of KAI's objects, for schedulers under test with another API.

``AppliedQueues`` is the queue tree after objects are applied. ``WorkReader`` reads the PodGroup that KAI would make for each pod template;
it asks kailab's own grouping, so that queues, gangs and priorities mean the same everywhere. ``rewrite_templates`` copies an object with
changed pod templates. Each raises NotExpressible for a concept that the other scheduler lacks.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from kailab.cluster.protocol import Cluster
from kailab.engine.snapshot.records import UNLIMITED, Queue, ResourceShare
from kailab.errors import NotFound
from kailab.grouping import Grouping, GroupingError, group_pod
from kailab.model import labels
from kailab.model.kinds import api_version_of, is_namespaced, key_of, kind_key
from kailab.model.labels import GPU_RESOURCE
from kailab.model.manifests import object_name
from kailab.model.objects import (
    Object,
    allocatable_of,
    annotations_of,
    as_owner_reference,
    labels_of,
    metadata_of,
    name_of,
    namespace_of,
    spec_of,
)
from kailab.model.quantities import parse
from kailab.model.validation.advice import pod_templates
from kailab.scheduler.reading.podgroups import PriorityClasses, is_preemptible
from kailab.scheduler.reading.queues import queue_record
from kailab.undertest.contract import NotExpressible

# --- queues -----------------------------------------------------------------------------------------------------------

RESOURCES = ("gpu", "cpu", "memory")
RESOURCE_NAMES = {"gpu": GPU_RESOURCE, "cpu": "cpu", "memory": "memory"}
"""The names of these resources in Kubernetes."""

_UNITS = {"gpu": 1000, "cpu": 1000, "memory": 1}  # of a record, for one of a node's


class AppliedQueues:
    """The queues after ``objects`` are applied to the cluster ``there``. Amounts are in the units of the engine's records: milli-GPU,
    millicores, bytes."""

    def __init__(self, objects: Sequence[Object], there: Cluster) -> None:
        self._there = there
        queues = {name_of(queue): queue for queue in there.list("Queue")}
        queues |= {name_of(obj): obj for obj in objects if kind_key(obj) == "Queue"}
        self.by_name: dict[str, Queue] = {name: queue_record(queues[name]) for name in sorted(queues)}

    @cached_property
    def parents(self) -> frozenset[str]:
        """Names of queues that have children. They take no work."""
        return frozenset(queue.parent for queue in self.by_name.values() if queue.parent in self.by_name)

    @property
    def leaves(self) -> list[Queue]:
        return [queue for name, queue in self.by_name.items() if name not in self.parents]

    def below(self, parent: str) -> list[Queue]:
        """The children of a queue; of "", the queues at the top."""
        return [queue for queue in self.by_name.values() if self._parent(queue) == parent]

    def line(self, name: str) -> tuple[str, ...]:
        """The names from the topmost ancestor of a queue down to the queue."""
        line: list[str] = []
        while name and name not in line:
            line.insert(0, name)
            name = self._parent(self.by_name[name])
        return tuple(line)

    def capacity(self, resource: str) -> int:
        """The allocatable amount of all nodes."""
        texts = (allocatable_of(node).get(RESOURCE_NAMES[resource], 0) for node in self._there.list("Node"))
        return int(sum(parse(text) for text in texts) * _UNITS[resource])

    def check_work(self, queue: str, who: str, about: str) -> None:
        """Raises NotExpressible for work in a queue that is missing or has children: KAI never schedules it."""
        if queue not in self.by_name:
            raise NotExpressible(who, f"work in a queue that there is not ({queue})", about)
        if queue in self.parents:
            raise NotExpressible(who, f"work in a queue that has others below it ({queue})", about)

    # --- concepts that some schedulers lack ------------------------------------------------------------------------------

    def refuse_min_runtimes(self, who: str) -> None:
        """Raises NotExpressible for a minimum run time before reclaim or preempt."""
        for queue in self.by_name.values():
            if queue.reclaim_min_runtime or queue.preempt_min_runtime:
                raise NotExpressible(who, "minimum run time", _about(queue))

    def refuse_weights(self, who: str) -> None:
        """Raises NotExpressible if siblings have different weights for capacity beyond their quotas."""
        for siblings in self._siblings():
            for resource in RESOURCES:
                # The weight of a queue that can't exceed its quota has no effect.
                shares = [share for share in (share_in(queue, resource) for queue in siblings) if _may_borrow(share)]
                if len({share.weight for share in shares}) > 1:
                    raise NotExpressible(who, "weight for what is over the quota", _about(siblings[0]))

    def refuse_priorities(self, who: str) -> None:
        """Raises NotExpressible if siblings have different priorities."""
        for siblings in self._siblings():
            if len({queue.priority for queue in siblings}) > 1:
                raise NotExpressible(who, "priority of queues", _about(siblings[0]))

    def refuse_tree(self, who: str) -> None:
        """Raises NotExpressible if a parent queue affects decisions: if there are several, if it has a limit, or if it has less quota than its
        children. A single parent that only groups the leaves has no effect."""
        for name in sorted(self.parents):
            queue = self.by_name[name]
            alone = self.below("") == [queue] and all(child.name not in self.parents for child in self.below(name))
            if not alone or any(_holds_back(queue, self.below(name), resource) for resource in RESOURCES):
                raise NotExpressible(who, "tree of queues", _about(queue))

    def refuse_overcommitted(self, who: str) -> None:
        """Raises NotExpressible if the quotas of children exceed their parent's: KAI applies the smaller amount at every level."""
        for name in sorted(self.parents):
            if any(_promises_more(self.by_name[name], self.below(name), resource) for resource in RESOURCES):
                raise NotExpressible(
                    who, "queue whose quota is less than that of those below it", _about(self.by_name[name])
                )

    def _siblings(self) -> Iterator[list[Queue]]:
        for parent in ("", *sorted(self.parents)):
            yield self.below(parent)

    def _parent(self, queue: Queue) -> str:
        return queue.parent if queue.parent in self.by_name else ""


def share_in(queue: Queue, resource: str) -> ResourceShare:
    """The share of a queue in one of ``RESOURCES``."""
    return getattr(queue, resource)


def format_quantity(resource: str, amount: int) -> str:
    """An amount as a Kubernetes quantity. Amounts of GPUs and CPUs are in thousandths."""
    if resource == "memory":
        return str(amount)
    return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"


def _may_borrow(share: ResourceShare) -> bool:
    return share.quota != UNLIMITED and (share.limit == UNLIMITED or share.limit > share.quota)


def _holds_back(queue: Queue, children: Sequence[Queue], resource: str) -> bool:
    return share_in(queue, resource).limit != UNLIMITED or _promises_more(queue, children, resource)


def _promises_more(queue: Queue, children: Sequence[Queue], resource: str) -> bool:
    own, theirs = share_in(queue, resource), [share_in(child, resource).quota for child in children]
    bounds = [bound for bound in (own.quota, own.limit) if bound != UNLIMITED]
    return bool(bounds) and (UNLIMITED in theirs or sum(theirs) > min(bounds))


def _about(queue: Queue) -> str:
    return f"Queue/{queue.name}"


# --- work -------------------------------------------------------------------------------------------------------------

DEFAULT_NAMESPACE = "default"


@dataclass(frozen=True)
class TemplateWork:
    """The pods of one template. ``path``: of the template in its object. ``gang``: a name for the group of its pods, or "" if each pod runs
    by itself. ``priority``: the value of ``priority_class``. ``min_member``: how many of the pods must start together."""

    path: str
    namespace: str
    queue: str
    priority_class: str
    priority: int
    preemptible: bool
    gang: str = ""
    min_member: int = 1


class WorkReader:
    """Reads the work of objects that are applied together. ``who``: the scheduler under test, for errors."""

    def __init__(self, objects: Sequence[Object], there: Cluster, who: str) -> None:
        self._given = _AppliedObjects(objects, there)
        self._who = who
        self._priorities = PriorityClasses()
        given = [obj for obj in objects if obj["kind"] == "PriorityClass"]
        for priority_class in (*there.list("PriorityClass"), *given):
            self._priorities.set(priority_class)

    def of(self, obj: Object) -> list[TemplateWork]:
        """The work of each template whose pods name KAI's scheduler. Raises NotExpressible for features that no plain group of pods has."""
        result = []
        for path, template in pod_templates(obj):
            if template["spec"].get("schedulerName") == labels.SCHEDULER_NAME:
                result.append(self._of(obj, path, template))
        return result

    def of_group(self, podgroup: Object) -> TemplateWork:
        """The work of the pods that name a PodGroup written by the user."""
        spec = spec_of(podgroup)
        if spec.get("subGroups") or spec.get("minSubGroup"):
            raise self._lacks("gang of parts, each with its own minimum", podgroup)
        if spec.get("topologyConstraint"):
            raise self._lacks("topology constraint", podgroup)
        named = spec.get("priorityClassName") or ""
        return TemplateWork(
            path="",
            namespace=namespace_of(podgroup) or DEFAULT_NAMESPACE,
            queue=spec.get("queue") or "",
            priority_class=named if named in self._priorities.values else "",
            priority=self._priorities.of(named),
            preemptible=is_preemptible(spec, self._priorities.of(named)),
            gang=name_of(podgroup),
            min_member=int(spec.get("minMember") or 1),
        )

    def _of(self, obj: Object, path: str, template: Object) -> TemplateWork:
        if any(key in annotations_of(template) for key in labels.GPU_SHARES):
            raise self._lacks("part of a GPU", obj)
        pod, owners = _pod_of(obj, template)
        for owner in owners:
            self._given.know(owner)
        if (named := annotations_of(template).get(labels.POD_GROUP)) is not None:
            written = self._given.get(api_version_of("PodGroup"), "PodGroup", namespace_of(pod), named)
            if written is None:
                raise self._lacks(f"PodGroup that is not there yet ({named})", obj)
            work = self.of_group(written)
            return replace(work, path=path)
        try:
            grouping = group_pod(pod, owners, self._given)
        except GroupingError as error:
            raise self._lacks(f"pods of this kind ({error})", obj) from None
        self._check(grouping, obj)
        priority_class = grouping.priority_class
        priority = self._priorities.of(priority_class)
        least = grouping.min_member
        return TemplateWork(
            path=path,
            namespace=namespace_of(pod),
            queue=grouping.queue,
            priority_class=priority_class if priority_class in self._priorities.values else "",
            priority=priority,
            preemptible=is_preemptible({"preemptibility": grouping.preemptibility}, priority),
            gang=self._gang(obj, grouping) if least > 1 else "",
            min_member=max(least, 1),
        )

    def _check(self, grouping: Grouping, obj: Object) -> None:
        if grouping.sub_groups or grouping.min_sub_group is not None:
            raise self._lacks("gang of parts, each with its own minimum", obj)
        if any(grouping.topology):
            raise self._lacks("topology constraint", obj)
        if grouping.preemption_delay:
            raise self._lacks("preemption delay", obj)

    def _gang(self, obj: Object, grouping: Grouping) -> str:
        # Bare pods share the group that they name.
        if grouping.shared:
            return grouping.name
        name = name_of(obj)
        if not name:
            raise self._lacks("gang of an object whose name is still to be made", obj)
        return f"{obj['kind'].lower()}-{name}"

    def _lacks(self, concept: str, obj: Object) -> NotExpressible:
        return NotExpressible(self._who, concept, object_name(obj))


def _pod_of(obj: Object, template: Object) -> tuple[Object, list[Object]]:
    """A pod that the object will make, and its owners, nearest first."""
    namespace = namespace_of(obj) or DEFAULT_NAMESPACE
    own = _known(obj, namespace)
    if template is obj:
        return own, []
    owners = [own]
    # A CronJob makes Jobs, and those make the pods.
    if kind_key(obj) == "CronJob":
        job = {"apiVersion": "batch/v1", "kind": "Job", **obj["spec"]["jobTemplate"]}
        metadata = {**metadata_of(job), "name": f"{name_of(own)}-0"}
        owners.insert(
            0, _known({**job, "metadata": {**metadata, "ownerReferences": [as_owner_reference(own)]}}, namespace)
        )
    nearest = owners[0]
    own_metadata: dict[str, Any] = {
        **metadata_of(template),
        "name": f"{name_of(nearest)}-0",
        "namespace": namespace,
        "uid": "pod",
        "ownerReferences": [as_owner_reference(nearest)],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": own_metadata, "spec": template["spec"]}, owners


def _known(obj: Object, namespace: str) -> Object:
    """The object with the fields of a stored one that grouping reads."""
    given = metadata_of(obj)
    name = given.get("name") or f"{given.get('generateName', '')}0"
    return {**obj, "metadata": {**given, "name": name, "namespace": namespace, "uid": given.get("uid") or "given"}}


class _AppliedObjects:
    """A ``kailab.grouping.family.ObjectReader`` of the cluster after objects are applied."""

    def __init__(self, objects: Sequence[Object], there: Cluster) -> None:
        self._there = there
        self._objects: dict[tuple[str, str, str], Object] = {}
        for obj in objects:
            if name_of(obj):
                self.know(obj)

    def know(self, obj: Object) -> None:
        key = kind_key(obj)
        space = (namespace_of(obj) or DEFAULT_NAMESPACE) if is_namespaced(key, obj) else ""
        self._objects[key, space, name_of(obj)] = obj

    def get(self, api_version: str, kind: str, namespace: str | None, name: str) -> Object | None:
        key = key_of(api_version, kind)
        if (result := self._objects.get((key, namespace or "", name))) is not None:
            return result
        try:
            return self._there.get(key, name, namespace)
        except NotFound:
            return None

    def list(
        self, api_version: str, kind: str, namespace: str, labels: Mapping[str, str] | None = None
    ) -> list[Object]:
        key = key_of(api_version, kind)
        there = {name_of(obj): obj for obj in self._there.list(key, namespace, labels)}
        return [
            *there.values(),
            *(obj for obj in self._matching(key, namespace, labels) if name_of(obj) not in there),
        ]

    def _matching(self, key: str, namespace: str, wanted: Mapping[str, str] | None) -> Iterator[Object]:
        for (kind, space, _), obj in self._objects.items():
            if kind == key and space == namespace and (wanted or {}).items() <= labels_of(obj).items():
                yield obj


# --- pod templates ----------------------------------------------------------------------------------------------------

TemplateEditor = Callable[[dict[str, Any], dict[str, Any], TemplateWork], None]
"""(metadata, spec, work): changes the metadata and the spec of the pods of one template."""


def rewrite_templates(obj: Object, works: list[TemplateWork], scheduler_name: str, say: TemplateEditor) -> Object:
    """A copy of an object whose pods name that scheduler. Each pod gets a label with the queue in which KAI would count it."""
    new = copy.deepcopy(obj)
    by_path = {work.path: work for work in works}
    for path, template in pod_templates(new):
        work = by_path.get(path)
        if work is None:
            continue
        spec, metadata = template["spec"], template.setdefault("metadata", {})
        spec["schedulerName"] = scheduler_name
        # KAI also reads the owner's label; code that counts pods reads the pod's.
        metadata.setdefault("labels", {}).setdefault(labels.QUEUE, work.queue)
        if work.priority_class:
            spec["priorityClassName"] = work.priority_class
        say(metadata, spec, work)
    return new
