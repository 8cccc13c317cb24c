"""The parts that work on the cluster of a lab: controllers, and the scheduler under test or an observer of its decisions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kailab.cluster.protocol import Cluster
from kailab.evidence.observed_decisions import DecisionObserver
from kailab.model.kinds import register_installed
from kailab.scheduler.observers import Observer
from kailab.scheduler.scheduling_state import SchedulingStateReader
from kailab.undertest.contract import Decider, PresentSource, ResumablePart, SchedulerWiring, SteppedPart

if TYPE_CHECKING:
    from kailab.lab.spec import LabSpec


@dataclass
class Parts:
    """``onlooker``: gives the present state. ``retry_at``: when the scheduler retries something that has failed since the given time, if
    settling waits for it."""

    controllers: Sequence[SteppedPart]
    scheduler: Decider
    onlooker: PresentSource
    retry_at: Callable[[float], float | None] = lambda since: None

    def carry_on(self, before: Parts) -> None:
        """Take over the state that the parts of another lab keep beside its objects."""
        for mine, theirs in zip(
            (*self.controllers, self.scheduler), (*before.controllers, before.scheduler), strict=False
        ):
            if isinstance(mine, ResumablePart) and type(mine) is type(theirs):
                mine.carry_on(theirs)

    def close(self) -> None:
        """Close the watches of all parts."""
        for part in (*self.controllers, self.scheduler):
            part.close()
        if self.onlooker is not self.scheduler:
            self.onlooker.close()


class ObservedScheduler:
    """A scheduler in this process that does not report its decisions: they are read from the cluster."""

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
    """A scheduler in its own process: it is not stepped, and its decisions are read from the cluster."""

    wake_at: float | None = None

    def __init__(self, reader: DecisionObserver, observer: Observer) -> None:
        self._reader = reader
        self._observer = observer
        self._readings = 0

    def step(self) -> bool:
        entries = self._reader.entries(self._readings + 1)
        if entries:
            self._readings += 1
            self._observer.on_reading(entries)
        return False

    def close(self) -> None:
        self._reader.close()


def make_parts(
    cluster: Cluster,
    spec: LabSpec,
    observer: Observer,
    *,
    live: bool,
    external: bool = False,
    others: Sequence[SteppedPart] = (),
) -> Parts:
    """Make controllers and scheduler over a cluster. ``live``: it is a real API server. ``external``: the scheduler under test runs in its
    own process, as nearly all do on a real cluster. ``others``: controllers that are stepped before its own."""
    register_installed()
    under_test = spec.under_test
    wiring = SchedulerWiring(
        cluster, spec.config, spec.usage, spec.adopt_default_scheduler, observer, live, spec.node_pool
    )
    within = None if external else under_test.within(wiring)

    def reader() -> DecisionObserver:
        return DecisionObserver(cluster, spec.opened, under_test.eviction, under_test.stopped(cluster))

    def onlooker() -> SchedulingStateReader:
        return SchedulingStateReader(
            cluster, spec.config, spec.usage, under_test.scheduler_names(spec.adopt_default_scheduler)
        )

    if within is None:
        return Parts(others, ExternalScheduler(reader(), observer), onlooker())
    scheduler = within.decider if within.reports_cycles else ObservedScheduler(within.decider, reader(), observer)
    return Parts((*others, *within.controllers), scheduler, within.onlooker or onlooker(), within.retry_at)
