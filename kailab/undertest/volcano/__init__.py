"""Volcano as a scheduler under test: a folder of its programs, as processes beside a plane.

``translation`` writes queues and gangs as Volcano's objects, ``processes`` looks at the folder, runs the programs and detects when they are
idle, ``messages`` has Volcano's names and reads its conditions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kailab.cluster.protocol import Cluster
from kailab.model.objects import Object
from kailab.undertest.contract import EvictionCondition, Plane, SchedulerUnderTest
from kailab.undertest.volcano import messages

if TYPE_CHECKING:
    from kailab.components import ComponentSet
    from kailab.undertest.volcano.processes import VolcanoProcesses


@dataclass(frozen=True)
class Volcano(SchedulerUnderTest):
    """Option: ``volcano``, the folder of its programs; see ``find_volcano``."""

    title = "Volcano"
    scheduler_name = messages.SCHEDULER_NAME

    def translate(self, objects: Sequence[Object], there: Cluster) -> Sequence[Sequence[Object]]:
        from kailab.undertest.volcano.translation import translate

        return translate(objects, there)

    def beside(self, plane: Plane, programs: ComponentSet | None = None) -> VolcanoProcesses:
        from kailab.undertest.volcano.processes import VolcanoProcesses

        return VolcanoProcesses(plane, self.option("volcano"))

    def check_options(self) -> None:
        from kailab.undertest.volcano.processes import find_volcano

        find_volcano(self.option("volcano"))

    def eviction(self, message: str) -> EvictionCondition | None:
        return messages.parse_eviction(message)

    def code(self, message: str) -> str:
        return messages.parse_code(message)
