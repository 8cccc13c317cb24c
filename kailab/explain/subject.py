"""The subject of a question, and its pods at one moment.

A subject runs when as many pods run as it wants and none of its pods waits.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kailab.cluster.protocol import Object
from kailab.engine.snapshot.records import PodGroup, Task
from kailab.errors import InputError, NotFound
from kailab.evidence.entries import PodEvicted, PodRow
from kailab.evidence.wording import some
from kailab.lab import subjects
from kailab.lab.owners import owner_names
from kailab.lab.picture import Picture, group_of
from kailab.lab.seen_names import describe_names
from kailab.model.kinds import KINDS, is_namespaced, kind_key, part
from kailab.model.objects import (
    ENDED_PHASES,
    involved_of,
    is_ready,
    name_of,
    namespace_of,
    owner_references,
    spec_of,
    uid_of,
)
from kailab.scheduler.reading.queues import creation_time

if TYPE_CHECKING:
    from kailab.engine.relaxing.relaxed_cycles import RelaxedCycles
    from kailab.lab.lab import Lab
    from kailab.scheduler.scheduling_state import CycleInput


def wanted_pods(obj: Object) -> int | None:
    """The number of pods that a workload wants when it is neither suspended nor ended; None for a kind that does not say."""
    count = part(kind_key(obj), "wanted_pods")
    return None if count is None else max(0, count(obj))


def failed_condition(obj: Object | None) -> Mapping[str, Any] | None:
    """The condition by which an object has failed, or by which a Job announces it while pods of it still terminate, which may take for ever
    on a node that is not ready; None if it has not failed."""
    states = ((obj or {}).get("status") or {}).get("conditions") or ()
    return next(
        (one for one in states if one.get("type") in ("Failed", "FailureTarget") and one.get("status") == "True"), None
    )


def min_member(podgroup: Object) -> int:
    """The number of pods of a PodGroup that must start together. If it needs only some of its subgroups, the smallest of them count."""
    spec = spec_of(podgroup)
    return max(int(spec.get("minMember") or 0), _least_below("", spec, spec.get("subGroups") or ()), 1)


def _least_below(name: str, holder: Mapping[str, Any], subgroups: Sequence[Mapping[str, Any]]) -> int:
    """``name``: the subgroup that ``holder`` is; empty for the PodGroup itself."""
    children = [
        subgroup for subgroup in subgroups if (subgroup.get("parent") or "") == name and subgroup.get("name") != name
    ]
    # Without the children, as no admission refuses subgroups that are each other's parents.
    others = [subgroup for subgroup in subgroups if subgroup not in children]
    each = sorted(
        _least_below(str(subgroup["name"]), subgroup, others) or int(subgroup.get("minMember") or 0)
        for subgroup in children
        if subgroup.get("name")
    )
    needed = holder.get("minSubGroup")
    return sum(each if needed is None else each[: int(needed)])


def choice_of_subgroups(podgroup: Object) -> tuple[int, tuple[str, ...]] | None:
    """How many of its subgroups a PodGroup needs, and their names; None if it needs all of them or has none."""
    spec = spec_of(podgroup)
    names = tuple(str(subgroup.get("name")) for subgroup in spec.get("subGroups") or () if not subgroup.get("parent"))
    needed = spec.get("minSubGroup")
    return None if needed is None or int(needed) >= len(names) else (int(needed), names)


@dataclass(frozen=True)
class SubjectRef:
    """A pod, PodGroup, queue or workload. ``kind``: a kind key. ``namespace``: empty for a cluster-wide object."""

    kind: str
    namespace: str
    name: str

    @classmethod
    def of(cls, lab: Lab, kind: str, name: str, namespace: str = "default") -> SubjectRef:
        """Raises NotFound if it does not exist and never did, InputError for a kind that has no pods."""
        if kind == "Queue":
            subject = cls(kind, "", name)
        elif kind not in KINDS or kind in ("Pod", "PodGroup") or (is_namespaced(kind) and KINDS[kind].owns_pods):
            # An object of an unknown kind that names no namespace is stored outside of namespaces.
            elsewhere = namespace if kind in KINDS else ""
            subject = cls(kind, lab.space_of(kind, name, namespace) or elsewhere, name)
        else:
            raise InputError(f"{kind} can't be explained; expected a pod, a podgroup, a queue or a workload")
        rule = subject.rule(lab)
        # A deleted pod can still be explained if it was evicted.
        if kind in ("Pod", "PodGroup") and subject.object(lab) is None and not rule.evictions(lab.picture()):
            hint = subject._hint(lab)
            raise NotFound(
                f'{KINDS[kind].resource} "{name}" not found in namespace "{namespace}"{hint and f"; {hint}"}'
            )
        return subject

    @property
    def title(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    def rule(self, lab: Lab) -> subjects.Subject:
        """The rule by which pods belong to it. Raises NotFound."""
        if self.kind == "Queue":
            self._existing(lab)
            return subjects.queue(lab, self.name)
        if self.kind == "Pod":
            return subjects.pod(lab, self.name, self.namespace)
        if self.kind == "PodGroup":
            return subjects.podgroup(lab, self.name, self.namespace)
        self._existing(lab)
        return subjects.workload(lab, self.kind, self.name, self.namespace)

    def _existing(self, lab: Lab) -> None:
        space = self.namespace or None
        try:
            lab.cluster.get(self.kind, self.name, space)
        except NotFound as error:
            names = {obj["metadata"]["name"] for obj in lab.cluster.list(self.kind, space)}
            raise NotFound(f"{error}; {self._hint(lab) or describe_names(names, self.name)}") from None

    def _hint(self, lab: Lab) -> str:
        """Where objects of this kind and name are, if they are in other namespaces, or what is there of an object that is not: files of a
        cluster may lack the owners of pods. Empty if there are none."""
        for group in lab.cluster.list("PodGroup", self.namespace or None):
            if any((owner["kind"], owner["name"]) == (self.kind, self.name) for owner in owner_references(group)):
                return f"its PodGroup is there: kailab explain podgroup {name_of(group)} -n {namespace_of(group)}"
        spaces = sorted(str(namespace_of(obj)) for obj in lab.cluster.list(self.kind) if name_of(obj) == self.name)
        return f"there is one in namespace {some(spaces)}: add -n {spaces[0]}" if self.namespace and spaces else ""

    def object(self, lab: Lab) -> Object | None:
        """None if it was deleted."""
        try:
            return lab.cluster.get(self.kind, self.name, self.namespace or None)
        except NotFound:
            return None

    def state(self, lab: Lab, picture: Picture | None = None) -> PodsAtMoment:
        """Its pods now. ``picture``: of the lab, if the caller has one."""
        return PodsAtMoment(self, lab, picture or lab.picture())

    def runs(self, lab: Lab) -> bool:
        """Whether as many pods run as it wants, and none waits."""
        return self.state(lab).runs


def present_pods(rows: Iterable[PodRow]) -> list[PodRow]:
    """Pods that have neither ended nor are terminating."""
    return [row for row in rows if row.phase not in (*ENDED_PHASES, "Terminating")]


def waiting_pods(rows: Iterable[PodRow]) -> list[PodRow]:
    """Those of them that have no node."""
    return [row for row in present_pods(rows) if not row.node]


class PodsAtMoment:
    """The pods of a subject at one moment."""

    def __init__(self, subject: SubjectRef, lab: Lab, picture: Picture) -> None:
        self.subject = subject
        self.picture = picture
        self.lab = lab
        self._rule = subject.rule(lab)

    @cached_property
    def object(self) -> Object | None:
        return self.subject.object(self.lab)

    @cached_property
    def pods(self) -> list[PodRow]:
        """Pods that have neither ended nor are terminating."""
        return present_pods(self._all)

    @cached_property
    def done(self) -> int:
        return sum(row.phase == "Succeeded" for row in self._all)

    @cached_property
    def running(self) -> list[PodRow]:
        """Pods that have a node."""
        return [row for row in self.pods if row.node]

    @cached_property
    def placed(self) -> list[PodRow]:
        """Pods that got a node, also if they have ended since."""
        return [row for row in self._all if row.node]

    @cached_property
    def waiting(self) -> list[PodRow]:
        return waiting_pods(self.pods)

    @cached_property
    def evictions(self) -> list[PodEvicted]:
        """Evictions of its pods since the lab opened, without those of an earlier object of the same name."""
        entries = self._rule.evictions(self.picture)
        obj = self.object
        # A pod that its owner creates again under the same name continues the same work.
        if not entries or obj is None or (self.subject.kind == "Pod" and obj["metadata"].get("ownerReferences")):
            return entries
        begun = creation_time(obj["metadata"]) - self.lab.opened
        return [entry for entry in entries if entry.t >= begun]

    @cached_property
    def wanted(self) -> int:
        """The number of pods that are to run. A queue wants all pods that exist."""
        kind, existing = self.subject.kind, len(self.pods)
        if kind == "Pod":
            return 0 if self.done else 1
        if kind == "Queue":
            return existing
        if self.object is None:
            return max(existing, 1)
        if kind == "PodGroup":
            return max(0, min_member(self.object) - self.done)
        wanted = wanted_pods(self.object)
        if wanted is None:
            # A kind that does not say: the pods that exist, or the gang's minimum.
            return max(existing, self._least)
        # ``wanted_pods`` of a Job does not count pods that have succeeded.
        return wanted if kind in ("Job", "CronJob") else max(0, wanted - self.done)

    @property
    def row(self) -> PodRow | None:
        """The row of a subject that is a pod; None if it was deleted."""
        full = f"{self.subject.namespace}/{self.subject.name}"
        return next((row for row in self._all if row.name == full), None)

    def is_preemptible(self, podgroup: str) -> bool:
        """Whether a PodGroup (UID) is preemptible."""
        record = self.records.get(podgroup)
        return record is None or record.preemptible

    @property
    def moment(self) -> CycleInput:
        """The input of the next cycle."""
        return self.picture.cycle_input

    @property
    def relaxed_cycles(self) -> RelaxedCycles:
        """Relaxed cycles on that input, with no PodGroup chosen yet."""
        return self.picture.cycles

    @property
    def records(self) -> Mapping[str, PodGroup]:
        """Engine records of PodGroups, by UID."""
        return self.relaxed_cycles.podgroups

    @property
    def tasks(self) -> Mapping[str, Sequence[Task]]:
        """Engine records of pods, by the UID of their PodGroup."""
        return self.relaxed_cycles.tasks_by_podgroup

    @property
    def runs(self) -> bool:
        return bool(self.running) and len(self.running) >= self.wanted and not self.waiting

    @property
    def ended(self) -> bool:
        """Whether it has nothing left to run: its pods have succeeded, or its status is complete."""
        if self.pods or (self.subject.kind == "Pod" and self.evictions):
            return False
        if self.subject.kind == "Queue":
            return True
        states = (self.object or {}).get("status") or {}
        complete = any(
            condition.get("type") in ("Complete", "Succeeded", "Failed", "Completed")
            and condition.get("status") == "True"
            for condition in states.get("conditions") or ()
        )
        return complete or bool(self.failure) or (bool(self.done) and not self.wanted)

    @property
    def missing(self) -> int:
        """How many more pods it wants than wait or run."""
        return max(0, self.wanted - len(self.pods))

    @cached_property
    def leaving(self) -> int:
        """The number of terminating pods."""
        return sum(row.phase == "Terminating" for row in self._all)

    @cached_property
    def held_up(self) -> list[str]:
        """The nodes that are not ready and have terminating pods. Such a pod stays until its node is ready again."""
        return sorted(self.unready(row.node for row in self._all if row.phase == "Terminating"))

    def unready(self, names: Iterable[str]) -> set[str]:
        """Those of these nodes that are not ready. No pod ends on such a node, as its kubelet does not report."""
        named = set(names) - {""}
        nodes = self.lab.cluster.list("Node") if named else ()
        return {name_of(node) for node in nodes if name_of(node) in named and not is_ready(node, unreported=True)}

    @cached_property
    def failed(self) -> int:
        """The number of failed pods that still exist."""
        return sum(row.phase == "Failed" for row in self._all)

    @property
    def absent(self) -> int:
        """How many wanted pods do not exist. A terminating or failed pod exists, unless its owner replaces it."""
        replaced = self.subject.kind in KINDS and KINDS[self.subject.kind].replaces_failed_pods
        return max(0, self.missing - self.leaving - (0 if replaced else self.failed))

    @property
    def is_counted(self) -> bool:
        """Whether its kind says how many pods it wants."""
        return self.subject.kind in ("Pod", "PodGroup", "Queue") or (
            self.object is not None and wanted_pods(self.object) is not None
        )

    @property
    def failure(self) -> str:
        """Why it has failed for good, by its own status; empty if it has not. It then creates no more pods."""
        states = (self.object or {}).get("status") or {}
        if self.subject.kind == "Pod" and states.get("phase") == "Failed":
            return ": ".join(filter(None, (states.get("reason"), states.get("message")))) or "its containers failed"
        if self.subject.kind in ("Pod", "PodGroup", "Queue"):
            return ""
        condition = failed_condition(self.object)
        if condition is not None:
            return ": ".join(filter(None, (condition.get("reason"), condition.get("message")))) or "it says no more"
        if states.get("jobDeploymentStatus") == "Failed":  # a RayJob
            return ": ".join(filter(None, (states.get("reason"), states.get("message")))) or "its job failed"
        state = states.get("applicationState")
        if isinstance(state, dict) and state.get("state") == "FAILED":  # a SparkApplication
            return str(state.get("errorMessage") or "its application failed")
        return ""

    def workload_pods(self, row: PodRow) -> Sequence[PodRow]:
        """All pods of the workload that a pod is part of, whatever the subject is."""
        return self._by_workload[self._top(row)]

    @cached_property
    def _by_workload(self) -> Mapping[tuple[str, str], Sequence[PodRow]]:
        workloads: dict[tuple[str, str], list[PodRow]] = {}
        for row in self.picture.rows:
            workloads.setdefault(self._top(row), []).append(row)
        return workloads

    def _top(self, row: PodRow) -> tuple[str, str]:
        """The namespace and the top owner of a pod, or the pod itself."""
        namespace, _, name = row.name.partition("/")
        return namespace, next(reversed(owner_names(self.picture, row.owner, namespace)), name)

    def podgroups_of(self, rows: Iterable[PodRow]) -> frozenset[str]:
        """The PodGroups (UIDs) of pods."""
        groups = {tuple(group_of(row).split("/", 1)) for row in rows if row.podgroup}
        return frozenset(uid_of(self.picture.podgroups[name]) for name in groups if name in self.picture.podgroups)

    @cached_property
    def _all(self) -> list[PodRow]:
        return self._rule.pods(self.picture)

    @property
    def _least(self) -> int:
        """The sum of the minimums of its pods' PodGroups."""
        groups = {(self.subject.namespace, row.podgroup) for row in self.pods if row.podgroup}
        return sum(min_member(self.picture.podgroups[name]) for name in groups if name in self.picture.podgroups)


def workload_podgroups(state: PodsAtMoment) -> frozenset[str]:
    """The PodGroups (UIDs) of a subject and of the workload that it is part of: they stay where all other work is taken away."""
    whole = state.workload_pods(state.pods[0]) if state.subject.kind in ("Pod", "PodGroup") and state.pods else ()
    return state.podgroups_of((*state.pods, *whole))


def latest_event(lab: Lab, uids: Container[str], reason: str = "") -> Object | None:
    """The latest event of these objects. ``reason``: only events with it. An event outlives its cause: ask the objects what holds now."""
    events = [
        event
        for event in lab.cluster.list("Event")
        if involved_of(event).get("uid") in uids and reason in ("", event.get("reason"))
    ]
    return max(events, key=lambda event: str(event.get("lastTimestamp") or ""), default=None)
