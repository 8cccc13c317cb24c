"""One scheduling round: snapshot in, decisions out."""

from __future__ import annotations

from collections.abc import Callable

from kailab.engine.config import EngineConfig
from kailab.engine.decisions import Decisions
from kailab.engine.snapshot import Snapshot


def run_cycle(
    snapshot: Snapshot, config: EngineConfig, now: float, on_phase: Callable[[str], None] | None = None
) -> Decisions:
    """Decide once. The snapshot is as before when this returns.

    ``on_phase`` is told the name of each phase as it begins ("fairshare", an action's name, "report"): for timing by
    callers, since the engine has no clock.
    """
    raise NotImplementedError
