"""Why no node could take a task, all told: for each node every rule that refuses it, and of those sets the least.

A node takes the task once all rules that refuse it there are gone. So the least set is what has to go; what refuses it elsewhere
beside that says less.
"""

from __future__ import annotations

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
"""Taints that Kubernetes itself gives to nodes that are cordoned or not well: they go when the node is well again."""

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
"""What is easier to change weighs less. A node that does not meet the selector is one that the task does not ask for."""
_ABSENT = 200
_FULL = 10
"""On top, for nodes that are filled: more than to open others for which little has to change, less than to change what is asked for."""

_ORDER = tuple(reversed(_WEIGHTS))
"""What has to go first: a taint of a node that the task does not ask for, or that is too small for it, does not matter."""


class Barrier(NamedTuple):
    """``row``: the resource of which there is too little; ``absent``: the node has nothing of it at all."""

    rule: NodeRule
    row: int = -1
    absent: bool = False


class Barriers(NamedTuple):
    """``rules``: what has to go, what has to go first at the head. ``nodes``: positions of those that would be open then."""

    rules: tuple[Barrier, ...]
    nodes: np.ndarray


def barriers(table: NodeTable, info: ShapeInfo, full: np.ndarray | None = None) -> Barriers | None:
    """None where some node is open to the shape, as far as rules go that look at the shape alone; and where there are no nodes.
    ``full``: nodes (a mask) that others fill who stay: opening only such ones helps least of what is easily changed."""
    count = len(table)
    found: dict[Barrier, np.ndarray] = {}
    for stage in _with_lifecycle(table, info, refusals(table, info)):
        for barrier, mask in _split(table, info, stage):
            found[barrier] = found[barrier] | mask if barrier in found else mask
    bits = list(found)
    codes = np.zeros(count, dtype=np.int64)
    for place, barrier in enumerate(bits):
        # A bit for each barrier, so that nodes with the same set share a number.
        codes |= found[barrier].astype(np.int64) << place
    if not count or (codes == 0).any():
        return None
    sets = {int(code): [one for place, one in enumerate(bits) if int(code) >> place & 1] for code in np.unique(codes)}
    filled = np.zeros(count, dtype=bool) if full is None else full
    weights = {code: sum(map(_weight, sets[code])) + _FULL * bool(filled[codes == code].all()) for code in sets}
    # Of equal sets the one of most nodes; the number itself only makes the choice certain.
    best = min(sets, key=lambda code: (weights[code], -int((codes == code).sum()), code))
    rules = sorted(sets[best], key=lambda one: (_ORDER.index(one.rule), one.row))
    return Barriers(tuple(rules), np.flatnonzero(codes == best))


def _weight(barrier: Barrier) -> int:
    return _ABSENT if barrier.absent else _WEIGHTS[barrier.rule]


def _split(table: NodeTable, info: ShapeInfo, stage: FilterStage) -> list[tuple[Barrier, np.ndarray]]:
    """A stage as barriers: nodes that have nothing of a resource apart. A node without GPUs has too few of them, whatever kind it
    is that is asked for."""
    rule, refused, row = stage
    gpu = info.shape.gpu
    if rule in (NodeRule.GPU_KIND, NodeRule.GPU_MEMORY, NodeRule.SHARE):
        bare = refused & table.cpu_only
        parts = [(Barrier(rule), refused & ~bare), (Barrier(NodeRule.CAPACITY, GPUS, True), bare)]
    elif rule == NodeRule.CAPACITY:
        none = refused & (table.allocatable[row] <= 0)
        if table.layout.names[row] in dict(gpu.mig):
            none = none & ~table.cpu_only
            bare = refused & table.cpu_only
            parts = [(Barrier(NodeRule.CAPACITY, GPUS, True), bare)]
        else:
            parts = []
        parts += [(Barrier(rule, row), refused & (table.allocatable[row] > 0)), (Barrier(rule, row, True), none)]
    elif rule == NodeRule.FREE:  # what a node never had is not free either
        parts = [(Barrier(rule, row), refused & (table.allocatable[row] >= info.rows[row]))]
    else:
        parts = [(Barrier(rule, row), refused)]
    return [(barrier, mask) for barrier, mask in parts if mask.any()]


def _with_lifecycle(table: NodeTable, info: ShapeInfo, stages: list[FilterStage]) -> list[FilterStage]:
    """Taints that go with a cordon, or with a node that is not well, are one thing with that."""
    found: list[FilterStage] = []
    for stage in stages:
        if stage.rule != NodeRule.TAINT:
            found.append(stage)
            continue
        own = stage.refused.copy()
        for i in np.flatnonzero(stage.refused):
            taints = tuple(taint for taint in table.nodes[i].taints if taint.key not in LIFECYCLE_TAINTS)
            # Judged by the other taints alone; a node that only Kubernetes has tainted is unavailable, not tainted.
            own[i] = fit.untolerated(info.shape, taints) is not None
        found += [FilterStage(NodeRule.TAINT, own), FilterStage(NodeRule.UNAVAILABLE, stage.refused & ~own)]
    return found
