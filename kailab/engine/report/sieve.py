"""Each node under the first rule that keeps a task off it, by the filters that place tasks.

Two are told from this: how many nodes each reason holds for (``Pending.fits``), and what each node says with its values
(``node_answers``).
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import numpy as np

from kailab.engine.placing import fit
from kailab.engine.working.nodes import NodeTable
from kailab.engine.working.state import ShapeInfo


class NodeRule(StrEnum):
    """What keeps a task off a node, in the order in which it is asked."""

    BLOCKED = "blocked"  # something is missing that it needs wherever it goes
    UNAVAILABLE = "unavailable"  # cordoned, not ready
    SELECTOR = "selector"
    TAINT = "taint"
    GPU_KIND = "gpu kind"  # MIG or whole; GPUs that are for claims
    GPU_MEMORY = "gpu memory"  # the node does not tell it
    CAPACITY = "capacity"  # the node never had as much
    CLAIM = "claim"
    FREE = "free"  # others hold it
    SHARE = "share"  # no device has so large a part free
    NUMA = "numa"
    AFFINITY = "pod affinity"  # it wants to be with pods that are not there
    ANTI_AFFINITY = "pod anti-affinity"
    PORT = "host port"
    RESERVATION = "reservation"  # a device to be shared anew needs a pod slot for its reservation
    QUEUE = "queue"  # what the share would count for here is more than its queue may have
    TOPOLOGY = "topology"  # the domain that the node is in has no room for the group


class Stage(NamedTuple):
    """``refused``: the nodes of which ``rule`` is the first to keep the task off. ``row``: the resource that it is about."""

    rule: NodeRule
    refused: np.ndarray
    row: int = -1


class Sieve:
    """``open``: the nodes that no rule has refused so far."""

    def __init__(self, count: int) -> None:
        self.open = np.ones(count, dtype=bool)
        self.stages: list[Stage] = []

    def keep(self, rule: NodeRule, passing: np.ndarray, row: int = -1) -> None:
        """Ask one rule. ``passing``: the nodes that it lets through."""
        refused = self.open & ~passing
        if refused.any():
            self.stages.append(Stage(rule, refused, row))
            self.open = self.open & passing


def sift(table: NodeTable, info: ShapeInfo, predicates: bool = True) -> Sieve:
    """Ask all rules that look at the shape alone; those between pods are not among them. ``predicates``: see ``EngineConfig``."""
    shape = info.shape
    sieve = Sieve(len(table))
    if predicates:
        sieve.keep(NodeRule.UNAVAILABLE, table.available)
        sieve.keep(NodeRule.SELECTOR, fit.affinity_mask(table, shape))
        sieve.keep(NodeRule.TAINT, fit.taint_mask(table, shape))
        if shape.gpu.memory_mib:
            sieve.keep(NodeRule.GPU_MEMORY, table.memory_known)
        sieve.keep(NodeRule.GPU_KIND, fit.gpu_kind_mask(table, info))
    for row, amount in info.needs:
        sieve.keep(NodeRule.CAPACITY, table.allocatable[row] >= amount, row)
    if shape.claims:
        lacking = sieve.open.copy()
        for i in np.flatnonzero(sieve.open):
            lacking[i] = table.claims.lacking(shape, int(i)) is not None
        sieve.keep(NodeRule.CLAIM, ~lacking)
    idle = table.claims.counted(shape, table.idle) if shape.claims else table.idle
    for row, amount in info.needs:
        sieve.keep(NodeRule.FREE, idle[row] >= amount, row)
    if shape.gpu.shared:
        sieve.keep(NodeRule.SHARE, fit.shared_fits(table, info, table.idle))
    if table.numa:
        aligned = table.all.copy()
        table.numa.narrow(info, aligned)
        sieve.keep(NodeRule.NUMA, aligned)
    return sieve
