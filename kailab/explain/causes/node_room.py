"""Work for which there is no room now, as nodes stand: which room it is that lacks, found by giving it (``Ground.lacking``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from kailab.engine.relaxing.rules import (
    AllTolerated,
    AntiAffinityGone,
    ClaimsGone,
    CompanyNotNeeded,
    NodesOpened,
    PortsGone,
    Relaxation,
    Resource,
    RoomGiven,
    TopologyGone,
    ZonesIgnored,
)
from kailab.engine.report.node_filter import NodeRule
from kailab.engine.working.layout import CPU, MEMORY, PODS
from kailab.engine.working.state import ShapeInfo, WTask
from kailab.explain.cause import Cause, Code, Ref
from kailab.explain.causes.case import Case
from kailab.explain.causes.node_closed import cordon_cause, taint_cause
from kailab.explain.causes.node_domains import domain_cause
from kailab.explain.causes.node_ground import Ground
from kailab.explain.causes.node_shortage import device_row, free_devices, is_gpus, shortage, too_few_devices
from kailab.explain.verdict import kept
from kailab.lab.wording import some

_SHORTAGES: Mapping[Resource, tuple[Code, int, str]] = {
    "cpu": (Code.NOT_ENOUGH_CPU, CPU, "CPU"),
    "memory": (Code.NOT_ENOUGH_MEMORY, MEMORY, "memory"),
    "pods": (Code.NO_POD_SLOTS, PODS, "pod slots"),
}
_DEVICES = (RoomGiven(("gpu",)), RoomGiven(("extended",)), ClaimsGone())


def room(case: Case) -> Iterable[Cause]:
    """Causes that say more than that too little is free."""
    ground = case.ground
    if ground is None:
        return
    gives = ground.lacking
    devices = _devices(gives)
    for one in gives:
        match one:
            case AntiAffinityGone() | PortsGone():
                yield _kept_apart(ground)
            case CompanyNotNeeded():
                yield _nobody_there(ground)
            case TopologyGone():
                yield domain_cause(ground, ground.next, free=True)
            case ZonesIgnored():
                yield _unaligned(ground)
            case RoomGiven(resources=(resource,)) if resource in _SHORTAGES and not devices and _wants_devices(ground):
                yield _short_of(ground, resource)
    if devices and _in_sum(ground):
        yield too_few_devices(ground, Code.FRAGMENTED, _also(ground))


def too_little(case: Case) -> Iterable[Cause]:
    """Of GPUs and other devices; of CPU or memory for work that wants none."""
    ground = case.ground
    if ground is None or not ground.lacking:
        return
    gives = ground.lacking
    if ground.confined and TopologyGone() not in gives:
        yield domain_cause(ground, ground.next, free=True)
    if _devices(gives):
        code = Code.NOT_ENOUGH_GPUS if is_gpus(ground, device_row(ground)[0]) else Code.NOT_ENOUGH_RESOURCES
        yield too_few_devices(ground, code, _also(ground), _all_of_it(case, ground))
        return
    for one in gives:
        if isinstance(one, RoomGiven) and one.resources[0] in _SHORTAGES:
            yield _short_of(ground, one.resources[0])


def closed_nodes(case: Case) -> Iterable[Cause]:
    """Nodes that it may not use, and that have room for it: cordoned, or with a taint."""
    ground = case.ground
    if ground is None or not ground.lacking:
        return
    table, info = ground.table, ground.next[0].info
    for opening in (NodesOpened(), AllTolerated()):
        outcome = ground.trials(opening)
        used = np.array(sorted({table.index[bind.node] for bind in outcome.binds}), dtype=np.int64)
        used = used[~ground.open(info)[used]] if len(used) else used
        if len(used):
            # What one cycle uses is a choice among equals: all are named that would do.
            used = np.union1d(used, _opened(ground, opening, info))
            yield cordon_cause(table, used) if opening == NodesOpened() else taint_cause(table, info, used)


def _opened(ground: Ground, opening: Relaxation, info: ShapeInfo) -> np.ndarray:
    """Nodes that a shape may use only with a relaxation, and that have room for it now."""
    there = Ground(ground.trials.after(opening), ground.uid)
    # The relaxation may have changed the shape itself, what it tolerates.
    [relaxed, *_] = there.next
    mask = there.open(relaxed.info) & ~ground.open(info)
    for row, value in relaxed.info.rows.items():
        mask = mask & (there.table.idle[row] >= value)
    return np.flatnonzero(mask)


def _short_of(ground: Ground, resource: Resource) -> Cause:
    code, row, _ = _SHORTAGES[resource]
    return shortage(ground, code, row)


def _all_of_it(case: Case, ground: Ground) -> list[WTask]:
    """The pods of all its PodGroups that are like the next ones: its own may be what fills the nodes."""
    if case.subject.kind == "Queue":
        return []
    alike = [task.info.shape for task in ground.next]
    return [task for task in ground.to_place(sorted(kept(case.standing))) if task.info.shape in alike]


def _wants_devices(ground: Ground) -> bool:
    return any(not task.info.cpu_only or task.info.shape.extended for task in ground.next)


def _devices(gives: Iterable[Relaxation]) -> bool:
    return any(one in _DEVICES for one in gives)


def _also(ground: Ground) -> list[str]:
    """What is lacking beside the devices that are told."""
    gives = ground.lacking
    found = [name for resource, (_, _, name) in _SHORTAGES.items() if RoomGiven((resource,)) in gives]
    if RoomGiven(("extended",)) in gives and RoomGiven(("gpu",)) in gives:
        names = dict.fromkeys(name for task in ground.next for name, _ in task.info.shape.extended)
        found = [*names, *found]
    return found


def _in_sum(ground: Ground) -> bool:
    """Whether as much is free in sum as it wants, where it may run."""
    row, wanted = device_row(ground)
    return wanted > 0 and int(free_devices(ground, row).sum()) >= wanted


def _kept_apart(ground: Ground) -> Cause:
    rules = (NodeRule.ANTI_AFFINITY, NodeRule.PORT)
    answers = [one for one in ground.answers if one.rule in rules]
    if not answers:
        keys = sorted(
            {term.topology_key for task in ground.next for term in task.info.shape.anti_affinity if not term.weight}
        )
        return Cause(
            Code.KEPT_APART,
            f"Its {len(ground.next)} pods must start together and keep each other away by anti-affinity (one for each {some(keys)}); "
            "there is no room for all of them apart from each other.",
            (),
            {"pods": len(ground.next), "topologyKeys": keys},
        )
    nodes = [node for one in answers for node in one.nodes]
    by = "a host port" if answers[0].rule == NodeRule.PORT else "anti-affinity"
    where = "the node" if len(nodes) == 1 else f"each of the {len(nodes)} nodes"
    told = some([f"{one.nodes[0]} has pod {one.pod}" for one in answers])
    return Cause(
        Code.KEPT_APART,
        f"By {by} it is kept off {where} where it could run: {told}.",
        tuple(Ref("Node", "", node) for node in nodes[:4]),
        {"nodes": nodes},
    )


def _nobody_there(ground: Ground) -> Cause:
    answers = [one for one in ground.answers if one.rule == NodeRule.AFFINITY]
    nodes = [node for one in answers for node in one.nodes]
    told = answers[0].text if answers else "no pod that its affinity wants to be with"
    return Cause(
        Code.SELECTOR_MATCHES_NO_NODE,
        f"By its required pod affinity it has to be with other pods, and there are none where it could run ({told}).",
        tuple(Ref("Node", "", node) for node in nodes[:4]),
    )


def _unaligned(ground: Ground) -> Cause:
    nodes = [node for one in ground.answers if one.rule == NodeRule.NUMA for node in one.nodes]
    return Cause(
        Code.FRAGMENTED,
        f"Enough is free on {some(nodes) or 'nodes'}, but not in NUMA zones that can be aligned as the policy of the node demands.",
        tuple(Ref("Node", "", node) for node in nodes[:4]),
    )
