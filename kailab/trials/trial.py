"""A trial carried out, or looked at: from what was asked for to how it came out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import structs

from kailab.trials import limits, programs, running
from kailab.trials.baseline import Baseline, read_baseline
from kailab.trials.contenders import in_words
from kailab.trials.digests import Digests
from kailab.trials.matrix import Cell, Trial
from kailab.trials.outcome import Outcome
from kailab.trials.running import Tell
from kailab.trials.store import TrialFolder

Notice = Callable[[str], None]


def carry_out(trial: Trial, folder: TrialFolder, tell: Tell, notice: Notice, *, again: bool = False) -> Outcome:
    """Run what is not there yet. ``again``: all of it. Raises StateError where another process runs it, InputError for a baseline that
    can't be read, KeyboardInterrupt."""
    baseline = baseline_of(trial)
    with folder.held():
        folder.begin(trial)
        cells = cells_of(trial, folder)
        for cell in cells.values() if again else ():
            folder.cell(cell).forget()
        if any(folder.cell(cell).result is None for cell in cells.values()):
            programs.get(trial, notice)
        jobs = _jobs(trial, notice)
        done = sum(folder.cell(cell).result is not None for cell in cells.values())
        if done:
            notice(f"{done} of {len(cells)} cells are there already (--again runs them anew)")
        running.run(folder, list(cells.values()), jobs, tell)
    return Outcome.of(folder, trial, cells, baseline)


def look(folder: TrialFolder, baseline: Path | None = None) -> Outcome:
    """How it stands. Raises StateError, InputError."""
    trial = folder.trial
    if baseline is not None:
        trial = structs.replace(trial, baseline=str(baseline))
    return Outcome.of(folder, trial, kept_cells(trial, folder), baseline_of(trial))


def cells_of(trial: Trial, folder: TrialFolder) -> dict[tuple[str, str], Cell]:
    """By subject and column, in the order in which they are begun."""
    spoken = structs.replace(trial, contenders=tuple(in_words(folder.path, trial.contenders)))
    digests = Digests()
    return {
        (subject.name, column): cell
        for subject in spoken.subjects
        for column, cell in zip(
            (name for name, _, _ in spoken.columns()), spoken.cells(subject, digests.of_cell), strict=True
        )
    }


def kept_cells(trial: Trial, folder: TrialFolder) -> dict[tuple[str, str], Cell]:
    """Those in the folder, by what they are of; one that was never begun as it would be now."""
    kept: dict[tuple[str, str, str], Cell] = {}
    for place in folder.cells():
        cell = place.cell
        kept[cell.subject.name, cell.contender.name, cell.isolation] = cell
    return {
        (subject.name, column): kept.get(
            (subject.name, contender.name, isolation),
            Cell(contender=contender, isolation=isolation, subject=subject, fleet=trial.fleet),
        )
        for subject in trial.subjects
        for column, contender, isolation in trial.columns()
    }


def baseline_of(trial: Trial) -> Baseline:
    return read_baseline(Path(trial.baseline)) if trial.baseline else Baseline()


def _jobs(trial: Trial, notice: Notice) -> int:
    fits = limits.jobs_that_fit(trial.isolations)
    one = limits.only_one(trial.isolations)
    if one and (trial.jobs or 1) > 1:
        notice(f"the cluster of {one} has room for one cell at a time")
        return 1
    if trial.jobs is not None and trial.jobs > fits:
        notice(f"{trial.jobs} cells side by side are more than fit this machine's cores and free memory ({fits})")
    return trial.jobs or fits
