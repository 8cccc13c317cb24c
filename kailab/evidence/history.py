"""What is known of a lab's past, from its evidence or from its record, in one form: steps, decisions, states, and which pods there
were and whose they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from kailab.cluster.protocol import Object
from kailab.engine.snapshot.records import Status
from kailab.evidence import cycles as cycle_files
from kailab.evidence.cycles import Cycle
from kailab.evidence.entries import Bound, Decision, Evicted, PodRow, Promised, Reason, State, Step
from kailab.evidence.recording import Recording
from kailab.evidence.standing import owner
from kailab.evidence.workloads import Workloads, add_owner, told_top
from kailab.model import labels
from kailab.model.times import parse_time

if TYPE_CHECKING:
    from kailab.evidence.store import TestEvidence

_ENDED = {Status.SUCCEEDED: "Succeeded", Status.FAILED: "Failed"}


@dataclass
class PodPast:
    """What had one name, there or gone: a controller may make a pod of the same name again. ``name``: ``namespace/name``. ``owners``:
    ``Kind/name``, from the pod up, as far as known. ``podgroup``: in full. ``phase``: how it was last seen. Times are seconds since the
    lab opened: when it was ``created`` and was there no more (``gone``), each time; when it ``ended`` (None: nothing tells)."""

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
        """What stands at the top of it, ``Kind namespace/name``: the pod itself where it is nobody's."""
        if not self.owners:
            return f"Pod {self.name}"
        kind, _, name = self.owners[-1].partition("/")
        return f"{kind} {self.namespace}/{name}"

    def is_of(self, kind: str, name: str, namespace: str) -> bool:
        """Whether it is, or belongs to, an object of that kind."""
        full = f"{namespace}/{name}"
        if kind == "Pod":
            return self.name == full
        if kind == "PodGroup":
            return self.podgroup == full
        return self.namespace == namespace and f"{kind}/{name}" in self.owners


@dataclass(frozen=True)
class History:
    """``states``: (seconds since the lab opened, how it stood); ``pending``: what waited at the end; ``opened``: since the epoch."""

    opened: float
    steps: Sequence[Step]
    decisions: Sequence[Decision]
    states: Sequence[tuple[float, State]]
    cycles: Sequence[Cycle]
    before: Mapping[str, Sequence[Object]]
    after: Mapping[str, Sequence[Object]]
    pending: Sequence[Reason] = ()

    @classmethod
    def of_test(cls, test: TestEvidence, lab: str) -> History:
        """Raises EvidenceError."""
        steps, folder = test.steps(lab), test.path / lab
        cycles: list[Cycle] = []
        opened = None
        if cycle_files.there_are(folder):
            head, cycles = cycle_files.read(folder)
            opened = head.opened
        looks = {
            look: {kind: test.objects(lab, look, kind) for kind in ("pods", "podgroups", "queues", "priorityclasses")}
            for look in ("before", "after")
        }
        decisions = test.decisions(lab)
        # Another scheduler's lab has no cycles. Any decision tells both clocks.
        if opened is None:
            opened = _opened(decisions, folder)
        states = timed(list(test.states(lab).items()), steps)
        return cls(opened, steps, decisions, states, cycles, looks["before"], looks["after"], test.pending(lab))

    @classmethod
    def of_recording(cls, recording: Recording) -> History:
        """Of a lab that was recorded, after the last look."""
        states = timed(recording.states, recording.steps)
        return cls(
            recording.opened, recording.steps, recording.decisions, states, recording.cycles, recording.before,
            recording.after, recording.pending,
        )  # fmt: skip

    @cached_property
    def pods(self) -> dict[str, PodPast]:
        """Every pod that is or was, by its name in full, in the order in which they came to be known."""
        found: dict[str, PodPast] = {}
        for entry in self.decisions:
            if isinstance(entry, Bound | Promised | Evicted):
                self._take_decision(found, entry)
        # Before the looks: a pod whose creation a record tells is not counted as created once more.
        uids = self._take_cycles(found)
        for look in (self.before, self.after):
            for pod in look.get("pods", ()):
                self._take_object(found, pod, uids)
        # States last. They are taken only after steps, so their times count where nothing else tells one.
        for t, state in self.states:
            self._take_rows(found, t, state.pods)
        tops = self._tops(found)
        for past in found.values():
            if past.podgroup in tops and tops[past.podgroup] not in past.owners:
                past.owners.append(tops[past.podgroup])
        return found

    @cached_property
    def queue_parents(self) -> dict[str, str]:
        """Queue -> its parent, empty for a root, of every queue that there was."""
        found = {row.name: row.parent for _, state in self.states for row in state.queues}
        for look in (self.before, self.after):
            for queue in look.get("queues", ()):
                found[queue["metadata"]["name"]] = (queue.get("spec") or {}).get("parentQueue") or ""
        return found

    @cached_property
    def workloads(self) -> Workloads:
        """PodGroup, in full -> the workload at the top of its pods, ``Kind namespace/name``; the pod itself where it is nobody's."""
        found = Workloads()
        found.decided(self.decisions)
        for look in (self.before, self.after):
            found.looked(look.get("pods", ()), look.get("podgroups", ()))
        for _, state in self.states:
            found.stood(state.pods)
        return found

    # --- where pods are told of -----------------------------------------------------------------------------------

    def _take_decision(self, found: dict[str, PodPast], entry: Bound | Promised | Evicted) -> None:
        pod = found.setdefault(entry.pod, PodPast(entry.pod))
        pod.app, pod.podgroup, pod.queue = entry.app or pod.app, entry.podgroup, entry.queue
        # A promise does not tell whose the pod is.
        if not isinstance(entry, Promised):
            add_owner(pod.owners, entry.owner)

    def _take_object(self, found: dict[str, PodPast], obj: Object, uids: set[str]) -> None:
        metadata = obj["metadata"]
        space = metadata.get("namespace", "")
        pod = found.setdefault(f"{space}/{metadata['name']}", PodPast(f"{space}/{metadata['name']}"))
        pod.app = (metadata.get("labels") or {}).get("app", "") or pod.app
        add_owner(pod.owners, owner(obj))
        if group := (metadata.get("annotations") or {}).get(labels.POD_GROUP):
            pod.podgroup = f"{space}/{group}"
        if metadata.get("uid") not in uids and metadata.get("creationTimestamp"):
            uids.add(metadata.get("uid", ""))
            pod.created.append(self._since(metadata["creationTimestamp"]))
        pod.phase = (obj.get("status") or {}).get("phase") or "Pending"
        for status in (obj.get("status") or {}).get("containerStatuses") or ():
            over = (status.get("state") or {}).get("terminated") or {}
            if pod.phase in ("Succeeded", "Failed") and over.get("finishedAt"):
                pod.ended = self._since(over["finishedAt"])

    def _take_rows(self, found: dict[str, PodPast], t: float, rows: Sequence[PodRow]) -> None:
        for row in rows:
            pod = found.setdefault(row.name, PodPast(row.name))
            pod.app, pod.queue = row.app or pod.app, row.queue or pod.queue
            add_owner(pod.owners, row.owner)
            if row.podgroup:
                pod.podgroup = f"{pod.namespace}/{row.podgroup}"
            if not pod.created:
                pod.created.append(t)
            # The first state that shows it; the look at the end has the moment itself, and was read before.
            if row.phase in ("Succeeded", "Failed") and pod.ended is None:
                pod.ended, pod.phase = t, row.phase
        # Cycles tell the moment at which a pod went, and this would tell it once more, later.
        if self.cycles:
            return
        there = {row.name for row in rows}
        for pod in found.values():
            if pod.created and pod.created[0] <= t and not pod.gone and pod.name not in there:
                pod.gone.append(t)

    def _take_cycles(self, found: dict[str, PodPast]) -> set[str]:
        """The scheduler's own records tell when a pod was created, and when it was there no more, to the moment. UIDs of the pods."""
        names: dict[str, PodPast] = {}
        for cycle in self.cycles:
            t = round(cycle.now - self.opened, 6)
            for task in cycle.changes.set.tasks:
                full = f"{task.namespace}/{task.name}"
                if task.uid not in names:
                    names[task.uid] = found.setdefault(full, PodPast(full))
                    names[task.uid].created.append(round(task.created - self.opened, 6) if task.created else t)
                # The look at the end has the moment itself, of those that are there then.
                if task.status in _ENDED and names[task.uid].ended is None:
                    names[task.uid].ended, names[task.uid].phase = t, _ENDED[task.status]
            for uid in cycle.changes.removed.tasks:
                if uid in names:
                    names[uid].gone.append(t)
        return set(names)

    def _tops(self, found: Mapping[str, PodPast]) -> dict[str, str]:
        """PodGroup -> the workload it was made for, as ``Kind/name``: as the PodGroup tells, else as other pods of the owner."""
        tops: dict[str, str] = {}
        for look in (self.before, self.after):
            for group in look.get("podgroups", ()):
                metadata = group["metadata"]
                if top := told_top(group):
                    tops[f"{metadata.get('namespace', '')}/{metadata['name']}"] = top
        # A PodGroup that went before the last look is in neither. Its pods' owner mostly has others that tell.
        by_owner = {
            (pod.namespace, pod.owners[0]): tops[pod.podgroup]
            for pod in found.values()
            if pod.owners and pod.podgroup in tops
        }
        for pod in found.values():
            if pod.owners and pod.podgroup and pod.podgroup not in tops and (pod.namespace, pod.owners[0]) in by_owner:
                tops[pod.podgroup] = by_owner[pod.namespace, pod.owners[0]]
        return tops

    def _since(self, time: str) -> float:
        return round(parse_time(time) - self.opened, 6)


def timed(states: Sequence[tuple[str, State]], steps: Sequence[Step]) -> list[tuple[float, State]]:
    """States by the time of the step after which they were taken, whose number their name begins with."""
    times = {step.n: step.t for step in steps}
    return [(times.get(int(name.partition("-")[0]), 0.0), state) for name, state in states]


def _opened(decisions: Sequence[Decision], folder: Path) -> float:
    for entry in decisions:
        return parse_time(entry.time) - entry.t
    return 0.0
