"""Jobs of a trace, drawn until they ask for more GPUs than there are: shares beside whole GPUs, hardly two pods alike."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.lab_runs import shapes
from benchmarks.lab_runs.measured import BenchmarkResult, peak_memory
from benchmarks.lab_runs.timed_lab import Progress, TimedLab
from checks.recorded_files import shared_folder
from kailab.errors import InputError
from kailab.fleet.fleet import Fleet
from kailab.replay.fleets import replay_fleet
from kailab.replay.job import WHOLE, TraceJob
from kailab.replay.manifests import job_object, pods_of
from kailab.replay.trace import read_trace

QUEUE = "mixed"
FOLDER = Path("data", "openb-gpu-v2023")
PODS, NODES = "openb_pod_list_default.csv", "openb_node_list_all_node.csv"


def mixed(
    trace: Path | None = None, fleet: str = "", load: int = 130, seed: int = 0, progress: Progress | None = None
) -> BenchmarkResult:
    """From the first Job submitted until all that fits is Running. ``trace``, ``fleet``: as ``kailab replay`` reads them; openb's of the
    shared folder unless given. ``load``: per cent of the fleet's GPUs that the drawn jobs ask for. Raises InputError, WrongOutcome."""
    if load < 1:
        raise InputError(f"a load of {load} %: expected 1 or more")
    jobs = read_trace(trace or _shared(PODS)).jobs
    described = replay_fleet(fleet or str(_shared(NODES)))
    drawn = list(_drawn(jobs, described, load, random.Random(seed)))
    # Whoever places shares of GPUs reserves them.
    with TimedLab(described, progress=progress, reservations=True) as timed:
        timed.submit([shapes.queue("bench"), shapes.queue(QUEUE, "bench")])
        timed.settle()
        timed.start()
        begun = time.process_time()
        largest = described.largest_node
        objects = (
            job_object(f"mixed-{number:06}", job, QUEUE, pods_of(job, largest), endless=True)
            for number, job in enumerate(drawn)
        )
        timed.submit(objects, len(drawn))
        timed.settle()
        spent = time.process_time() - begun
        running = timed.running(QUEUE)
        measured = timed.stop("mixed", running, processor_seconds=spent, **_facts(drawn, largest))
        # Asked once more, nobody who waits finds a place.
        idle = timed.idle_cycle()
        timed.settle()
        timed.require("pods running after another look", timed.running(QUEUE), running)
        allocated = 100 * timed.allocated(QUEUE) / timed.gpus
        measured = replace(measured, facts={**measured.facts, "gpus_allocated_percent": allocated})
        return BenchmarkResult("mixed", timed.fleet, timed.nodes, timed.gpus, (measured,), idle, peak_memory())


def _facts(jobs: list[TraceJob], largest: int) -> dict[str, int]:
    unlike = {(job.gpus, job.share, job.cpu_millis, job.memory_mib, job.models) for job in jobs}
    return {"jobs": len(jobs), "pods_submitted": sum(pods_of(job, largest) for job in jobs), "unlike_jobs": len(unlike)}


def _shared(name: str) -> Path:
    path = shared_folder() / FOLDER / name
    if not path.is_file():
        raise InputError(f"there is no trace at {path}: give --trace and --fleet, or KAILAB_SHARED with its folder")
    return path


def _drawn(jobs: list[TraceJob], fleet: Fleet, load: int, chance: random.Random) -> Iterator[TraceJob]:
    """Jobs, each as likely at every draw, until they ask for so much."""
    wanted = fleet.summary().gpus * WHOLE * load // 100
    if not any(job.milli for job in jobs) or not wanted:
        raise InputError("a mixed load is measured by GPUs: expected a trace and a fleet with some")
    asked = 0
    while asked < wanted:
        job = chance.choice(jobs)
        asked += job.milli
        yield job
