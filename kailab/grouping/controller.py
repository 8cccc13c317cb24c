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
from kailab.grouping.pod_grouping import MALFORMED, is_skipped, malformed_message, owners_of
from kailab.grouping.podgroup import podgroup_object, updated_podgroup
from kailab.grouping.records import Grouping, GroupingError
from kailab.model.labels import GPU_GROUP, GPU_MULTI_GROUP_PREFIX, POD_GROUP, SUBGROUP_NAME
from kailab.model.objects import annotations_of, labels_of


def labels_and_annotations(pod: Object) -> tuple[Any, Any]:
    metadata = pod["metadata"]
    return metadata.get("labels"), metadata.get("annotations")


def only_gpu_groups_differ(before: Object, pod: Object) -> bool:
    """Whether nothing but the shared GPUs that an owned pod sits on is new in its tags: nothing is grouped by those. (A bare pod's labels
    are its PodGroup's, too.)"""
    if not pod["metadata"].get("ownerReferences") or annotations_of(before) != annotations_of(pod):
        return False
    old, new = labels_of(before), labels_of(pod)
    changed = [label for label in {**old, **new} if old.get(label) != new.get(label)]
    return all(label == GPU_GROUP or label.startswith(GPU_MULTI_GROUP_PREFIX) for label in changed)


# (namespace, name)
Key = tuple[str, str]


class PodAssignment(NamedTuple):
    """What a pod needs: its PodGroup there, and a patch of its metadata (empty: none)."""

    key: Key
    pod: Object
    group: Key
    patch: dict[str, Any]
    reads: tuple[ObjectLookup, ...]


class SubmittedPodGroup(NamedTuple):
    """``wanted``: what waits for it; ``later``: pods to be looked at once it is there; ``groupings``: what it is to be, in the order
    in which that was said."""

    groupings: list[Grouping]
    wanted: list[PodAssignment]
    later: dict[Key, None]


class SubmittedPodGroups:
    """Each is handed over once at a time."""

    def __init__(self, cluster: AsyncWrites) -> None:
        self._cluster = cluster
        self._coming: dict[Key, SubmittedPodGroup] = {}
        self._handed: SubmittedItems[Key] = SubmittedItems()

    def get(self, key: Key) -> SubmittedPodGroup | None:
        return self._coming.get(key)

    def hand_over(self, new: Iterable[tuple[Key, Grouping, CreateWrite]]) -> None:
        """Have PodGroups made, and do not wait for it."""
        made = list(new)
        self._coming |= {key: SubmittedPodGroup([grouping], [], {}) for key, grouping, _ in made}
        if made:
            self._handed.add(self._cluster.hand_over([[create] for _, _, create in made]), [key for key, _, _ in made])

    def answered(self) -> Iterator[tuple[Key, SubmittedPodGroup, WriteOutcome]]:
        """Those of which it is known what became of them; they are not coming any more."""
        for key, outcome in self._handed.answered():
            yield key, self._coming.pop(key), outcome


COMPONENT = "pod-grouper"
WARNING = "PodGrouperWarning"


class _Planned(NamedTuple):
    grouping: Grouping
    write: CreateWrite | UpdateWrite


class PodGrouper:
    """The podgrouper as a controller over any cluster."""

    def __init__(
        self,
        cluster: Cluster,
        config: GroupingConfig | None = None,
        cycles: Callable[[], int] | None = None,
        *,
        ahead: bool = False,
    ) -> None:
        """``cycles``: how many cycles the scheduler over the same cluster has run. With it the annotation that names a pod's
        PodGroup is not written at once: most pods are bound in the next cycle, and the binding carries it. What is not bound
        then gets it by a write of its own. ``ahead``: new PodGroups are handed over, where the cluster can do that; pods get
        theirs once it is there."""
        self._cluster = cluster
        self._cycles = cycles if isinstance(cluster, AssumeCache) else None
        self._assumed: dict[Key, tuple[int, PodAssignment]] = {}  # pod -> (how many cycles there were then, what)
        self._config = config or GroupingConfig()
        self._watch = cluster.watch(("Pod", "PodGroup"))
        self._reads = ClusterReader(cluster)
        self._plans = PlanCache(self._reads, self._config)
        self._pods: dict[Key, Object] = {}
        self._pod_groups: dict[Key, Object] = {}
        self._members: dict[Key, dict[Key, None]] = {}  # PodGroup -> pods that name it
        self._due: dict[Key, None] = {}
        self._waiting: dict[ObjectLookup, dict[Key, None]] = {}  # object -> pods that could not be grouped for it
        self._warned: dict[Key, str] = {}
        self._retries: Retries[Key] = Retries(0.2)
        self._planned: dict[Key, _Planned] = {}  # PodGroups to write at the end of this step
        self._coming: SubmittedPodGroups | None = None
        if ahead and isinstance(cluster, AsyncWrites):
            self._coming = SubmittedPodGroups(cluster)
        self._refused: dict[Key, ApiError] = {}
        self._wanted: list[PodAssignment] = []
        self._wrote = False

    def step(self) -> bool:
        """Group the pods that are due; says whether anything was written."""
        for event in self._watch.poll():
            if event.kind == "Pod":
                self._take_pod(event)
            else:
                self._take_pod_group(event)
        for read in self._reads.changes():
            self._due.update(self._waiting.pop(read, ()))
        self._due.update(dict.fromkeys(self._retries.due(self._cluster.now())))
        self._wrote = False
        self._refused = {}
        self._take_answers()
        due, self._due = self._due, {}
        for key in due:
            pod = self._pods.get(key)
            if pod is not None and "deletionTimestamp" not in pod["metadata"]:
                self._group(key, pod)
        # All PodGroups first: a pod that names one finds it there.
        self._write_pod_groups()
        self._write_tags()
        return self._wrote

    def close(self) -> None:
        """End the watches. What was assumed and not written is forgotten: whoever comes next works it out anew."""
        if self._cycles is not None and isinstance(self._cluster, AssumeCache):
            self._cluster.forget_assumed()
        self._watch.close()
        self._reads.close()

    # --- what the watches say -----------------------------------------------------------------------------------------

    def _take_pod(self, event: WatchEvent) -> None:
        pod = event.object
        if pod["spec"].get("schedulerName") not in self._config.scheduler_names:
            return
        metadata = pod["metadata"]
        key = (metadata["namespace"], metadata["name"])
        before = self._pods.get(key)
        if event.type == "DELETED" or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            if before is not None:
                self._forget(key, before)
            return
        self._pods[key] = pod
        # Our own write, which ``_tagged`` took in already.
        if before is pod:
            return
        # Deleted and made again under the same name between two looks.
        if before is not None and before["metadata"].get("uid") != metadata.get("uid"):
            self._forget(key, before)
            self._pods[key] = pod
            before = None
        if before is None:
            self._enrol(key, pod)
            if self._is_new(pod):
                self._due[key] = None
        elif labels_and_annotations(before) != labels_and_annotations(pod):
            self._withdraw(key, before)
            self._enrol(key, pod)
            # A bound pod keeps its PodGroup: it was scheduled as a part of that one.
            if not pod["spec"].get("nodeName") and not only_gpu_groups_differ(before, pod):
                self._due[key] = None
        if before is not None and self._given_back(before, pod):
            # The binding did not carry the annotation after all.
            name = annotations_of(pod)[POD_GROUP]
            self._assumed[key] = (-1, PodAssignment(key, pod, (key[0], name), {"annotations": {POD_GROUP: name}}, ()))

    def _given_back(self, before: Object, pod: Object) -> bool:
        """Whether a pod counted as bound, and could not be. No other ever loses its node."""
        bound = before["spec"].get("nodeName") and not pod["spec"].get("nodeName")
        return bool(self._cycles is not None and bound and POD_GROUP in annotations_of(pod))

    def _is_new(self, pod: Object) -> bool:
        """Whether a pod just met is to be grouped.

        One that has its annotation is past it if it is bound, and keeps a PodGroup of its user's if nobody owns it.
        """
        if POD_GROUP not in annotations_of(pod):
            return True
        return bool(pod["metadata"].get("ownerReferences")) and not pod["spec"].get("nodeName")

    def _take_pod_group(self, event: WatchEvent) -> None:
        metadata = event.object["metadata"]
        key = (metadata["namespace"], metadata["name"])
        if event.type != "DELETED":
            self._pod_groups[key] = event.object
            return
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
        self._retries.done(key)

    # --- grouping a pod -----------------------------------------------------------------------------------------------

    def _group(self, key: Key, pod: Object) -> None:
        """Work out what a pod needs; it is written at the end of the step."""
        self._reads.reads.clear()
        try:
            wanted = self._grouped(key, pod)
        except (GroupingError, ApiError) as problem:
            self._failed(key, pod, problem, self._reads.reads)
            return
        except MALFORMED as problem:
            self._warn(key, pod, malformed_message(problem), self._reads.reads)
            return
        if wanted is not None:
            self._wanted.append(wanted)

    def _grouped(self, key: Key, pod: Object) -> PodAssignment | None:
        if is_skipped(pod):
            return None
        metadata = pod["metadata"]
        owned = metadata.get("ownerReferences")
        name = annotations_of(pod).get(POD_GROUP)
        if name is not None and (not owned or (pod["spec"].get("nodeName") and (key[0], name) in self._pod_groups)):
            return None  # a PodGroup of the user's choice, or grouped before
        # Items of a list have no kind, but a pod may become the owner of its PodGroup.
        if "kind" not in pod:
            pod = {"apiVersion": "v1", "kind": "Pod", **pod}
        owners = owners_of(pod, self._reads) if owned else []
        # KAI's shouldSkipAnyOwner: the annotation on any owner holds for all that is below it.
        if any(map(is_skipped, owners)):
            return None
        plan, again = self._plans.plan(pod, owners)
        sub_group = plan.sub_group_of(pod)
        grouping = plan.grouping
        group = (grouping.namespace, grouping.name)
        # Whether the PodGroup is as this pod needs it is seen once it is there.
        if self._coming is not None and (coming := self._coming.get(group)) is not None:
            coming.later[key] = None
            if not again:
                coming.groupings.append(grouping)
            return None
        # Pods of a gang share a plan: the first brings the PodGroup in line, the others only see that it is there.
        if not again or (group not in self._pod_groups and group not in self._planned):
            self._plan_pod_group(group, grouping)
        patch: dict[str, Any] = {}
        if name != grouping.name:
            patch["annotations"] = {POD_GROUP: grouping.name}
        if sub_group and labels_of(pod).get(SUBGROUP_NAME) != sub_group:
            patch["labels"] = {SUBGROUP_NAME: sub_group}
        return PodAssignment(key, pod, group, patch, tuple(self._reads.reads))

    def _plan_pod_group(self, key: Key, grouping: Grouping) -> None:
        planned = self._planned.get(key)
        # What this step is going to write counts as there, so that two pods don't write one PodGroup twice.
        existing = planned.write.object if planned is not None else self._pod_groups.get(key)
        if existing is None:
            self._planned[key] = _Planned(grouping, CreateWrite(podgroup_object(grouping)))
            return
        wanted = updated_podgroup(existing, grouping, self._config)
        if wanted is not None:
            new = planned is not None and isinstance(planned.write, CreateWrite)
            self._planned[key] = _Planned(grouping, CreateWrite(wanted) if new else UpdateWrite(wanted))

    # --- writing ------------------------------------------------------------------------------------------------------

    def _write_pod_groups(self) -> None:
        if self._coming is not None:
            self._hand_over(self._coming)
        planned, self._planned = self._planned, {}
        # Each PodGroup is a chain by itself: one that is refused holds up no other.
        outcomes = self._cluster.write_all([[one.write] for one in planned.values()])
        for (key, one), outcome in zip(planned.items(), outcomes, strict=True):
            self._written(key, one.grouping, outcome)

    def _written(self, key: Key, grouping: Grouping, outcome: WriteOutcome) -> None:
        error = outcome.error
        written = outcome.objects[0] if error is None else None
        # The watch has not told of it yet.
        if isinstance(error, AlreadyExists):
            try:
                written, error = self._adopted(key, grouping), None
            except ApiError as problem:
                error = problem
        if error is not None:
            self._refused[key] = error
        elif written is not None:
            self._pod_groups[key] = written
            self._wrote = True

    def _hand_over(self, coming: SubmittedPodGroups) -> None:
        """Have new PodGroups made without waiting for them; their pods wait."""
        new = {key: one for key, one in self._planned.items() if isinstance(one.write, CreateWrite)}
        if not new:
            return
        coming.hand_over(
            (key, one.grouping, one.write) for key, one in new.items() if isinstance(one.write, CreateWrite)
        )
        self._planned = {key: one for key, one in self._planned.items() if key not in new}
        wanted, self._wanted = self._wanted, []
        for one in wanted:
            its = coming.get(one.group)
            (self._wanted if its is None else its.wanted).append(one)
        self._wrote = True
        # A cluster that answers at once has answered.
        self._take_answers()

    def _take_answers(self) -> None:
        """PodGroups that were handed over and are answered: their pods go on where they were."""
        if self._coming is None:
            return
        for key, coming, outcome in self._coming.answered():
            first, *others = coming.groupings
            self._written(key, first, outcome)
            if others and key in self._pod_groups:
                self._plan_pod_group(key, others[-1])
            # A pod that was made anew meanwhile has become due by itself.
            self._wanted += [one for one in coming.wanted if self._is_there(one)]
            self._due.update(coming.later)

    def _is_there(self, wanted: PodAssignment) -> bool:
        pod = self._pods.get(wanted.key)
        return pod is not None and pod["metadata"]["uid"] == wanted.pod["metadata"]["uid"]

    def _adopted(self, key: Key, grouping: Grouping) -> Object:
        """Somebody made the PodGroup before us: bring it in line."""
        existing = self._cluster.get("PodGroup", key[1], key[0])
        wanted = updated_podgroup(existing, grouping, self._config)
        return existing if wanted is None else self._cluster.update(wanted)

    def _write_tags(self) -> None:
        tagged = []
        for wanted in self._wanted:
            # Without its PodGroup a pod is not tagged: the scheduler would meet a name with nothing behind it.
            error = self._refused.get(wanted.group)
            if error is not None:
                self._failed(wanted.key, wanted.pod, error, wanted.reads)
            elif wanted.patch:
                tagged.append(wanted)
            else:
                self._warned.pop(wanted.key, None)
        self._wanted = []
        left_over = self._left_over()
        tagged = left_over + [one for one in tagged if not self._assume(one)]
        chains = [[PatchWrite("Pod", one.key[1], one.key[0], {"metadata": one.patch})] for one in tagged]
        for one, outcome in zip(tagged, self._cluster.write_all(chains), strict=True):
            if outcome.error is None and (pod := outcome.objects[0]) is not None:
                self._tagged(one, pod)
            # A pod that is gone needs nothing any more.
            elif outcome.error is not None and not isinstance(outcome.error, NotFound):
                if one in left_over:  # its annotation looks written here; only this can write it
                    self._assumed[one.key] = (-1, one)
                self._failed(one.key, one.pod, outcome.error, one.reads)

    def _assume(self, wanted: PodAssignment) -> bool:
        """Leave it to the binding to write the annotation; False where that can't be."""
        # A binding carries annotations only, and a bound pod gets no other.
        if self._cycles is None or wanted.patch.keys() != {"annotations"} or wanted.pod["spec"].get("nodeName"):
            return False
        assert isinstance(self._cluster, AssumeCache)
        pod = self._cluster.assume(*wanted.key, wanted.patch["annotations"])
        if pod is None:
            return False
        self._tagged(wanted, pod)
        self._assumed[wanted.key] = (self._cycles(), wanted)
        return True

    def _left_over(self) -> list[PodAssignment]:
        """What was assumed of pods that a cycle has seen since and not bound."""
        if self._cycles is None or not self._assumed:
            return []
        cycle, now = self._cycles(), self._cluster.now()
        found = []
        for key, (assumed_in, wanted) in list(self._assumed.items()):
            # No cycle since: the pod may still be bound in the next one.
            if assumed_in >= cycle or self._retries.held(key, now):
                continue
            del self._assumed[key]
            pod = self._pods.get(key)
            if (
                pod is not None
                and not pod["spec"].get("nodeName")
                and pod["metadata"]["uid"] == wanted.pod["metadata"]["uid"]
            ):
                found.append(wanted)
        return found

    def _tagged(self, wanted: PodAssignment, pod: Object) -> None:
        self._wrote = True
        self._withdraw(wanted.key, wanted.pod)
        self._enrol(wanted.key, pod)
        self._pods[wanted.key] = pod
        self._warned.pop(wanted.key, None)
        self._retries.done(wanted.key)

    def _failed(self, key: Key, pod: Object, problem: KailabError, reads: Iterable[ObjectLookup]) -> None:
        """What another try may cure is tried again after a while; what only a change can cure is told."""
        if isinstance(problem, Conflict) or (isinstance(problem, ApiError) and problem.code >= 500):
            self._retries.failed(key, self._cluster.now())
        else:
            self._warn(key, pod, str(problem), reads)

    def _warn(self, key: Key, pod: Object, message: str, reads: Iterable[ObjectLookup]) -> None:
        """Tell on the pod why it can't be grouped, once for each reason, and wait for a change of what was read."""
        # Whatever was read for it may be what is wrong, also what was looked for and is not there.
        for read in reads:
            self._waiting.setdefault(read, {})[key] = None
        if self._warned.get(key) == message:
            return
        self._warned[key] = message
        self._cluster.event(pod, "Warning", WARNING, message, COMPONENT)
        self._wrote = True
