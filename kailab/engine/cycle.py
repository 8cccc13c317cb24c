"""One scheduling round: a working set in, decisions out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec import structs

from kailab.engine.actions import allocate, consolidation, preempt, reclaim, stalegangs
from kailab.engine.config import EngineConfig
from kailab.engine.decisions import Decisions
from kailab.engine.placing import unbacked_pipelines
from kailab.engine.placing.allocation import Allocator
from kailab.engine.placing.reservations import Reservations
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
) -> Decisions:
    """Decide once. The working set is as before when this returns.

    ``on_phase`` is told the name of each phase as it begins ("fairshare", an action's name, "report"): for timing by
    callers, since the engine has no clock. ``only``: the PodGroups (UIDs) that have a turn and are reported on; all others still
    count, and may be evicted. ``until``: PodGroups (UIDs) for whose sake turns are given: in each action nobody has one after
    the last of them, and only they are reported on. ``once``: nobody has a turn after the first of ``only``, or ``until``, that got a
    place.
    """
    tell = on_phase or _nobody
    tell("fairshare")
    session = Session(working, config, now, only, until, once)
    try:
        allocator = Allocator(session)
        if config.reservation_policy is not None:
            allocator.reservations = Reservations(session, allocator, config.reservation_policy)
        stale: list[str] = []
        for action in config.actions:
            tell(action)
            # A budget belongs to an action: what one leaves over is no use to the next.
            session.budget.begin(action)
            if action == "stalegangeviction":
                stale = stalegangs.execute(session)
            else:
                _ACTIONS[action](session, allocator)
        # After the last action, as only then it is known whether the cycle changes anything. Before the report, because
        # who loses a promise here is told as waiting.
        unbacked_pipelines.resolve_unbacked_pipelines(session, partial(allocate.start_in_full, session, allocator))
        tell("report")
        # Reasons are read off the state that the actions left behind, so this comes before everything is undone.
        return with_eviction_totals(
            session, session.ledger.decisions(pending_jobs(session), stale, tuple(session.stood.values()))
        )
    finally:
        # Also where a policy's error ends the cycle: the mirror goes on using the working set.
        session.close()


def decide(snapshot: Snapshot, config: EngineConfig, now: float) -> Decisions:
    """``run_cycle`` as a pure function: these three are all that a cycle depends on.

    What the cycles before left behind is part of them: whom room was made for (``config.promised``), refused binds
    (``config.refused``), past use (``config.usage``), the times in PodGroups.
    """
    return run_cycle(WorkingSet.of(snapshot), config, now)


def repeat_cycle(cycle: Callable[[EngineConfig], Decisions], config: EngineConfig) -> tuple[EngineConfig, Decisions]:
    """One cycle after the other, each told whom the one before it made room for, until one is not to be decided anew
    (``Decisions.again``); with the configuration of the last."""
    while (decisions := cycle(config)).again:
        # It ends because the heirs only grow.
        config = structs.replace(config, promised=decisions.heirs)
    return config, decisions


def _nobody(phase: str) -> None:
    pass
