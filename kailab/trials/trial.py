"""Carry out a trial, or read how it stands.

``CellDigests`` covers everything that a cell's result depends on, so that only changed cells are run again.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import structs

from kailab.cluster.registry import FLAGS
from kailab.evidence.run import digest
from kailab.model.callbacks import Progress, Tell
from kailab.model.files import file_bytes
from kailab.trials import cell_runner
from kailab.trials.baseline import AcceptedBaseline, read_baseline
from kailab.trials.definition import with_named_configurations
from kailab.trials.matrix import Contender, Trial, TrialCell
from kailab.trials.outcome import TrialOutcome
from kailab.trials.store import TrialFolder
from kailab.undertest.selection import read_name
from kailab.version import __version__

_SMALL = 4 * 2**20  # bytes


class CellDigests:
    """Content digests; each file is read once."""

    def __init__(self) -> None:
        self._known: dict[Path, str] = {}

    def of_cell(self, cell: TrialCell) -> dict[str, str]:
        """Digests by path of everything that the cell depends on."""
        fleet = Path(cell.fleet)
        files = [*cell.subject.files, *([str(fleet)] if fleet.is_file() else [])]
        paths = [*files, *_of_contender(cell.contender)]
        return {"kailab": __version__, **{path: self._digest(Path(path)) for path in paths}}

    def _digest(self, path: Path) -> str:
        if path not in self._known:
            stat = path.stat()
            # Large programs are identified by size and modification time.
            small = stat.st_size <= _SMALL
            self._known[path] = digest(file_bytes(path)) if small else f"{stat.st_size} {stat.st_mtime_ns}"
        return self._known[path]


def _of_contender(contender: Contender) -> list[str]:
    named = read_name(contender.scheduler)
    files = [contender.config] if contender.config else []
    for option, value in named.options.items():
        path = Path(str(value))
        if option in FLAGS and path.is_dir():
            files += [str(file) for file in sorted(path.rglob("*")) if file.is_file()]
        elif path.is_file():
            files.append(str(path))
    return list(dict.fromkeys(files))


def run_trial(trial: Trial, folder: TrialFolder, tell: Progress, notice: Tell, *, again: bool = False) -> TrialOutcome:
    """Run the cells that are not done. ``again``: all cells.

    Raises StateError if another process runs the trial, InputError for an invalid baseline, KeyboardInterrupt.
    """
    baseline = baseline_of(trial)
    with folder.locked():
        folder.begin(trial)
        cells = cells_of(trial, folder)
        for cell in cells.values() if again else ():
            folder.cell(cell).forget()
        if any(folder.cell(cell).result is None for cell in cells.values()):
            cell_runner.get_programs(trial, notice)
        jobs = _jobs(trial, notice)
        done = sum(folder.cell(cell).result is not None for cell in cells.values())
        if done:
            notice(f"{done} of {len(cells)} cells are done already (--again runs them again)")
        cell_runner.run_cells(folder, list(cells.values()), jobs, tell)
    return TrialOutcome.of(folder, trial, cells, baseline)


def read_outcome(folder: TrialFolder, baseline: Path | None = None) -> TrialOutcome:
    """The present outcome of a trial. Raises StateError, InputError."""
    trial = folder.trial
    if baseline is not None:
        trial = structs.replace(trial, baseline=str(baseline))
    return TrialOutcome.of(folder, trial, kept_cells(trial, folder), baseline_of(trial))


def cells_of(trial: Trial, folder: TrialFolder) -> dict[tuple[str, str], TrialCell]:
    """Cells by subject and column, in order of start."""
    named = structs.replace(trial, contenders=tuple(with_named_configurations(folder.path, trial.contenders)))
    digests = CellDigests()
    return {
        (subject.name, column): cell
        for subject in named.subjects
        for column, cell in zip(
            (name for name, _, _ in named.columns()), named.cells(subject, digests.of_cell), strict=True
        )
    }


def kept_cells(trial: Trial, folder: TrialFolder) -> dict[tuple[str, str], TrialCell]:
    """Cells in the folder by subject and column. A cell that was never started is made as it would be now."""
    stored: dict[tuple[str, str, str], TrialCell] = {}
    for cell_folder in folder.cells():
        cell = cell_folder.cell
        stored[cell.subject.name, cell.contender.name, cell.isolation] = cell
    return {
        (subject.name, column): stored.get(
            (subject.name, contender.name, isolation),
            TrialCell(contender=contender, isolation=isolation, subject=subject, fleet=trial.fleet or subject.fleet),
        )
        for subject in trial.subjects
        for column, contender, isolation in trial.columns()
    }


def baseline_of(trial: Trial) -> AcceptedBaseline:
    return read_baseline(Path(trial.baseline)) if trial.baseline else AcceptedBaseline()


def _jobs(trial: Trial, notice: Tell) -> int:
    fits = cell_runner.jobs_that_fit(trial.isolations)
    single = cell_runner.only_one(trial.isolations)
    if single and (trial.jobs or 1) > 1:
        notice(f"the cluster of {single} has room for one cell at a time")
        return 1
    if trial.jobs is not None and trial.jobs > fits:
        notice(f"{trial.jobs} cells in parallel exceed this machine's cores and free memory, which suffice for {fits}")
    return trial.jobs or fits
