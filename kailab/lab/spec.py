"""The settings with which the same lab can be opened again, without the place of its cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from kailab.engine.config import EngineConfig
from kailab.scheduler.usage import UsageParams
from kailab.undertest.contract import SchedulerUnderTest
from kailab.undertest.registry import SCHEDULERS, make_scheduler

if TYPE_CHECKING:
    from kailab.fleet.fleet import Fleet


class LabSpec(msgspec.Struct, kw_only=True):
    """``opened``: seconds since the epoch, on the cluster's clock. ``adopt_default_scheduler``: pods that name no scheduler are the
    scheduler under test's too. ``devices``: the fleet's GPUs are offered to resource claims. ``options``: of the cluster, by the names of
    ``kailab.cluster.registry``, in a text form that does not depend on the working folder. ``kind``: of the scheduler under test, if its
    name is another. ``node_pool``: the pool that is scheduled."""

    fleet: str
    scheduler: str
    config: EngineConfig
    usage: UsageParams = UsageParams()
    adopt_default_scheduler: bool = False
    devices: bool = False
    opened: float
    options: dict[str, str] = {}
    kind: str = ""
    node_pool: str = "default"

    @property
    def under_test(self) -> SchedulerUnderTest:
        """Raises InputError for an unknown scheduler."""
        kind = self.kind or self.scheduler
        SCHEDULERS.check(kind)
        own = {each.option: self.options[each.option] for each in SCHEDULERS[kind].own if each.option in self.options}
        return make_scheduler(kind, self.scheduler, own)


def fleet_of(fleet: str | Path | Fleet) -> Fleet:
    """Raises InputError."""
    from kailab.fleet.fleet import Fleet
    from kailab.fleet.reading import load_fleet

    return fleet if isinstance(fleet, Fleet) else load_fleet(fleet)
