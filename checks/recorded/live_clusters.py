"""Scenarios on a real API server: several clusters side by side, each running one scenario after the other in a process of
its own."""

from __future__ import annotations

import multiprocessing
import queue
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from checks.recorded.scenarios import run_scenario
from checks.report import Result
from kailab.errors import KailabError
from kailab.lab.venues import Venue, open_venue
from kailab.scenarios.scenario import Scenario

Where = Mapping[str, Any]
Tell = Callable[[str], None]


def run_live(
    scenarios: Sequence[Scenario], scheduler: str, backend: str, labs: int, where: Where, tell: Tell
) -> Iterator[Result]:
    """Results as they come. ``where``: the arguments of ``open_venue``. Raises KailabError where no cluster comes up; one that
    breaks later is replaced."""
    if labs == 1 or len(scenarios) == 1:
        yield from _one_by_one(scenarios, scheduler, backend, where, tell)
    else:
        yield from _side_by_side(scenarios, scheduler, backend, min(labs, len(scenarios)), where)


def _one_by_one(
    scenarios: Sequence[Scenario] | Iterator[Scenario], scheduler: str, backend: str, where: Where, tell: Tell
) -> Iterator[Result]:
    venue: Venue | None = None
    try:
        for scenario in scenarios:
            venue = venue or open_venue(backend, scheduler=scheduler, get=True, tell=tell, **where)
            result = run_scenario(scenario, scheduler, backend, venue)
            if any("stopped:" in one or "kailab failed:" in one for one in result.differences):
                # What stopped it may have left something behind.
                broken, venue = venue, None
                with suppress(KailabError):
                    broken.close()
            yield result
    finally:
        if venue is not None:
            venue.close()


def _side_by_side(
    scenarios: Sequence[Scenario], scheduler: str, backend: str, labs: int, where: Where
) -> Iterator[Result]:
    context = multiprocessing.get_context("spawn")
    waiting: Any = context.Queue()
    done: Any = context.Queue()
    for scenario in [*scenarios, *[None] * labs]:
        waiting.put(scenario)
    workers = [
        context.Process(target=_work, args=(waiting, done, scheduler, backend, dict(where)), name=f"lab-{number}")
        for number in range(labs)
    ]
    for worker in workers:
        worker.start()
    try:
        for _ in scenarios:
            outcome = _next(done, workers)
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


def _work(waiting: Any, done: Any, scheduler: str, backend: str, where: Where) -> None:
    """One process: scenarios from the queue until there are no more. A signal to end lets it take its cluster down."""
    import signal

    def ended(*_: Any) -> None:
        raise SystemExit(143)

    signal.signal(signal.SIGTERM, ended)
    try:
        for result in _one_by_one(iter(waiting.get, None), scheduler, backend, where, lambda _: None):
            done.put(result)
    except KailabError as error:
        done.put(KailabError(str(error)))


def _next(done: Any, workers: Sequence[Any]) -> Result | KailabError:
    while True:
        # Asked first: what a worker said before it ended is in the queue by then.
        working = any(worker.is_alive() for worker in workers)
        try:
            found: Result | KailabError = done.get(timeout=1.0)
            return found
        except queue.Empty:
            if not working:
                raise KailabError("no cluster is left to run scenarios in") from None
