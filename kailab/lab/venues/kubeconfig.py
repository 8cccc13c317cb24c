"""The backend kubeconfig: any cluster that a kubeconfig names. Whoever decides there decides; kailab's own scheduler runs in the
process of a lab, or there with ``kailab scheduler run``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kailab.cluster.kubernetes import Connection
from kailab.lab.venues.contract import Place, Request
from kailab.lab.venues.kubernetes import KubernetesVenue, new_mark

BACKEND = "kubeconfig"


class KubeconfigProvider:
    def lacking(self) -> str | None:
        return None

    def completed(self, options: Mapping[str, Any]) -> dict[str, Any]:
        return {**options, "kubeconfig": kubeconfig_of(options.get("kubeconfig"))}

    def open(self, request: Request) -> KubernetesVenue:
        path, context = kubeconfig_of(request.options.get("kubeconfig")), request.options.get("context")
        place = Place(backend=BACKEND, kubeconfig=str(path.absolute()), context=context, mark=new_mark())
        return KubernetesVenue(place, Connection.from_kubeconfig(path, context))

    def attach(self, place: Place, state: Mapping[str, Any], read_only: bool) -> KubernetesVenue:
        # Whoever decides there is another process: a command that attaches must not decide beside it.
        return KubernetesVenue(place, Connection.from_kubeconfig(place.kubeconfig, place.context), detached=True)

    def take_down(self, place: Place) -> None:
        venue = KubernetesVenue(place, Connection.from_kubeconfig(place.kubeconfig, place.context))
        try:
            venue.vacate()
        finally:
            venue.leave()


def kubeconfig_of(given: str | Path | None) -> Path:
    """The kubeconfig that is meant: the one given, else as kubectl finds it."""
    return Path(given or os.environ.get("KUBECONFIG") or Path.home() / ".kube" / "config").expanduser()
