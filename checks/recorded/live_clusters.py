"""Runs scenarios on a real API server: several clusters in parallel, each in its own process with one scenario after
another.
"""

from __future__ import annotations

import multiprocessing
import queue
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from checks.recorded.scenarios import run_recorded_scenario
from checks.report import Result
from kailab.errors import KailabError
from kailab.lab.venues import Venue, open_venue
from kailab.scenarios.scenario import Scenario

Where = Mapping[str, Any]
Tell = Callable[[str], None]


def run_live(
    scenarios: Sequence[Scenario], scheduler: str, backend: str, labs: int, where: Where, tell: Tell
) -> Iterator[Result]:
    """Results as they arrive. ``where``: the arguments of ``open_venue``. Raises KailabError if no cluster can be
    started; a cluster that breaks later is replaced.
    """
    if labs == 1 or len(scenarios) == 1:
        yield from _run_sequentially(scenarios, scheduler, backend, where, tell)
    else:
        yield from _run_in_parallel(scenarios, scheduler, backend, min(labs, len(scenarios)), where)


def _run_sequentially(
    scenarios: Sequence[Scenario] | Iterator[Scenario], scheduler: str, backend: str, where: Where, tell: Tell
) -> Iterator[Result]:
    venue: Venue | None = None
    try:
        for scenario in scenarios:
            venue = venue or open_venue(backend, scheduler=scheduler, get=True, tell=tell, **where)
            result = run_recorded_scenario(scenario, scheduler, backend, venue)
            if any("stopped:" in difference or "kailab failed:" in difference for difference in result.differences):
                # The failure may have left objects behind.
                broken, venue = venue, None
                with suppress(KailabError):
                    broken.close()
            yield result
    finally:
        if venue is not None:
            venue.close()


def _run_in_parallel(
    scenarios: Sequence[Scenario], scheduler: str, backend: str, labs: int, where: Where
) -> Iterator[Result]:
    context = multiprocessing.get_context("spawn")
    waiting: Any = context.Queue()
    done: Any = context.Queue()
    for scenario in [*scenarios, *[None] * labs]:
        waiting.put(scenario)
    workers = [
        context.Process(target=_run_worker, args=(waiting, done, scheduler, backend, dict(where)), name=f"lab-{number}")
        for number in range(labs)
    ]
    for worker in workers:
        worker.start()
    try:
        for _ in scenarios:
            outcome = _next_result(done, workers)
            if isinstance(outcome, KailabError):
                raise outcome
            yield outcome
    except BaseException:
        for worker in workers:
            worker.terminate()
        raise
    finally:
        for worker in workers:
            worker.join()


def _run_worker(waiting: Any, done: Any, scheduler: str, backend: str, where: Where) -> None:
    """The worker process: runs scenarios from the queue until none is left. On a termination signal it takes its
    cluster down.
    """
    import signal

    def ended(*_: Any) -> None:
        raise SystemExit(143)

    signal.signal(signal.SIGTERM, ended)
    try:
        for result in _run_sequentially(iter(waiting.get, None), scheduler, backend, where, lambda _: None):
            done.put(result)
    except KailabError as error:
        done.put(KailabError(str(error)))


def _next_result(done: Any, workers: Sequence[Any]) -> Result | KailabError:
    while True:
        # Checked first, because results of a worker that ended are in the queue by then.
        working = any(worker.is_alive() for worker in workers)
        try:
            result: Result | KailabError = done.get(timeout=1.0)
            return result
        except queue.Empty:
            if not working:
                raise KailabError("no cluster is left to run scenarios in") from None
