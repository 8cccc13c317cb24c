"""Each node under the first rule that keeps a task off it, by the filters that place tasks.

Two are told from this: how many nodes each reason holds for (``Pending.fits``), and what each node says with its values
(``node_answers``).
"""

from __future__ import annotations

from collections.abc import Iterator
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
    sieve = Sieve(len(table))
    for rule, passing, row in _rules(table, info, predicates, sieve):
        sieve.keep(rule, passing, row)
    return sieve


def refusals(table: NodeTable, info: ShapeInfo) -> list[Stage]:
    """The same rules, each with all nodes that it refuses, whether or not another has refused them."""
    everywhere = Sieve(len(table))
    found = [Stage(rule, ~passing, row) for rule, passing, row in _rules(table, info, True, everywhere)]
    return [stage for stage in found if stage.refused.any()]


def _rules(
    table: NodeTable, info: ShapeInfo, predicates: bool, sieve: Sieve
) -> Iterator[tuple[NodeRule, np.ndarray, int]]:
    """Each rule with the nodes that it lets through. What costs much for each node is asked of those that are open in ``sieve``."""
    shape = info.shape
    if predicates:
        yield NodeRule.UNAVAILABLE, table.available, -1
        yield NodeRule.SELECTOR, fit.affinity_mask(table, shape), -1
        yield NodeRule.TAINT, fit.taint_mask(table, shape), -1
        if shape.gpu.memory_mib:
            yield NodeRule.GPU_MEMORY, table.memory_known, -1
        yield NodeRule.GPU_KIND, fit.gpu_kind_mask(table, info), -1
    for row, amount in info.needs:
        yield NodeRule.CAPACITY, table.allocatable[row] >= amount, row
    if shape.claims:
        serving = table.all.copy()
        # The rules before this one have been kept by now: a generator goes on only when the next is asked for.
        for i in np.flatnonzero(sieve.open):
            serving[i] = table.claims.lacking(shape, int(i)) is None
        yield NodeRule.CLAIM, serving, -1
    idle = table.claims.counted(shape, table.idle) if shape.claims else table.idle
    for row, amount in info.needs:
        yield NodeRule.FREE, idle[row] >= amount, row
    if shape.gpu.shared:
        yield NodeRule.SHARE, fit.shared_fits(table, info, table.idle), -1
    if table.numa:
        aligned = table.all.copy()
        table.numa.narrow(info, aligned)
        yield NodeRule.NUMA, aligned, -1
