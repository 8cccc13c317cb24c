"""Apache YuniKorn as a scheduler under test, as a process beside a plane.

``translation`` writes queues and applications in YuniKorn's form, ``processes`` runs it, detects when it is idle and reads its evictions,
``messages`` has its names and reads its conditions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kailab.cluster.protocol import Cluster
from kailab.model.objects import Object
from kailab.undertest.contract import EvictionFinder, Plane, SchedulerUnderTest
from kailab.undertest.yunikorn import messages

if TYPE_CHECKING:
    from kailab.components import ComponentSet
    from kailab.undertest.yunikorn.processes import YuniKornProcesses


@dataclass(frozen=True)
class YuniKorn(SchedulerUnderTest):
    """It reports evictions only in its own log of events."""

    title = "YuniKorn"
    scheduler_name = messages.SCHEDULER_NAME
    one_per_machine = True  # the port of its REST API is fixed in its code
    # An application whose pods are all gone exists for 30 s more (``completingTimeout``). A gang of the same name would be admitted pod
    # by pod in that time, because its room counts as reserved.
    restart_for_each_lab = True

    def translate(self, objects: Sequence[Object], there: Cluster) -> Sequence[Sequence[Object]]:
        from kailab.undertest.yunikorn.translation import translate

        return translate(objects, there)

    def beside(self, plane: Plane, programs: ComponentSet | None = None) -> YuniKornProcesses:
        from kailab.undertest.yunikorn.processes import YuniKornProcesses

        return YuniKornProcesses(plane)

    def check_options(self) -> None:
        """Raises MissingComponents if it is not installed."""
        from kailab.components import find_addon

        find_addon(messages.NAME)

    def stopped(self, there: Cluster) -> EvictionFinder:
        from kailab.undertest.yunikorn.processes import PreemptionLog

        return PreemptionLog()

    def code(self, message: str) -> str:
        return messages.parse_code(message)
