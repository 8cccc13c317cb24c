"""The process of one cell: ``python -m kailab.trials.cell FOLDER``.

It ends when its parent ends, because its standard input is a pipe that only the parent holds. It then takes down what
it started; if it is killed, the reapers of its control planes do that.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

from kailab.cluster.registry import FLAGS
from kailab.errors import KailabError
from kailab.trials.matrix import TrialCell
from kailab.trials.results import CellResult
from kailab.trials.store import CellFolder

CELL = "KAILAB_TRIAL_CELL"
"""Environment variable with the cell's folder, for this process and all that it starts."""
_INTERRUPTED = 130


def main(path: str) -> int:
    folder = CellFolder(Path(path))
    signal.signal(signal.SIGTERM, _end)
    # Duplicate the descriptor: pytest replaces standard input, and a process that was stopped and continued would
    # read again.
    threading.Thread(target=_end_with_parent, args=(os.dup(0),), daemon=True).start()
    cell = folder.cell
    try:
        if cell.subject.kind == "exercise":
            return _exercise(folder, cell)
        from kailab.trials import scenario_cell

        scenario_cell.run_scenarios(folder, cell)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except KailabError as error:
        folder.finish(CellResult(tests=tuple(folder.tests()), error=str(error)))
        return error.exit_code
    return 0


def _end(number: int, frame: FrameType | None) -> None:
    # A second signal must not interrupt the clean-up.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def _end_with_parent(pipe: int) -> None:
    while os.read(pipe, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _exercise(folder: CellFolder, cell: TrialCell) -> int:
    import pytest

    options = [f"--kailab-{FLAGS[name].removeprefix('--')}={value}" for name, value in cell.options.items()]
    arguments = [
        cell.subject.path,
        f"--kailab-scheduler={cell.contender.scheduler}",
        f"--kailab-backend={cell.isolation}",
        f"--kailab-fleet={cell.fleet}",
        f"--kailab-evidence={folder.evidence}",
        "--kailab-required",
        "-p", "kailab.pytest_plugin.trial_cell",
        "-p", "no:cacheprovider",
        # The trial controls parallelism, so turn off pytest-xdist.
        *(["-n", "0"] if find_spec("xdist") else []),
        "-q",
        *options,
    ]  # fmt: skip
    code = int(pytest.main(arguments))
    if folder.result is None and code != pytest.ExitCode.INTERRUPTED:
        reason = (
            "no tests found" if code == pytest.ExitCode.NO_TESTS_COLLECTED else f"pytest ended with exit code {code}"
        )
        folder.finish(CellResult(tests=tuple(folder.tests()), error=f"{cell.subject.path}: {reason}; see {folder.log}"))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
