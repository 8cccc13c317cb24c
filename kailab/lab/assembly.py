"""What a lab is put together from: the cluster of a backend, the nodes of a fleet, controllers and the
scheduler under test.

The one place that knows which parts there are. The names of backends and schedulers, and the options that each understands,
are in `kailab.cluster.backends` and `kailab.undertest.registry`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from kailab.cluster.embedded import EmbeddedCluster
from kailab.cluster.protocol import Cluster
from kailab.engine.config import EngineConfig
from kailab.evidence.entries import Decision
from kailab.evidence.observed import Observer
from kailab.fleet import Fleet, load_fleet
from kailab.grouping import GroupingConfig, PodGrouper
from kailab.lab.settle import Controller
from kailab.lab.settle import Scheduler as Deciding
from kailab.model import labels
from kailab.scheduler import Baseline, QueueStatus, Scheduler, UsageParams
from kailab.scheduler.binding.claim_allocation import ClaimAllocator
from kailab.scheduler.binding.reservation import Reservations
from kailab.scheduler.cycle_record import CycleRecord
from kailab.scheduler.present import Present, PresentReader
from kailab.undertest.registry import chosen
from kailab.workloads import ResourceClaimController, WorkloadControllers

if TYPE_CHECKING:
    from kailab.cluster.kubernetes import KubernetesCluster

SCHEDULER_NAMES = {
    "kailab": labels.SCHEDULER_NAME,
    "kube-scheduler": labels.DEFAULT_SCHEDULER_NAME,
    "kai": labels.SCHEDULER_NAME,
}
"""Scheduler under test -> the ``schedulerName`` that pods must have for it."""

OnCycle = Callable[[CycleRecord], None]
OnSeen = Callable[[list[Decision]], None]


class Part(Controller, Protocol):
    """A controller that can be let go."""

    def close(self) -> None: ...


class DecidingPart(Deciding, Part, Protocol):
    """A scheduler that can be let go."""


class Looking(Protocol):
    """Who can tell the present."""

    def present(self, promised: tuple[str, ...] = ()) -> Present: ...

    def close(self) -> None: ...


@dataclass
class Parts:
    """What runs over a cluster."""

    controllers: Sequence[Part]
    scheduler: DecidingPart
    onlooker: Looking
    """Tells how things stand."""

    def close(self) -> None:
        """End all their watches."""
        for part in (*self.controllers, self.scheduler):
            part.close()
        if self.onlooker is not self.scheduler:
            self.onlooker.close()

    def follow_records(self) -> None:
        """Have kailab's scheduler tell with each cycle what it was decided on."""
        if isinstance(self.scheduler, Scheduler):
            self.scheduler.follow_records()

    def retry_at(self, since: float) -> float | None:
        """When the scheduler tries something again that failed and is to be waited for; see ``Scheduler.retry_at``."""
        return self.scheduler.retry_at(since) if isinstance(self.scheduler, Scheduler) else None


class Seen:
    """A scheduler that tells nothing of its decisions, and an observer that reads them off the cluster."""

    def __init__(self, scheduler: DecidingPart, observer: Observer, on_seen: OnSeen) -> None:
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


def fleet_of(fleet: str | Path | Fleet) -> Fleet:
    """Raises InputError."""
    return fleet if isinstance(fleet, Fleet) else load_fleet(fleet)


def build_cluster(fleet: str | Path | Fleet, devices: bool = False) -> tuple[EmbeddedCluster, str]:
    """An embedded cluster with the fleet's objects, and the fleet's name. ``devices``: its GPUs are there for claims, not for
    the device plugin."""
    from kailab.cluster.install.devices import furnishings

    described = fleet_of(fleet)
    cluster = EmbeddedCluster()
    for obj in furnishings(described, devices):
        cluster.create(obj)
    return cluster, described.name


def build_live_parts(
    cluster: KubernetesCluster,
    scheduler: str,
    config: EngineConfig,
    on_cycle: OnCycle,
    on_seen: OnSeen,
    opened: float,
    usage: UsageParams | None = None,
    adopt_default_scheduler: bool = False,
    apart: bool = False,
) -> Parts:
    """As ``build_parts``, for a cluster whose workload controllers run beside it. ``apart``: the scheduler under test runs
    in a process of its own, as others than kailab's always do."""
    if apart or scheduler != "kailab":
        names = _names(scheduler, adopt_default_scheduler)
        looking = PresentReader(cluster, config, usage, names)
        return Parts([], Watched(Observer(cluster, opened, chosen(scheduler).eviction), on_seen), looking)
    return _deciding(cluster, config, on_cycle, usage, adopt_default_scheduler)


def _deciding(
    cluster: Cluster,
    config: EngineConfig,
    on_cycle: OnCycle,
    usage: UsageParams | None,
    adopt_default_scheduler: bool,
) -> Parts:
    names = _names("kailab", adopt_default_scheduler)
    live = not isinstance(cluster, EmbeddedCluster)
    preparations: list[ClaimAllocator | Reservations] = [ClaimAllocator(cluster)]
    if live:
        preparations.append(Reservations(cluster))
    deciding = Scheduler(
        cluster, config, on_cycle, usage=usage, scheduler_names=names, preparations=preparations, sparing=live
    )
    grouper = PodGrouper(cluster, GroupingConfig(scheduler_names=names), lambda: deciding.cycles)
    return Parts([grouper, QueueStatus(cluster), *preparations], deciding, deciding)


def _names(scheduler: str, adopt_default_scheduler: bool) -> tuple[str, ...]:
    """The ``schedulerName`` of pods that are the scheduler's to place."""
    own = SCHEDULER_NAMES[scheduler]
    return (own, labels.DEFAULT_SCHEDULER_NAME) if adopt_default_scheduler else (own,)


def considers(scheduler: str) -> Callable[[dict[str, Any]], bool]:
    """Which unbound pods get a condition from the scheduler sooner or later, so that a lab waits for it. KAI's kind says
    nothing on pods of a gang that is not complete; kailab's has decided by the time that is asked."""
    if scheduler == "kube-scheduler":
        return lambda pod: bool(
            pod["spec"].get("schedulerName") == labels.DEFAULT_SCHEDULER_NAME and not pod["spec"].get("schedulingGates")
        )
    return lambda pod: False


QUIET_SECONDS = {"kailab": 1.2, "kube-scheduler": 2.5, "kai": 8.0}
"""How long nothing must change on a real cluster, by who decides: in this process, or in others with pauses of their own.
KAI's is that with which its outcomes were recorded."""


def build_parts(
    cluster: EmbeddedCluster,
    scheduler: str,
    config: EngineConfig,
    on_cycle: OnCycle,
    on_seen: OnSeen,
    opened: float,
    usage: UsageParams | None = None,
    adopt_default_scheduler: bool = False,
) -> Parts:
    """Controllers and scheduler anew over a cluster: they keep no state of their own.

    ``adopt_default_scheduler``: pods that name no scheduler are the scheduler under test's too."""
    workloads = (WorkloadControllers(cluster), ResourceClaimController(cluster))
    if scheduler == "kube-scheduler":
        seen = Seen(Baseline(cluster), Observer(cluster, opened, chosen(scheduler).eviction), on_seen)
        return Parts(workloads, seen, PresentReader(cluster, config, usage, _names(scheduler, False)))
    parts = _deciding(cluster, config, on_cycle, usage, adopt_default_scheduler)
    return Parts([*workloads, *parts.controllers], parts.scheduler, parts.onlooker)
