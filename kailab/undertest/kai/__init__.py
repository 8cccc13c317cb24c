"""A real KAI as a scheduler under test: local programs beside a plane, or a release installed by its Helm chart.

``releases`` knows what differs between releases, ``folder`` looks at a user's folder of programs, ``processes`` runs them, ``settings``
translates a lab's configuration, ``topologies`` translates Topologies for old releases. ``chart`` and ``installation`` find and install
the Helm chart; ``probe`` tests that KAI schedules. ``messages`` reads conditions and Events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kailab.cluster.protocol import Cluster
from kailab.cluster.registry import FLAGS
from kailab.errors import InputError
from kailab.model import labels
from kailab.model.objects import Object
from kailab.undertest.contract import EvictionCondition, EvictionFinder, Plane, SchedulerProcesses, SchedulerUnderTest
from kailab.undertest.kai import messages
from kailab.undertest.kai.messages import EvictionEvents

if TYPE_CHECKING:
    from kailab.components import ComponentSet
    from kailab.undertest.kai.releases import ReleaseFeatures


@dataclass(frozen=True)
class Kai(SchedulerUnderTest):
    """Options: ``kai``, the folder of its programs, and ``kai_crds``, see ``find_kai``; or ``kai_release``, whose chart is installed, and
    ``kai_chart``, its folder, see ``find_chart``. Manifests need no translation, except Topologies for old releases."""

    title = "KAI"
    scheduler_name = labels.SCHEDULER_NAME
    understands_kai = True
    knows_queues = True
    quiet_seconds = 8.0  # KAI's outcomes were recorded with it

    @property
    def installed(self) -> bool:
        return self.option("kai_release") is not None

    def beside(self, plane: Plane, programs: ComponentSet | None = None) -> SchedulerProcesses:
        if self.installed:
            from kailab.undertest.kai.installation import InstalledKai

            return InstalledKai(plane, self.option("kai_release"), self.option("kai_chart"))
        from kailab.undertest.kai.processes import KaiProcesses

        return KaiProcesses(plane, self.option("kai"), self.option("kai_crds"))

    def check_options(self) -> None:
        if self.installed:
            self._check_chart()
            return
        if self.option("kai_chart") is not None:
            raise InputError("--kai-chart applies only to a KAI that its chart installs, as in --scheduler kai@v0.16.8")
        from kailab.undertest.kai.folder import find_kai

        find_kai(self.option("kai"), self.option("kai_crds"))

    def _check_chart(self) -> None:
        for option in ("kai", "kai_crds"):
            if self.option(option) is not None:
                raise InputError(
                    f"{FLAGS[option]} applies only to a KAI in a folder; {self.name} is installed by its chart"
                )
        from kailab.undertest.kai.installation import check_chart

        check_chart(self.option("kai_release"), self.option("kai_chart"))

    def translate(self, objects: Sequence[Object], there: Cluster) -> Sequence[Sequence[Object]]:
        if all(obj.get("kind") != "Topology" for obj in objects):
            return super().translate(objects, there)
        from kailab.undertest.kai.topologies import translate_topologies

        return translate_topologies(objects, there)

    def stopped(self, there: Cluster) -> EvictionFinder | None:
        dialect = self._dialect()
        leaves_a_condition = dialect is None or dialect.has_flag("scheduler", "update-pod-eviction-condition")
        return None if leaves_a_condition else EvictionEvents(there)

    def _dialect(self) -> ReleaseFeatures | None:
        """The features of its release; None if the release is unknown, as in a cluster that a kubeconfig names."""
        from kailab.undertest.kai.folder import find_kai
        from kailab.undertest.kai.releases import features_of

        try:
            if self.installed:
                return features_of(str(self.option("kai_release")))
            return find_kai(self.option("kai"), self.option("kai_crds")).dialect
        except InputError:
            return None

    def eviction(self, message: str) -> EvictionCondition | None:
        return messages.parse_eviction(message)

    def code(self, message: str) -> str:
        return messages.parse_code(message)
