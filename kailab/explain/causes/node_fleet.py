"""Work that could never start here, whatever else goes: pods that no node takes, or pods that do not fit together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from kailab.engine.relaxing.rules import (
    AllTolerated,
    AntiAffinityGone,
    NodesOpened,
    OthersGone,
    Relaxation,
    Resource,
    RoomGiven,
    SelectorGone,
    TopologyGone,
)
from kailab.engine.report.barriers import LIFECYCLE_TAINTS
from kailab.engine.report.node_filter import untolerated_taints
from kailab.engine.working.layout import CPU, GPUS, MEMORY, PODS
from kailab.engine.working.state import ShapeInfo, WTask
from kailab.explain.cause import Cause, Code
from kailab.explain.causes.case import Case
from kailab.explain.causes.node_closed import closed, cordon_cause, taint_cause
from kailab.explain.causes.node_domains import domain_cause
from kailab.explain.causes.node_ground import Ground
from kailab.explain.causes.node_words import amount, figure, node_refs, row_wanted, rows_of, wants, who
from kailab.explain.verdict import kept
from kailab.lab.wording import capitalized, some


def fleet(case: Case) -> Iterable[Cause]:
    """Causes that stay when all other work has gone."""
    ground = case.ground
    if ground is None or any(task.shape.blocked for task in case.waiting):
        return
    table = ground.empty.table
    if not case.picture.nodes:
        yield Cause(Code.LARGER_THAN_THE_FLEET, "There are no nodes.")
        return
    codes: set[Code] = set()
    for info in {id(task.info): task.info for task in ground.waiting_alone()}.values():
        found = closed(table, info)
        if found and case.standing.running and case.subject.kind != "Queue":
            found = closed(table, info, _full(case, info))
        for cause in found:
            if cause.code not in codes:
                codes.add(cause.code)
                yield cause
    if not codes and ground.ready and ground.topologies_known and not ground.starts_alone().further:
        yield from _together(case, ground)


def _full(case: Case, info: ShapeInfo) -> np.ndarray:
    """The nodes (a mask) of which the pods that run of its workload leave too little for one more."""
    table = case.standing.trials.about(*sorted(kept(case.standing))).after(OthersGone()).working.table
    found: np.ndarray = ~table.all
    for row, wanted in info.needs:
        found |= (table.allocatable[row] >= wanted) & (table.idle[row] < wanted)
    return found


_RELAXATIONS: tuple[Relaxation, ...] = (
    SelectorGone(), RoomGiven(), TopologyGone(), AntiAffinityGone(), AllTolerated(), NodesOpened(),
)  # fmt: skip
"""What is tried first to keep, so that it is a cause only where nothing behind it suffices."""


def needed(ground: Ground, relaxations: tuple[Relaxation, ...]) -> list[Relaxation]:
    """Of these as few as let the group start on empty nodes; none where all together do not."""
    left = list(relaxations)
    if not ground.starts_alone(*left).further:
        return []
    for one in relaxations:
        fewer = [other for other in left if other is not one]
        if ground.starts_alone(*fewer).further:
            left = fewer
    return left


def _together(case: Case, ground: Ground) -> Iterable[Cause]:
    """Each pod of the group has a node that would take it; all at once have not."""
    tasks = ground.together
    for one in reversed(needed(ground, _RELAXATIONS)):
        match one:
            case NodesOpened():
                yield cordon_cause(ground.table, np.flatnonzero(~ground.table.available))
            case AllTolerated():
                yield _tainted(ground, tasks)
            case AntiAffinityGone():
                yield _apart(ground, tasks)
            case TopologyGone():
                yield domain_cause(ground, tasks, free=False)
            case RoomGiven():
                yield larger_than_the_fleet(ground, tasks)
            case SelectorGone():
                yield larger_than_the_fleet(ground, tasks)


def _tainted(ground: Ground, tasks: list[WTask]) -> Cause:
    table = ground.table
    info = tasks[0].info
    tainted = [
        i
        for i, node in enumerate(table.nodes)
        if any(taint.key not in LIFECYCLE_TAINTS for taint in untolerated_taints(info.shape, node.taints))
    ]
    return taint_cause(table, info, np.array(tainted, dtype=np.int64))


def _apart(ground: Ground, tasks: list[WTask]) -> Cause:
    usable = ground.usable(tasks)
    keys = sorted({term.topology_key for task in tasks for term in task.info.shape.anti_affinity if not term.weight})
    told = some([f"{len(set(ground.table.column(key)[0][usable]) - {-1})} {key}" for key in keys])
    return Cause(
        Code.KEPT_APART,
        f"Its {len(tasks)} pods must start together and keep each other away by anti-affinity (one for each {some(keys)}); the nodes "
        f"that they may use make {told}.",
        (),
        {"pods": len(tasks), "topologyKeys": keys},
    )


def larger_than_the_fleet(ground: Ground, tasks: list[WTask]) -> Cause:
    """What must start together asks for more than all nodes have, or for more than fits into them."""
    table = ground.table
    usable = ground.usable(tasks)
    device = int(table.min_gpu_memory)
    nodes = np.flatnonzero(usable)
    for row in rows_of(tasks):
        wanted = sum(row_wanted(task, row, device) for task in tasks)
        has = int(table.allocatable[row][usable].sum())
        if wanted > has:
            name = table.layout.names[row]
            shares = f" ({wants(tasks[0].info, row, table)} each)" if tasks[0].info.shape.gpu.shared else ""
            return Cause(
                Code.LARGER_THAN_THE_FLEET,
                f"{capitalized(who(tasks))} {amount(name, wanted)}{shares}; the nodes that they may use have {figure(name, has)} in all.",
                node_refs(table, nodes[:4]),
                {"pods": len(tasks), "resource": name, "wanted": wanted, "capacity": has},
            )
    row = _decisive(ground, tasks)
    name = table.layout.names[row]
    has = int(table.allocatable[row][usable].sum())
    wanted = sum(row_wanted(task, row, device) for task in tasks)
    alone = ground.starts_alone()
    placed = next((one.numbers["placed"] for one in alone.pending if "placed" in one.numbers), 0)
    each = wants(tasks[0].info, row, table)
    return Cause(
        Code.FRAGMENTED,
        f"{capitalized(who(tasks))} {amount(name, wanted)} ({each} each); the {len(nodes)} nodes that they may use have "
        f"{figure(name, has)} in all, and room for {placed} of these pods even when they are empty.",
        node_refs(table, nodes[:4]),
        {"pods": len(tasks), "placed": placed, "resource": name, "wanted": wanted, "capacity": has},
    )


_RESOURCES: Mapping[int, Resource] = {CPU: "cpu", MEMORY: "memory", GPUS: "gpu", PODS: "pods"}


def _decisive(ground: Ground, tasks: list[WTask]) -> int:
    """The resource (a row of nodes) of which alone more on each node would let them start together; devices where none alone does."""
    rows = rows_of(tasks)
    more = (row for row in rows if ground.starts_alone(RoomGiven((_RESOURCES.get(row, "extended"),))).further)
    return next(more, rows[0])
