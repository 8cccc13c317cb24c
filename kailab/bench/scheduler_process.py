"""Kailab's scheduler as a process beside a plane, for as long as it is measured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kailab.bench.timed_lab import WrongOutcome
from kailab.cluster.controlplane.log_tail import log_tail
from kailab.cluster.waiting import wait_until
from kailab.lab.scheduler_process import SCHEDULER, health_url, scheduler_command
from kailab.undertest.programs import fetch

READY_SECONDS = 300.0


@contextmanager
def kailab_process(plane: Any, *, no_election: bool = False) -> Iterator[int]:
    """Its process id, once it is ready. Raises WrongOutcome if it does not get to be."""
    process = plane.spawn(SCHEDULER, scheduler_command(plane.kubeconfig, no_election=no_election))
    try:
        _await_ready(process.log)
        yield int(process.pid)
    finally:
        plane.stop(SCHEDULER)


def _await_ready(log: Path) -> None:
    """Return when the scheduler that writes this log has listed everything and leads."""

    def ready() -> bool:
        url = health_url(log)
        return url is not None and fetch(f"{url}/readyz")[1] is None

    if not wait_until(ready, READY_SECONDS):
        raise WrongOutcome(
            f"the scheduler does not get to work in {READY_SECONDS:.0f} s; its last words:\n{log_tail(log)}"
        )
