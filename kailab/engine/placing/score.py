"""The score of a node for a task, KAI's formula, for all nodes in one expression.

The parts are so far apart that a higher one always decides: nominated node 1e7, topology 1e5, room on a GPU in use by
shares 1e4, fits now 1e3, CPU task on a CPU node 10, packing 0-9 (or spreading 0-1). Only preferred pod affinity, 1e6
per unit of weight, can exceed the nominated node. Equal scores go by node name.
"""

from __future__ import annotations

import numpy as np

from kailab.engine.working.layout import CPU, GPUS
from kailab.engine.working.nodes import NodeTable
from kailab.engine.working.state import ShapeInfo

NOMINATED = 1e7
POD_PREFERENCE = 1e6
TOPOLOGY = 1e5
SHARING = 1e4
AVAILABLE = 1e3
RESOURCE_TYPE = 10.0
DENSITY = 9.0


def packing(table: NodeTable, row: int, among: np.ndarray | None) -> np.ndarray:
    """0-9: higher for nodes with less free, relative to the nodes considered. Nodes without the resource get 0."""
    free = table.free_of(row)
    owners, numbers = table.owners(row)
    # KAI considers the whole set of nodes that it was given, whether the task fits there or not (NodePreOrderFn).
    considered = free.take(numbers) if among is None else free[owners & among]
    if not considered.size:
        return np.zeros(len(table))
    # Promises may make it negative. KAI's maximum begins at zero, its minimum does not.
    low, high = int(np.minimum.reduce(considered)), max(int(np.maximum.reduce(considered)), 0)
    # As in KAI: with nothing free anywhere packing has no effect, and equal nodes all get the maximum.
    if high == 0:
        return np.zeros(len(table))
    if low == high:
        return np.where(owners, DENSITY, 0.0)
    result: np.ndarray = DENSITY * (1 - (free - low) / (high - low))
    return result if numbers.size == len(table) else np.where(owners, result, 0.0)


def spreading(table: NodeTable, row: int) -> np.ndarray:
    """0-1: the free part of the node."""
    # KAI uses the label nvidia.com/gpu.count if a node has it, instead of the allocatable amount.
    size = table.gpu_count if row == GPUS else table.allocatable[row]
    free = table.idle[row] + table.releasing[row]
    return np.divide(free, size, out=np.zeros(len(table)), where=size != 0)


def node_scores(
    table: NodeTable,
    info: ShapeInfo,
    fits_now: np.ndarray,
    among: np.ndarray | None,
    gpu: str,
    cpu: str,
    nominated: str,
    share_first: bool = True,
    now_first: bool = True,
    cpu_nodes_first: bool = True,
) -> np.ndarray:
    """Scores of all nodes (meaningless where the task does not fit). ``among``: the nodes that are considered. ``gpu``,
    ``cpu``: binpack, spread, or anything else for neither.
    """
    scores: np.ndarray = np.where(fits_now, AVAILABLE, 0.0) if now_first else np.zeros(len(table))
    if share_first and table.shared:
        # As in KAI (gpusharingorder), of every task: one without a GPU, or with MIG profiles or claims, fits beside any
        # shares, unless all of them leave; a whole device never does.
        scores += np.where(table.shares.some_fit(info.shape.gpu), SHARING, 0.0)
    if info.cpu_only:
        if cpu_nodes_first:
            scores += np.where(table.cpu_only, RESOURCE_TYPE, 0.0)
        # As in KAI (jobTypeFromTask), one resource decides: a node's CPU does not matter to GPU work.
        row, strategy = CPU, cpu
    else:
        row, strategy = GPUS, gpu
    if nominated:
        home = table.index.get(nominated)
        if home is not None:
            scores[home] += NOMINATED
    if strategy == "spread":
        scores += spreading(table, row)
    elif strategy == "binpack":
        scores += packing(table, row, among)
    return scores
