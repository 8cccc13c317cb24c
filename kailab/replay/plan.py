"""The inputs of a replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kailab.engine.config import EngineConfig
from kailab.fleet.fleet import Fleet
from kailab.model.prices import Prices
from kailab.replay.failures import NodeFailure
from kailab.replay.job import JobProgress
from kailab.replay.queues import TeamQueues
from kailab.replay.services import InferenceService
from kailab.replay.speeds import SpeedTable
from kailab.replay.trace import Trace
from kailab.scheduler.observers import Observer
from kailab.scheduler.settings.config_file import SchedulerSettings


@dataclass(frozen=True, kw_only=True)
class ReplayPlan:
    """The inputs of a replay.

    ``lasting``: seconds after the first arrival at which the replay is cut off; None: it runs until nothing more can
    happen. ``checkpoint``, ``saving``, ``restart``: see ``JobProgress``. ``endless``: jobs do not end. ``config``: as ``Lab.open`` takes it.
    ``prices``: for cost and energy. ``failures``: nodes that fail and are repaired. ``speeds``: of jobs by their placement; None: that of the trace. ``services``: that run beside the jobs. ``metered``: seconds between metric samples; 0: chosen by the span of arrivals;
    None: no metrics.
    """

    trace: Trace
    fleet: Fleet
    queues: TeamQueues
    config: EngineConfig | SchedulerSettings | Mapping[str, Any] | str | None = None
    lasting: int | None = None
    checkpoint: int | None = None
    saving: int = 0
    restart: int | None = None
    failures: Sequence[NodeFailure] = ()
    speeds: SpeedTable | None = None
    services: Sequence[InferenceService] = ()
    endless: bool = False
    prices: Prices | None = None
    metered: int | None = None
    observers: Sequence[Observer] = field(default_factory=tuple)

    @property
    def progress(self) -> JobProgress:
        return JobProgress(checkpoint=self.checkpoint, saving=self.saving, restart=self.restart)
