"""What is replayed, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kailab.engine.config import EngineConfig
from kailab.fleet import Fleet
from kailab.model.prices import Prices
from kailab.replay.queues import TeamQueues
from kailab.replay.trace import Trace
from kailab.scheduler import SchedulerSettings
from kailab.scheduler.observers import Observer


@dataclass(frozen=True, kw_only=True)
class ReplayPlan:
    """What is replayed, and how. ``lasting``: seconds after the first arrival at which it is cut off; None: until nothing more can happen.
    ``checkpoint``: see ``Accounts``. ``endless``: jobs arrive and do not end. ``config``: as ``Lab.open`` takes it. ``prices``: by
    which its cost and energy are told. ``metered``: seconds between two looks at its metrics, 0: a part of the time of arrivals; None: nobody
    looks."""

    trace: Trace
    fleet: Fleet
    queues: TeamQueues
    config: EngineConfig | SchedulerSettings | Mapping[str, Any] | str | None = None
    lasting: int | None = None
    checkpoint: int | None = None
    endless: bool = False
    prices: Prices | None = None
    metered: int | None = None
    observers: Sequence[Observer] = field(default_factory=tuple)
