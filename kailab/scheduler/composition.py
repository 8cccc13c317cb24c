"""kailab's scheduler with the controllers that work beside it: the one place that knows which parts there are.

A lab steps them in its own process, the service in its turns, a benchmark under a stopwatch."""

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
from kailab.scheduler.binding.claim_allocation import ClaimAllocator
from kailab.scheduler.binding.preparation import Preparation
from kailab.scheduler.binding.reservation_pods import ReservationPods
from kailab.scheduler.loop import Scheduler
from kailab.scheduler.observers import Observer
from kailab.scheduler.reading.podgroups import DEFAULT_NODE_POOL
from kailab.scheduler.status.queue_status import QueueStatus
from kailab.scheduler.usage import UsageParams


def _never() -> bool:
    return False


def _cycles(scheduler: Scheduler) -> int:
    return scheduler.cycles


class SchedulerPart(Protocol):
    """A controller: ``step`` handles what its watches delivered, and says whether it wrote anything."""

    def step(self) -> bool: ...

    def close(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class SchedulerComposition:
    """Which parts there are, and how they are set. ``grouping``: pods to PodGroups; ``queue_status``: what queues hold;
    ``reservations``: of shared GPUs; ``claims``: allocated for pods that are bound. ``sparing``: writes are dear, see
    ``Scheduler``. ``ahead``: what is written is not waited for where nothing depends on it, see ``Scheduler``."""

    config: EngineConfig = field(default_factory=EngineConfig)
    usage: UsageParams = field(default_factory=UsageParams)
    scheduler_names: Sequence[str] = (SCHEDULER_NAME,)
    node_pool: str = DEFAULT_NODE_POOL
    grouping: bool = True
    queue_status: bool = True
    reservations: bool = True
    claims: bool = True
    sparing: bool = True
    ahead: bool = False

    def over(
        self, cluster: Cluster, observer: Observer | None = None, binding: Callable[[], bool] = _never
    ) -> SchedulerAssembly:
        """The parts, over a cluster. ``observer`` is told what happens. ``binding``: whether pods are being bound, one cycle after
        the other, so that what nobody waits for is written afterwards. If one can't be made, none is left."""
        observer = observer or Observer()
        made: dict[str, SchedulerPart] = {}
        try:
            # Claims before reservations: a pod that can't have its devices gets no GPU reserved.
            preparations: dict[str, Preparation] = {}
            if self.claims:
                preparations["claims"] = made["claims"] = ClaimAllocator(cluster)
            if self.reservations:
                preparations["reservations"] = made["reservations"] = ReservationPods(cluster)
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
            )
            made["scheduler"] = scheduler
            controllers: dict[str, SchedulerPart] = {}
            if self.grouping:
                grouping = GroupingConfig(scheduler_names=tuple(self.scheduler_names))
                # Pods may belong to objects of kinds that other distributions bring.
                register_installed()
                # Elsewhere a garbage collector deletes them.
                if isinstance(cluster, VirtualTime):
                    controllers["stray pods"] = made["stray pods"] = StrayPods(cluster, grouping)
                controllers["grouping"] = made["grouping"] = PodGrouper(
                    cluster, grouping, partial(_cycles, scheduler), ahead=self.ahead
                )
            if self.queue_status:
                controllers["queue status"] = made["queue status"] = QueueStatus(cluster, binding)
            # The last step: an observer that fails here leaves no part behind.
            observer.on_begin(scheduler)
        except BaseException:
            for part in made.values():
                part.close()
            raise
        # The grouping comes first: pods that it has just put into PodGroups are news for the scheduler in the same
        # turn.
        return SchedulerAssembly({**controllers, **preparations}, scheduler)


@dataclass(frozen=True)
class SchedulerAssembly:
    """``controllers``: by what they do, in the order in which they are stepped before the scheduler."""

    controllers: Mapping[str, SchedulerPart]
    scheduler: Scheduler

    def close(self) -> None:
        """End all their watches."""
        for part in (*self.controllers.values(), self.scheduler):
            part.close()
