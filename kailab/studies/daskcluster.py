"""Runs on a Dask cluster: each is a task, which whoever is left does again where a worker is lost.

Workers need kailab, and the study's files under the same paths.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import CancelledError
from typing import Any

from kailab.errors import ConnectError, InputError
from kailab.model.optional_imports import import_optional
from kailab.studies.alone import result_alone
from kailab.studies.measuring import Done
from kailab.studies.processes import lost
from kailab.studies.study import Run

CONNECT_SECONDS = 30
MOST_TRIES = 50
"""Dask gives a task up whose workers are lost a few times; it is the workers' fault, so it is asked for again."""


def run_on_dask(address: str, runs: Sequence[Run], done: Done) -> None:
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


def _follow(distributed: Any, client: Any, runs: Sequence[Run], done: Done) -> None:
    of: dict[str, tuple[Run, int]] = {}

    def submit(run: Run, tries: int) -> Any:
        # No two tasks have the same key: Dask would take the one for the other.
        future = client.submit(result_alone, run, key=f"kailab-{run.key}-{run.number}-{tries}", pure=False)
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
