"""One gang over a whole cluster, with and without a preferred topology level: KAI's topology tests."""

from __future__ import annotations

from benchmarks.lab_runs import shapes
from benchmarks.lab_runs.measured import BenchmarkResult, Measured, peak_memory
from benchmarks.lab_runs.timed_lab import Progress, TimedLab
from kailab.errors import InputError
from kailab.fleet.fleet import Fleet
from kailab.fleet.reading import read_fleet
from kailab.model import labels

ZONES, BLOCKS, RACKS = 4, 8, 8
"""Zones, blocks in a zone, racks in a block: the tree of KAI's test."""

GPUS = 8
LEVELS = ("lab/zone", "lab/block", "lab/rack")


def tree_fleet(nodes_per_rack: int = 2) -> Fleet:
    """Nodes of 8 GPUs in zones, blocks and racks. Raises InputError."""
    if nodes_per_rack < 1:
        raise InputError(f"{nodes_per_rack} nodes in a rack: expected 1 or more")
    rack = nodes_per_rack
    block, zone = rack * RACKS, rack * RACKS * BLOCKS
    return read_fleet(
        f"""
apiVersion: kailab.dev/v1
kind: Fleet
name: tree-{zone * ZONES}
pools:
  - name: gpu
    count: {zone * ZONES}
    nameTemplate: gpu-{{index:04}}
    gpus: {GPUS}
    gpuModel: H100
    cpu: 192
    memory: 2000Gi
    layout:
      - {{label: lab/zone, nodes: {zone}, name: "zone-{{index}}"}}
      - {{label: lab/block, nodes: {block}, name: "block-{{index}}"}}
      - {{label: lab/rack, nodes: {rack}, name: "rack-{{index}}"}}
topologies:
  - name: tree
    levels: [lab/zone, lab/block, lab/rack]
""",
        "<bench gang>",
    )


def gang(nodes_per_rack: int = 2, progress: Progress | None = None) -> BenchmarkResult:
    """A Job with a pod for each node, each taking the node whole: from submission to all Running. Raises InputError,
    WrongOutcome."""
    measured: list[Measured] = []
    with TimedLab(tree_fleet(nodes_per_rack), progress=progress) as timed:
        timed.submit([shapes.queue("bench"), shapes.queue("gang", "bench")])
        timed.settle()
        preferred = {labels.TOPOLOGY: "tree", labels.TOPOLOGY_PREFERRED: LEVELS[-1]}
        for name, notes in (("plain", None), ("preferred-rack", preferred)):
            timed.start()
            timed.submit([shapes.job(name, "gang", gpus=GPUS, pods=timed.nodes, annotations=notes)])
            timed.settle()
            measured.append(timed.stop(f"gang, {name.replace('-', ' ')}", timed.nodes, gpus=timed.nodes * GPUS))
            timed.require("pods running", timed.running("gang"), timed.nodes)
            timed.remove([name])
        idle = timed.idle_cycle()
        return BenchmarkResult("gang", timed.fleet, timed.nodes, timed.gpus, tuple(measured), idle, peak_memory())
