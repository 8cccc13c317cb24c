"""SIG scheduler-plugins as a scheduler under test: kube-scheduler with coscheduling and capacity scheduling.

``translation`` writes queues and gangs as its objects, ``processes`` runs it and detects when it is idle, ``messages`` has its names and
reads its conditions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kailab.cluster.protocol import Cluster
from kailab.model.objects import Object
from kailab.undertest.contract import EvictionCondition, Plane, SchedulerUnderTest
from kailab.undertest.scheduler_plugins import messages

if TYPE_CHECKING:
    from kailab.components import ComponentSet
    from kailab.undertest.scheduler_plugins.processes import SchedulerPluginsProcesses


@dataclass(frozen=True)
class SchedulerPlugins(SchedulerUnderTest):
    """kube-scheduler with the plugins Coscheduling and CapacityScheduling."""

    title = "scheduler-plugins"
    scheduler_name = messages.SCHEDULER_NAME
    give_up_seconds = 60.0  # longer than a gang may wait for its next attempt

    def translate(self, objects: Sequence[Object], there: Cluster) -> Sequence[Sequence[Object]]:
        from kailab.undertest.scheduler_plugins.translation import translate

        return translate(objects, there)

    def space_of(self, kind: str, name: str, namespace: str, there: Cluster) -> str:
        from kailab.undertest.scheduler_plugins.translation import space_of

        return space_of(kind, name, namespace, there)

    def beside(self, plane: Plane, programs: ComponentSet | None = None) -> SchedulerPluginsProcesses:
        from kailab.undertest.scheduler_plugins.processes import SchedulerPluginsProcesses

        return SchedulerPluginsProcesses(plane)

    def check_options(self) -> None:
        """Raises MissingComponents if it is not installed."""
        from kailab.components import find_addon

        find_addon(messages.NAME)

    def answers(self, pod: Object) -> bool:
        spec = pod["spec"]
        return spec.get("schedulerName") == self.scheduler_name and not spec.get("schedulingGates")

    def eviction(self, message: str) -> EvictionCondition | None:
        return messages.parse_eviction(message)

    def code(self, message: str) -> str:
        return messages.parse_code(message)
