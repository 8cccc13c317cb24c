"""The backend kind: a kind cluster, with KWOK beside it."""

from __future__ import annotations

from pathlib import Path

from kailab.cluster.kind import KindPlane, check_kind, kind_reason, take_down
from kailab.lab.venues.plane import PlaneProvider, Planes


class KindPlanes(Planes):
    plane = KindPlane

    def check(self) -> None:
        check_kind()

    def remove(self, folder: Path) -> None:
        take_down(folder)


class KindProvider(PlaneProvider):
    def __init__(self) -> None:
        super().__init__("kind", KindPlanes())

    def lacking(self) -> str | None:
        return kind_reason()
