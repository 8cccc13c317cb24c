"""Run the cells of a trial in parallel, each in its own process, within this machine's cores and memory.

After an interruption at any moment completed results stay, and a rerun continues from there. Cell processes end with
this one, because each holds the reading end of a pipe from it. An orderly interruption waits until they have cleaned
up.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import psutil

from kailab.cluster.backends import BACKENDS
from kailab.cluster.controlplane.supervision import log_tail
from kailab.cluster.processes import processors
from kailab.components import get_components
from kailab.model.callbacks import Progress
from kailab.model.private_files import open_private
from kailab.trials.cell import CELL
from kailab.trials.matrix import Trial, TrialCell
from kailab.trials.results import CellResult
from kailab.trials.store import CellFolder, TrialFolder
from kailab.undertest.registry import scheduler_class

GIB = 2**30
_EMBEDDED_BYTES = GIB // 2
_LIVE_BYTES = 2 * GIB
"""Memory of a kube-apiserver and the processes beside it with a few hundred pods; measured 1 to 1.5 GiB."""
_LIVE_CORES = 2
_LEFT_FREE = 0.8
"""Part of the memory free at the start that a trial may use."""


def jobs_that_fit(isolations: Iterable[str]) -> int:
    """Number of cells to run in parallel, at least one.

    A backend on an existing cluster and a kind cluster have room for one cell.
    """
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
    """The first isolation whose existing cluster has room for one cell at a time; empty if there is none."""
    return next((name for name in isolations if BACKENDS[name].api_server and not BACKENDS[name].own), "")


def get_programs(trial: Trial, tell: Callable[[str], None]) -> None:
    """Download the control-plane programs before the first cell, so that parallel cells do not each do it.

    Programs of contenders are checked when the trial is defined. Raises KailabError if a download fails.
    """
    planes = [name for name in trial.isolations if "components" in BACKENDS[name].options]
    if not planes:
        return
    folder = trial.options.get("components")
    get_components(trial.options.get("kubernetes"), Path(folder) if folder else None, tell=tell)


POLL_SECONDS = 0.1
GRACE_SECONDS = 60.0
"""Time for taking control planes down on a busy machine."""


def run_cells(folder: TrialFolder, cells: Sequence[TrialCell], jobs: int, tell: Progress) -> None:
    """Run the cells that are not done, and those that could not be run before. Raises KeyboardInterrupt after all
    processes have ended."""
    waiting = [cell for cell in cells if not _is_done(folder.cell(cell))]
    done = len(cells) - len(waiting)
    running: list[_CellProcess] = []
    try:
        while waiting or running:
            tell(_progress_text(running), done, len(cells))
            running_kinds = {process.cell.contender.kind for process in running}
            while len(running) < jobs and (cell := _next(waiting, running_kinds)) is not None:
                running.append(_CellProcess(cell, folder.cell(cell)))
                running_kinds.add(cell.contender.kind)
            time.sleep(POLL_SECONDS)
            for process in [each for each in running if each.ended]:
                running.remove(process)
                process.finish()
                done += 1
        tell("done", done, len(cells))
    finally:
        _end(running)


def _is_done(folder: CellFolder) -> bool:
    result = folder.result
    return not folder.drop_errors() and result is not None


def _next(waiting: list[TrialCell], running_kinds: set[str]) -> TrialCell | None:
    for cell in waiting:
        if cell.contender.kind in running_kinds and scheduler_class(cell.contender.kind).one_per_machine:
            continue
        waiting.remove(cell)
        return cell
    return None


class _CellProcess:
    def __init__(self, cell: TrialCell, folder: CellFolder) -> None:
        self.cell = cell
        self.folder = folder
        folder.begin(cell)
        path = str(folder.path.absolute())
        with open_private(folder.log, "ab") as log:
            # In a new session the cell does not get the terminal's Ctrl-C; this process then ends it with SIGTERM.
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
        """Give a cell without a result an error with the last lines of its log."""
        self._close()
        if self.folder.result is None:
            code = self._process.returncode
            reason = f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
            last_lines = log_tail(self.folder.log)
            error = f"the cell's process {reason}" + (f"; last lines of its log:\n{last_lines}" if last_lines else "")
            self.folder.finish(CellResult(tests=tuple(self.folder.tests()), error=error))

    def terminate(self) -> None:
        if not self.ended:
            self._process.send_signal(signal.SIGTERM)

    def wait_or_kill(self, until: float) -> None:
        """Wait for the process until a time of the monotonic clock, then kill it."""
        try:
            self._process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            # The reapers of its control planes take down what it started.
            self._process.kill()
            self._process.wait()
        self._close()

    def _close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        # A control plane that still runs needs its folder; `kailab trial clean` takes it down.
        if not any(self.folder.tmp.glob("kailab-*")):
            shutil.rmtree(self.folder.tmp, ignore_errors=True)


def _end(running: Sequence[_CellProcess]) -> None:
    for process in running:
        process.terminate()
    deadline = time.monotonic() + GRACE_SECONDS
    for process in running:
        process.wait_or_kill(deadline)


def _progress_text(running: Sequence[_CellProcess]) -> str:
    return ", ".join(
        f"{process.cell.subject.name} on {process.cell.contender.name} ({len(list(Path(process.folder.path).glob('tests/*.json')))})"
        for process in running
    )
