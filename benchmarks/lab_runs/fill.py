"""Fill an idle cluster with one-GPU Jobs: KAI's "Fill Cluster with single GPU Jobs"."""

from __future__ import annotations

from pathlib import Path

from benchmarks.lab_runs import shapes
from benchmarks.lab_runs.measured import BenchmarkResult, peak_memory
from benchmarks.lab_runs.timed_lab import Progress, TimedLab
from kailab.errors import InputError
from kailab.fleet.fleet import Fleet


def fill(
    fleet: str | Path | Fleet = "scale-500", jobs: int | None = None, progress: Progress | None = None
) -> BenchmarkResult:
    """From the first Job submitted to all pods Running. ``jobs``: one per GPU of the fleet unless given; those beyond
    stay pending. Raises InputError, WrongOutcome."""
    if jobs is not None and jobs < 1:
        raise InputError(f"{jobs} jobs: expected 1 or more")
    with TimedLab(fleet, progress=progress) as timed:
        number = timed.gpus if jobs is None else jobs
        timed.submit([shapes.queue("bench"), shapes.queue("fill", "bench")])
        timed.settle()
        timed.start()
        timed.submit((shapes.job(f"fill-{index:06}", "fill") for index in range(number)), number)
        timed.settle()
        fit = min(number, timed.gpus)
        measured = timed.stop("fill", fit, jobs=number)
        timed.require("pods running", timed.running("fill"), fit)
        idle = timed.idle_cycle()
        return BenchmarkResult("fill", timed.fleet, timed.nodes, timed.gpus, (measured,), idle, peak_memory())
