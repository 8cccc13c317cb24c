"""A trial's folder. Every file is written atomically.

trial.json              the trial
lock                    held while it runs
contenders.yaml         names of contenders with a configuration
cells/KEY/cell.json     a cell
cells/KEY/tests/*.json  results of its tests, each written when it ends
cells/KEY/result.json   the cell is done
cells/KEY/evidence/     evidence of its labs
cells/KEY/log           output of its process
cells/KEY/tmp/          control planes that it started

Each cell has the folder of its key.
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from kailab.errors import StateError, os_errors_as
from kailab.evidence.canonical import pretty_json, safe_name
from kailab.model import decoding
from kailab.model.private_files import make_folder, open_private, replace_file
from kailab.trials.matrix import Trial, TrialCell
from kailab.trials.results import CellResult, TestResult

ROOT = Path("trials")
TRIAL = "trial.json"
_CURE = "`kailab trial clean` removes the trial"


class CellFolder:
    """One cell on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.evidence = path / "evidence"
        self.log = path / "log"
        self.tmp = path / "tmp"

    def begin(self, cell: TrialCell) -> None:
        """Prepare the folder; results of an interrupted run stay."""
        make_folder(self.path / "tests")
        make_folder(self.tmp)
        _write(self.path / "cell.json", cell)

    @property
    def cell(self) -> TrialCell:
        return decoding.read_state_file(self.path / "cell.json", TrialCell, _CURE)

    def tests(self) -> dict[str, TestResult]:
        """Results of completed tests by name."""
        results = (
            decoding.read_state_file(file, TestResult, _CURE)
            for file in sorted((self.path / "tests").glob("[!.]*.json"))
        )
        return {result.name: result for result in results}

    def keep(self, test: TestResult) -> None:
        _write(self._file(test.name), test)

    def _file(self, test: str) -> Path:
        return self.path / "tests" / f"{safe_name(test)}.json"

    @property
    def result(self) -> CellResult | None:
        """None while the cell is not done."""
        file = self.path / "result.json"
        return decoding.read_state_file(file, CellResult, _CURE) if file.exists() else None

    def finish(self, result: CellResult) -> None:
        _write(self.path / "result.json", result)

    def drop_errors(self) -> bool:
        """Delete results of tests that could not be run, and an error of the cell, so that they are tried again.
        Returns True if there were any."""
        unable = [test for test in self.tests().values() if test.verdict == "error"]
        result = self.result
        tried_again = bool(unable) or (result is not None and bool(result.error))
        # Delete the result first: if the process is killed in between, the cell must not count as done.
        if tried_again:
            (self.path / "result.json").unlink(missing_ok=True)
        for test in unable:
            self._file(test.name).unlink()
        return tried_again

    def forget(self) -> None:
        """Delete the cell, so that it runs from the beginning."""
        shutil.rmtree(self.path, ignore_errors=True)


class TrialFolder:
    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self, trial: Trial) -> None:
        with os_errors_as(StateError, f"{self.path}: cannot create the trial's folder"):
            make_folder(self.path / "cells")
            _write(self.path / TRIAL, trial)

    @property
    def trial(self) -> Trial:
        """Raises StateError if there is none."""
        if not (self.path / TRIAL).is_file():
            raise StateError(f"{self.path}: no trial in this folder")
        return decoding.read_state_file(self.path / TRIAL, Trial, _CURE)

    def cell(self, cell: TrialCell) -> CellFolder:
        return CellFolder(self.path / "cells" / cell.key)

    def cells(self) -> Iterator[CellFolder]:
        """All cells ever started, including those of an earlier form of the trial; the latest last."""
        files = (self.path / "cells").glob("*/cell.json")
        for file in sorted(files, key=lambda path: (path.stat().st_mtime, path)):
            yield CellFolder(file.parent)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the trial. Raises StateError if another process holds it."""
        make_folder(self.path)
        with open_private(self.path / "lock", "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise StateError(f"{self.path}: this trial is being run by another process") from None
            yield


def trials_in(root: Path) -> list[TrialFolder]:
    """Trials directly below a folder, the latest last."""
    folders = [TrialFolder(file.parent) for file in root.glob(f"*/{TRIAL}")]
    return sorted(folders, key=lambda folder: ((folder.path / TRIAL).stat().st_mtime, folder.path))


def find_trial(name: str, root: Path = ROOT) -> TrialFolder:
    """Find a trial by name below ``root`` or by path; empty: the latest. Raises StateError."""
    if name:
        for path in (root / name, Path(name)):
            if (path / TRIAL).is_file():
                return TrialFolder(path)
    known = trials_in(root)
    if name or not known:
        names = ", ".join(folder.path.name for folder in known) or "none"
        raise StateError(f"{name or root}: no such trial; trials below {root}: {names}")
    return known[-1]


def _write(path: Path, value: msgspec.Struct) -> None:
    replace_file(path, pretty_json(value))
