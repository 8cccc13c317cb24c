"""kailab's own scheduler as a scheduler under test: in this process, or as a process beside a plane (``processes``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kailab.model import labels
from kailab.undertest.contract import EvictionCondition, InProcessScheduler, Plane, SchedulerUnderTest, SchedulerWiring
from kailab.undertest.kai import messages
from kailab.version import __version__

if TYPE_CHECKING:
    from kailab.components import ComponentSet
    from kailab.undertest.kailab.processes import KailabProcesses


@dataclass(frozen=True)
class Kailab(SchedulerUnderTest):
    """Reads KAI's objects and writes KAI's messages."""

    title = "kailab"
    scheduler_name = labels.SCHEDULER_NAME
    understands_kai = True
    knows_queues = True
    reports_shares = True
    always_in_process = True
    quiet_seconds = 1.2

    def within(self, wiring: SchedulerWiring) -> InProcessScheduler:
        from kailab.scheduler.composition import SchedulerComposition

        wanted = SchedulerComposition(
            config=wiring.config,
            usage=wiring.usage,
            scheduler_names=self.scheduler_names(wiring.adopt_default_scheduler),
            node_pool=wiring.node_pool,
            gpu_reservations=wiring.live,
            sparing=wiring.live,
        )
        composed = wanted.over(wiring.cluster, wiring.observer)
        deciding = composed.scheduler
        controllers = tuple(composed.controllers.values())
        return InProcessScheduler(
            deciding, controllers, reports_cycles=True, onlooker=deciding, retry_at=deciding.retry_at
        )

    def beside(self, plane: Plane, programs: ComponentSet | None = None) -> KailabProcesses:
        from kailab.undertest.kailab.processes import KailabProcesses

        return KailabProcesses(plane)

    def version(self, live: bool) -> str:
        return f"kailab {__version__}"

    def eviction(self, message: str) -> EvictionCondition | None:
        return messages.parse_eviction(message)

    def code(self, message: str) -> str:
        return messages.parse_code(message)
