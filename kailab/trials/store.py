"""A trial's folder: what it is, and its cells with what they came to. Every file appears whole or not at all.

trial.json              what was asked for
lock                    held while it runs
contenders.yaml         names for contenders with a configuration of their own
cells/KEY/cell.json     one cell
cells/KEY/tests/*.json  what its tests came to, each written as it ends
cells/KEY/result.json   the cell is done
cells/KEY/evidence/     the evidence of its labs
cells/KEY/log           what its process said
cells/KEY/tmp/          planes that it brought up
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from kailab.errors import StateError
from kailab.evidence.canonical import pretty_json, safe_name
from kailab.model import decoding
from kailab.model.private_files import make_folder, open_file, replace_file
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
        """What is there of an earlier, interrupted run stays."""
        make_folder(self.path / "tests")
        make_folder(self.tmp)
        _write(self.path / "cell.json", cell)

    @property
    def cell(self) -> TrialCell:
        return decoding.read_state_file(self.path / "cell.json", TrialCell, _CURE)

    def tests(self) -> dict[str, TestResult]:
        """Those that have ended, by name."""
        found = (
            decoding.read_state_file(file, TestResult, _CURE)
            for file in sorted((self.path / "tests").glob("[!.]*.json"))
        )
        return {one.name: one for one in found}

    def keep(self, test: TestResult) -> None:
        _write(self._file(test.name), test)

    def _file(self, test: str) -> Path:
        return self.path / "tests" / f"{safe_name(test)}.json"

    @property
    def result(self) -> CellResult | None:
        """None: it is not done."""
        file = self.path / "result.json"
        return decoding.read_state_file(file, CellResult, _CURE) if file.exists() else None

    def finish(self, result: CellResult) -> None:
        _write(self.path / "result.json", result)

    def drop_errors(self) -> bool:
        """Forget the tests that could not be run, so that they are tried again, and that the cell came to no end; all others stay. Whether
        there was anything of it."""
        unable = [test for test in self.tests().values() if test.verdict == "error"]
        result = self.result
        tried_again = bool(unable) or (result is not None and bool(result.error))
        # First: killed between the two, it would be done without its tests.
        if tried_again:
            (self.path / "result.json").unlink(missing_ok=True)
        for test in unable:
            self._file(test.name).unlink()
        return tried_again

    def forget(self) -> None:
        """It is to be run again, from the beginning."""
        shutil.rmtree(self.path, ignore_errors=True)


class TrialFolder:
    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self, trial: Trial) -> None:
        try:
            make_folder(self.path / "cells")
            _write(self.path / TRIAL, trial)
        except OSError as error:
            raise StateError(f"{self.path}: a trial can't be kept there: {error.strerror or error}") from error

    @property
    def trial(self) -> Trial:
        """Raises StateError where there is none."""
        if not (self.path / TRIAL).is_file():
            raise StateError(f"{self.path}: no trial is there")
        return decoding.read_state_file(self.path / TRIAL, Trial, _CURE)

    def cell(self, cell: TrialCell) -> CellFolder:
        return CellFolder(self.path / "cells" / cell.key)

    def cells(self) -> Iterator[CellFolder]:
        """All that were begun, also those of another form that the trial had before; the last begun at the end."""
        found = (self.path / "cells").glob("*/cell.json")
        for file in sorted(found, key=lambda one: (one.stat().st_mtime, one)):
            yield CellFolder(file.parent)

    @contextmanager
    def held(self) -> Iterator[None]:
        """For whoever runs it or cleans up after it. Raises StateError where another process has it."""
        make_folder(self.path)
        with open_file(self.path / "lock", "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise StateError(f"{self.path}: this trial is being run by another process") from None
            yield


def trials_in(root: Path) -> list[TrialFolder]:
    """Those kept directly below a folder, the one that was begun last at the end."""
    found = [TrialFolder(file.parent) for file in root.glob(f"*/{TRIAL}")]
    return sorted(found, key=lambda one: ((one.path / TRIAL).stat().st_mtime, one.path))


def find_trial(name: str, root: Path = ROOT) -> TrialFolder:
    """By name below ``root``, or by path; empty: the one that was begun last. Raises StateError."""
    if name:
        for path in (root / name, Path(name)):
            if (path / TRIAL).is_file():
                return TrialFolder(path)
    known = trials_in(root)
    if name or not known:
        there = ", ".join(one.path.name for one in known) or "none"
        raise StateError(f"{name or root}: no trial is there; below {root} there are: {there}")
    return known[-1]


def _write(path: Path, value: msgspec.Struct) -> None:
    replace_file(path, pretty_json(value))
