"""Composes kailab's scheduler with the controllers that run beside it.

A lab steps these parts in its own process, the service in its turns, a benchmark under a stopwatch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from kailab.cluster.protocol import Cluster, VirtualTime
from kailab.engine.config import EngineConfig
from kailab.grouping import GroupingConfig, PodGrouper
from kailab.grouping.stray_pods import StrayPods
from kailab.model.kinds import register_installed
from kailab.model.labels import SCHEDULER_NAME
from kailab.scheduler.binding import Preparation
from kailab.scheduler.binding.claim_allocation import ClaimAllocator
from kailab.scheduler.binding.reservation_pods import ReservationPods
from kailab.scheduler.loop import Scheduler
from kailab.scheduler.observers import Observer
from kailab.scheduler.reading.podgroups import DEFAULT_NODE_POOL
from kailab.scheduler.status.queue_status import QueueStatus
from kailab.scheduler.usage import UsageParams


# Functions instead of lambdas, because the checkpoint of a replay pickles its lab.
def _never() -> bool:
    return False


def _cycles(scheduler: Scheduler) -> int:
    return scheduler.cycles


def _unread(scheduler: Scheduler) -> bool:
    return scheduler.unread


class SchedulerPart(Protocol):
    """A controller. ``step`` handles the events of its watches and returns whether it wrote anything."""

    def step(self) -> bool: ...

    def close(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class SchedulerComposition:
    """Which parts to make, and their settings. ``grouping``: make PodGroups; ``queue_status``: write the status of queues and PodGroups;
    ``gpu_reservations``: reserve shared GPUs; ``claims``: allocate ResourceClaims. ``sparing``, ``ahead`` and ``reasons_every``: see
    ``Scheduler``."""

    config: EngineConfig = field(default_factory=EngineConfig)
    usage: UsageParams = field(default_factory=UsageParams)
    scheduler_names: Sequence[str] = (SCHEDULER_NAME,)
    node_pool: str = DEFAULT_NODE_POOL
    grouping: bool = True
    queue_status: bool = True
    gpu_reservations: bool = True
    claims: bool = True
    sparing: bool = True
    ahead: bool = False
    reasons_every: float = 0.0

    def over(
        self, cluster: Cluster, observer: Observer | None = None, binding: Callable[[], bool] = _never
    ) -> SchedulerAssembly:
        """Make the parts for a cluster. ``binding`` returns whether pods are being bound right now; less urgent writes wait then. If one
        part can't be made, all others are closed."""
        observer = observer or Observer()
        parts: dict[str, SchedulerPart] = {}
        try:
            # Claims before reservations: a pod that can't have its devices gets no GPU reserved.
            preparations: dict[str, Preparation] = {}
            if self.claims:
                preparations["claims"] = parts["claims"] = ClaimAllocator(cluster)
            if self.gpu_reservations:
                preparations["reservations"] = parts["reservations"] = ReservationPods(cluster)
            scheduler = Scheduler(
                cluster,
                self.config,
                observer,
                usage=self.usage,
                scheduler_names=tuple(self.scheduler_names),
                node_pool=self.node_pool,
                preparations=tuple(preparations.values()),
                sparing=self.sparing,
                ahead=self.ahead,
                reasons_every=self.reasons_every,
            )
            parts["scheduler"] = scheduler
            controllers: dict[str, SchedulerPart] = {}
            if self.grouping:
                grouping = GroupingConfig(scheduler_names=tuple(self.scheduler_names))
                # Pods may belong to objects of kinds that other distributions bring.
                register_installed()
                # In other clusters the garbage collector deletes stray pods.
                if isinstance(cluster, VirtualTime):
                    controllers["stray pods"] = parts["stray pods"] = StrayPods(cluster, grouping)
                controllers["grouping"] = parts["grouping"] = PodGrouper(
                    cluster, grouping, partial(_cycles, scheduler), ahead=self.ahead
                )
            if self.queue_status:
                controllers["queue status"] = parts["queue status"] = QueueStatus(
                    cluster, binding, partial(_unread, scheduler)
                )
            # Last, so that the parts are closed if an observer fails.
            observer.on_begin(scheduler)
        except BaseException:
            for part in parts.values():
                part.close()
            raise
        # Grouping is stepped before the scheduler, which so sees new PodGroups in the same turn.
        return SchedulerAssembly({**controllers, **preparations}, scheduler)


@dataclass(frozen=True)
class SchedulerAssembly:
    """``controllers``: by their task, in the order of stepping. The scheduler is stepped after them."""

    controllers: Mapping[str, SchedulerPart]
    scheduler: Scheduler

    def close(self) -> None:
        """Close the watches of all parts."""
        for part in (*self.controllers.values(), self.scheduler):
            part.close()
