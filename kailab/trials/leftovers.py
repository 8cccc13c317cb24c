"""Find and end what an interrupted trial left: processes of its cells, and control planes in their folders.

Each process of a cell, and everything that it started, has the cell's folder in its environment; each control plane
lies in that folder.
"""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from kailab.cluster.controlplane.supervision import MARK
from kailab.cluster.processes import environment, send_signal
from kailab.errors import KailabError, StateError
from kailab.lab.venues import provider_of
from kailab.lab.venues.contract import Place
from kailab.trials.cell import CELL
from kailab.trials.store import CellFolder, TrialFolder

_SECONDS = 20.0
_PLANES = "kailab-*"


@dataclass(frozen=True)
class LeftoversRemoved:
    """``planes``: folders of control planes taken down; ``processes``: number of other processes ended."""

    planes: tuple[str, ...] = ()
    processes: int = 0

    def __str__(self) -> str:
        if not self.planes and not self.processes:
            return "nothing was left"
        return f"{len(self.planes)} planes taken down, {self.processes} processes ended"


def clean(folder: TrialFolder, *, remove: bool = False) -> LeftoversRemoved:
    """End everything that the trial left. ``remove``: also delete its results and evidence. Raises StateError if the
    trial is running or something cannot be ended."""
    with folder.locked():
        # First end processes that could start another control plane.
        ended = _end(folder.path, signal.SIGTERM)
        planes = []
        for cell_folder in folder.cells():
            for plane in cell_folder.tmp.glob(_PLANES):
                _take_down(cell_folder, plane)
                planes.append(str(plane))
        ended += _end(folder.path, signal.SIGKILL)
        for cell_folder in folder.cells():
            shutil.rmtree(cell_folder.tmp, ignore_errors=True)
        if remove:
            shutil.rmtree(folder.path / "cells", ignore_errors=True)
    if remove:
        shutil.rmtree(folder.path, ignore_errors=True)
    return LeftoversRemoved(tuple(planes), ended)


def living_processes(path: Path) -> Iterator[psutil.Process]:
    """Processes of the trial's cells and control planes that are still alive."""
    prefix = f"{path.absolute()}/"
    for process in psutil.process_iter():
        variables = environment(process)
        if any(variables.get(name, "").startswith(prefix) for name in (CELL, MARK)):
            yield process


def _end(path: Path, number: int) -> int:
    """Send the signal and return the number of processes that ended within a while."""
    processes = list(living_processes(path))
    for process in processes:
        send_signal(process, number)
    deadline = time.monotonic() + _SECONDS
    while any(living_processes(path)) and time.monotonic() < deadline and number == signal.SIGTERM:
        time.sleep(0.2)
    if number == signal.SIGKILL:
        while remaining := list(living_processes(path)):
            if time.monotonic() > deadline:
                raise StateError(
                    f"{path}: cannot end processes: {', '.join(str(process.pid) for process in remaining)}"
                )
            time.sleep(0.1)
    return len(processes) if number == signal.SIGKILL else len(processes) - sum(1 for _ in living_processes(path))


def _take_down(cell_folder: CellFolder, plane: Path) -> None:
    isolation = "controlplane"
    with suppress(KailabError):
        isolation = cell_folder.cell.isolation
    provider_of(isolation).take_down(Place(backend=isolation, folder=str(plane)))
