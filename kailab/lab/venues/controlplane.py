"""The backend controlplane: a kube-apiserver, etcd, the controllers and KWOK as plain processes."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from kailab.cluster.controlplane import ControlPlane, take_down
from kailab.lab.venues.contract import Tell
from kailab.lab.venues.plane import PlaneProvider

if TYPE_CHECKING:
    from kailab.components import ComponentSet


class ControlPlanes:
    def check(self) -> None:
        """Nothing but the programs is needed."""

    def up(self, folder: Path, programs: ComponentSet, tell: Tell) -> ControlPlane:
        return ControlPlane.up(folder, programs, tell=tell)

    def attach(self, folder: Path) -> ControlPlane:
        return ControlPlane.attach(folder)

    def remove(self, folder: Path) -> None:
        take_down(folder)

    def check_nodes(self, plane: ControlPlane, names: Collection[str]) -> None:
        """All names are allowed."""


class ControlPlaneProvider(PlaneProvider):
    def __init__(self) -> None:
        super().__init__("controlplane", ControlPlanes())
