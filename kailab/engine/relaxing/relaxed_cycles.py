"""Cycles on a changed input, on one working set: what would they decide for some PodGroups?

By default only the subject is tried, so jobs before it do not matter. All other jobs still count and may be evicted for
it. ``before`` also serves the jobs before the subject, ``everyone`` serves all. A change is applied and undone, unless
it is so large that a new working set costs less.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from kailab.engine.config import EngineConfig
from kailab.engine.cycle import run_cycle
from kailab.engine.decisions import Bind, Decisions, Evict, Pending, Pipeline, QueueShare
from kailab.engine.relaxing.rules import CycleInputDraft, Kinds, QueueField, Relaxation, by_identity
from kailab.engine.report.eviction_blockers import ReachableCapacity, reachable_capacity
from kailab.engine.session import Session
from kailab.engine.snapshot.records import PodGroup, Status, Task
from kailab.engine.snapshot.snapshot import Snapshot
from kailab.engine.working.workingset import WorkingSet

REBUILD = 0.3
"""The part of changed records above which a new working set costs less than applying and undoing the changes."""

ServedJobs = Literal["own", "ahead", "all"]
"""Which jobs are tried: the subject alone, also those before it, or all."""


@dataclass(frozen=True)
class RelaxedCycleOutcome:
    """The decisions of one cycle about the subject. ``waiting``: UIDs of its tasks that waited at the beginning."""

    subject: tuple[str, ...]
    waiting: frozenset[str]
    decisions: Decisions

    @cached_property
    def binds(self) -> tuple[Bind, ...]:
        """Places that the subject gets at once."""
        return tuple(bind for bind in self.decisions.binds if bind.podgroup in self.subject)

    @cached_property
    def promises(self) -> tuple[Pipeline, ...]:
        """Places that the subject gets once other pods have left."""
        # A promise to a task that did not wait is a move to another place.
        return tuple(
            pipeline
            for pipeline in self.decisions.pipelines
            if pipeline.podgroup in self.subject and pipeline.task in self.waiting
        )

    @cached_property
    def evictions(self) -> tuple[Evict, ...]:
        """Evictions for the subject."""
        return tuple(eviction for eviction in self.decisions.evictions if eviction.beneficiary in self.subject)

    @cached_property
    def pending(self) -> tuple[Pending, ...]:
        """Why tasks of the subject still wait."""
        still_waiting = self.waiting - self._placed
        return tuple(
            pending
            for pending in self.decisions.pending
            if pending.podgroup in self.subject and not still_waiting.isdisjoint(pending.tasks)
        )

    @cached_property
    def _placed(self) -> frozenset[str]:
        return frozenset(decision.task for decision in self.binds) | frozenset(
            decision.task for decision in self.promises
        )

    @cached_property
    def nodes(self) -> frozenset[str]:
        """The nodes of its binds and promises."""
        return frozenset(decision.node for decision in self.binds) | frozenset(
            decision.node for decision in self.promises
        )

    @cached_property
    def evicted_podgroups(self) -> tuple[str, ...]:
        """PodGroups (UIDs) of which pods are evicted for the subject, and not only moved."""
        actions = ("reclaim", "preempt") if self.further else ()
        return tuple(dict.fromkeys(eviction.podgroup for eviction in self.evictions if eviction.action in actions))

    def share(self, queue: str, resource: str) -> QueueShare:
        """What a queue had of one resource (a field of ``QueueState``) when the cycle began."""
        state = next(state for state in self.decisions.queues if state.name == queue)
        share: QueueShare = getattr(state, resource)
        return share

    @property
    def served(self) -> int:
        """The number of its tasks that get or are promised a place."""
        return len(self._placed)

    @property
    def further(self) -> bool:
        """True if it gets something. An evicting action adds only one pod a cycle above a gang's minimum."""
        return bool(self._placed)

    @property
    def whole(self) -> bool:
        """True if none of its tasks waits any more."""
        return bool(self.waiting) and self.waiting <= self._placed


class RelaxedCycles:
    """All cycles for one moment of a cluster and one subject (UIDs of PodGroups). Pure: equal changes give equal,
    cached outcomes.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        config: EngineConfig,
        now: float,
        subject: Iterable[str] = (),
        of: RelaxedCycles | None = None,
    ) -> None:
        """``of``: cycles for the same moment, whose working set is shared."""
        self.snapshot = snapshot
        self.config = config
        self.now = now
        self.subject = tuple(subject)
        # Cycles of one moment share the records and the working set.
        self._records: Kinds = by_identity(snapshot) if of is None else of._records
        self._total = sum(map(len, self._records.values()))
        self._of = of
        self._known: dict[tuple[tuple[Relaxation, ...], ServedJobs, bool], RelaxedCycleOutcome] = {}
        self._drafts: dict[tuple[ServedJobs, bool], list[tuple[CycleInputDraft, RelaxedCycleOutcome]]] = {}
        self._after: dict[tuple[Relaxation, ...], RelaxedCycles] = {}
        self._about: dict[tuple[str, ...], RelaxedCycles] = {}
        self._reach: dict[str, ReachableCapacity | None] = {} if of is None else of._reach

    @cached_property
    def working(self) -> WorkingSet:
        """The working set of the unchanged snapshot. Users must undo their changes."""
        return WorkingSet.of(self.snapshot) if self._of is None else self._of.working

    @property
    def podgroups(self) -> Mapping[str, PodGroup]:
        """UID -> PodGroup, of the unchanged snapshot."""
        return self._records["podgroups"]

    @cached_property
    def tasks_by_podgroup(self) -> Mapping[str, Sequence[Task]]:
        """UID of a PodGroup -> its tasks in the unchanged snapshot."""
        if self._of is not None:
            return self._of.tasks_by_podgroup
        tasks: dict[str, list[Task]] = {}
        for task in self.snapshot.tasks:
            tasks.setdefault(task.podgroup, []).append(task)
        return tasks

    @cached_property
    def _members(self) -> tuple[str, ...]:
        """UIDs of the subject's tasks."""
        return tuple(task.uid for uid in dict.fromkeys(self.subject) for task in self.tasks_by_podgroup.get(uid, ()))

    def about(self, *subject: str) -> RelaxedCycles:
        """The same moment for another subject; cached with its outcomes."""
        cached = self._about.get(subject)
        if cached is None:
            cached = self._about[subject] = RelaxedCycles(self.snapshot, self.config, self.now, subject, self)
        return cached

    def __call__(self, *relaxations: Relaxation, ahead: bool = False, everyone: bool = False) -> RelaxedCycleOutcome:
        """Run one cycle with these relaxations, applied in order. Outcomes are cached."""
        return self._outcome(relaxations, "all" if everyone else "ahead" if ahead else "own")

    def further(self, *relaxations: Relaxation, ahead: bool = False) -> bool:
        """True if the subject gets something in such a cycle, which ends as soon as it does."""
        turns: ServedJobs = "ahead" if ahead else "own"
        known = self._known.get((relaxations, turns, False))
        return (known or self._outcome(relaxations, turns, once=True)).further

    def fewest(self, relaxations: Sequence[Relaxation], given: tuple[Relaxation, ...] = ()) -> tuple[Relaxation, ...]:
        """The fewest of these relaxations with which the subject gets something; empty if all together do not suffice. Each
        is given up, in their order, if the others suffice. ``given``: relaxations that are made in any case, before them.
        """
        fewest = tuple(relaxations)
        if not self(*given, *fewest).further:
            return ()
        for relaxation in relaxations:
            fewer = tuple(other for other in fewest if other != relaxation)
            if fewer and self(*given, *fewer).further:
                fewest = fewer
        return fewest

    def _outcome(
        self, relaxations: tuple[Relaxation, ...], turns: ServedJobs, once: bool = False
    ) -> RelaxedCycleOutcome:
        key = relaxations, turns, once
        if key not in self._known:
            self._known[key] = self._try(*key)
        return self._known[key]

    def after(self, *relaxations: Relaxation) -> RelaxedCycles:
        """Cycles of the same subject in which these relaxations are already made, shared by callers that begin alike."""
        cached = self._after.get(relaxations)
        if cached is None:
            draft = self.draft(*relaxations)
            cached = self._after[relaxations] = RelaxedCycles(draft.whole(), draft.config, draft.now, self.subject)
        return cached

    def reach(self, podgroup: str) -> ReachableCapacity | None:
        """What one of the subject's PodGroups wants and who holds it. None if the PodGroup or its queue does not exist."""
        if podgroup not in self._reach:
            session = Session(self.working, self.config, self.now)
            try:
                job = session.jobs.get(podgroup)
                self._reach[podgroup] = None if job is None else reachable_capacity(session, job)
            finally:
                session.close()
        return self._reach[podgroup]

    @property
    def queue_path(self) -> tuple[str, ...]:
        """The queues of the subject and those above them, from below."""
        draft = self.draft()
        return tuple(dict.fromkeys(queue.name for group in draft.podgroups() for queue in draft.way(group.queue)))

    def weight(self, queue: str, resource: QueueField) -> float:
        """The over-quota weight of a queue."""
        return float(getattr(self._records["queues"][queue], resource).weight)

    def draft(self, *relaxations: Relaxation) -> CycleInputDraft:
        """The input with these relaxations."""
        draft = CycleInputDraft(self._records, self.config, self.now, self.subject, self._members)
        for relaxation in relaxations:
            relaxation.change(draft)
        return draft

    def _try(self, relaxations: tuple[Relaxation, ...], turns: ServedJobs, once: bool) -> RelaxedCycleOutcome:
        draft = self.draft(*relaxations)
        # Many relaxations change nothing here, such as that of a delay where there is none.
        for known in self._drafts.setdefault((turns, once), []):
            if known[0].is_same(draft):
                return known[1]
        outcome = self._decide(draft, turns, once)
        self._drafts[turns, once].append((draft, outcome))
        return outcome

    def _decide(self, draft: CycleInputDraft, turns: ServedJobs, once: bool) -> RelaxedCycleOutcome:
        subject = frozenset(self.subject)
        only, until = subject if turns == "own" else None, subject if turns == "ahead" else None

        def decide(working: WorkingSet) -> Decisions:
            return run_cycle(working, draft.config, draft.now, only=only, until=until, once=once)

        if draft.size > REBUILD * self._total:
            decisions = decide(WorkingSet.of(draft.whole()))
        else:
            self.working.apply(draft.changes())
            try:
                decisions = decide(self.working)
            finally:
                # Also when the cycle fails, because the next one uses the same working set.
                self.working.apply(draft.inverse())
        # From the draft, because a relaxation may change which tasks wait.
        waiting = frozenset(task.uid for task in draft.tasks() if task.status == Status.PENDING)
        return RelaxedCycleOutcome(self.subject, waiting, decisions)
