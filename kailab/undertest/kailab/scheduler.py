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
        from kailab.scheduler.composition import Composition

        wanted = Composition(
            config=wiring.config,
            usage=wiring.usage,
            scheduler_names=self.scheduler_names(wiring.adopt_default_scheduler),
            node_pool=wiring.node_pool,
            reservations=wiring.live,
            sparing=wiring.live,
        )
        composed = wanted.over(wiring.cluster, wiring.observer)
        deciding = composed.scheduler
        controllers = tuple(composed.controllers.values())
        return Within(deciding, controllers, tells=True, onlooker=deciding, retry_at=deciding.retry_at)

    def beside(self, plane: Plane, programs: ComponentSet | None = None) -> KailabBeside:
        from kailab.undertest.kailab.process import KailabBeside

        return KailabBeside(plane)

    def version(self, live: bool) -> str:
        return f"kailab {__version__}"

    def eviction(self, message: str) -> Told | None:
        return words.eviction(message)

    def code(self, message: str) -> str:
        return words.code(message)
