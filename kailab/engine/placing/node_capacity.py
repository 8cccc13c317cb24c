"""How many pods of a shape fit on nodes, by amounts alone: an upper bound, so that too few is certain.

Sums of amounts do not show what shared and claimed devices leave free, nor the rules between pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from kailab.engine.placing import fit
from kailab.engine.session import Session
from kailab.engine.snapshot.records import GPU
from kailab.engine.working.layout import GPUS
from kailab.engine.working.state import ShapeInfo

_NO_BOUND = np.iinfo(np.int32).max


def allowed_nodes(session: Session, info: ShapeInfo) -> np.ndarray:
    """The nodes to which the shape may go, however full they are. Read-only."""
    if not session.config.predicates:
        return session.table.all
    return fit.static_mask(session.table, info, session.working.table_version)


def goes_only_to(session: Session, info: ShapeInfo, nodes: np.ndarray) -> bool:
    """True if the shape may go to no other nodes, however full they are."""
    return not (allowed_nodes(session, info) & ~nodes).any()


def pods_per_node(session: Session, info: ShapeInfo, pool: np.ndarray) -> np.ndarray:
    """How many pods of the shape fit on each node, without other pods. ``pool``: in the form of ``NodeTable.free``."""
    counts = np.full(len(session.table), _NO_BOUND, dtype=np.int64)
    for row, amount in info.needs:
        np.minimum(counts, np.maximum(pool[row], 0) // amount, out=counts)
    counts[~allowed_nodes(session, info)] = 0
    return counts


def shares_per_node(session: Session, info: ShapeInfo, pool: np.ndarray) -> np.ndarray:
    """How many pods that share devices fit on each node at most, if every device of ``pool`` is free for them."""
    table, gpu = session.table, info.shape.gpu
    counts = pods_per_node(session, info, pool)
    devices = np.maximum(pool[GPUS], 0) // GPU
    counts[devices < gpu.devices] = 0
    if gpu.by_memory and table.multiples_fit:
        return counts  # whole devices may be given for a multiple of their memory
    share = np.maximum(gpu.share_memory(table.gpu_memory), 1)
    np.minimum(counts, devices * (table.gpu_memory // share) // gpu.devices, out=counts)
    return counts


def least_portion(session: Session, info: ShapeInfo) -> float:
    """The least part of devices that a pod of a shape that shares them holds, on any node to which it may go; 0 if there is none."""
    table, gpu = session.table, info.shape.gpu
    memory = table.gpu_memory[allowed_nodes(session, info) & (table.gpu_memory > 0)]
    return gpu.devices * float((gpu.share_memory(memory) / memory).min()) if len(memory) else 0.0


def places_beside(
    session: Session,
    info: ShapeInfo,
    pool: np.ndarray,
    others: Iterable[ShapeInfo] | Counter[ShapeInfo],
    shared: int = 0,
) -> int:
    """How many pods of the shape fit at most if the pods of ``others`` are placed too. ``pool``: in the form of
    ``NodeTable.free``, 0 on nodes that do not count. ``shared``: devices of these nodes that the others take to share them.

    Two bounds: a node that takes one of the others loses at least as many places as the other one's amounts contain,
    and no resource is given out twice, neither in whole places nor in sum. A pod that shares devices finds no place
    where the others hold all of them as a whole.
    """
    counts = pods_per_node(session, info, pool)
    mine = allowed_nodes(session, info)
    # Pods that may go to other nodes may take nothing here.
    staying = [(other, number) for other, number in Counter(others).items() if goes_only_to(session, other, mine)]
    if info.shape.gpu.shared:
        devices = int((np.maximum(pool[GPUS], 0)[mine] // GPU).sum())
        devices -= sum(number * (other.rows.get(GPUS, 0) // GPU) for other, number in staying)
        if devices < info.shape.gpu.devices:
            return 0
    places = int(counts.sum())
    for other, number in staying:
        places -= number * min((other.rows.get(row, 0) // amount for row, amount in info.needs), default=0)
    for row, amount in info.needs:
        left = np.maximum(pool[row], 0)[mine]
        taken = [(other.rows.get(row, 0), number) for other, number in staying]
        if row == GPUS:
            taken.append((GPU, shared))
        whole = int((left // amount).sum()) - sum(number * (each // amount) for each, number in taken)
        in_sum = (int(left.sum()) - sum(number * each for each, number in taken)) // amount
        places = min(places, whole, in_sum)
    return max(0, places)


def shares_devices(session: Session, shapes: Iterable[ShapeInfo]) -> bool:
    """True if a node to which one of the shapes may go has a shared device, or once had: sums don't show when it is
    free again.
    """
    nodes = list(session.table.shared)
    return bool(nodes) and any(bool(allowed_nodes(session, info)[nodes].any()) for info in set(shapes))
