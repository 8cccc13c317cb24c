"""A real KAI as a scheduler under test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kailab.cluster.protocol import Cluster, Object
from kailab.model import labels
from kailab.undertest.contract import Plane, SchedulerUnderTest, Told
from kailab.undertest.kai import words

if TYPE_CHECKING:
    from kailab.components import ComponentSet
    from kailab.undertest.kai.processes import KaiBeside


@dataclass(frozen=True)
class Kai(SchedulerUnderTest):
    """Options: ``kai``, the folder of its programs, and ``kai_crds``; see ``find_kai``. Manifests are in its words;
    only Topologies are to be translated, for old releases."""

    title = "KAI"
    scheduler_name = labels.SCHEDULER_NAME
    speaks_kai = True
    knows_queues = True
    quiet_seconds = 8.0  # with it KAI's outcomes were recorded

    def beside(self, plane: Plane, programs: ComponentSet | None = None) -> KaiBeside:
        from kailab.undertest.kai.processes import KaiBeside

        return KaiBeside(plane, self.option("kai"), self.option("kai_crds"))

    def check_options(self) -> None:
        from kailab.undertest.kai.folder import find_kai

        find_kai(self.option("kai"), self.option("kai_crds"))

    def translate(self, objects: Sequence[Object], there: Cluster) -> Sequence[Sequence[Object]]:
        if all(obj.get("kind") != "Topology" for obj in objects):
            return super().translate(objects, there)
        from kailab.undertest.kai.topologies import in_its_words

        return in_its_words(objects, there)

    def eviction(self, message: str) -> Told | None:
        return words.eviction(message)

    def code(self, message: str) -> str:
        return words.code(message)
