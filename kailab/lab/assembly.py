"""What a lab is put together from: the cluster of a backend, the nodes of a fleet, controllers and the
scheduler under test.

The one place that knows which parts there are. The names of backends and schedulers, and the options that each understands,
are in `kailab.cluster.backends` and `kailab.undertest.registry`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kailab.cluster.embedded import EmbeddedCluster
from kailab.cluster.protocol import Cluster
from kailab.evidence.entries import Decision
from kailab.evidence.observed import Observer
from kailab.fleet import Fleet
from kailab.lab.spec import LabSpec, fleet_of
from kailab.scheduler.cycle_record import CycleRecord
from kailab.scheduler.present import PresentReader
from kailab.undertest.contract import Decider, PresentSource, Stepped, Wiring
from kailab.workloads import ResourceClaimController, WorkloadControllers

OnCycle = Callable[[CycleRecord], None]
OnSeen = Callable[[list[Decision]], None]


@dataclass
class Parts:
    """What runs over a cluster."""

    controllers: Sequence[Stepped]
    scheduler: Decider
    onlooker: PresentSource
    """Tells how things stand."""
    retry_at: Callable[[float], float | None] = lambda since: None
    """When the scheduler tries something again that failed since a time and is to be waited for; None: nothing."""
    follow_records: Callable[[], None] = lambda: None
    """Have the scheduler tell with each cycle what it was decided on, if it tells any."""

    def close(self) -> None:
        """End all their watches."""
        for part in (*self.controllers, self.scheduler):
            part.close()
        if self.onlooker is not self.scheduler:
            self.onlooker.close()


class Seen:
    """A scheduler that tells nothing of its decisions, and an observer that reads them off the cluster."""

    def __init__(self, scheduler: Decider, observer: Observer, on_seen: OnSeen) -> None:
        self._scheduler = scheduler
        self._observer = observer
        self._on_seen = on_seen
        self._cycle = 0

    @property
    def wake_at(self) -> float | None:
        return self._scheduler.wake_at

    def step(self) -> bool:
        wrote = self._scheduler.step()
        if wrote:
            self._cycle += 1
            self._on_seen(self._observer.entries(self._cycle))
        return wrote

    def close(self) -> None:
        self._scheduler.close()
        self._observer.close()


class Watched:
    """A scheduler in a process of its own: nothing to step, its decisions are read off the cluster."""

    def __init__(self, observer: Observer, on_seen: OnSeen) -> None:
        self._observer = observer
        self._on_seen = on_seen
        self._looks = 0

    @property
    def wake_at(self) -> float | None:
        return None

    def step(self) -> bool:
        entries = self._observer.entries(self._looks + 1)
        if entries:
            self._looks += 1
            self._on_seen(entries)
        return False

    def close(self) -> None:
        self._observer.close()


def build_cluster(fleet: str | Path | Fleet, devices: bool = False) -> tuple[EmbeddedCluster, str]:
    """An embedded cluster with the fleet's objects, and the fleet's name. ``devices``: its GPUs are there for claims, not for
    the device plugin."""
    from kailab.cluster.install.devices import furnishings

    described = fleet_of(fleet)
    cluster = EmbeddedCluster()
    for obj in furnishings(described, devices):
        cluster.create(obj)
    return cluster, described.name


def build_parts(cluster: Cluster, spec: LabSpec, on_cycle: OnCycle, on_seen: OnSeen, *, apart: bool = False) -> Parts:
    """Controllers and scheduler anew over a cluster: they keep no state of their own. ``apart``: the scheduler under test runs in a process of its own, whichever it is."""
    scheduler, adopt = spec.under_test, spec.adopt_default_scheduler
    wiring = Wiring(cluster, spec.config, spec.usage, adopt, on_cycle, not isinstance(cluster, EmbeddedCluster))
    within = None if apart else scheduler.within(wiring)
    workloads: list[Stepped] = []
    if isinstance(cluster, EmbeddedCluster):  # those of a real cluster run beside it
        workloads = [WorkloadControllers(cluster), ResourceClaimController(cluster)]
    onlooker: PresentSource | None = None if within is None else within.onlooker
    if onlooker is None:
        onlooker = PresentReader(cluster, spec.config, spec.usage, scheduler.scheduler_names(adopt))
    if within is not None and within.tells:
        return Parts(
            [*workloads, *within.controllers], within.decider, onlooker, within.retry_at, within.follow_records
        )
    observer = Observer(cluster, spec.opened, scheduler.eviction)
    if within is None:
        return Parts(workloads, Watched(observer, on_seen), onlooker)
    seen = Seen(within.decider, observer, on_seen)
    return Parts([*workloads, *within.controllers], seen, onlooker, within.retry_at)
