"""Carry out the runs that are not done yet, in local processes or on a Dask cluster, and store each result.

Dask workers need kailab, and the study's files under the same paths. Tasks of lost workers are repeated.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError
from typing import Any

from kailab.cluster.processes import processors
from kailab.errors import ConnectError, InputError
from kailab.model.callbacks import Progress
from kailab.model.optional_imports import import_optional
from kailab.studies.measures import Done, RunResult
from kailab.studies.processes import lost, run_here
from kailab.studies.study import StudyRun
from kailab.studies.study_folder import StudyFolder
from kailab.studies.subprocess_run import run_in_subprocess

CONNECT_SECONDS = 30
MOST_TRIES = 50
"""Number of attempts for a task. Dask gives up a task after a few lost workers, which is not the task's fault."""


def run_on_dask(address: str, runs: Sequence[StudyRun], done: Done) -> None:
    """Carry out runs on a Dask cluster.

    ``address``: of its scheduler, ``tcp://HOST:PORT``. ``done``: called once for each run that ends. Raises InputError
    if Dask is not installed, ConnectError if the scheduler cannot be reached or is lost; results up to then stay
    stored.
    """
    distributed = _distributed()
    # Errors are reported below in one sentence; Dask would log a traceback for each of its coroutines.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    gone = (OSError, TimeoutError, CancelledError)  # CommClosedError is an OSError
    try:
        client = distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (*gone, ValueError) as error:
        raise ConnectError(f"--dask {address}: no Dask scheduler answers: {_brief(error)}") from error
    try:
        with client.as_current():
            _follow(distributed, client, runs, done)
    except gone as error:
        raise ConnectError(
            f"--dask {address}: the connection to the scheduler was lost ({_brief(error)}); run the command again to continue"
        ) from error
    finally:
        client.close(timeout=5)


def _brief(error: BaseException) -> str:
    """The first line of the error: Dask appends a description of its client."""
    return (str(error) or type(error).__name__).splitlines()[0]


def check_dask() -> None:
    """Raise InputError if Dask is not installed."""
    _distributed()


def _follow(distributed: Any, client: Any, runs: Sequence[StudyRun], done: Done) -> None:
    submitted: dict[str, tuple[StudyRun, int]] = {}

    def submit(run: StudyRun, tries: int) -> Any:
        # Keys must be unique: Dask treats tasks with equal keys as one task.
        future = client.submit(run_in_subprocess, run, key=f"kailab-{run.key}-{run.number}-{tries}", pure=False)
        submitted[future.key] = run, tries
        return future

    completed = distributed.as_completed([submit(run, 1) for run in runs])
    for future in completed:
        run, tries = submitted.pop(future.key)
        try:
            # If the worker that holds the result is lost first, Dask repeats the task.
            result = future.result()
        except distributed.KilledWorker as error:
            killed = error
        except (OSError, TimeoutError, CancelledError):
            raise
        except Exception as error:
            raise InputError(
                f"run {run.number}: it failed on a Dask worker: {type(error).__name__}: {error}"
            ) from error
        else:
            done(run, result)
            continue
        if tries < MOST_TRIES:
            completed.add(submit(run, tries + 1))
        else:
            done(run, lost(run, MOST_TRIES, f"its tasks were lost with their workers: {killed}"))


def _distributed() -> Any:
    return import_optional("distributed", "dask", "--dask needs Dask")


class StudyRunner:
    """Carries out runs of one study, whose folder is locked. ``before``: requested runs that were already done;
    ``replayed``: runs done now."""

    def __init__(
        self,
        folder: StudyFolder,
        *,
        workers: int | None = None,
        dask: str = "",
        progress: Progress = lambda step, done, total: None,
    ) -> None:
        self._folder = folder
        self._workers = workers
        self._dask = dask
        self._progress = progress
        self.before = 0
        self.replayed = 0

    def results(self, runs: Sequence[StudyRun]) -> Mapping[str, RunResult]:
        """Return the results by key. Runs that failed before are repeated.

        Raises StateError, ConnectError; completed runs stay stored.
        """
        results = {
            run.key: stored for run in runs if (stored := self._folder.result(run)) is not None and not stored.error
        }
        self.before += sum(run.key in results for run in runs)
        pending = list({run.key: run for run in runs if run.key not in results}.values())
        total = len(results) + len(pending)

        def done(run: StudyRun, result: RunResult) -> None:
            self._folder.keep(run, result)
            results[run.key] = result
            self.replayed += 1
            self._progress("running", len(results), total)

        self._progress("running", len(results), total)
        if pending and self._dask:
            run_on_dask(self._dask, pending, done)
        elif pending:
            run_here(pending, min(self._workers or processors(), len(pending)), done)
        return results
