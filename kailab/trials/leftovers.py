"""What an interrupted trial may have left: processes of its cells, planes in their folders. Found and ended here.

Each process of a cell, and whatever it started, carries the cell's folder in its environment; each plane lies in that folder.
"""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kailab.cluster.controlplane.supervision import MARK
from kailab.cluster.processes import environment, send
from kailab.errors import KailabError, StateError
from kailab.lab.venues.contract import Place
from kailab.lab.venues.opening import provider_of
from kailab.trials.cell import CELL
from kailab.trials.store import CellFolder, TrialFolder

if TYPE_CHECKING:
    import psutil

_SECONDS = 20.0
_PLANES = "kailab-*"


@dataclass(frozen=True)
class Cleaned:
    """``planes``: their folders; ``processes``: how many were ended beside them."""

    planes: tuple[str, ...] = ()
    processes: int = 0

    def __str__(self) -> str:
        if not self.planes and not self.processes:
            return "nothing was left"
        return f"{len(self.planes)} planes taken down, {self.processes} processes ended"


def clean(folder: TrialFolder, *, remove: bool = False) -> Cleaned:
    """End all that the trial left. ``remove``: its results and evidence go, too. Raises StateError where it is being run, or something
    can't be ended."""
    with folder.held():
        # First whoever would bring up another plane.
        ended = _end(folder.path, signal.SIGTERM)
        planes = []
        for place in folder.cells():
            for plane in place.tmp.glob(_PLANES):
                _take_down(place, plane)
                planes.append(str(plane))
        ended += _end(folder.path, signal.SIGKILL)
        for place in folder.cells():
            shutil.rmtree(place.tmp, ignore_errors=True)
        if remove:
            shutil.rmtree(folder.path / "cells", ignore_errors=True)
    if remove:
        shutil.rmtree(folder.path, ignore_errors=True)
    return Cleaned(tuple(planes), ended)


def left(path: Path) -> Iterator[psutil.Process]:
    """Living processes of the cells and of the planes of a trial's folder."""
    import psutil

    below = f"{path.absolute()}/"
    for process in psutil.process_iter():
        told = environment(process)
        if any(told.get(name, "").startswith(below) for name in (CELL, MARK)):
            yield process


def _end(path: Path, number: int) -> int:
    """Those that have ended after a while."""
    found = list(left(path))
    for process in found:
        send(process, number)
    until = time.monotonic() + _SECONDS
    while any(left(path)) and time.monotonic() < until and number == signal.SIGTERM:
        time.sleep(0.2)
    if number == signal.SIGKILL:
        while rest := list(left(path)):
            if time.monotonic() > until:
                raise StateError(f"{path}: processes can't be ended: {', '.join(str(one.pid) for one in rest)}")
            time.sleep(0.1)
    return len(found) if number == signal.SIGKILL else len(found) - sum(1 for _ in left(path))


def _take_down(place: CellFolder, plane: Path) -> None:
    isolation = "controlplane"
    with suppress(KailabError):
        isolation = place.cell.isolation
    provider_of(isolation).take_down(Place(backend=isolation, folder=str(plane)))
