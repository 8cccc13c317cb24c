"""Runs on a Dask cluster: each is a task, which whoever is left does again where a worker is lost.

Workers need kailab, and the study's files under the same paths.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from typing import Any

from kailab.cluster.processes import processors
from kailab.errors import ConnectError, InputError
from kailab.model.optional_imports import import_optional
from kailab.studies.measures import Done, RunResult
from kailab.studies.processes import lost, run_here
from kailab.studies.study import StudyRun
from kailab.studies.study_folder import StudyFolder
from kailab.studies.subprocess_run import run_in_subprocess

CONNECT_SECONDS = 30
MOST_TRIES = 50
"""Dask gives a task up whose workers are lost a few times; it is the workers' fault, so it is asked for again."""


def run_on_dask(address: str, runs: Sequence[StudyRun], done: Done) -> None:
    """``address``: of the cluster's scheduler, ``tcp://HOST:PORT``. ``done`` is told of each run once, as it ends. Raises InputError where Dask is
    not installed here, ConnectError where there is no scheduler, or it is lost: what is done by then stays done."""
    distributed = _distributed()
    # What is lost is told below in a sentence; Dask would tell it first, with the traceback of each of its coroutines.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    gone = (OSError, TimeoutError, CancelledError)  # CommClosedError is an OSError
    try:
        client = distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (*gone, ValueError) as error:
        raise ConnectError(f"--dask {address}: there is no Dask scheduler: {_brief(error)}") from error
    try:
        with client.as_current():
            _follow(distributed, client, runs, done)
    except gone as error:
        raise ConnectError(
            f"--dask {address}: the scheduler is lost ({_brief(error)}); begin again, and it goes on"
        ) from error
    finally:
        client.close(timeout=5)


def _brief(error: BaseException) -> str:
    """Its first line: Dask adds what its client looks like."""
    return (str(error) or type(error).__name__).splitlines()[0]


def check_dask() -> None:
    """Raises InputError where it is not installed."""
    _distributed()


def _follow(distributed: Any, client: Any, runs: Sequence[StudyRun], done: Done) -> None:
    of: dict[str, tuple[StudyRun, int]] = {}

    def submit(run: StudyRun, tries: int) -> Any:
        # No two tasks have the same key: Dask would take the one for the other.
        future = client.submit(run_in_subprocess, run, key=f"kailab-{run.key}-{run.number}-{tries}", pure=False)
        of[future.key] = run, tries
        return future

    ended = distributed.as_completed([submit(run, 1) for run in runs])
    for future in ended:
        run, tries = of.pop(future.key)
        try:
            # Where the worker that has the result is lost before it is asked for, Dask has the task done again meanwhile.
            result = future.result()
        except distributed.KilledWorker as error:
            killed = error
        except (OSError, TimeoutError, CancelledError):
            raise
        except Exception as error:
            raise InputError(f"run {run.number}: a Dask worker can't do it: {type(error).__name__}: {error}") from error
        else:
            done(run, result)
            continue
        if tries < MOST_TRIES:
            ended.add(submit(run, tries + 1))
        else:
            done(run, lost(run, MOST_TRIES, f"its tasks were lost with their workers: {killed}"))


def _distributed() -> Any:
    return import_optional("distributed", "dask", "--dask needs Dask")


# Runs carried out, here or on Dask, but for those that are done already; each is kept as it ends.

Progress = Callable[[str, int, int], None]


class StudyRunner:
    """Of one study's folder, which is held. ``before``: runs asked for that were done before; ``replayed``: those done now."""

    def __init__(
        self,
        folder: StudyFolder,
        *,
        workers: int | None = None,
        dask: str = "",
        progress: Progress = lambda what, done, total: None,
    ) -> None:
        self._folder = folder
        self._workers = workers
        self._dask = dask
        self._progress = progress
        self.before = 0
        self.replayed = 0

    def results(self, runs: Sequence[StudyRun]) -> Mapping[str, RunResult]:
        """By key. A run that failed before is done again. Raises StateError, ConnectError: then what is done stays done."""
        results = {
            run.key: found for run in runs if (found := self._folder.result(run)) is not None and not found.error
        }
        self.before += sum(run.key in results for run in runs)
        left = list({run.key: run for run in runs if run.key not in results}.values())
        wanted = len(results) + len(left)

        def done(run: StudyRun, result: RunResult) -> None:
            self._folder.keep(run, result)
            results[run.key] = result
            self.replayed += 1
            self._progress("running", len(results), wanted)

        self._progress("running", len(results), wanted)
        if left and self._dask:
            run_on_dask(self._dask, left, done)
        elif left:
            run_here(left, min(self._workers or processors(), len(left)), done)
        return results
