"""An owner returns to a cluster that is full of others' over-quota work: KAI's reclaim tests."""

from __future__ import annotations

from pathlib import Path
from statistics import mean

from kailab.bench import shapes
from kailab.bench.measured import Measured, Outcome, peak_memory
from kailab.bench.rig import Progress, Rig
from kailab.errors import InputError
from kailab.fleet import Fleet
from kailab.model import labels

PARTS = ("single", "large", "many")


def reclaim(
    fleet: str | Path | Fleet = "scale-500",
    jobs: int | None = None,
    singles: int = 5,
    parts: tuple[str, ...] = PARTS,
    progress: Progress | None = None,
) -> Outcome:
    """Three measurements, each over a full cluster of one-GPU Jobs in a queue without quota: one-GPU Jobs one at a
    time (``singles`` of them), one gang that takes half of the nodes whole, and ``jobs`` one-GPU Jobs at once (one per
    GPU unless given). Each runs until the owner's pods are Running and the lab is at rest. Raises InputError,
    WrongOutcome."""
    if singles < 1:
        raise InputError(f"{singles} single jobs: expected 1 or more")
    with Rig(fleet, progress=progress) as rig:
        many = rig.gpus if jobs is None else jobs
        if not 1 <= many <= rig.gpus:
            raise InputError(f"{many} jobs: expected 1 to {rig.gpus}, the GPUs of fleet {rig.fleet}")
        fill(rig, quota=0)
        rig.submit([shapes.queue("owner", "bench", quota=rig.gpus)])
        rig.settle()
        measured = []
        if "single" in parts:
            measured.append(_single(rig, singles))
        if "large" in parts:
            measured.append(_large(rig))
        if "many" in parts:
            measured.append(_many(rig, many))
        idle = rig.idle_cycle()
        return Outcome("reclaim", rig.fleet, rig.nodes, rig.gpus, tuple(measured), idle, peak_memory())


def fill(rig: Rig, quota: float) -> None:
    """A cluster full of one-GPU Jobs in queue ``fill``, not measured."""
    rig.submit([shapes.queue("bench"), shapes.queue("fill", "bench", quota=quota, weight=0)])
    rig.submit((shapes.job(f"fill-{index:06}", "fill") for index in range(rig.gpus)), rig.gpus)
    rig.settle()
    rig.require("pods running", rig.running("fill"), rig.gpus)


def _single(rig: Rig, singles: int) -> Measured:
    taken = []
    rig.start()
    for index in range(singles):
        before = rig.elapsed
        rig.submit([shapes.job(f"single-{index}", "owner")])
        rig.settle()
        taken.append(rig.elapsed - before)
    measured = rig.stop("one-GPU reclaims, one at a time", singles, mean_seconds=mean(taken), most_seconds=max(taken))
    rig.require("pods of the owner running", rig.running("owner"), singles)
    rig.remove(f"single-{index}" for index in range(singles))
    return measured


def _large(rig: Rig) -> Measured:
    nodes = rig.cluster.list("Node")
    each = max(int(node["status"]["allocatable"].get(labels.GPU_RESOURCE, 0)) for node in nodes)
    pods = max(1, rig.gpus // each // 2)
    rig.start()
    rig.submit([shapes.job("large", "owner", gpus=each, pods=pods)])
    rig.settle()
    measured = rig.stop("one large reclaim", pods, reclaimed_gpus=pods * each)
    rig.require("pods of the owner running", rig.running("owner"), pods)
    rig.remove(["large"])
    return measured


def _many(rig: Rig, jobs: int) -> Measured:
    rig.start()
    rig.submit((shapes.job(f"many-{index:06}", "owner") for index in range(jobs)), jobs)
    rig.settle()
    measured = rig.stop("one-GPU reclaims, all at once", jobs, reclaimed_gpus=jobs)
    rig.require("pods of the owner running", rig.running("owner"), jobs)
    return measured
