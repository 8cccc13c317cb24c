"""The backend kubeconfig: any cluster that a kubeconfig names. The cluster's own schedulers decide, unless one is installed for the lab by
its chart. Kailab's scheduler runs in the process of a lab, or in the cluster with ``kailab scheduler run``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from kailab.cluster.kubernetes import Connection
from kailab.errors import StateError
from kailab.lab.venues.contract import Place, Provider, Request
from kailab.lab.venues.kubernetes import KubernetesVenue, new_mark
from kailab.undertest.registry import make_scheduler
from kailab.undertest.running import InstalledSchedulers

BACKEND = "kubeconfig"
_INSTALLED = "installed"


@dataclass
class ForeignCluster:
    """A cluster without processes of ours, in the form that an installed scheduler needs (``undertest.contract.Plane``)."""

    kubeconfig: Path
    context: str | None = None
    folder: Path = Path()
    own: tuple[str, ...] = ()

    def processes(self) -> list[Any]:
        return []

    def log(self, name: str) -> Path:
        return self.folder / name

    def spawn(
        self, name: str, argv: Sequence[str | Path], env: Mapping[str, str] | None = None, port: int = 0
    ) -> NoReturn:
        raise StateError("no process can be started in a cluster that is somebody else's")

    def stop(self, name: str) -> NoReturn:
        raise StateError("no process can be ended in a cluster that is somebody else's")

    def start_kube_scheduler(self) -> NoReturn:
        raise StateError("no scheduler can be started in a cluster that is somebody else's")


class KubeconfigProvider(Provider):
    def completed(self, options: Mapping[str, Any]) -> dict[str, Any]:
        return {**options, "kubeconfig": kubeconfig_of(options.get("kubeconfig"))}

    def open(self, request: Request) -> KubernetesVenue:
        path, context = kubeconfig_of(request.options.get("kubeconfig")), request.options.get("context")
        scheduler = request.scheduler
        if scheduler.installed:
            scheduler.check_options()
        # Taking the lab down needs to know what was installed for it.
        installed = {"kind": scheduler.kind, "name": scheduler.name, "options": dict(scheduler.options)}
        more = {_INSTALLED: msgspec.json.encode(installed).decode()} if scheduler.installed else {}
        place = Place(backend=BACKEND, kubeconfig=str(path.absolute()), context=context, mark=new_mark(), more=more)
        deciding = InstalledSchedulers(ForeignCluster(path.absolute(), context), None, request.options)
        venue = KubernetesVenue(place, Connection.from_kubeconfig(path, context), deciding)
        request.record(place)
        return venue

    def attach(self, place: Place, state: Mapping[str, Any], read_only: bool) -> KubernetesVenue:
        # The scheduler is another process: a command that attaches must not decide too.
        return KubernetesVenue(place, Connection.from_kubeconfig(place.kubeconfig, place.context), detached=True)

    def take_down(self, place: Place) -> None:
        venue = _Left(place, Connection.from_kubeconfig(place.kubeconfig, place.context))
        try:
            venue.vacate()
        finally:
            venue.leave()


class _Left(KubernetesVenue):
    """A venue whose lab was opened by another process."""

    def _end_schedulers(self) -> None:
        if installed := self.place.more.get(_INSTALLED):
            known = msgspec.json.decode(installed)
            scheduler = make_scheduler(known["kind"], known["name"], known["options"])
            if (there := scheduler.beside(ForeignCluster(self.kubeconfig, self.place.context))) is not None:
                there.end()


def kubeconfig_of(given: str | Path | None) -> Path:
    """The given kubeconfig, else the one that kubectl would use."""
    return Path(given or os.environ.get("KUBECONFIG") or Path.home() / ".kube" / "config").expanduser()
