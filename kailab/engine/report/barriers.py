"""Why no node could ever take a task: the least set of rules that would have to go.

A node takes the task once all rules that refuse it there are gone. So for each node all refusing rules are collected,
and the set that is easiest to change is the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from kailab.engine.placing import fit
from kailab.engine.report.node_filter import FilterStage, NodeRule, refusals
from kailab.engine.working.layout import GPUS
from kailab.engine.working.nodes import NodeTable
from kailab.engine.working.state import ShapeInfo

LIFECYCLE_TAINTS = frozenset(
    f"node.kubernetes.io/{name}"
    for name in (
        "unschedulable", "not-ready", "unreachable", "memory-pressure", "disk-pressure", "pid-pressure",
        "network-unavailable",
    )
)  # fmt: skip
"""Taints that Kubernetes itself gives to cordoned or unhealthy nodes. They go when the node is schedulable and healthy
again.
"""

_WEIGHTS = {
    NodeRule.UNAVAILABLE: 1,
    NodeRule.TAINT: 2,
    NodeRule.FREE: 4,
    NodeRule.CAPACITY: 20,
    NodeRule.SHARE: 20,
    NodeRule.CLAIM: 20,
    NodeRule.NUMA: 20,
    NodeRule.GPU_MEMORY: 30,
    NodeRule.GPU_KIND: 50,
    NodeRule.SELECTOR: 1000,
}
"""Rules that are easier to change weigh less. A node that does not match the selector is one that the task does not ask
for.
"""
_ABSENT = 200
_FULL = 10
"""Added for full nodes: opening other nodes by a small change is better, and changing what the task asks for is worse.
"""

_ORDER = tuple(reversed(_WEIGHTS))
"""The order of the answer: a taint does not matter on a node that the task does not ask for or that is too small."""


class Barrier(NamedTuple):
    """One rule that refuses the task. ``row``: the resource that is missing. ``absent``: the node has nothing of it at
    all.
    """

    rule: NodeRule
    row: int = -1
    absent: bool = False


class Barriers(NamedTuple):
    """``rules``: the rules that have to go, the first one first. ``nodes``: the numbers of the nodes that would then be
    open.
    """

    rules: tuple[Barrier, ...]
    nodes: np.ndarray


def barriers(table: NodeTable, info: ShapeInfo, full: np.ndarray | None = None) -> Barriers | None:
    """The least set of rules that would have to go.

    None if the shape's own rules leave some node open, and if the cluster has no nodes. ``full``: a mask of nodes that
    other tasks fill and keep; a set that opens only such nodes weighs more.
    """
    count = len(table)
    masks: dict[Barrier, np.ndarray] = {}
    for stage in _with_lifecycle(table, info, refusals(table, info)):
        for barrier, mask in _split(table, info, stage):
            masks[barrier] = masks[barrier] | mask if barrier in masks else mask
    if Barrier(NodeRule.GPU_KIND) in masks:
        masks[Barrier(NodeRule.GPU_KIND)] &= ~_without_profile(table, info, masks)
    bits = list(masks)
    codes = np.zeros(count, dtype=np.int64)
    for bit, barrier in enumerate(bits):
        # A bit for each barrier, so that nodes with the same set share a number.
        codes |= masks[barrier].astype(np.int64) << bit
    if not count or (codes == 0).any():
        return None
    sets = {
        int(code): [barrier for bit, barrier in enumerate(bits) if int(code) >> bit & 1] for code in np.unique(codes)
    }
    filled = np.zeros(count, dtype=bool) if full is None else full
    weights = {code: sum(map(_weight, sets[code])) + _FULL * bool(filled[codes == code].all()) for code in sets}
    # Of equal weights, the set with most nodes; the number itself breaks ties.
    best = min(sets, key=lambda code: (weights[code], -int((codes == code).sum()), code))
    rules = sorted(sets[best], key=lambda barrier: (_ORDER.index(barrier.rule), barrier.row))
    return Barriers(tuple(rules), np.flatnonzero(codes == best))


def _without_profile(table: NodeTable, info: ShapeInfo, masks: Mapping[Barrier, np.ndarray]) -> np.ndarray:
    """Nodes that have nothing of a MIG profile that the task requests. That their GPUs are of another kind is the same obstacle."""
    rows = (table.layout.rows[name] for name, _ in info.shape.gpu.profiles)
    absent = (masks[barrier] for row in rows if (barrier := Barrier(NodeRule.CAPACITY, row, True)) in masks)
    return np.logical_or.reduce([~table.all, *absent])


def _weight(barrier: Barrier) -> int:
    return _ABSENT if barrier.absent else _WEIGHTS[barrier.rule]


def _split(table: NodeTable, info: ShapeInfo, stage: FilterStage) -> list[tuple[Barrier, np.ndarray]]:
    """The barriers of a stage. Nodes that have nothing of a resource are separate. A node without GPUs lacks GPUs,
    whatever kind is requested.
    """
    rule, refused, row = stage
    gpu = info.shape.gpu
    if rule in (NodeRule.GPU_KIND, NodeRule.GPU_MEMORY, NodeRule.SHARE):
        bare = refused & table.cpu_only
        parts = [(Barrier(rule), refused & ~bare), (Barrier(NodeRule.CAPACITY, GPUS, True), bare)]
    elif rule == NodeRule.CAPACITY:
        none = refused & (table.allocatable[row] <= 0)
        if table.layout.names[row] in dict(gpu.profiles):
            none = none & ~table.cpu_only
            bare = refused & table.cpu_only
            parts = [(Barrier(NodeRule.CAPACITY, GPUS, True), bare)]
        else:
            parts = []
        parts += [(Barrier(rule, row), refused & (table.allocatable[row] > 0)), (Barrier(rule, row, True), none)]
    elif rule == NodeRule.FREE:  # what a node never had cannot be free either
        parts = [(Barrier(rule, row), refused & (table.allocatable[row] >= info.rows[row]))]
    else:
        parts = [(Barrier(rule, row), refused)]
    return [(barrier, mask) for barrier, mask in parts if mask.any()]


def _with_lifecycle(table: NodeTable, info: ShapeInfo, stages: list[FilterStage]) -> list[FilterStage]:
    """Count taints of cordoned or unhealthy nodes as the rule that the node is unavailable."""
    result: list[FilterStage] = []
    for stage in stages:
        if stage.rule != NodeRule.TAINT:
            result.append(stage)
            continue
        own = stage.refused.copy()
        for i in np.flatnonzero(stage.refused):
            taints = tuple(taint for taint in table.nodes[i].taints if taint.key not in LIFECYCLE_TAINTS)
            # Only the other taints count; a node that only Kubernetes has tainted is unavailable, not tainted.
            own[i] = fit.untolerated(info.shape, taints) is not None
        result += [FilterStage(NodeRule.TAINT, own), FilterStage(NodeRule.UNAVAILABLE, stage.refused & ~own)]
    return result
