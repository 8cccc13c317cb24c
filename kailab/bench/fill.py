"""Fill an idle cluster with one-GPU Jobs: KAI's "Fill Cluster with single GPU Jobs"."""

from __future__ import annotations

from pathlib import Path

from kailab.bench import shapes
from kailab.bench.measured import Outcome, peak_memory
from kailab.bench.rig import Progress, Rig
from kailab.errors import InputError
from kailab.fleet import Fleet


def fill(fleet: str | Path | Fleet = "scale-500", jobs: int | None = None, progress: Progress | None = None) -> Outcome:
    """From the first Job submitted to all pods Running. ``jobs``: one per GPU of the fleet unless given; those beyond
    stay pending. Raises InputError, WrongOutcome."""
    if jobs is not None and jobs < 1:
        raise InputError(f"{jobs} jobs: expected 1 or more")
    with Rig(fleet, progress=progress) as rig:
        number = rig.gpus if jobs is None else jobs
        rig.submit([shapes.queue("bench"), shapes.queue("fill", "bench")])
        rig.settle()
        rig.start()
        rig.submit((shapes.job(f"fill-{index:06}", "fill") for index in range(number)), number)
        rig.settle()
        fit = min(number, rig.gpus)
        measured = rig.stop("fill", fit, jobs=number)
        rig.require("pods running", rig.running("fill"), fit)
        idle = rig.idle_cycle()
        return Outcome("fill", rig.fleet, rig.nodes, rig.gpus, (measured,), idle, peak_memory())
