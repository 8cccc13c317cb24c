"""Where a scheduler decides samples in one isolation, one after another."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from kailab.cluster.backends import BACKENDS
from kailab.errors import KailabError
from kailab.lab.settle import NotSettled
from kailab.lab.venues import Venue, open_venue
from kailab.scenarios.running import ScenarioResult, run_scenario
from kailab.scenarios.scenario import Scenario
from kailab.trials.recorder import CellRecorder
from kailab.trials.results import LabResult
from kailab.undertest.contract import SchedulerFailed, Unsupported

PATIENCE_SECONDS = 120.0
"""A sample that keeps changing for this long counts as never settling."""

_OF_THE_SCHEDULER = (NotSettled, SchedulerFailed)


class SampleOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a sample: a phase for each completed step. ``stopped``: what the scheduler did that ended the run:
    it exited, or the lab never settled. ``failed``: why the sample could not be decided.
    """

    lab: LabResult
    stopped: str = ""
    failed: str = ""


class SchedulerBench:
    """Labs in one isolation. Schedulers take turns on one control plane, because starting one for each sample would
    take most of the time. ``options``: of the backend.
    """

    def __init__(self, isolation: str, options: dict[str, Any], tell: Callable[[str], None]) -> None:
        self.isolation = isolation
        self._options = options
        self._tell = tell
        self._venue: Venue | None = None

    @property
    def live(self) -> bool:
        """True if it runs in real time, so that results depend on chance."""
        return "venue" in BACKENDS[self.isolation].options

    def decided(self, scenario: Scenario, scheduler: str) -> SampleOutcome:
        """The outcome of a scenario under a scheduler. Raises KailabError if no control plane starts."""
        recorder = CellRecorder()
        where: dict[str, Any] = {"venue": self._venue_for(scheduler)} if self.live else {}
        try:
            ran = run_scenario(scenario, scheduler, self.isolation, observers=[recorder], **where)
        except Unsupported as error:
            ran = ScenarioResult(stopped=str(error))
        if ran.stopped:
            # The failure may have left objects behind.
            self.close()
        lab = recorder.result()
        decided = not ran.stopped or (bool(lab.phases) and isinstance(ran.error, _OF_THE_SCHEDULER))
        return SampleOutcome(lab=lab, **{"stopped" if decided else "failed": ran.stopped})

    def _venue_for(self, scheduler: str) -> Venue:
        if self._venue is None:
            self._venue = open_venue(self.isolation, scheduler=scheduler, get=True, tell=self._tell, **self._options)
            if hasattr(self._venue, "patience"):
                self._venue.patience = PATIENCE_SECONDS
        return self._venue

    def close(self) -> None:
        venue, self._venue = self._venue, None
        if venue is not None:
            with suppress(KailabError):
                venue.close()
