"""One scheduling cycle: a working set in, decisions out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec import structs

from kailab.engine.actions import allocate, consolidation, preempt, reclaim, stalegangs
from kailab.engine.config import EngineConfig
from kailab.engine.decisions import Bind, Decisions, Evict, ImitatedFaults, Pipeline
from kailab.engine.faults import KaiFault, faults_behind, imitated_faults
from kailab.engine.placing import unbacked_pipelines
from kailab.engine.placing.allocation import Allocator
from kailab.engine.placing.node_reservations import NodeReservations
from kailab.engine.report.eviction_totals import with_eviction_totals
from kailab.engine.report.pending import pending_jobs
from kailab.engine.session import Session
from kailab.engine.snapshot.snapshot import Snapshot
from kailab.engine.working.workingset import WorkingSet

_ACTIONS: dict[str, Callable[[Session, Allocator], None]] = {
    "allocate": allocate.execute,
    "consolidation": consolidation.execute,
    "reclaim": reclaim.execute,
    "preempt": preempt.execute,
}


def run_cycle(
    working: WorkingSet,
    config: EngineConfig,
    now: float,
    on_phase: Callable[[str], None] | None = None,
    only: frozenset[str] | None = None,
    until: frozenset[str] | None = None,
    once: bool = False,
    reasons: bool = True,
) -> Decisions:
    """Decide once. The working set is unchanged when this returns.

    ``on_phase`` is called with the name of each phase as it begins ("fairshare", an action's name, "report"), so that
    callers can measure times: the engine has no clock. ``only``: the PodGroups (UIDs) that are tried and reported; all
    others still count, and may be evicted. ``until``: each action stops after the last of these PodGroups (UIDs), and
    only they are reported. ``once``: an action stops once one of ``only``, or of ``until``, has a place. ``reasons``
    False: the same decisions, but no reasons for jobs that wait (``Decisions.pending`` is empty). That is much faster if
    many wait.
    """
    tell = on_phase or _nobody
    tell("fairshare")
    session = Session(working, config, now, only, until, once, reasons)
    try:
        allocator = Allocator(session)
        if config.reservation_policy is not None:
            allocator.node_reservations = NodeReservations(session, allocator, config.reservation_policy)
        stale: list[str] = []
        for action in config.actions:
            tell(action)
            # Each action has a budget of its own; what one action leaves over does not go to the next.
            session.budget.begin(action)
            if action == "stalegangeviction":
                stale = stalegangs.execute(session)
            elif session.waiting.count:  # the other actions serve jobs that wait
                _ACTIONS[action](session, allocator)
        # After the last action, because only then is it known whether the cycle changes anything. Before the report,
        # because jobs that lose a promise here are reported as waiting.
        unbacked_pipelines.resolve_unbacked_pipelines(session, partial(allocate.start_in_full, session, allocator))
        tell("report")
        # The reasons depend on the state that the actions left, so they are computed before everything is undone.
        return with_eviction_totals(
            session,
            session.ledger.decisions(
                pending_jobs(session) if reasons else [], stale, tuple(session.initial_states.values())
            ),
        )
    finally:
        # Also after a policy's error, because the mirror goes on using the working set.
        session.close()


def name_faults(decisions: Decisions, working: WorkingSet, config: EngineConfig, now: float) -> Decisions:
    """The decisions of ``run_cycle``, with the faults of KAI on which they rest if the cycle imitated any
    (``Decisions.imitated``).

    The cycle is decided again without faults, and if that makes a difference, with each of them alone. So a cycle that
    imitates faults costs twice as much, and more where a fault shows.
    """
    imitated = imitated_faults(config)
    if not imitated:
        return decisions
    known = {imitated: _by_podgroup(decisions)}

    def with_faults(faults: frozenset[KaiFault]) -> dict[str, set[_Decided]]:
        if faults not in known:
            numbers = tuple(sorted(fault.number for fault in faults))
            again = run_cycle(working, structs.replace(config, imitate_faults=numbers), now, reasons=False)
            known[faults] = _by_podgroup(again)
        return known[faults]

    made, right = known[imitated], with_faults(frozenset())

    def same(uid: str, faults: frozenset[KaiFault]) -> bool:
        return with_faults(faults).get(uid) == made.get(uid)

    found: dict[str, ImitatedFaults] = {}
    for uid in sorted(made.keys() | right.keys()):
        if made.get(uid) != right.get(uid):
            behind = faults_behind(imitated, partial(same, uid))
            numbers = tuple(fault.number for fault in behind.faults)
            found[uid] = ImitatedFaults(numbers=numbers, together=behind.together)
    return structs.replace(decisions, imitated=found)


_Decided = tuple[str, str, str]
"""The kind of the decision, the task and the node."""


def _by_podgroup(decisions: Decisions) -> dict[str, set[_Decided]]:
    """What is decided about each PodGroup (uid)."""
    decided: dict[str, set[_Decided]] = {}
    entries: tuple[Bind | Pipeline | Evict, ...] = (*decisions.binds, *decisions.pipelines, *decisions.evictions)
    for entry in entries:
        decided.setdefault(entry.podgroup, set()).add((type(entry).__name__, entry.task, entry.node))
    return decided


def decide(snapshot: Snapshot, config: EngineConfig, now: float) -> Decisions:
    """``run_cycle`` as a pure function of its three arguments.

    State that earlier cycles left is part of the arguments: promises (``config.promised``), refused binds
    (``config.refused``), past usage (``config.usage``), and the times in PodGroups.
    """
    return run_cycle(WorkingSet.of(snapshot), config, now)


def repeat_cycle(cycle: Callable[[EngineConfig], Decisions], config: EngineConfig) -> tuple[EngineConfig, Decisions]:
    """Run cycles until one does not ask to be repeated (``Decisions.again``). Each cycle gets the heirs of the one
    before as ``promised``. Returns the last configuration and its decisions.
    """
    while (decisions := cycle(config)).again:
        # The loop ends because the set of heirs only grows.
        config = structs.replace(config, promised=decisions.heirs)
    return config, decisions


def _nobody(phase: str) -> None:
    pass
