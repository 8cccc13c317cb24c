"""How grouping reads other objects: by apiVersion and kind, answering None rather than raising."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from kailab.cluster.protocol import Object


class Reader(Protocol):
    """Reads the objects a pod's grouping depends on. What it returns is read-only."""

    def get(self, api_version: str, kind: str, namespace: str | None, name: str) -> Object | None:
        """The object, or None when there is none."""

    def list(
        self, api_version: str, kind: str, namespace: str, labels: Mapping[str, str] | None = None
    ) -> list[Object]: ...
