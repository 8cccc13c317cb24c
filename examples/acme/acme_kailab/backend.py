"""A backend: the embedded cluster, whose API server refuses every third binding at first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kailab.cluster.backends import Backend
from kailab.cluster.embedded import EmbeddedCluster
from kailab.errors import Conflict
from kailab.lab.venues import Place, Request
from kailab.lab.venues.embedded import EmbeddedProvider, EmbeddedVenue

FLAKY = Backend(
    "the embedded cluster, which refuses every third binding at first",
    provider="acme_kailab.backend:FlakyProvider",
    api_server=False,
)


class FlakyCluster(EmbeddedCluster):
    bindings = 0

    def bind(
        self, namespace: str, pod: str, node: str, annotations: Mapping[str, str] | None = None, uid: str = ""
    ) -> None:
        self.bindings += 1
        if self.bindings % 3 == 0:
            raise Conflict(f"Pod {pod!r} in namespace {namespace}: try again")
        super().bind(namespace, pod, node, annotations, uid)


class FlakyVenue(EmbeddedVenue):
    backend = "flaky"


class FlakyProvider(EmbeddedProvider):
    def open(self, request: Request) -> EmbeddedVenue:
        return FlakyVenue(FlakyCluster())

    def attach(self, place: Place, state: Mapping[str, Any], read_only: bool) -> EmbeddedVenue:
        return FlakyVenue(FlakyCluster.restore(state, read_only=read_only))
