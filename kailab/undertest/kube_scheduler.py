"""kube-scheduler as a scheduler under test: a stand-in on the embedded cluster, the real one elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kailab.cluster.protocol import Cluster
from kailab.model import labels
from kailab.model.callbacks import Tell
from kailab.model.objects import Object, rewrite
from kailab.undertest import contract
from kailab.version import __version__

if TYPE_CHECKING:
    from kailab.components import ComponentSet


NAME = "kube-scheduler"


@dataclass(frozen=True)
class KubeScheduler(contract.SchedulerUnderTest):
    """Places pods one by one. It ignores queues, gangs and PodGroups, for contrast."""

    title = "kube-scheduler"
    scheduler_name = labels.DEFAULT_SCHEDULER_NAME
    sets_conditions = True

    def translate(self, objects: Sequence[Object], there: Cluster) -> Sequence[Sequence[Object]]:
        return [(retarget(obj, self.scheduler_name),) for obj in objects]

    def within(self, wiring: contract.SchedulerWiring) -> contract.InProcessScheduler | None:
        if wiring.live:
            return None
        from kailab.scheduler.baseline import Baseline

        return contract.InProcessScheduler(Baseline(wiring.cluster))

    def beside(self, plane: contract.Plane, programs: ComponentSet | None = None) -> KubeSchedulerProcesses:
        return KubeSchedulerProcesses(plane, programs)

    def version(self, live: bool) -> str:
        return super().version(live) if live else f"{NAME} (stood in for by kailab {__version__})"


class KubeSchedulerProcesses(contract.SchedulerProcesses):
    """One process, from the programs of the plane; a kind cluster runs its own."""

    def __init__(self, plane: contract.Plane, programs: ComponentSet | None = None) -> None:
        self._plane = plane
        self._programs = programs

    def start(self, cluster: Cluster, start: contract.StartSettings, tell: Tell = lambda _: None) -> None:
        """Raises ControlPlaneFailed with the last lines of the log."""
        self._plane.start_kube_scheduler()

    @property
    def names(self) -> Sequence[str]:
        return (NAME,)

    def check(self) -> None:
        from kailab.undertest import programs

        programs.check_programs(self._plane, self.names)

    def stop(self) -> None:
        from kailab.undertest import programs

        programs.stop_programs(self._plane, self.names)

    def version(self) -> str:
        if self._programs is None:
            return f"{NAME} unknown (its program is not at hand)"
        from kailab.components.lookup import reported_or_unknown

        return f"{NAME} {reported_or_unknown(NAME, self._programs)}"


def retarget(value: Any, scheduler_name: str) -> Any:
    """The object for another scheduler: ``schedulerName: kai-scheduler`` is replaced everywhere. Unchanged parts are shared; the original is
    not changed."""

    def renamed(part: Object) -> Object:
        # Pods that name another scheduler stay with it.
        ours = part.get("schedulerName") == labels.SCHEDULER_NAME
        return {**part, "schedulerName": scheduler_name} if ours else part

    return rewrite(value, renamed)
