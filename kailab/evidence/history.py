"""The past of a lab in one form, from its evidence or from its record: steps, decisions, states, and all pods with their owners.

``LabHistory`` reads pods from decisions, cycles, objects and states. ``WorkloadIndex`` finds the workload of each PodGroup; a running lab updates it with what
is new.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from kailab.cluster.protocol import Object
from kailab.engine.snapshot.records import Status
from kailab.evidence.cycles import RecordedCycle
from kailab.evidence.entries import (
    ClusterState,
    Decision,
    PendingReason,
    PodBound,
    PodEvicted,
    PodPromised,
    PodRow,
    RecordedStep,
)
from kailab.evidence.recording import Recording
from kailab.grouping.default import TOP_OWNER_METADATA
from kailab.model import labels
from kailab.model.objects import (
    ENDED_PHASES,
    annotations_of,
    controller_name,
    full_name,
    metadata_of,
    name_of,
    parent_of,
    status_of,
)
from kailab.model.times import parse_time

_TOP = re.compile(r"""^(name|kind): (["']?)(.*)\2$""", re.MULTILINE)
# A Deployment appends a hash of up to 10 characters to the name of its ReplicaSet.
_REPLICA_SET = re.compile(r"ReplicaSet/(.+)-[0-9a-z]{6,10}")


def add_owner(owners: list[str], owner: str) -> None:
    """Add an owner; a ReplicaSet whose name ends in a hash also adds its Deployment."""
    if not owner or owner in owners:
        return
    owners.append(owner)
    if match := _REPLICA_SET.fullmatch(owner):
        owners.append(f"Deployment/{match.group(1)}")


def group_workload(group: Object) -> str:
    """The workload that a PodGroup belongs to, as ``Kind/name``, from its annotation; empty without one."""
    # Grouping writes five lines of YAML; a regular expression reads them without a parser.
    lines = _TOP.findall(annotations_of(group).get(TOP_OWNER_METADATA, ""))
    # Quotes surround values that YAML would not read as a string, for example digits.
    owner = {key: text for key, _, text in lines}
    return f"{owner['kind']}/{owner['name']}" if owner.get("kind") and owner.get("name") else ""


class WorkloadIndex:
    """The workload of each PodGroup, updated by new entries. ``changed``: PodGroups whose workload may have changed since the caller cleared the set."""

    def __init__(self) -> None:
        self.changed: set[str] = set()
        self._owners: dict[str, list[str]] = {}
        self._group: dict[str, str] = {}
        self._pods: dict[str, dict[str, None]] = {}
        self._tops: dict[str, str] = {}
        self._of_owner: dict[tuple[str, str], dict[str, None]] = {}

    def get(self, podgroup: str, default: str = "") -> str:
        """The workload of a PodGroup as ``Kind namespace/name``; the pod itself if it has no owner. A pod without a PodGroup is found under its own name."""
        pods = self._pods.get(podgroup)
        if pods:
            pod, top = next(reversed(pods)), self.top(podgroup)
        elif podgroup in self._owners and podgroup not in self._group:
            pod, top = podgroup, ""
        else:
            return default
        owners = self._owners[pod]
        last = top if top and top not in owners else owners[-1] if owners else ""
        if not last:
            return f"Pod {pod}"
        kind, _, name = last.partition("/")
        return f"{kind} {_space(pod)}/{name}"

    def top(self, podgroup: str) -> str:
        """The top owner of a PodGroup's pods as ``Kind/name``: from its annotation, else from that of another PodGroup of the same owner; ""
        if neither is known."""
        if podgroup in self._tops:
            return self._tops[podgroup]
        # A PodGroup that was deleted before the last reading has no annotation; others of its owner mostly have one.
        for pod in self._pods.get(podgroup, ()):
            key = self._key(pod)
            for group in reversed(self._of_owner[key]) if key else ():
                if group in self._tops:
                    return self._tops[group]
        return ""

    def add_decisions(self, entries: Iterable[Decision]) -> None:
        for entry in entries:
            if isinstance(entry, PodBound | PodPromised | PodEvicted):
                # A promise does not have the pod's owner.
                self._take(entry.pod, entry.podgroup, "" if isinstance(entry, PodPromised) else entry.owner)

    def add_objects(self, pods: Iterable[Object], groups: Iterable[Object], gone: Iterable[Object] = ()) -> None:
        """Read objects. ``gone``: PodGroups that were deleted."""
        for pod in pods:
            metadata = metadata_of(pod)
            space = metadata.get("namespace", "")
            name = (metadata.get("annotations") or {}).get(labels.POD_GROUP)
            self._take(f"{space}/{metadata['name']}", f"{space}/{name}" if name else "", controller_name(pod))
        for group in gone:
            self._set_top(full_name(group), "")
        for group in groups:
            self._set_top(full_name(group), group_workload(group))

    def add_rows(self, rows: Sequence[PodRow]) -> None:
        """Read the rows of a state."""
        for row in rows:
            self._take(row.name, f"{_space(row.name)}/{row.podgroup}" if row.podgroup else "", row.owner)

    def _take(self, pod: str, podgroup: str, owner: str) -> None:
        owners = self._owners.setdefault(pod, [])
        count = len(owners)
        add_owner(owners, owner)
        before = self._group.get(pod, "")
        group = podgroup or before
        if not group and len(owners) != count:
            self.changed.add(pod)
        if not group or (group == before and len(owners) == count):
            return
        if before and before != group:
            del self._pods[before][pod]
            self.changed.add(before)
        if not before:
            self.changed.add(pod)
        self._group[pod] = group
        self._pods.setdefault(group, {})[pod] = None
        if owners:
            self._of_owner.setdefault((_space(pod), owners[0]), {})[group] = None
        self.changed.add(group)

    def _set_top(self, podgroup: str, top: str) -> None:
        if self._tops.get(podgroup, "") == top:
            return
        if top:
            self._tops[podgroup] = top
        else:
            del self._tops[podgroup]
        self.changed.add(podgroup)
        # A PodGroup without the annotation gets the workload of others with the same owner.
        for key in {key for pod in self._pods.get(podgroup, ()) if (key := self._key(pod))}:
            self.changed |= {group for group in self._of_owner[key] if group not in self._tops}

    def _key(self, pod: str) -> tuple[str, str] | None:
        owners = self._owners[pod]
        return (_space(pod), owners[0]) if owners else None


def _space(full: str) -> str:
    return full.partition("/")[0]


_ENDED = {Status.SUCCEEDED: "Succeeded", Status.FAILED: "Failed"}


@dataclass
class PodPast:
    """All pods of one name: a controller may create a pod of the same name again. ``name``, ``podgroup``: ``namespace/name``. ``owners``: ``Kind/name``, from the
    pod up, as far as known. ``phase``: the last one seen. Times are seconds since the lab opened: ``created`` and ``gone`` (deleted) of each pod, and
    ``ended`` (None: not known)."""

    name: str
    app: str = ""
    owners: list[str] = field(default_factory=list)
    podgroup: str = ""
    queue: str = ""
    phase: str = ""
    created: list[float] = field(default_factory=list)
    gone: list[float] = field(default_factory=list)
    ended: float | None = None

    @property
    def namespace(self) -> str:
        return self.name.partition("/")[0]

    @property
    def workload(self) -> str:
        """The top of its owners as ``Kind namespace/name``; the pod itself without owners."""
        if not self.owners:
            return f"Pod {self.name}"
        kind, _, name = self.owners[-1].partition("/")
        return f"{kind} {self.namespace}/{name}"

    def is_of(self, kind: str, name: str, namespace: str) -> bool:
        """True if the pod is that object or belongs to it."""
        full = f"{namespace}/{name}"
        if kind == "Pod":
            return self.name == full
        if kind == "PodGroup":
            return self.podgroup == full
        return self.namespace == namespace and f"{kind}/{name}" in self.owners


@dataclass(frozen=True)
class LabHistory:
    """``states``: (seconds since the lab opened, state). ``pending``: the PodGroups pending at the end. ``opened``: seconds since the epoch."""

    opened: float
    steps: Sequence[RecordedStep]
    decisions: Sequence[Decision]
    states: Sequence[tuple[float, ClusterState]]
    cycles: Sequence[RecordedCycle]
    before: Mapping[str, Sequence[Object]]
    after: Mapping[str, Sequence[Object]]
    pending: Sequence[PendingReason] = ()

    @classmethod
    def of_recording(cls, recording: Recording) -> LabHistory:
        """The history of a recorded lab, after its last reading."""
        states = time_states(recording.states, recording.steps)
        return cls(
            recording.opened, recording.steps, recording.decisions, states, recording.cycles, recording.before,
            recording.after, recording.pending,
        )  # fmt: skip

    @cached_property
    def pods(self) -> dict[str, PodPast]:
        """All pods by full name, in the order of their first appearance."""
        by_name: dict[str, PodPast] = {}
        for entry in self.decisions:
            if isinstance(entry, PodBound | PodPromised | PodEvicted):
                self._add_decision(by_name, entry)
        # Before the objects, so that a creation known from a record is not counted twice.
        uids = self._add_cycles(by_name)
        for listing in (self.before, self.after):
            for pod in listing.get("pods", ()):
                self._add_object(by_name, pod, uids)
        # States last: they exist only after steps, so their times count only if there is no better one.
        for t, state in self.states:
            self._add_rows(by_name, t, state.pods)
        for past in by_name.values():
            top = self.workloads.top(past.podgroup)
            if top and top not in past.owners:
                past.owners.append(top)
        return by_name

    @cached_property
    def queue_parents(self) -> dict[str, str]:
        """Queue -> its parent (empty for a root), for all queues of the history."""
        parents = {row.name: row.parent for _, state in self.states for row in state.queues}
        for listing in (self.before, self.after):
            for queue in listing.get("queues", ()):
                parents[name_of(queue)] = parent_of(queue)
        return parents

    @cached_property
    def workloads(self) -> WorkloadIndex:
        """PodGroup (full name) -> the workload of its pods."""
        index = WorkloadIndex()
        index.add_decisions(self.decisions)
        for listing in (self.before, self.after):
            index.add_objects(listing.get("pods", ()), listing.get("podgroups", ()))
        for _, state in self.states:
            index.add_rows(state.pods)
        return index

    # --- sources of pods ------------------------------------------------------------------------------------------

    def _add_decision(self, by_name: dict[str, PodPast], entry: PodBound | PodPromised | PodEvicted) -> None:
        pod = by_name.setdefault(entry.pod, PodPast(entry.pod))
        pod.app, pod.podgroup, pod.queue = entry.app or pod.app, entry.podgroup, entry.queue
        # A promise does not have the pod's owner.
        if not isinstance(entry, PodPromised):
            add_owner(pod.owners, entry.owner)

    def _add_object(self, by_name: dict[str, PodPast], obj: Object, uids: set[str]) -> None:
        metadata = metadata_of(obj)
        space = metadata.get("namespace", "")
        pod = by_name.setdefault(f"{space}/{metadata['name']}", PodPast(f"{space}/{metadata['name']}"))
        pod.app = (metadata.get("labels") or {}).get("app", "") or pod.app
        add_owner(pod.owners, controller_name(obj))
        if group := (metadata.get("annotations") or {}).get(labels.POD_GROUP):
            pod.podgroup = f"{space}/{group}"
        if metadata.get("uid") not in uids and metadata.get("creationTimestamp"):
            uids.add(metadata.get("uid", ""))
            pod.created.append(self._since(metadata["creationTimestamp"]))
        pod.phase = status_of(obj).get("phase") or "Pending"
        for status in status_of(obj).get("containerStatuses") or ():
            over = (status.get("state") or {}).get("terminated") or {}
            if pod.phase in ENDED_PHASES and over.get("finishedAt"):
                pod.ended = self._since(over["finishedAt"])

    def _add_rows(self, by_name: dict[str, PodPast], t: float, rows: Sequence[PodRow]) -> None:
        for row in rows:
            pod = by_name.setdefault(row.name, PodPast(row.name))
            pod.app, pod.queue = row.app or pod.app, row.queue or pod.queue
            add_owner(pod.owners, row.owner)
            if row.podgroup:
                pod.podgroup = f"{pod.namespace}/{row.podgroup}"
            if not pod.created:
                pod.created.append(t)
            # The first state that shows the end; objects have the exact time and were read before.
            if row.phase in ENDED_PHASES and pod.ended is None:
                pod.ended, pod.phase = t, row.phase
        # Cycles have the exact time of a deletion; states would add it again, later.
        if self.cycles:
            return
        present = {row.name for row in rows}
        for pod in by_name.values():
            if pod.created and pod.created[0] <= t and not pod.gone and pod.name not in present:
                pod.gone.append(t)

    def _add_cycles(self, by_name: dict[str, PodPast]) -> set[str]:
        """Read exact times of creation and deletion from the scheduler's records. Return the UIDs of the pods."""
        names: dict[str, PodPast] = {}
        for cycle in self.cycles:
            t = round(cycle.now - self.opened, 6)
            for task in cycle.changes.set.tasks:
                full = f"{task.namespace}/{task.name}"
                if task.uid not in names:
                    names[task.uid] = by_name.setdefault(full, PodPast(full))
                    names[task.uid].created.append(round(task.created - self.opened, 6) if task.created else t)
                # Objects at the end have the exact time of pods that still exist.
                if task.status in _ENDED and names[task.uid].ended is None:
                    names[task.uid].ended, names[task.uid].phase = t, _ENDED[task.status]
            for uid in cycle.changes.removed.tasks:
                if uid in names:
                    names[uid].gone.append(t)
        return set(names)

    def _since(self, time: str) -> float:
        return round(parse_time(time) - self.opened, 6)


def time_states(
    states: Sequence[tuple[str, ClusterState]], steps: Sequence[RecordedStep]
) -> list[tuple[float, ClusterState]]:
    """Pair states with the times of the steps after which they were taken; the step's number begins the state's name."""
    times = {step.n: step.t for step in steps}
    return [(times.get(int(name.partition("-")[0]), 0.0), state) for name, state in states]
