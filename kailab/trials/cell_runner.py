"""How many cells go side by side on this machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from kailab.cluster.backends import BACKENDS
from kailab.cluster.controlplane.supervision import log_tail
from kailab.cluster.processes import processors
from kailab.model.private_files import open_file
from kailab.trials.cell import CELL
from kailab.trials.matrix import Trial, TrialCell
from kailab.trials.results import CellResult
from kailab.trials.store import CellFolder, TrialFolder

GIB = 2**30
_EMBEDDED_BYTES = GIB // 2
_LIVE_BYTES = 2 * GIB
"""A kube-apiserver and what runs beside it, with a few hundred pods; measured 1 to 1.5 GiB."""
_LIVE_CORES = 2
_LEFT_FREE = 0.8
"""Of the memory that is free when a trial begins, as much may be taken."""


def jobs_that_fit(isolations: Iterable[str]) -> int:
    """At least one. A backend whose cluster is somebody else's, or a kind cluster, has room for one cell at a time."""
    import psutil

    cores = processors()
    free = psutil.virtual_memory().available * _LEFT_FREE
    most = []
    for name in isolations:
        backend = BACKENDS[name]
        if backend.api_server and (not backend.own or backend.real_nodes):
            most.append(1)
        elif backend.api_server:
            most.append(min(cores // _LIVE_CORES, int(free // _LIVE_BYTES)))
        else:
            most.append(min(cores, int(free // _EMBEDDED_BYTES)))
    return max(1, min(most))


def only_one(isolations: Iterable[str]) -> str:
    """The isolation with room for one cell at a time, whatever is asked for; empty: there is none."""
    return next((name for name in isolations if BACKENDS[name].api_server and not BACKENDS[name].own), "")


# The programs that a trial's cells need, got before the first of them begins: cells side by side would build them each for itself.


def get_programs(trial: Trial, tell: Callable[[str], None]) -> None:
    """Of the control planes. (A contender whose own programs are not here was refused, with the command that gets them.) Raises
    KailabError where they can't be got."""
    planes = [name for name in trial.isolations if "components" in BACKENDS[name].options]
    if not planes:
        return
    from kailab.components import get_components

    folder = trial.options.get("components")
    get_components(trial.options.get("kubernetes"), Path(folder) if folder else None, tell=tell)


# Runs the cells of a trial, several side by side, each in a process of its own.
#
# Interrupted at any moment it leaves what has ended as it is, and a rerun goes on from there. The processes end with this one: each
# holds the reading end of a pipe from it. An orderly interruption waits until they have taken down what they brought up.

POLL_SECONDS = 0.1
GRACE_SECONDS = 60.0
"""To take planes down, on a busy machine."""

Tell = Callable[[str, int, int], None]
"""(what, done, total), in cells."""


def run_cells(folder: TrialFolder, cells: Sequence[TrialCell], jobs: int, tell: Tell) -> None:
    """Those that are not done yet; one that could not be run is tried again. Raises KeyboardInterrupt, with all processes ended."""
    waiting = [cell for cell in cells if not _is_done(folder.cell(cell))]
    done = len(cells) - len(waiting)
    running: list[_Running] = []
    try:
        while waiting or running:
            tell(_told(running), done, len(cells))
            alone = {one.cell.contender.kind for one in running}
            while len(running) < jobs and (cell := _next(waiting, alone)) is not None:
                running.append(_Running(cell, folder.cell(cell)))
                alone.add(cell.contender.kind)
            time.sleep(POLL_SECONDS)
            for one in [one for one in running if one.ended]:
                running.remove(one)
                one.finish()
                done += 1
        tell("done", done, len(cells))
    finally:
        _end(running)


def _is_done(folder: CellFolder) -> bool:
    result = folder.result
    return not folder.drop_errors() and result is not None


def _next(waiting: list[TrialCell], running_kinds: set[str]) -> TrialCell | None:
    from kailab.undertest.registry import scheduler_class

    for cell in waiting:
        if cell.contender.kind in running_kinds and scheduler_class(cell.contender.kind).one_per_machine:
            continue
        waiting.remove(cell)
        return cell
    return None


class _Running:
    """A cell's process."""

    def __init__(self, cell: TrialCell, folder: CellFolder) -> None:
        self.cell = cell
        self.folder = folder
        folder.begin(cell)
        path = str(folder.path.absolute())
        with open_file(folder.log, "ab") as log:
            # A terminal's Ctrl-C is for this process alone: the cell is told in order.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "kailab.trials.cell", path],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, CELL: path, "TMPDIR": str(folder.tmp.absolute()), "PYTHONUNBUFFERED": "1"},
            )

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def finish(self) -> None:
        """One that left no result says why with its last words."""
        self._close()
        if self.folder.result is None:
            code = self._process.returncode
            why = f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
            words = log_tail(self.folder.log)
            error = f"the cell's process {why}" + (f"; its last words:\n{words}" if words else "")
            self.folder.finish(CellResult(tests=tuple(self.folder.tests()), error=error))

    def ask(self) -> None:
        if not self.ended:
            self._process.send_signal(signal.SIGTERM)

    def end(self, until: float) -> None:
        try:
            self._process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            # What it brought up is taken down by the planes' reapers then.
            self._process.kill()
            self._process.wait()
        self._close()

    def _close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        # Whatever is left there belongs to a plane that `kailab trial clean` finds.
        if not any(self.folder.tmp.glob("kailab-*")):
            shutil.rmtree(self.folder.tmp, ignore_errors=True)


def _end(running: Sequence[_Running]) -> None:
    for one in running:
        one.ask()
    until = time.monotonic() + GRACE_SECONDS
    for one in running:
        one.end(until)


def _told(running: Sequence[_Running]) -> str:
    return ", ".join(
        f"{one.cell.subject.name} on {one.cell.contender.name} ({len(list(Path(one.folder.path).glob('tests/*.json')))})"
        for one in running
    )
