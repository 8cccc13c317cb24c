"""scheduler-plugins as a scheduler under test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kailab.cluster.protocol import Cluster, Object
from kailab.undertest.contract import Plane, SchedulerUnderTest, Told
from kailab.undertest.schedulerplugins import words

if TYPE_CHECKING:
    from kailab.components import ComponentSet
    from kailab.undertest.schedulerplugins.process import SchedulerPluginsBeside


@dataclass(frozen=True)
class SchedulerPlugins(SchedulerUnderTest):
    """kube-scheduler with the plugins Coscheduling and CapacityScheduling."""

    title = "scheduler-plugins"
    scheduler_name = words.SCHEDULER_NAME
    owed_seconds = 60.0  # longer than a gang may wait for its next try

    def translate(self, objects: Sequence[Object], there: Cluster) -> Sequence[Sequence[Object]]:
        from kailab.undertest.schedulerplugins.translation import translate

        return translate(objects, there)

    def space_of(self, kind: str, name: str, namespace: str, there: Cluster) -> str:
        from kailab.undertest.schedulerplugins.translation import space_of

        return space_of(kind, name, namespace, there)

    def beside(self, plane: Plane, programs: ComponentSet | None = None) -> SchedulerPluginsBeside:
        from kailab.undertest.schedulerplugins.process import SchedulerPluginsBeside

        return SchedulerPluginsBeside(plane)

    def check_options(self) -> None:
        """Raises MissingComponents where it was not got."""
        from kailab.components import find_addon

        find_addon(words.NAME)

    def answers(self, pod: Object) -> bool:
        spec = pod["spec"]
        return spec.get("schedulerName") == self.scheduler_name and not spec.get("schedulingGates")

    def eviction(self, message: str) -> Told | None:
        return words.eviction(message)

    def code(self, message: str) -> str:
        return words.code(message)
