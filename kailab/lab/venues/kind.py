"""The backend kind: a kind cluster, with KWOK beside it."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kailab.cluster.kind import KindPlane, check_kind, kind_reason, take_down
from kailab.lab.venues.contract import Tell
from kailab.lab.venues.plane import PlaneProvider

if TYPE_CHECKING:
    from kailab.cluster.controlplane import ControlPlane
    from kailab.components import ComponentSet


class KindPlanes:
    def check(self) -> None:
        check_kind()

    def up(self, folder: Path, programs: ComponentSet, tell: Tell) -> Any:
        return KindPlane.up(folder, components=programs, tell=tell)

    def attach(self, folder: Path) -> Any:
        return KindPlane.attach(folder)

    def remove(self, folder: Path) -> None:
        take_down(folder)

    def check_nodes(self, plane: ControlPlane, names: Collection[str]) -> None:
        """All names are allowed."""


class KindProvider(PlaneProvider):
    def __init__(self) -> None:
        super().__init__("kind", KindPlanes())

    def lacking(self) -> str | None:
        return kind_reason()
