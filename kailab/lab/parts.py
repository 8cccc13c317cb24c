"""What works over the cluster of a lab: controllers, and the scheduler under test, or what reads its decisions off the cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kailab.cluster.protocol import Cluster
from kailab.evidence.observed_decisions import DecisionObserver
from kailab.model.kinds import register_installed
from kailab.scheduler.observers import Observer
from kailab.scheduler.present import PresentReader
from kailab.undertest.contract import Decider, PresentSource, ResumablePart, SchedulerWiring, SteppedPart

if TYPE_CHECKING:
    from kailab.lab.spec import LabSpec


@dataclass
class Parts:
    """``onlooker`` tells how things stand. ``retry_at``: when the scheduler tries something again that failed since a time and is to
    be waited for."""

    controllers: Sequence[SteppedPart]
    scheduler: Decider
    onlooker: PresentSource
    retry_at: Callable[[float], float | None] = lambda since: None

    def carry_on(self, before: Parts) -> None:
        """Remember what parts over another cluster remember beside its objects."""
        for mine, theirs in zip(
            (*self.controllers, self.scheduler), (*before.controllers, before.scheduler), strict=False
        ):
            if isinstance(mine, ResumablePart) and type(mine) is type(theirs):
                mine.carry_on(theirs)

    def close(self) -> None:
        """End all their watches."""
        for part in (*self.controllers, self.scheduler):
            part.close()
        if self.onlooker is not self.scheduler:
            self.onlooker.close()


class ObservedScheduler:
    """A scheduler in this process that tells nothing of its decisions; they are read off the cluster."""

    def __init__(self, scheduler: Decider, reader: DecisionObserver, observer: Observer) -> None:
        self._scheduler = scheduler
        self._reader = reader
        self._observer = observer
        self._cycle = 0

    @property
    def wake_at(self) -> float | None:
        return self._scheduler.wake_at

    def step(self) -> bool:
        wrote = self._scheduler.step()
        if wrote:
            self._cycle += 1
            self._observer.on_reading(self._reader.entries(self._cycle))
        return wrote

    def close(self) -> None:
        self._scheduler.close()
        self._reader.close()


class ExternalScheduler:
    """A scheduler in a process of its own: nothing to step, its decisions are read off the cluster."""

    wake_at: float | None = None

    def __init__(self, reader: DecisionObserver, observer: Observer) -> None:
        self._reader = reader
        self._observer = observer
        self._looks = 0

    def step(self) -> bool:
        entries = self._reader.entries(self._looks + 1)
        if entries:
            self._looks += 1
            self._observer.on_reading(entries)
        return False

    def close(self) -> None:
        self._reader.close()


def parts_over(
    cluster: Cluster,
    spec: LabSpec,
    observer: Observer,
    *,
    live: bool,
    external: bool = False,
    others: Sequence[SteppedPart] = (),
) -> Parts:
    """Controllers and scheduler anew over a cluster: they keep no state of their own. ``live``: it is a real API server.
    ``external``: the scheduler under test runs in a process of its own, as most always do on a real cluster. ``others``: controllers
    that are stepped before its own."""
    register_installed()
    one = spec.under_test
    wiring = SchedulerWiring(
        cluster, spec.config, spec.usage, spec.adopt_default_scheduler, observer, live, spec.node_pool
    )
    within = None if external else one.within(wiring)

    def reader() -> DecisionObserver:
        return DecisionObserver(cluster, spec.opened, one.eviction, one.stopped(cluster))

    def onlooker() -> PresentReader:
        return PresentReader(cluster, spec.config, spec.usage, one.scheduler_names(spec.adopt_default_scheduler))

    if within is None:
        return Parts(others, ExternalScheduler(reader(), observer), onlooker())
    scheduler = within.decider if within.reports_cycles else ObservedScheduler(within.decider, reader(), observer)
    return Parts((*others, *within.controllers), scheduler, within.onlooker or onlooker(), within.retry_at)
