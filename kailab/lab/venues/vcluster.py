"""The backend vcluster: virtual clusters in one host cluster that a kubeconfig names; each with its own KWOK."""

from __future__ import annotations

from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

from kailab.cluster.kubernetes import Connection
from kailab.cluster.vcluster import HostCluster, VclusterPlane, find_tools, take_down, tools_reason
from kailab.components import ComponentSet
from kailab.errors import InputError
from kailab.evidence.wording import some
from kailab.lab.venues.contract import Request
from kailab.lab.venues.kubeconfig import kubeconfig_of
from kailab.lab.venues.plane import PlaneProvider, Planes, PlaneVenue
from kailab.model.callbacks import Tell

BACKEND = "vcluster"


class Vclusters(Planes):
    """``host`` None: existing clusters are only attached to and taken down; each knows its host."""

    plane = VclusterPlane

    def __init__(self, host: HostCluster | None = None) -> None:
        self._host = host

    def check(self) -> None:
        """Raises InputError for a host whose kubeconfig can't be used, ConnectError for a missing program."""
        find_tools()
        host = self._of_host()
        Connection.from_kubeconfig(host.kubeconfig, host.context)

    def up(self, folder: Path, programs: ComponentSet, tell: Tell) -> Any:
        return VclusterPlane.up(folder, host=self._of_host(), components=programs, tell=tell)

    def remove(self, folder: Path) -> None:
        take_down(folder)

    def check_nodes(self, plane: Any, names: Set[str]) -> None:
        """VCluster treats a node with the name of a host's node as that node, and deletes it as soon as no pod is on it."""
        if taken := sorted(names & plane.host_nodes()):
            raise InputError(
                f"the host has nodes with the same names as the fleet: {some(taken)}; vCluster would delete the fleet's nodes. "
                "Use a fleet whose nodes have other names, or end the lab that has them in the host"
            )

    def _of_host(self) -> HostCluster:
        return self._host or HostCluster(kubeconfig_of(None).absolute())


class VclusterProvider(PlaneProvider):
    def __init__(self) -> None:
        super().__init__(BACKEND, Vclusters())

    def lacking(self) -> str | None:
        return tools_reason()

    def completed(self, options: Mapping[str, Any]) -> dict[str, Any]:
        return {**options, "kubeconfig": kubeconfig_of(options.get("kubeconfig"))}

    def open(self, request: Request) -> PlaneVenue:
        """Understands ``kubeconfig`` and ``context`` too: of the host."""
        path = kubeconfig_of(request.options.get("kubeconfig")).absolute()
        host = HostCluster(path, request.options.get("context"))
        return PlaneProvider(BACKEND, Vclusters(host)).open(request)
