"""kailab's own scheduler as a scheduler under test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kailab import __version__
from kailab.model import labels
from kailab.undertest.contract import Plane, SchedulerUnderTest, Told, Wiring, Within
from kailab.undertest.kai import words

if TYPE_CHECKING:
    from kailab.components import ComponentSet
    from kailab.scheduler.binding.claim_allocation import ClaimAllocator
    from kailab.scheduler.binding.reservation import Reservations
    from kailab.undertest.kailab.process import KailabBeside


@dataclass(frozen=True)
class Kailab(SchedulerUnderTest):
    """It reads and says what KAI does."""

    title = "kailab"
    scheduler_name = labels.SCHEDULER_NAME
    speaks_kai = True
    knows_queues = True
    tells_shares = True
    steps_everywhere = True
    quiet_seconds = 1.2

    def within(self, wiring: Wiring) -> Within:
        from kailab.grouping import GroupingConfig, PodGrouper
        from kailab.scheduler import QueueStatus, Scheduler
        from kailab.scheduler.binding.claim_allocation import ClaimAllocator
        from kailab.scheduler.binding.reservation import Reservations

        cluster, names = wiring.cluster, self.scheduler_names(wiring.adopt_default_scheduler)
        preparations: list[ClaimAllocator | Reservations] = [ClaimAllocator(cluster)]
        if wiring.live:
            preparations.append(Reservations(cluster))
        deciding = Scheduler(
            cluster, wiring.config, wiring.on_cycle, usage=wiring.usage, scheduler_names=names, preparations=preparations,
            sparing=wiring.live,
        )  # fmt: skip
        grouper = PodGrouper(cluster, GroupingConfig(scheduler_names=names), lambda: deciding.cycles)
        controllers = (grouper, QueueStatus(cluster), *preparations)
        return Within(
            deciding, controllers, tells=True, onlooker=deciding, retry_at=deciding.retry_at,
            follow_records=deciding.follow_records,
        )  # fmt: skip

    def beside(self, plane: Plane, programs: ComponentSet | None = None) -> KailabBeside:
        from kailab.undertest.kailab.process import KailabBeside

        return KailabBeside(plane)

    def version(self, live: bool) -> str:
        return f"kailab {__version__}"

    def eviction(self, message: str) -> Told | None:
        return words.eviction(message)

    def code(self, message: str) -> str:
        return words.code(message)
