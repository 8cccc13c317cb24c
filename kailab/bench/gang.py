"""One gang over a whole cluster, with and without a preferred topology level: KAI's topology tests."""

from __future__ import annotations

from kailab.bench import shapes
from kailab.bench.measured import Measured, Outcome, peak_memory
from kailab.bench.rig import Progress, Rig
from kailab.errors import InputError
from kailab.fleet import Fleet, read_fleet
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


def gang(nodes_per_rack: int = 2, progress: Progress | None = None) -> Outcome:
    """A Job with a pod for each node, each taking the node whole: from submission to all Running. Raises InputError,
    WrongOutcome."""
    measured: list[Measured] = []
    with Rig(tree_fleet(nodes_per_rack), progress=progress) as rig:
        rig.submit([shapes.queue("bench"), shapes.queue("gang", "bench")])
        rig.settle()
        preferred = {labels.TOPOLOGY: "tree", labels.TOPOLOGY_PREFERRED: LEVELS[-1]}
        for name, notes in (("plain", None), ("preferred-rack", preferred)):
            rig.start()
            rig.submit([shapes.job(name, "gang", gpus=GPUS, pods=rig.nodes, annotations=notes)])
            rig.settle()
            measured.append(rig.stop(f"gang, {name.replace('-', ' ')}", rig.nodes, gpus=rig.nodes * GPUS))
            rig.require("pods running", rig.running("gang"), rig.nodes)
            rig.remove([name])
        idle = rig.idle_cycle()
        return Outcome("gang", rig.fleet, rig.nodes, rig.gpus, tuple(measured), idle, peak_memory())
