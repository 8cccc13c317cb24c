"""Carry out a study: skip runs that are done, carry out the others, and write one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kailab.errors import InputError
from kailab.model.callbacks import Progress
from kailab.studies.measures import RunResult
from kailab.studies.optuna_search import SearchedStudy, check_optuna, search_settings
from kailab.studies.planning import queues_and_prices
from kailab.studies.runner import StudyRunner, check_dask
from kailab.studies.study import Study, StudyQuestion, StudyRun, StudySearch, format_option
from kailab.studies.study_file import COST
from kailab.studies.study_folder import TABLE, StudyFolder, write_table
from kailab.studies.target import StudyTarget


@dataclass(frozen=True, kw_only=True)
class SweptStudy:
    """A completed study.

    ``settings``: in the order of ``runs``, which has one for each seed of each setting. ``results``: by key of the run.
    ``before``: number of runs that were already done. ``searched``: the search, if the study has one.
    """

    study: Study
    settings: Sequence[dict[str, Any]]
    runs: Sequence[StudyRun]
    results: Mapping[str, RunResult]
    before: int
    table: Path
    searched: SearchedStudy | None = None

    @property
    def failed(self) -> list[StudyRun]:
        return [run for run in self.runs if self.results[run.key].error]


def sweep(
    study: Study,
    root: Path,
    *,
    workers: int | None = None,
    dask: str = "",
    progress: Progress = lambda step, done, total: None,
    find: StudyQuestion | None = None,
) -> SweptStudy:
    """Carry out a study.

    ``root``: the folder of studies. ``workers``: number of local processes; None: one for each processor. ``dask``:
    address of a Dask scheduler to use instead. ``progress``: called with a description, the completed runs and all
    runs. ``find``: replaces the study's question. Raises InputError before anything is started; StateError,
    ConnectError, where completed runs stay stored.
    """
    if dask:
        check_dask()
    question, search = find or study.find, study.search
    if search is None:
        runs: Sequence[StudyRun] = study.runs()
        _check(runs, question)
    else:
        check_optuna()
    folder = StudyFolder(root, study.name)
    table, searched = folder.path / TABLE, None
    with folder.locked():
        runner = StudyRunner(folder, workers=workers, dask=dask, progress=progress)
        if search is None:
            settings, results = list(study.settings()), runner.results(runs)
        else:
            searched = _search(study, search, runner, question or StudyQuestion(targets=()))
            settings, runs, results = searched.settings, searched.runs, searched.results
        write_table(table, study, runs, results)
    return SweptStudy(
        study=study, settings=settings, runs=runs, results=results, before=runner.before, table=table, searched=searched
    )


def _search(study: Study, search: StudySearch, runner: StudyRunner, find: StudyQuestion) -> SearchedStudy:
    targets = (*find.targets, StudyTarget(measure=search.measure, queue=search.queue))
    question = StudyQuestion(targets=targets, least=find.least)

    def carry(runs: Sequence[StudyRun]) -> Mapping[str, RunResult]:
        _check(runs, question)
        return runner.results(runs)

    return search_settings(study, search, carry)


def _check(runs: Sequence[StudyRun], find: StudyQuestion | None) -> None:
    """Check that each setting is a valid replay with the queues and prices in question. Raises InputError that names
    the first invalid setting."""
    for run in runs:
        if run.seed in (None, runs[0].seed):
            try:
                names, priced = queues_and_prices(run)
                if find is not None and find.least == COST and not priced:
                    raise InputError(
                        "least cost needs a file of prices; expected --prices, or the field prices of a study"
                    )
                for target in () if find is None else find.targets:
                    target.check(names, priced=priced)
            except InputError as error:
                if error.where.file or not run.setting:
                    raise
                setting = ", ".join(f"{name} {format_option(value)}" for name, value in run.setting.items())
                raise InputError(f"{setting}: {error.message}", error.where) from None
