"""Digests of what a cell's result hangs on, so that what changed is run again and what did not is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import structs

from kailab import __version__
from kailab.cluster.registry import FLAGS
from kailab.evidence.run import digest
from kailab.model.files import file_bytes
from kailab.trials import cell_runner
from kailab.trials.baseline import AcceptedBaseline, read_baseline
from kailab.trials.cell_runner import Tell
from kailab.trials.definition import with_named_configurations
from kailab.trials.matrix import Contender, Trial, TrialCell
from kailab.trials.outcome import TrialOutcome
from kailab.trials.store import TrialFolder
from kailab.undertest.selection import read_name

_SMALL = 4 * 2**20  # bytes


class CellDigests:
    """Each file is read once."""

    def __init__(self) -> None:
        self._known: dict[Path, str] = {}

    def of_cell(self, cell: TrialCell) -> dict[str, str]:
        """By path, of all that the cell stands on."""
        fleet = Path(cell.fleet)
        files = [*cell.subject.files, *([str(fleet)] if fleet.is_file() else [])]
        return {"kailab": __version__, **self._of([*files, *_of_contender(cell.contender)])}

    def _of(self, paths: list[str]) -> dict[str, str]:
        return {path: self._one(Path(path)) for path in paths}

    def _one(self, path: Path) -> str:
        if path not in self._known:
            stat = path.stat()
            # A program of a hundred megabytes is told by its size and time.
            small = stat.st_size <= _SMALL
            self._known[path] = digest(file_bytes(path)) if small else f"{stat.st_size} {stat.st_mtime_ns}"
        return self._known[path]


def _of_contender(contender: Contender) -> list[str]:
    named = read_name(contender.scheduler)
    found = [contender.config] if contender.config else []
    for option, value in named.options.items():
        path = Path(str(value))
        if option in FLAGS and path.is_dir():
            found += [str(file) for file in sorted(path.rglob("*")) if file.is_file()]
        elif path.is_file():
            found.append(str(path))
    return list(dict.fromkeys(found))


# A trial carried out, or looked at: from what was asked for to how it came out.

Notice = Callable[[str], None]


def carry_out(trial: Trial, folder: TrialFolder, tell: Tell, notice: Notice, *, again: bool = False) -> TrialOutcome:
    """Run what is not there yet. ``again``: all of it. Raises StateError where another process runs it, InputError for a baseline that
    can't be read, KeyboardInterrupt."""
    baseline = baseline_of(trial)
    with folder.held():
        folder.begin(trial)
        cells = cells_of(trial, folder)
        for cell in cells.values() if again else ():
            folder.cell(cell).forget()
        if any(folder.cell(cell).result is None for cell in cells.values()):
            cell_runner.get_programs(trial, notice)
        jobs = _jobs(trial, notice)
        done = sum(folder.cell(cell).result is not None for cell in cells.values())
        if done:
            notice(f"{done} of {len(cells)} cells are there already (--again runs them anew)")
        cell_runner.run_cells(folder, list(cells.values()), jobs, tell)
    return TrialOutcome.of(folder, trial, cells, baseline)


def read_outcome(folder: TrialFolder, baseline: Path | None = None) -> TrialOutcome:
    """How it stands. Raises StateError, InputError."""
    trial = folder.trial
    if baseline is not None:
        trial = structs.replace(trial, baseline=str(baseline))
    return TrialOutcome.of(folder, trial, kept_cells(trial, folder), baseline_of(trial))


def cells_of(trial: Trial, folder: TrialFolder) -> dict[tuple[str, str], TrialCell]:
    """By subject and column, in the order in which they are begun."""
    spoken = structs.replace(trial, contenders=tuple(with_named_configurations(folder.path, trial.contenders)))
    digests = CellDigests()
    return {
        (subject.name, column): cell
        for subject in spoken.subjects
        for column, cell in zip(
            (name for name, _, _ in spoken.columns()), spoken.cells(subject, digests.of_cell), strict=True
        )
    }


def kept_cells(trial: Trial, folder: TrialFolder) -> dict[tuple[str, str], TrialCell]:
    """Those in the folder, by what they are of; one that was never begun as it would be now."""
    kept: dict[tuple[str, str, str], TrialCell] = {}
    for place in folder.cells():
        cell = place.cell
        kept[cell.subject.name, cell.contender.name, cell.isolation] = cell
    return {
        (subject.name, column): kept.get(
            (subject.name, contender.name, isolation),
            TrialCell(contender=contender, isolation=isolation, subject=subject, fleet=trial.fleet),
        )
        for subject in trial.subjects
        for column, contender, isolation in trial.columns()
    }


def baseline_of(trial: Trial) -> AcceptedBaseline:
    return read_baseline(Path(trial.baseline)) if trial.baseline else AcceptedBaseline()


def _jobs(trial: Trial, notice: Notice) -> int:
    fits = cell_runner.jobs_that_fit(trial.isolations)
    one = cell_runner.only_one(trial.isolations)
    if one and (trial.jobs or 1) > 1:
        notice(f"the cluster of {one} has room for one cell at a time")
        return 1
    if trial.jobs is not None and trial.jobs > fits:
        notice(f"{trial.jobs} cells side by side are more than fit this machine's cores and free memory ({fits})")
    return trial.jobs or fits
