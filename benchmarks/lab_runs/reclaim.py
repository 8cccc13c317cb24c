"""An owner returns to a cluster that is full of others' over-quota work: KAI's reclaim tests."""

from __future__ import annotations

from pathlib import Path
from statistics import mean

from benchmarks.lab_runs import shapes
from benchmarks.lab_runs.measured import BenchmarkResult, Measured, peak_memory
from benchmarks.lab_runs.timed_lab import Progress, TimedLab
from kailab.errors import InputError
from kailab.fleet.fleet import Fleet
from kailab.model import labels

PARTS = ("single", "large", "many")


def reclaim(
    fleet: str | Path | Fleet = "scale-500",
    jobs: int | None = None,
    singles: int = 5,
    parts: tuple[str, ...] = PARTS,
    progress: Progress | None = None,
) -> BenchmarkResult:
    """Three measurements, each over a full cluster of one-GPU Jobs in a queue without quota: one-GPU Jobs one at a
    time (``singles`` of them), one gang that takes half of the nodes whole, and ``jobs`` one-GPU Jobs at once (one per
    GPU unless given). Each runs until the owner's pods are Running and the lab is at rest. Raises InputError,
    WrongOutcome."""
    if singles < 1:
        raise InputError(f"{singles} single jobs: expected 1 or more")
    with TimedLab(fleet, progress=progress) as timed:
        many = timed.gpus if jobs is None else jobs
        if not 1 <= many <= timed.gpus:
            raise InputError(f"{many} jobs: expected 1 to {timed.gpus}, the GPUs of fleet {timed.fleet}")
        fill(timed, quota=0)
        timed.submit([shapes.queue("owner", "bench", quota=timed.gpus)])
        timed.settle()
        measured = []
        if "single" in parts:
            measured.append(_single(timed, singles))
        if "large" in parts:
            measured.append(_large(timed))
        if "many" in parts:
            measured.append(_many(timed, many))
        idle = timed.idle_cycle()
        return BenchmarkResult("reclaim", timed.fleet, timed.nodes, timed.gpus, tuple(measured), idle, peak_memory())


def fill(timed: TimedLab, quota: float) -> None:
    """A cluster full of one-GPU Jobs in queue ``fill``, not measured."""
    timed.submit([shapes.queue("bench"), shapes.queue("fill", "bench", quota=quota, weight=0)])
    timed.submit((shapes.job(f"fill-{index:06}", "fill") for index in range(timed.gpus)), timed.gpus)
    timed.settle()
    timed.require("pods running", timed.running("fill"), timed.gpus)


def _single(timed: TimedLab, singles: int) -> Measured:
    taken = []
    timed.start()
    for index in range(singles):
        before = timed.elapsed
        timed.submit([shapes.job(f"single-{index}", "owner")])
        timed.settle()
        taken.append(timed.elapsed - before)
    measured = timed.stop("one-GPU reclaims, one at a time", singles, mean_seconds=mean(taken), most_seconds=max(taken))
    timed.require("pods of the owner running", timed.running("owner"), singles)
    timed.remove(f"single-{index}" for index in range(singles))
    return measured


def _large(timed: TimedLab) -> Measured:
    nodes = timed.cluster.list("Node")
    each = max(int(node["status"]["allocatable"].get(labels.GPU_RESOURCE, 0)) for node in nodes)
    pods = max(1, timed.gpus // each // 2)
    timed.start()
    timed.submit([shapes.job("large", "owner", gpus=each, pods=pods)])
    timed.settle()
    measured = timed.stop("one large reclaim", pods, reclaimed_gpus=pods * each)
    timed.require("pods of the owner running", timed.running("owner"), pods)
    timed.remove(["large"])
    return measured


def _many(timed: TimedLab, jobs: int) -> Measured:
    timed.start()
    timed.submit((shapes.job(f"many-{index:06}", "owner") for index in range(jobs)), jobs)
    timed.settle()
    measured = timed.stop("one-GPU reclaims, all at once", jobs, reclaimed_gpus=jobs)
    timed.require("pods of the owner running", timed.running("owner"), jobs)
    return measured
