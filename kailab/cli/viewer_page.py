"""The viewer's page of what the command line names: runs of evidence, a trial, the lab that is up, or a snapshot."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import NamedTuple

from kailab.errors import InputError
from kailab.report import page


class Written(NamedTuple):
    """``what`` the page is of; its ``size`` in bytes."""

    what: str
    size: int


def write(file: Path, run: str, against: str | None, state: Path | None, evidence: Path) -> Written:
    """``state``: of a lab, which counts instead of a run. Raises InputError, StateError, EvidenceError."""
    # Before anything is captured or opened: a mistake in the name is told at once.
    page.check(file)
    if state is not None:
        return _of_lab(file, state)
    if Path(run).is_file():
        if against is not None:
            raise InputError("--against compares two runs; a snapshot is none")
        return _of_snapshot(file, Path(run))
    if is_trial(Path(run)):
        if against is not None:
            raise InputError("--against compares two runs; a trial has all its contenders side by side")
        return _of_trial(file, Path(run))
    from kailab.evidence import store

    runs = [store.find(evidence, one) for one in (run, against) if one is not None]
    if len(runs) == 2 and runs[0].resolve() == runs[1].resolve():
        raise InputError(f"--against {against}: is the run itself; expected another one")
    return Written(" and ".join(f"run {one.name}" for one in runs), page.write(runs, file))


def is_trial(path: Path) -> bool:
    """Whether a folder is that of a trial."""
    from kailab.trials.store import TRIAL

    return (path / TRIAL).is_file()


def _of_trial(file: Path, path: Path) -> Written:
    from kailab.trials import travelling
    from kailab.trials.store import TrialFolder
    from kailab.trials.trial import look

    outcome = look(TrialFolder(path))
    return Written(f"trial {outcome.trial.name}", travelling.write(outcome, file))


def _of_lab(file: Path, state: Path) -> Written:
    from kailab.cli import labfile
    from kailab.evidence.journal import Journal
    from kailab.lab import Lab
    from kailab.lab.capture import capture

    with tempfile.TemporaryDirectory() as folder:
        with labfile.locked(state), Lab.resume(state, read_only=True) as lab:
            run = capture(lab, Journal(state), Path(folder))
        return Written(f"the lab of {state}", page.write([run], file, "lab", f"Lab {state.name}"))


def _of_snapshot(file: Path, path: Path) -> Written:
    """Its first moment is the snapshot as the engine reads it; those after it are what kailab's scheduler decides from there."""
    from kailab.evidence.record import write_test
    from kailab.evidence.recorder import Recorder
    from kailab.evidence.run import RunFolder
    from kailab.lab.snapshots import opening

    found = opening.read(path)
    recorder = Recorder()
    with opening.lab_of(found.snapshot, [recorder]) as lab:
        lab.settle()
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder.begin(folder)
        run.write("snapshot", path.stem, lambda at: write_test(at, f"snapshot/{path.name}", [recorder], "opened"))
        run.finish()
        return Written(f"{found.what} of {path}", page.write([run.path], file, "snapshot", f"Snapshot {path.name}"))
