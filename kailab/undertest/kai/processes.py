"""A real KAI beside a control plane: local processes over its API server.

KAI's operator, which would start these programs as pods, is not needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from kailab.cluster.protocol import Cluster, Object
from kailab.errors import AlreadyExists, InputError
from kailab.model.private_files import write_text
from kailab.undertest import programs
from kailab.undertest.beside import ProgramsBeside, on_free_ports
from kailab.undertest.contract import Plane, Rest, SchedulerFailed, Start, Tell
from kailab.undertest.crds import bring_in
from kailab.undertest.kai import podwebhook
from kailab.undertest.kai.folder import KaiFolder, find_kai
from kailab.undertest.kai.program_list import Made, programs_of
from kailab.undertest.kai.rest import NAMES, KaiRest, needed
from kailab.undertest.kai.settings import kai_settings
from kailab.undertest.kai.topologies import missing_definitions
from kailab.undertest.kai.version import kai_version

RESERVATION = "kai-resource-reservation"  # namespace and service account of the pods that hold shared GPUs
NAMESPACES = ("kai-scheduler", RESERVATION, "kai-scale-adjust")


class KaiBeside(ProgramsBeside):
    """``folder``, ``crds``: see ``find_kai``, which looks at them when they are first needed."""

    def __init__(self, plane: Plane, folder: Path | str | None = None, crds: Path | str | None = None) -> None:
        super().__init__(plane)
        self._given = folder, crds

    @cached_property
    def _kai(self) -> KaiFolder:
        return find_kai(*self._given)

    def prepare(self, cluster: Cluster) -> None:
        """Its CRDs in their own words, priority classes, namespaces, and the account of its reservation pods. Raises InputError for
        a folder that is no KAI's."""
        prepare(cluster, self._kai)

    def start(self, cluster: Cluster, start: Start, tell: Tell = lambda _: None) -> None:
        """Returns when all of it works and its scheduler has been through a cycle. Raises InputError for a folder that is no KAI's,
        too."""
        kai = self._kai
        settings = kai_settings(start.settings, kai.dialect)
        self.prepare(cluster)
        running = {process.name for process in self._plane.processes() if process.running}
        # Started twice, both would decide on the same pods.
        if here := [name for name in NAMES if name in running]:
            raise SchedulerFailed(f"KAI runs in this lab already: {', '.join(here)}")
        path = Path(self._plane.folder) / "kai-scheduler.yaml"
        write_text(path, settings.conf)
        arguments = (f"--scheduler-conf={path.absolute()}", *settings.flags)
        on_free_ports(lambda: self._run(cluster, programs_of(self._plane, kai, arguments, tell)))

    def _run(self, cluster: Cluster, made: Made) -> None:
        # Of a release before this one that did not end in order.
        podwebhook.forgotten(cluster)
        programs.run(self._plane, made.programs)
        if made.pods is not None:
            podwebhook.registered(cluster, made.pods)

    def check(self) -> None:
        programs.check(self._plane, needed(self._plane))

    def stop(self) -> None:
        # A folder that is gone by now must not keep its processes from ending.
        with suppress(InputError):
            # Before its end: nobody could make a pod with a part of a GPU while it is registered and away.
            if self._kai.dialect.pod_webhook is not None:
                podwebhook.forgotten_by(self._plane)
        super().stop()

    @property
    def names(self) -> Sequence[str]:
        return NAMES

    def version(self) -> str:
        return f"kai {kai_version(self._kai, self._plane.log(NAMES[0]))}"

    def passes_over(self, objects: Sequence[Object]) -> Sequence[str]:
        return tuple(dict.fromkeys(word for obj in objects for word in self._kai.dialect.passes_over(obj)))

    def rest(self, cluster: Cluster) -> Rest:
        return KaiRest(self._plane, cluster)


def prepare(cluster: Cluster, kai: KaiFolder) -> None:
    """What KAI finds in a cluster where it was installed: its CRDs in their own words, priority classes, namespaces, and
    the account of its reservation pods. Done again it changes nothing."""
    from kailab.cluster.install import install

    bring_in(cluster, [*kai.crds, *missing_definitions(kai)], "KAI")
    install(cluster)
    for obj in (
        *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in NAMESPACES),
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": RESERVATION, "namespace": RESERVATION}},
    ):
        try:
            cluster.create(obj)
        except AlreadyExists:
            continue
