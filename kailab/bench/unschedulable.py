"""How long it takes to say that a distributed job can't run: KAI's "time to unschedulable"."""

from __future__ import annotations

from pathlib import Path

from kailab.bench import shapes
from kailab.bench.measured import Outcome, peak_memory
from kailab.bench.reclaim import fill
from kailab.bench.rig import Progress, Rig
from kailab.errors import InputError
from kailab.fleet import Fleet
from kailab.model import labels


def unschedulable(fleet: str | Path | Fleet = "scale-500", pods: int = 10, progress: Progress | None = None) -> Outcome:
    """A full cluster whose work may be reclaimed but for one GPU too many: the gang asks for ``pods`` whole nodes and
    the others' quota leaves it one GPU short. From its submission to the reason given for it. Raises InputError,
    WrongOutcome."""
    with Rig(fleet, progress=progress) as rig:
        nodes = rig.cluster.list("Node")
        each = max(int(node["status"]["allocatable"].get(labels.GPU_RESOURCE, 0)) for node in nodes)
        wanted = pods * each
        if not each or not 1 <= wanted < rig.gpus:
            raise InputError(f"a gang of {pods} pods: expected 1 or more that ask for less than {rig.gpus} GPUs")
        fill(rig, quota=rig.gpus - wanted + 1)
        rig.submit([shapes.queue("owner", "bench", quota=wanted, weight=0)])
        rig.settle()
        rig.start()
        rig.submit([shapes.job("gang", "owner", gpus=each, pods=pods)])
        rig.settle()
        code = rig.verdict("gang")
        measured = rig.stop("verdict on a gang that can't fit", 0, gang_pods=pods, gang_gpus=wanted, verdict=code)
        rig.require("pods of the gang running", rig.running("owner"), 0)
        rig.require("pods of others running", rig.running("fill"), rig.gpus)
        return Outcome("unschedulable", rig.fleet, rig.nodes, rig.gpus, (measured,), None, peak_memory())
