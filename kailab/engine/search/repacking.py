"""A proof that all victims find places again, so that a job placed after them gets no more room than there was.

Assume that only GPUs decide, that each amount wanted divides the next larger one (1, 2, 4, 8), and that each pod goes
to the fullest node with room. Then no GPU is lost between nodes: as long as one more pod's GPUs are free in all, they
are free on one node. The invariant, with nodes ordered by free GPUs: the free GPUs of a node are a multiple of the
smallest amount wanted that exceeds the free GPUs of the nodes before it. A pod goes to the first node with room, so the
nodes before it have less free than it wants, and what is left there is again such a multiple.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from kailab.engine.placing import node_capacity
from kailab.engine.session import Session
from kailab.engine.snapshot.records import GPU
from kailab.engine.working.layout import GPUS
from kailab.engine.working.state import ShapeInfo, WTask


class Repacking:
    """The proof for one search, in which every scenario begins in the present state of the nodes."""

    def __init__(self, session: Session) -> None:
        self._session = session
        config, table = session.config, session.table
        self._on = (
            config.gpu_placement == "binpack"
            and session.switches.node_placement
            and config.node_score_policy is None
            and not session.working.has_pod_preferences
            and not table.shared
        )

    def all_return(self, nodes: np.ndarray, victims: Sequence[WTask]) -> bool:
        """True if victims that are placed before all others, in any order, on ``nodes`` (including their own), all find
        places.
        """
        if not self._on or any(task.record.nominated_node for task in victims):
            return False
        infos = {task.info for task in victims}
        wanted = sorted({info.rows[GPUS] for info in infos})
        if not wanted[0] or any(larger % smaller for smaller, larger in pairwise(wanted)):
            return False
        table = self._session.table
        allowed = self._allowed(infos, nodes)
        # A pod goes first to a node where it fits by idle resources, however full other nodes are.
        if allowed is None or bool((table.idle[GPUS][allowed] >= wanted[0]).any()):
            return False
        pool = table.free.copy()
        for task in victims:
            i = table.index.get(task.node)
            if i is None or not allowed[i]:
                return False
            for row, amount in task.info.needs:
                pool[row, i] += amount
        free = pool[:, allowed]
        return bool((free >= 0).all()) and _gpus_decide(infos, free) and _no_gaps(free[GPUS], wanted)

    def _allowed(self, infos: set[ShapeInfo], nodes: np.ndarray) -> np.ndarray | None:
        """The nodes to which all shapes may go; None if the shapes may go to different ones."""
        masks = [node_capacity.allowed_nodes(self._session, info) for info in infos]
        every, some = nodes & np.logical_and.reduce(masks), nodes & np.logical_or.reduce(masks)
        return every if bool((every == some).all()) else None


def _gpus_decide(infos: set[ShapeInfo], free: np.ndarray) -> bool:
    """True if a node has enough of all other resources for any of these shapes that take its GPUs. ``free``: by
    resource and node.
    """
    most: dict[int, int] = {}
    for info in infos:
        for row, amount in info.needs:
            # The amount of the resource for each GPU.
            most[row] = max(most.get(row, 0), -(-amount * GPU // info.rows[GPUS]))
    return all(bool((free[GPUS] * each <= free[row] * GPU).all()) for row, each in most.items())


def _no_gaps(free: np.ndarray, wanted: list[int]) -> bool:
    """The invariant. ``free``: GPUs by node; ``wanted``: the amounts in ascending order."""
    step = 0
    for gpus in sorted(free.tolist()):
        if not gpus:
            continue
        if step and gpus % step:
            return False
        step = next((amount for amount in wanted if amount > gpus), wanted[-1])
    return True
