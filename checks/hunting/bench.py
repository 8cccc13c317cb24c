"""One of the two who decide: a scheduler in an isolation, given one sample after the other."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from kailab.cluster.backends import BACKENDS
from kailab.errors import KailabError
from kailab.lab.settle import NotSettled
from kailab.lab.venues import Venue, open_venue
from kailab.scenarios.running import ScenarioResult, carry_out
from kailab.scenarios.scenario import Scenario
from kailab.trials.recorder import CellRecorder
from kailab.trials.results import LabResult
from kailab.undertest.contract import SchedulerFailed, Unsupported

PATIENCE_SECONDS = 120.0
"""What still changes after so long without a pause counts as never coming to rest."""

_OF_THE_SCHEDULER = (NotSettled, SchedulerFailed)


class SampleOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a sample came out: a phase for each step that was carried out. ``stopped``: what the scheduler did that kept it from going on: it
    ended, or nothing came to rest. ``failed``: why the sample could not be decided."""

    lab: LabResult
    stopped: str = ""
    failed: str = ""


class SchedulerBench:
    """Where labs live in one isolation. Schedulers take turns in one control plane: starting one for each sample would take most of the
    time. ``options``: of the backend."""

    def __init__(self, isolation: str, options: dict[str, Any], tell: Callable[[str], None]) -> None:
        self.isolation = isolation
        self._options = options
        self._tell = tell
        self._venue: Venue | None = None

    @property
    def live(self) -> bool:
        """It takes the time that it takes, and chance has a part in it."""
        return "venue" in BACKENDS[self.isolation].options

    def decided(self, scenario: Scenario, scheduler: str) -> SampleOutcome:
        """Raises KailabError where there is no place for it."""
        course = CellRecorder()
        where: dict[str, Any] = {"venue": self._taken(scheduler)} if self.live else {}
        try:
            ran = carry_out(scenario, scheduler, self.isolation, observers=[course], **where)
        except Unsupported as error:
            ran = ScenarioResult(stopped=str(error))
        if ran.stopped:
            # What stopped it may have left something behind.
            self.close()
        lab = course.result()
        decided = not ran.stopped or (bool(lab.phases) and isinstance(ran.error, _OF_THE_SCHEDULER))
        return SampleOutcome(lab=lab, **{"stopped" if decided else "failed": ran.stopped})

    def _taken(self, scheduler: str) -> Venue:
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


class Side:
    """``scheduler``: as ``--scheduler`` takes it."""

    def __init__(self, scheduler: str, bench: SchedulerBench) -> None:
        self.scheduler = scheduler
        self.bench = bench

    def decided(self, scenario: Scenario) -> SampleOutcome:
        return self.bench.decided(scenario, self.scheduler)
