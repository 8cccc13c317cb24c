"""The pod grouper as a controller: gives every pod of the scheduler its PodGroup and the annotation that names it.

The controller keeps soft state only. A step takes in the watch events and then groups the pods that are due: new pods, pods whose labels
or annotations changed before they were bound, pods whose PodGroup was deleted, and pods that could not be grouped, once an object that
was read for them changes. Garbage collection deletes PodGroups with their owners; the controller deletes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from kailab.cluster.protocol import AssumeCache, AsyncWrites, Cluster, Object, WatchEvent
from kailab.cluster.retries import Retries
from kailab.cluster.submitted_writes import SubmittedItems
from kailab.cluster.writes import CreateWrite, PatchWrite, UpdateWrite, WriteOutcome
from kailab.errors import AlreadyExists, ApiError, Conflict, KailabError, NotFound
from kailab.grouping.cluster_reader import ClusterReader, ObjectLookup
from kailab.grouping.family import GroupingConfig
from kailab.grouping.plans import PlanCache
from kailab.grouping.pod_grouping import MALFORMED, is_skipped, malformed_message, owner_chain
from kailab.grouping.podgroup import podgroup_object, updated_podgroup
from kailab.grouping.records import Grouping, GroupingError
from kailab.model.labels import GPU_GROUP, GPU_MULTI_GROUP_PREFIX, POD_GROUP, SUBGROUP_NAME
from kailab.model.objects import (
    annotations_of,
    is_ended,
    is_owned,
    is_terminating,
    labels_of,
    node_of,
    object_key,
    uid_of,
)


def labels_and_annotations(pod: Object) -> tuple[Any, Any]:
    """The metadata that grouping depends on."""
    return labels_of(pod), annotations_of(pod)


def _gates(pod: Object) -> Any:
    return pod["spec"].get("schedulingGates")


def only_gpu_groups_differ(before: Object, pod: Object) -> bool:
    """Whether only the labels of an owned pod's GPU groups differ. They do not affect grouping, except for a bare pod, whose labels its
    PodGroup copies."""
    if not is_owned(pod) or annotations_of(before) != annotations_of(pod):
        return False
    old, new = labels_of(before), labels_of(pod)
    changed = [label for label in {**old, **new} if old.get(label) != new.get(label)]
    return all(label == GPU_GROUP or label.startswith(GPU_MULTI_GROUP_PREFIX) for label in changed)


Key = tuple[str, str]
"""Namespace and name."""


class PodAssignment(NamedTuple):
    """A pod, its PodGroup, the patch of its metadata (may be empty), and the objects that were read for it."""

    key: Key
    pod: Object
    group: Key
    patch: dict[str, Any]
    reads: tuple[ObjectLookup, ...]


def _metadata_patch(assignment: PodAssignment) -> PatchWrite:
    # By UID: another pod may have the name by now, which gets a PodGroup of its own.
    patch = {"metadata": {**assignment.patch, "uid": uid_of(assignment.pod)}}
    return PatchWrite("Pod", assignment.key[1], assignment.key[0], patch)


class SubmittedPodGroup(NamedTuple):
    """A PodGroup that is being created. ``groupings``: its planned contents, oldest first. ``assignments``: planned writes of pods, sent
    once it exists. ``deferred``: pods to group once it exists."""

    groupings: list[Grouping]
    assignments: list[PodAssignment]
    deferred: dict[Key, None]


class SubmittedPodGroups:
    """PodGroups that are being created in the background, each at most once at a time."""

    def __init__(self, cluster: AsyncWrites) -> None:
        self._cluster = cluster
        self._podgroups: dict[Key, SubmittedPodGroup] = {}
        self._writes: SubmittedItems[Key] = SubmittedItems()

    def get(self, key: Key) -> SubmittedPodGroup | None:
        return self._podgroups.get(key)

    def submit(self, new: Iterable[tuple[Key, Grouping, CreateWrite]]) -> None:
        """Create PodGroups without waiting."""
        creates = list(new)
        self._podgroups |= {key: SubmittedPodGroup([grouping], [], {}) for key, grouping, _ in creates}
        if creates:
            writes = self._cluster.hand_over([[create] for _, _, create in creates])
            self._writes.add(writes, [key for key, _, _ in creates])

    def answered(self) -> Iterator[tuple[Key, SubmittedPodGroup, WriteOutcome]]:
        """Remove and return the PodGroups whose outcome is known."""
        for key, outcome in self._writes.answered():
            yield key, self._podgroups.pop(key), outcome


COMPONENT = "pod-grouper"
WARNING = "PodGrouperWarning"


class _Planned(NamedTuple):
    grouping: Grouping
    write: CreateWrite | UpdateWrite


class PodGrouper:
    """KAI's podgrouper as a controller over any cluster."""

    def __init__(
        self,
        cluster: Cluster,
        config: GroupingConfig | None = None,
        cycles: Callable[[], int] | None = None,
        *,
        ahead: bool = False,
    ) -> None:
        """``cycles`` returns the number of cycles that the scheduler of the same cluster has run. If it is given, the binding of a pod writes
        its annotation, because most pods are bound in the next cycle; a pod that is still unbound after it gets a write of its own. ``ahead``: create new
        PodGroups in the background, if the cluster can do that (a real one; embedded labs do not use it)."""
        self._cluster = cluster
        self._cycles = cycles if isinstance(cluster, AssumeCache) else None
        self._assumed: dict[Key, tuple[int, PodAssignment]] = {}  # pod -> (number of cycles at that time, assignment)
        self._config = config or GroupingConfig()
        self._watch = cluster.watch(("Pod", "PodGroup"))
        self._reads = ClusterReader(cluster)
        self._plans = PlanCache(self._reads, self._config)
        self._pods: dict[Key, Object] = {}
        self._pod_groups: dict[Key, Object] = {}
        self._members: dict[Key, dict[Key, None]] = {}  # PodGroup -> pods that name it
        self._due: dict[Key, None] = {}
        self._waiting: dict[
            ObjectLookup, dict[Key, None]
        ] = {}  # object -> pods that could not be grouped because of it
        self._warned: dict[Key, str] = {}
        self._retries: Retries[Key] = Retries(0.2)
        self._planned: dict[Key, _Planned] = {}  # PodGroups to write at the end of this step
        self._submitted: SubmittedPodGroups | None = None
        if ahead and isinstance(cluster, AsyncWrites):
            self._submitted = SubmittedPodGroups(cluster)
        self._gone: set[str] = set()  # UIDs of PodGroups whose deletion the watch has reported in this step
        self._refused: dict[Key, ApiError] = {}
        self._assignments: list[PodAssignment] = []
        self._wrote = False

    def step(self) -> bool:
        """Group the pods that are due. Returns whether anything was written."""
        self._gone.clear()
        for event in self._watch.poll():
            if event.kind == "Pod":
                self._process_pod(event)
            else:
                self._process_pod_group(event)
        for read in self._reads.changes():
            self._due.update(self._waiting.pop(read, ()))
        self._due.update(dict.fromkeys(self._retries.due(self._cluster.now())))
        self._wrote = False
        self._refused = {}
        self._process_answers()
        due, self._due = self._due, {}
        for key in due:
            pod = self._pods.get(key)
            if pod is not None and not is_terminating(pod):
                self._group(key, pod)
        # PodGroups first: a pod must not name a missing PodGroup.
        self._write_pod_groups()
        self._write_pods()
        return self._wrote

    def close(self) -> None:
        """Close the watches and drop assumed annotations that were not written; the next grouper computes them again."""
        if self._cycles is not None and isinstance(self._cluster, AssumeCache):
            self._cluster.forget_assumed()
        self._watch.close()
        self._reads.close()

    # --- watch events -------------------------------------------------------------------------------------------------

    def _process_pod(self, event: WatchEvent) -> None:
        pod = event.object
        if pod["spec"].get("schedulerName") not in self._config.scheduler_names:
            return
        key = object_key(pod)
        before = self._pods.get(key)
        if event.type == "DELETED" or is_ended(pod):
            if before is not None:
                self._forget(key, before)
            return
        self._pods[key] = pod
        # Our own write, which ``_process_written`` has already processed.
        if before is pod:
            return
        # Deleted and created again under the same name between two polls.
        if before is not None and uid_of(before) != uid_of(pod):
            self._forget(key, before)
            self._pods[key] = pod
            before = None
        if before is None:
            self._enrol(key, pod)
            if self._is_new(pod):
                self._due[key] = None
        # As in KAI, a pod is grouped again when its scheduling gates change: by then its owner may have made the objects that it waited for.
        elif _gates(before) != _gates(pod) and not node_of(pod):
            self._withdraw(key, before)
            self._enrol(key, pod)
            self._due[key] = None
        elif labels_and_annotations(before) != labels_and_annotations(pod):
            self._withdraw(key, before)
            self._enrol(key, pod)
            # A bound pod keeps the PodGroup with which it was scheduled.
            if not pod["spec"].get("nodeName") and not only_gpu_groups_differ(before, pod):
                self._due[key] = None
        if before is not None and self._binding_failed(before, pod):
            # The binding did not write the annotation.
            name = annotations_of(pod)[POD_GROUP]
            self._assumed[key] = (-1, PodAssignment(key, pod, (key[0], name), {"annotations": {POD_GROUP: name}}, ()))

    def _binding_failed(self, before: Object, pod: Object) -> bool:
        """Whether a pod lost its node, which happens only if its binding failed after the cluster had assumed it."""
        bound = before["spec"].get("nodeName") and not pod["spec"].get("nodeName")
        return bool(self._cycles is not None and bound and POD_GROUP in annotations_of(pod))

    def _is_new(self, pod: Object) -> bool:
        """Whether to group a pod seen for the first time: one without the annotation, or an owned pod that is not bound. A bare pod keeps
        the PodGroup that its user chose."""
        return POD_GROUP not in annotations_of(pod) or (is_owned(pod) and not node_of(pod))

    def _process_pod_group(self, event: WatchEvent) -> None:
        key = object_key(event.object)
        if event.type != "DELETED":
            self._pod_groups[key] = event.object
            return
        self._gone.add(uid_of(event.object))
        self._pod_groups.pop(key, None)
        self._due.update(self._members.get(key, ()))

    def _enrol(self, key: Key, pod: Object) -> None:
        name = annotations_of(pod).get(POD_GROUP)
        if name is not None:
            self._members.setdefault((key[0], name), {})[key] = None

    def _withdraw(self, key: Key, pod: Object) -> None:
        group = (key[0], annotations_of(pod).get(POD_GROUP, ""))
        members = self._members.get(group)
        if members is not None:
            members.pop(key, None)
            if not members:
                del self._members[group]

    def _forget(self, key: Key, pod: Object) -> None:
        self._withdraw(key, pod)
        self._pods.pop(key, None)
        self._warned.pop(key, None)
        self._retries.forget(key)

    # --- grouping a pod -----------------------------------------------------------------------------------------------

    def _group(self, key: Key, pod: Object) -> None:
        """Plan the PodGroup and the patch of a pod; the end of the step writes them."""
        self._reads.reads.clear()
        try:
            assignment = self._assign(key, pod)
        except (GroupingError, ApiError) as problem:
            self._failed(key, pod, problem, self._reads.reads)
            return
        except MALFORMED as problem:
            self._warn(key, pod, malformed_message(problem), self._reads.reads)
            return
        if assignment is not None:
            self._assignments.append(assignment)

    def _assign(self, key: Key, pod: Object) -> PodAssignment | None:
        """The assignment of a pod; None if it needs none, or has to wait for its PodGroup. Raises GroupingError, ApiError or MALFORMED."""
        if is_skipped(pod):
            return None
        owned = is_owned(pod)
        name = annotations_of(pod).get(POD_GROUP)
        if name is not None and (not owned or (node_of(pod) and (key[0], name) in self._pod_groups)):
            return None  # a PodGroup that the user chose, or grouped before
        # Items of a list have no kind, which a pod needs as owner of its PodGroup.
        if "kind" not in pod:
            pod = {"apiVersion": "v1", "kind": "Pod", **pod}
        owners = owner_chain(pod, self._reads) if owned else []
        # As in KAI's shouldSkipAnyOwner, the annotation on an owner applies to everything below it.
        if any(map(is_skipped, owners)):
            return None
        plan, same_plan = self._plans.plan(pod, owners)
        sub_group = plan.sub_group_of(pod)
        grouping = plan.grouping
        group = (grouping.namespace, grouping.name)
        # The PodGroup may still be created; the pod is grouped again once it exists.
        if self._submitted is not None and (submitted := self._submitted.get(group)) is not None:
            submitted.deferred[key] = None
            if not same_plan:
                submitted.groupings.append(grouping)
            return None
        # Pods of a gang share a plan: the first one updates the PodGroup, the others only check that it exists.
        if not same_plan or (group not in self._pod_groups and group not in self._planned):
            self._plan_pod_group(group, grouping)
        patch: dict[str, Any] = {}
        if name != grouping.name:
            patch["annotations"] = {POD_GROUP: grouping.name}
        if sub_group and labels_of(pod).get(SUBGROUP_NAME) != sub_group:
            patch["labels"] = {SUBGROUP_NAME: sub_group}
        return PodAssignment(key, pod, group, patch, tuple(self._reads.reads))

    def _plan_pod_group(self, key: Key, grouping: Grouping) -> None:
        planned = self._planned.get(key)
        # Planned writes of this step count as existing, so that two pods don't write one PodGroup twice.
        existing = planned.write.object if planned is not None else self._pod_groups.get(key)
        if existing is None:
            self._planned[key] = _Planned(grouping, CreateWrite(podgroup_object(grouping)))
            return
        updated = updated_podgroup(existing, grouping, self._config)
        if updated is not None:
            new = planned is not None and isinstance(planned.write, CreateWrite)
            self._planned[key] = _Planned(grouping, CreateWrite(updated) if new else UpdateWrite(updated))

    # --- writing ------------------------------------------------------------------------------------------------------

    def _write_pod_groups(self) -> None:
        if self._submitted is not None:
            self._submit_new(self._submitted)
        if not self._planned:
            return
        planned, self._planned = self._planned, {}
        # One chain each: a refused PodGroup must not stop the others.
        outcomes = self._cluster.write_all([[entry.write] for entry in planned.values()])
        for (key, entry), outcome in zip(planned.items(), outcomes, strict=True):
            self._handle_outcome(key, entry.grouping, outcome)

    def _handle_outcome(self, key: Key, grouping: Grouping, outcome: WriteOutcome) -> None:
        error = outcome.error
        written = outcome.objects[0] if error is None else None
        # The watch has not reported it yet.
        if isinstance(error, AlreadyExists):
            try:
                written, error = self._update_existing(key, grouping), None
            except ApiError as problem:
                error = problem
        if error is not None:
            self._refused[key] = error
        elif written is not None:
            self._wrote = True
            # The answer to a create in the background may be handled after the deletion of what it created.
            if uid_of(written) not in self._gone:
                self._pod_groups[key] = written

    def _submit_new(self, submitted: SubmittedPodGroups) -> None:
        """Create new PodGroups in the background; the assignments of their pods wait."""
        new = {
            key: (entry.grouping, entry.write)
            for key, entry in self._planned.items()
            if isinstance(entry.write, CreateWrite)
        }
        if not new:
            return
        submitted.submit((key, grouping, write) for key, (grouping, write) in new.items())
        self._planned = {key: entry for key, entry in self._planned.items() if key not in new}
        assignments, self._assignments = self._assignments, []
        for assignment in assignments:
            podgroup = submitted.get(assignment.group)
            (self._assignments if podgroup is None else podgroup.assignments).append(assignment)
        self._wrote = True
        # A cluster may answer at once.
        self._process_answers()

    def _process_answers(self) -> None:
        """Handle the outcomes of submitted PodGroups, and continue with their pods."""
        if self._submitted is None:
            return
        for key, podgroup, outcome in self._submitted.answered():
            first, *others = podgroup.groupings
            self._handle_outcome(key, first, outcome)
            if others and key in self._pod_groups:
                self._plan_pod_group(key, others[-1])
            # A pod that was created again meanwhile is due anyway.
            waiting = list(filter(self._is_current, podgroup.assignments))
            if key in self._pod_groups or key in self._refused:
                self._assignments += waiting
            # Deleted meanwhile: a pod must not name a missing PodGroup.
            else:
                self._due.update(dict.fromkeys(assignment.key for assignment in waiting))
            self._due.update(podgroup.deferred)

    def _is_current(self, assignment: PodAssignment) -> bool:
        pod = self._pods.get(assignment.key)
        return pod is not None and uid_of(pod) == uid_of(assignment.pod)

    def _update_existing(self, key: Key, grouping: Grouping) -> Object:
        """Update a PodGroup that another client has created."""
        existing = self._cluster.get("PodGroup", key[1], key[0])
        updated = updated_podgroup(existing, grouping, self._config)
        return existing if updated is None else self._cluster.update(updated)

    def _write_pods(self) -> None:
        if not self._assignments and not self._assumed:
            return
        pending = []
        for assignment in self._assignments:
            # A pod must not name a PodGroup that was refused.
            error = self._refused.get(assignment.group)
            if error is not None:
                self._failed(assignment.key, assignment.pod, error, assignment.reads)
            elif assignment.patch:
                pending.append(assignment)
            else:
                self._warned.pop(assignment.key, None)
        self._assignments = []
        unbound = self._assumed_and_unbound()
        pending = unbound + [assignment for assignment in pending if not self._assume(assignment)]
        chains = [[_metadata_patch(each)] for each in pending]
        for assignment, outcome in zip(pending, self._cluster.write_all(chains), strict=True):
            if outcome.error is None and (pod := outcome.objects[0]) is not None:
                self._process_written(assignment, pod)
            # A deleted pod needs nothing.
            elif outcome.error is not None and not isinstance(outcome.error, NotFound):
                if assignment in unbound:  # the cache shows its annotation already, so nothing else would write it
                    self._assumed[assignment.key] = (-1, assignment)
                self._failed(assignment.key, assignment.pod, outcome.error, assignment.reads)

    def _assume(self, assignment: PodAssignment) -> bool:
        """Leave the annotation to the binding. Returns False if the pod needs a write of its own."""
        # A binding carries only annotations, and a bound pod gets no further binding.
        if self._cycles is None or assignment.patch.keys() != {"annotations"} or node_of(assignment.pod):
            return False
        assert isinstance(self._cluster, AssumeCache)
        pod = self._cluster.assume(*assignment.key, uid_of(assignment.pod), assignment.patch["annotations"])
        if pod is None:
            return False
        self._process_written(assignment, pod)
        self._assumed[assignment.key] = (self._cycles(), assignment)
        return True

    def _assumed_and_unbound(self) -> list[PodAssignment]:
        """Remove and return the assumed assignments of pods that a cycle has seen and not bound."""
        if self._cycles is None or not self._assumed:
            return []
        cycle, now = self._cycles(), self._cluster.now()
        assignments = []
        for key, (assumed_in, assignment) in list(self._assumed.items()):
            # Without a cycle since then, the next one may bind the pod.
            if assumed_in >= cycle or self._retries.is_paused(key, now):
                continue
            del self._assumed[key]
            if self._is_current(assignment) and not node_of(self._pods[key]):
                assignments.append(assignment)
        return assignments

    def _process_written(self, assignment: PodAssignment, pod: Object) -> None:
        self._wrote = True
        self._withdraw(assignment.key, assignment.pod)
        self._enrol(assignment.key, pod)
        self._pods[assignment.key] = pod
        self._warned.pop(assignment.key, None)
        self._retries.forget(assignment.key)

    def _failed(self, key: Key, pod: Object, problem: KailabError, reads: Iterable[ObjectLookup]) -> None:
        """Retry after a conflict or an error of the server; report any other problem on the pod."""
        if isinstance(problem, Conflict) or (isinstance(problem, ApiError) and problem.code >= 500):
            self._retries.failed(key, self._cluster.now())
        else:
            self._warn(key, pod, str(problem), reads)

    def _warn(self, key: Key, pod: Object, message: str, reads: Iterable[ObjectLookup]) -> None:
        """Report on the pod why it can't be grouped, once per reason, and wait for a change of an object that was read."""
        # The cause may be any object that was read, including missing ones.
        for read in reads:
            self._waiting.setdefault(read, {})[key] = None
        if self._warned.get(key) == message:
            return
        self._warned[key] = message
        self._cluster.event(pod, "Warning", WARNING, message, COMPONENT)
        self._wrote = True
