"""Measure the time to find that a distributed job can't run: KAI's "time to unschedulable"."""

from __future__ import annotations

from pathlib import Path

from benchmarks.lab_runs import shapes
from benchmarks.lab_runs.measured import BenchmarkResult, peak_memory
from benchmarks.lab_runs.reclaim import fill
from benchmarks.lab_runs.timed_lab import Progress, TimedLab
from kailab.errors import InputError
from kailab.fleet.fleet import Fleet
from kailab.model import labels


def unschedulable(
    fleet: str | Path | Fleet = "scale-500", pods: int = 10, progress: Progress | None = None
) -> BenchmarkResult:
    """Measure from the submission of a gang to its pending reason. The cluster is full; the gang requests ``pods`` whole nodes, and the quota of the other
    work leaves it one GPU short. Raises InputError, WrongOutcome."""
    with TimedLab(fleet, progress=progress) as timed:
        nodes = timed.cluster.list("Node")
        gpus_per_node = max(int(node["status"]["allocatable"].get(labels.GPU_RESOURCE, 0)) for node in nodes)
        requested = pods * gpus_per_node
        if not gpus_per_node or not 1 <= requested < timed.gpus:
            raise InputError(f"a gang of {pods} pods: expected 1 or more that ask for less than {timed.gpus} GPUs")
        fill(timed, quota=timed.gpus - requested + 1)
        timed.submit([shapes.queue("owner", "bench", quota=requested, weight=0)])
        timed.settle()
        timed.start()
        timed.submit([shapes.job("gang", "owner", gpus=gpus_per_node, pods=pods)])
        timed.settle()
        code = timed.verdict("gang")
        measured = timed.stop("verdict on a gang that can't fit", 0, gang_pods=pods, gang_gpus=requested, verdict=code)
        timed.require("pods of the gang running", timed.running("owner"), 0)
        timed.require("pods of others running", timed.running("fill"), timed.gpus)
        return BenchmarkResult("unschedulable", timed.fleet, timed.nodes, timed.gpus, (measured,), None, peak_memory())
