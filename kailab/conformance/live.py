"""Scenarios on a real API server: several clusters side by side, each running one scenario after the other."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from kailab.conformance.report import Result
from kailab.conformance.scenarios import run_scenario
from kailab.errors import KailabError
from kailab.lab.home import LiveHome
from kailab.lab.planes import open_home

Scenario = Mapping[str, Any]


def run_live(
    scenarios: Sequence[Scenario],
    scheduler: str,
    backend: str,
    labs: int,
    where: Mapping[str, Any],
    tell: Callable[[str], None],
) -> Iterator[Result]:
    """Results as they come. ``where``: the arguments of ``open_home``. Raises KailabError where no cluster comes up; one that
    breaks later is replaced."""
    homes: list[LiveHome] = []
    waiting: queue.SimpleQueue[Scenario | None] = queue.SimpleQueue()
    done: queue.SimpleQueue[Result] = queue.SimpleQueue()
    for scenario in scenarios:
        waiting.put(scenario)

    def fresh() -> LiveHome:
        home = open_home(backend, scheduler=scheduler, get=True, tell=tell, **where)
        homes.append(home)
        return home

    def work(home: LiveHome) -> None:
        while (scenario := waiting.get()) is not None:
            result = run_scenario(scenario, scheduler, backend, home)
            done.put(result)
            if any("stopped:" in one or "kailab failed:" in one for one in result.differences):
                # What stopped it may have left something behind.
                homes.remove(home)
                with suppress(KailabError):
                    home.close()
                home = fresh()

    try:
        threads = [
            threading.Thread(target=work, args=(fresh(),), name=f"lab-{number}", daemon=True)
            for number in range(min(labs, len(scenarios)) if backend != "kubeconfig" else 1)
        ]
        for thread in threads:
            waiting.put(None)
            thread.start()
        for _ in scenarios:
            yield _next(done, threads)
    finally:
        while not waiting.empty():
            waiting.get()
        for _ in homes:
            waiting.put(None)
        for home in list(homes):
            home.close()


def _next(done: queue.SimpleQueue[Result], threads: Sequence[threading.Thread]) -> Result:
    while True:
        try:
            return done.get(timeout=1.0)
        except queue.Empty:
            if not any(thread.is_alive() for thread in threads):
                raise KailabError("no cluster is left to run scenarios in") from None
