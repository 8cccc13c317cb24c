"""The scheduler's decisions, cycle by cycle, with names instead of the engine's UIDs.

Names must outlive their objects (an evicted pod is gone when somebody asks), so the index is filled by a watch and never forgets. A PodGroup that stays
pending for the same reason is logged once, not in each cycle.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import structs

from kailab.cluster.protocol import Cluster, Object, Watch
from kailab.engine.decisions import Bind, Decisions, Evict, Pending, Pipeline
from kailab.evidence.canonical import format_rfc3339
from kailab.evidence.entries import (
    Decision,
    GroupWaits,
    NodeFit,
    PendingReason,
    PodBound,
    PodEvicted,
    PodPromised,
    ShareChange,
    WriteRefused,
)
from kailab.model.objects import controller_name, labels_of, metadata_of, name_of, namespace_of, uid_of
from kailab.scheduler.observers import Observer

if TYPE_CHECKING:
    from kailab.scheduler.cycle_record import CycleRecord, RefusedDecision


class ObjectName(NamedTuple):
    """``name``: ``namespace/name`` of a pod or PodGroup. ``app``, ``owner``: a pod's label and its owner as ``Kind/name``."""

    name: str
    app: str = ""
    owner: str = ""
    kind: str = "Pod"


class NameLookup(ABC):
    """Looks up names of pods and PodGroups by UID."""

    @abstractmethod
    def of(self, uid: str) -> ObjectName:
        """The name of a UID; the UID itself if it is not known."""

    def refresh(self) -> None:  # noqa: B027 a lookup without a source of its own has nothing to do
        """Read new objects."""

    def everyone(self) -> Iterable[ObjectName]:
        """All names, also of deleted objects."""
        return ()

    def close(self) -> None:  # noqa: B027
        """End the watch, if there is one."""


class NameIndex(NameLookup):
    """UID -> name of every pod and PodGroup since the watch began: ``at_once``, or at the first use.

    Of an object that exists the index holds the object, which takes no room of its own; of a deleted one the name.
    """

    def __init__(self, cluster: Cluster, *, at_once: bool = True) -> None:
        self._cluster = cluster
        self._watch: Watch | None = None
        self._known: dict[str, dict[str, Object | ObjectName]] = {"Pod": {}, "PodGroup": {}}
        if at_once:
            self._begin()

    def _begin(self) -> Watch:
        if self._watch is None:
            self._watch = self._cluster.watch(["Pod", "PodGroup"])
        return self._watch

    def refresh(self) -> None:
        for event in self._begin().poll():
            obj, known = event.object, self._known[event.kind]
            uid = uid_of(obj)
            if event.type == "ADDED":
                known[uid] = obj
            elif not isinstance(before := known.get(uid), ObjectName | None):
                # An object has the name with which it was added, whatever becomes of its labels.
                same = event.type == "MODIFIED" and _named_alike(before, obj)
                known[uid] = obj if same else _object_name(event.kind, before)

    def carry_on(self, other: NameIndex) -> None:
        """Add the names of another index."""
        if other._watch is not None:
            other.refresh()
        # The names of the other index come first in ``everyone``; for UIDs in both, the name here counts.
        self._known = {kind: other._known[kind] | known for kind, known in self._known.items()}

    def everyone(self) -> Iterable[ObjectName]:
        self.refresh()
        return (_object_name(kind, known) for kind, all_known in self._known.items() for known in all_known.values())

    def of(self, uid: str) -> ObjectName:
        for kind, all_known in self._known.items():
            if (known := all_known.get(uid)) is not None:
                return _object_name(kind, known)
        return ObjectName(uid)

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()


def _named_alike(before: Object, after: Object) -> bool:
    """True if certainly the labels and owners are the same. A write shares the unchanged parts of an object, so identity is enough."""
    old, new = metadata_of(before), metadata_of(after)
    return old.get("labels") is new.get("labels") and old.get("ownerReferences") is new.get("ownerReferences")


def _object_name(kind: str, known: Object | ObjectName) -> ObjectName:
    if isinstance(known, ObjectName):
        return known
    name = f"{namespace_of(known)}/{name_of(known)}"
    if kind == "PodGroup":
        return ObjectName(name, kind=kind)
    return ObjectName(name, labels_of(known).get("app", ""), controller_name(known))


class CycleMoment(NamedTuple):
    """A cycle's number and time: seconds since the lab opened, and RFC 3339."""

    cycle: int
    t: float
    time: str


class DecisionLog(Observer):
    """Keeps the entries of all cycles (``keep_all``), or only what explanations need: evictions and the PodGroups pending now. ``tell`` receives the entries of
    each cycle."""

    def __init__(self, names: NameLookup, opened: float, keep_all: bool = False, tell: Observer | None = None) -> None:
        self.names = names
        self.entries: list[Decision] = []
        self.evictions: list[PodEvicted] = []
        self.last: Decisions | None = None
        self.cycle = 0
        self.keep_all = keep_all
        self._opened = opened
        self._tell = tell or Observer()
        self._pending: dict[str, tuple[str, str]] = {}

    def carry_on(self, other: DecisionLog) -> None:
        """Continue another log: its decisions count as decided here."""
        self.cycle, self.last, self._pending = other.cycle, other.last, other._pending
        self.evictions = list(other.evictions)
        if isinstance(self.names, NameIndex) and isinstance(other.names, NameIndex):
            self.names.carry_on(other.names)

    def on_cycle(self, record: CycleRecord) -> None:
        entries = self.log_cycle(record.decisions, record.failures)
        self._tell.on_decisions(entries, record, self.cycle)

    def on_reading(self, entries: Sequence[Decision]) -> None:
        self.observe(entries)
        self._tell.on_decisions(entries)

    def log_cycle(self, decisions: Decisions, failures: Iterable[RefusedDecision] = ()) -> list[Decision]:
        """Log one cycle and return its entries (of all kinds, even if only evictions are kept). ``failures``: decisions that could not be carried out."""
        self.cycle += 1
        self.last = decisions
        # Also if no name is looked up: unread changes would keep objects as they were before.
        self.names.refresh()
        if not (self.keep_all or decisions.evictions):
            return []
        entries = list(self._entries(decisions, failures))
        self.observe(entries)
        return entries

    def begin_anew(self, cycle: int) -> None:
        """Continue the count after ``cycle`` cycles, with a scheduler that has no memory of earlier cycles."""
        self.cycle = cycle
        # All reasons are logged again, as by a process that has just started.
        self._pending = {}

    def go_on_from(self, pending: Iterable[Pending]) -> None:
        """Take these reasons as logged already."""
        self._pending = {reason.podgroup: _reason_key(reason) for reason in pending}

    def observe(self, entries: Sequence[Decision]) -> None:
        """Log entries, also those observed of a scheduler that reports none (``observed_decisions``)."""
        # Evictions are always kept: they can't be read off the cluster once the pod is gone.
        self.evictions.extend(entry for entry in entries if isinstance(entry, PodEvicted))
        if self.keep_all:
            self.entries.extend(entries)

    def _entries(self, decisions: Decisions, failures: Iterable[RefusedDecision]) -> Iterable[Decision]:
        moment = CycleMoment(self.cycle, round(decisions.now - self._opened, 6), format_rfc3339(decisions.now))
        # Evictions first: this is the order in which decisions are carried out and best understood.
        entries: Iterable[PodEvicted | PodBound | PodPromised | GroupWaits] = (
            *(self._evicted(evict, moment) for evict in decisions.evictions),
            *(PodBound(**self._on_node(bind, moment), gpu_groups=bind.gpu_groups) for bind in decisions.binds),
            *(self._promised(promise, moment) for promise in decisions.pipelines),
            *self._waiting(decisions.pending, moment),
        )
        imitated = {self.names.of(uid).name: faults for uid, faults in decisions.imitated.items()}
        for entry in entries:
            faults = imitated.get(entry.podgroup)
            yield structs.replace(entry, imitated=faults) if faults is not None else entry
        for failure in failures:
            # The decision itself is an entry above; this entry is the cluster's refusal.
            pod = self.names.of(failure.task)
            yield WriteRefused(
                **moment._asdict(),
                action=failure.verb,
                verb=failure.verb,
                pod=pod.name,
                app=pod.app,
                reason=failure.message,
            )

    def _evicted(self, evict: Evict, moment: CycleMoment) -> PodEvicted:
        of = self.names.of
        return PodEvicted(
            **self._on_node(evict, moment),
            owner=of(evict.task).owner,
            beneficiary=of(evict.beneficiary).name if evict.beneficiary else "",
            beneficiary_queue=evict.beneficiary_queue,
            reason=evict.message,
            ground=evict.ground,
            taking=evict.taking,
            shares={queue: ShareChange(before=before, after=after) for queue, (before, after) in evict.shares.items()},
        )

    def _promised(self, promise: Pipeline, moment: CycleMoment) -> PodPromised:
        reason = "waits for leaving pods to free the place"
        return PodPromised(**self._on_node(promise, moment), moved=promise.moved, reason=reason)

    def _on_node(self, decision: Bind | Pipeline | Evict, moment: CycleMoment) -> dict[str, Any]:
        """The fields of ``PodOnNode``."""
        pod = self.names.of(decision.task)
        return {
            **moment._asdict(),
            "action": decision.action,
            "pod": pod.name,
            "app": pod.app,
            "podgroup": self.names.of(decision.podgroup).name,
            "queue": decision.queue,
            "node": decision.node,
            "amounts": decision.amounts,
        }

    def _waiting(self, pending: tuple[Pending, ...], moment: CycleMoment) -> Iterable[GroupWaits]:
        now: dict[str, tuple[str, str]] = {}
        for group in pending:
            now[group.podgroup] = key = _reason_key(group)
            if self._pending.get(group.podgroup) != key:
                # The last action that tried gave up. Without one, allocate left the PodGroup pending.
                action = group.tried[-1][0] if group.tried else "allocate"
                yield GroupWaits(**moment._asdict(), action=action, **structs.asdict(self.reason(group)))
        self._pending = now

    def reason(self, pending: Pending) -> PendingReason:
        """Why a PodGroup is pending, with names."""
        of = self.names.of
        return PendingReason(
            podgroup=of(pending.podgroup).name,
            pods=tuple(of(task).name for task in pending.tasks),
            queue=pending.queue,
            reason=str(pending.code),
            message=pending.message,
            numbers=pending.numbers,
            queue_context=pending.queue_context,
            fits=tuple(NodeFit(pod=of(fit.task).name, nodes=fit.nodes, reasons=fit.reasons) for fit in pending.fits),
            tried=pending.tried,
            amounts=pending.amounts,
            place=pending.turn.place if pending.turn is not None else None,
            because=pending.turn.because if pending.turn is not None else "",
        )

    def pending_now(self) -> list[PendingReason]:
        """The reasons of all PodGroups that the last cycle left pending."""
        if self.last is None:
            return []
        self.names.refresh()
        return [self.reason(group) for group in self.last.pending]


def _reason_key(pending: Pending) -> tuple[str, str]:
    return str(pending.code), pending.message
