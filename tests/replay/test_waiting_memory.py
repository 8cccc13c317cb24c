"""What a replay holds for each job that waits."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

from kailab.replay.run import CompletedReplay


def most_held(jobs: int, trace_file: Callable[..., Path], replayed: Callable[..., CompletedReplay]) -> int:
    """Bytes at the peak of a replay of so many jobs, nearly all of which wait."""
    path = trace_file(
        *(f"j{number},{number % 3},{100 + number},4,blue" for number in range(jobs)),
        header="name,submit,seconds,gpus,team",
    )
    tracemalloc.start()
    try:
        result = replayed(path, lasting=5)
        assert sum(entry.jobs for entry in result.unbegun) == jobs - 2
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_waiting_job_takes_less_than_10_kib_at_the_peak(
    trace_file: Callable[..., Path], replayed: Callable[..., CompletedReplay]
) -> None:
    most_held(3, trace_file, replayed)  # modules and caches are loaded
    few, many = (most_held(jobs, trace_file, replayed) for jobs in (50, 150))
    assert (many - few) / 100 < 10 * 1024
