"""Cycles on a changed input, one after the other on the same working set: what would become of some PodGroups?

Each trial is one cycle in which only the subject has a turn: whether it would be served then does not depend on who comes before it. All
others stay, count, and may be evicted for it. ``before`` gives those their turns who come before the subject, ``everyone``
all of them, as a cycle does. A change is applied and undone, unless so much changes that a new working set costs less.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from kailab.engine.config import EngineConfig
from kailab.engine.cycle import run_cycle
from kailab.engine.decisions import Bind, Decisions, Evict, Pending, Pipeline
from kailab.engine.relaxing.rules import Draft, Kinds, QueueField, Relaxation, by_identity
from kailab.engine.report.eviction_blockers import ReachableCapacity, reachable_capacity
from kailab.engine.session import Session
from kailab.engine.snapshot.records import Status
from kailab.engine.snapshot.snapshot import Snapshot
from kailab.engine.working.workingset import WorkingSet

REBUILD = 0.3
"""The part of all records from which on a new working set costs less than to change and to undo."""

Turns = Literal["own", "before", "all"]
"""Who has a turn: the subject alone, those who come before it as well, everyone."""


@dataclass(frozen=True)
class RelaxedCycleOutcome:
    """What one cycle decides for the subject. ``waiting``: UIDs of its tasks that waited when it began."""

    subject: tuple[str, ...]
    waiting: frozenset[str]
    decisions: Decisions

    @cached_property
    def binds(self) -> tuple[Bind, ...]:
        """Of the subject: places that it gets at once."""
        return tuple(one for one in self.decisions.binds if one.podgroup in self.subject)

    @cached_property
    def promises(self) -> tuple[Pipeline, ...]:
        """Of the subject: places that it gets once others have left."""
        # A promise to one that did not wait is a move: it had a place, and is to have another.
        return tuple(
            one for one in self.decisions.pipelines if one.podgroup in self.subject and one.task in self.waiting
        )

    @cached_property
    def evictions(self) -> tuple[Evict, ...]:
        """Of others, for the subject."""
        return tuple(one for one in self.decisions.evictions if one.beneficiary in self.subject)

    @cached_property
    def pending(self) -> tuple[Pending, ...]:
        """Why what still waits of the subject does."""
        left = self.waiting - self._placed
        return tuple(
            one for one in self.decisions.pending if one.podgroup in self.subject and not left.isdisjoint(one.tasks)
        )

    @cached_property
    def _placed(self) -> frozenset[str]:
        return frozenset(one.task for one in self.binds) | frozenset(one.task for one in self.promises)

    @cached_property
    def nodes(self) -> frozenset[str]:
        """Where it gets, or is promised, places."""
        return frozenset(one.node for one in self.binds) | frozenset(one.node for one in self.promises)

    @property
    def served(self) -> int:
        """How many of its tasks get or are promised a place."""
        return len(self._placed)

    @property
    def further(self) -> bool:
        """It gets something. Of surplus above a gang's minimum an evicting action takes one pod a cycle."""
        return bool(self._placed)

    @property
    def whole(self) -> bool:
        """Nothing of it waits any more."""
        return bool(self.waiting) and self.waiting <= self._placed


class RelaxedCycles:
    """All trials for one moment of a cluster and one subject (UIDs of PodGroups). Pure: equal trials give equal outcomes."""

    def __init__(
        self,
        snapshot: Snapshot,
        config: EngineConfig,
        now: float,
        subject: Iterable[str] = (),
        of: RelaxedCycles | None = None,
    ) -> None:
        """``of``: trials for the same moment, whose working set serves here too."""
        self.snapshot = snapshot
        self.config = config
        self.now = now
        self.subject = tuple(subject)
        # Trials of one moment share them, and the working set below: these are made once.
        self._records: Kinds = by_identity(snapshot) if of is None else of._records
        self._total = sum(map(len, self._records.values()))
        self._of = of
        self._known: dict[tuple[tuple[Relaxation, ...], Turns, bool], RelaxedCycleOutcome] = {}
        self._after: dict[tuple[Relaxation, ...], RelaxedCycles] = {}
        self._about: dict[tuple[str, ...], RelaxedCycles] = {}

    @cached_property
    def working(self) -> WorkingSet:
        """Of the snapshot as it is. Whoever changes it puts it back."""
        return WorkingSet.of(self.snapshot) if self._of is None else self._of.working

    @cached_property
    def _members(self) -> tuple[str, ...]:
        """Tasks (UIDs) of the subject, in the order of the records."""
        subject = set(self.subject)
        return tuple(uid for uid, task in self._records["tasks"].items() if task.podgroup in subject)

    def about(self, *subject: str) -> RelaxedCycles:
        """The same moment, another subject; asked for again, with the outcomes that were found."""
        found = self._about.get(subject)
        if found is None:
            found = self._about[subject] = RelaxedCycles(self.snapshot, self.config, self.now, subject, self)
        return found

    def __call__(self, *relaxations: Relaxation, before: bool = False, everyone: bool = False) -> RelaxedCycleOutcome:
        """One cycle with all of these, made in this order. Asked again, the outcome is the one that was found."""
        return self._outcome(relaxations, "all" if everyone else "before" if before else "own")

    def further(self, *relaxations: Relaxation, before: bool = False) -> bool:
        """Whether the subject gets something in such a cycle, which ends once it does."""
        turns: Turns = "before" if before else "own"
        known = self._known.get((relaxations, turns, False))
        return (known or self._outcome(relaxations, turns, once=True)).further

    def _outcome(self, relaxations: tuple[Relaxation, ...], turns: Turns, once: bool = False) -> RelaxedCycleOutcome:
        key = relaxations, turns, once
        if key not in self._known:
            self._known[key] = self._try(*key)
        return self._known[key]

    def after(self, *relaxations: Relaxation) -> RelaxedCycles:
        """Trials of the same subject where all of these are made already. Many that begin alike share what they begin with."""
        found = self._after.get(relaxations)
        if found is None:
            draft = self.draft(*relaxations)
            found = self._after[relaxations] = RelaxedCycles(draft.whole(), draft.config, draft.now, self.subject)
        return found

    def reach(self, podgroup: str) -> ReachableCapacity | None:
        """What one of the subject's PodGroups wants, and who holds it; None where there is no such PodGroup, or its queue is not
        there."""
        session = Session(self.working, self.config, self.now)
        try:
            job = session.jobs.get(podgroup)
            return None if job is None else reachable_capacity(session, job)
        finally:
            session.close()

    def weight(self, queue: str, resource: QueueField) -> float:
        """The over-quota weight of a queue."""
        return float(getattr(self._records["queues"][queue], resource).weight)

    def draft(self, *relaxations: Relaxation) -> Draft:
        """The input with all of these."""
        draft = Draft(self._records, self.config, self.now, self.subject, self._members)
        for relaxation in relaxations:
            relaxation.change(draft)
        return draft

    def _try(self, relaxations: tuple[Relaxation, ...], turns: Turns, once: bool) -> RelaxedCycleOutcome:
        draft = self.draft(*relaxations)
        subject = frozenset(self.subject)
        only, until = subject if turns == "own" else None, subject if turns == "before" else None

        def decided(working: WorkingSet) -> Decisions:
            return run_cycle(working, draft.config, draft.now, only=only, until=until, once=once)

        if draft.size > REBUILD * self._total:
            decisions = decided(WorkingSet.of(draft.whole()))
        else:
            self.working.apply(draft.changes())
            try:
                decisions = decided(self.working)
            finally:
                # Also when the cycle fails: the next trial begins with the same working set.
                self.working.apply(draft.undoing())
        # As the draft has them: a relaxation may make tasks wait, or let them go.
        waiting = frozenset(task.uid for task in draft.tasks() if task.status == Status.PENDING)
        return RelaxedCycleOutcome(self.subject, waiting, decisions)
