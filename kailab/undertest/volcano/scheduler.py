"""Volcano as a scheduler under test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kailab.cluster.protocol import Cluster, Object
from kailab.undertest.contract import Plane, SchedulerUnderTest, Told
from kailab.undertest.volcano import words

if TYPE_CHECKING:
    from kailab.components import ComponentSet
    from kailab.undertest.volcano.process import VolcanoBeside


@dataclass(frozen=True)
class Volcano(SchedulerUnderTest):
    """Option: ``volcano``, the folder of its programs; see ``find_volcano``."""

    title = "Volcano"
    scheduler_name = words.SCHEDULER_NAME

    def translate(self, objects: Sequence[Object], there: Cluster) -> Sequence[Sequence[Object]]:
        from kailab.undertest.volcano.translation import translate

        return translate(objects, there)

    def beside(self, plane: Plane, programs: ComponentSet | None = None) -> VolcanoBeside:
        from kailab.undertest.volcano.process import VolcanoBeside

        return VolcanoBeside(plane, self.option("volcano"))

    def check_options(self) -> None:
        from kailab.undertest.volcano.folder import find_volcano

        find_volcano(self.option("volcano"))

    def eviction(self, message: str) -> Told | None:
        return words.eviction(message)

    def code(self, message: str) -> str:
        return words.code(message)
