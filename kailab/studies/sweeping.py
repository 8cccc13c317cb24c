"""A study from begin to end: what is done already is passed over, the rest is done, and all of it becomes one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kailab.cluster.processes import processors
from kailab.errors import InputError
from kailab.studies.daskcluster import check_dask, run_on_dask
from kailab.studies.keeping import TABLE, StudyFolder, write_table
from kailab.studies.measuring import Result
from kailab.studies.planning import plan_of
from kailab.studies.processes import run_here
from kailab.studies.study import Run, Study

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True)
class Swept:
    """``results``: by the key of their run. ``before``: how many were done already. ``table``: all of it."""

    study: Study
    runs: Sequence[Run]
    results: Mapping[str, Result]
    before: int
    table: Path

    @property
    def failed(self) -> list[Run]:
        return [run for run in self.runs if self.results[run.key].error]


def sweep(
    study: Study,
    root: Path,
    *,
    workers: int | None = None,
    dask: str = "",
    progress: Progress = lambda what, done, total: None,
) -> Swept:
    """``root``: the folder of studies. ``workers``: processes here; None: one for each processor. ``dask``: the address of a scheduler, whose workers do
    it instead. ``progress``: told what is done, how many runs of how many. Raises InputError before anything is begun; StateError,
    ConnectError: then what is done stays done."""
    if dask:
        check_dask()
    runs = study.runs()
    _check(runs)
    folder = StudyFolder(root, study.name)
    with folder.held():
        results = {run.key: found for run in runs if (found := folder.result(run)) is not None and not found.error}
        before = sum(run.key in results for run in runs)
        wanted = len({run.key for run in runs})

        def done(run: Run, result: Result) -> None:
            folder.keep(run, result)
            results[run.key] = result
            progress("running", len(results), wanted)

        left = list({run.key: run for run in runs if run.key not in results}.values())
        progress("running", len(results), wanted)
        if left and dask:
            run_on_dask(dask, left, done)
        elif left:
            run_here(left, min(workers or processors(), len(left)), done)
        write_table(folder.path / TABLE, study, runs, results)
    return Swept(study=study, runs=runs, results=results, before=before, table=folder.path / TABLE)


def _check(runs: Sequence[Run]) -> None:
    """Whether each setting stands for a replay. Raises InputError that names the first that does not."""
    for run in runs:
        if run.seed in (None, runs[0].seed):
            try:
                plan_of(run)
            except InputError as error:
                if error.where.file or not run.setting:
                    raise
                said = ", ".join(f"{name} {value}" for name, value in run.setting.items())
                raise InputError(f"{said}: {error.message}", error.where) from None
