"""Causes in the room of nodes: too little is free now, no domain of a topology is large enough, or the whole fleet is too small.

Finders ask which relaxations of the engine let the group run (``NodeFacts.missing_room``) or start on empty nodes, and name the cause by
the relaxation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kailab.engine.placing.topology import joined
from kailab.engine.relaxing.rules import (
    AllTolerated,
    AntiAffinityGone,
    ClaimsGone,
    CompanyNotNeeded,
    NodesOpened,
    OthersGone,
    PortsGone,
    Relaxation,
    Resource,
    RoomGiven,
    SelectorGone,
    TopologyGone,
    ZonesIgnored,
)
from kailab.engine.report.barriers import LIFECYCLE_TAINTS
from kailab.engine.report.node_filter import NodeRule, untolerated_taints
from kailab.engine.snapshot.records import GPU, Constraint
from kailab.engine.working.domains import Domain, DomainTree
from kailab.engine.working.layout import CPU, GPUS, MEMORY, MIG_PREFIX, PODS
from kailab.engine.working.state import Member, ShapeInfo, WSubGroup, WTask
from kailab.explain.causes.node_facts import (
    NodeFacts,
    amount,
    amount_figure,
    best_node,
    node_refs,
    pods_phrase,
    request_text,
    row_wanted,
    rows_of,
)
from kailab.explain.causes.node_restrictions import closed_node_causes, cordon_cause, taint_cause
from kailab.explain.causes.waiting_group import WaitingPodGroup
from kailab.explain.subject import workload_podgroups
from kailab.lab.answer import Cause, CauseCode, ObjectRef
from kailab.lab.wording import capitalized, count, some


def device_row(facts: NodeFacts) -> tuple[int, int]:
    """The row of the devices that the group lacks, and how much of them its next pods request together. These are GPUs if they are
    lacking, else the resource of which the best node has least left for the largest pod."""
    table, tasks = facts.table, facts.next_tasks
    device = int(table.min_gpu_memory)
    others = {
        table.layout.rows[name]
        for task in tasks
        for name, _ in (*task.info.shape.gpu.profiles, *task.info.shape.extended)
    }
    wants_gpus = any(row_wanted(task, GPUS, device) for task in tasks)
    given = facts.missing_room
    row = GPUS
    if others and (not wants_gpus or (RoomGiven(("extended",)) in given and RoomGiven(("gpu",)) not in given)):
        row = min(sorted(others), key=lambda other: _left(facts, other))
    return row, sum(row_wanted(task, row, device) for task in tasks)


def is_gpus(facts: NodeFacts, row: int) -> bool:
    """Whether a row counts GPUs or MIG profiles."""
    return row == GPUS or facts.table.layout.names[row].startswith(MIG_PREFIX)


def _left(facts: NodeFacts, row: int) -> int:
    """What the node with the most free has left after the pod with the largest request."""
    return int(free_devices(facts, row).max(initial=0)) - max(task.info.rows.get(row, 0) for task in facts.next_tasks)


def free_devices(facts: NodeFacts, row: int) -> np.ndarray:
    """What each node that the group may use has free, with parts of shared GPUs for a group that requests parts."""
    table = facts.table
    usable = facts.usable_nodes(facts.next_tasks)
    free = np.maximum(table.idle[row], 0)
    if row == GPUS and _wants_parts(facts):
        free = np.array([max(0, table.unheld_gpus(i)) for i in range(len(table))], dtype=np.int64)
    free_usable: np.ndarray = np.where(usable, free, 0)
    return free_usable


def _wants_parts(facts: NodeFacts) -> bool:
    return any(task.info.shape.gpu.shared for task in facts.next_tasks)


def _on_one_device(facts: NodeFacts, usable: np.ndarray) -> tuple[int, int]:
    """The node with the device that has most free, and how much that is, in milli-GPU."""
    table = facts.table
    left = table.shares.left(int(table.allocatable[GPUS].max(initial=GPU)) // GPU).max(axis=1, initial=0)
    most = np.where(table.idle[GPUS] >= GPU, GPU, left)
    node = best_node(most, usable)
    assert node is not None
    return node, int(most[node])


def too_few_devices(facts: NodeFacts, code: CauseCode, also: Sequence[str], whole: Sequence[WTask] = ()) -> Cause:
    """The cause that too few devices are free. ``also``: further resources that are lacking. ``whole``: all pods of the workload, named
    if the nodes can't hold all of them even without other work."""
    table, tasks = facts.table, facts.next_tasks
    row, wanted = device_row(facts)
    name = table.layout.names[row]
    usable = facts.usable_nodes(tasks)
    free = free_devices(facts, row)
    best = best_node(free, usable)
    assert best is not None  # it would start on empty nodes
    node, most, capacity = table.nodes[best].name, int(free[best]), int(table.allocatable[row, best])
    wanting = _wanting(facts, tasks, row, wanted)
    total = int(free.sum())
    of = f"{amount_figure(name, most)} of {amount_figure(name, capacity)}"
    if code == CauseCode.FRAGMENTED:
        places = f"the {count(int((free > 0).sum()), 'node')} with room that it may use"
        # A share of a GPU has to be on one device: what a node has free in sum is no room for it.
        parts = row == GPUS and _wants_parts(facts)
        if parts:
            best, most = _on_one_device(facts, usable)
            node = table.nodes[best].name
        place = "device" if parts else "node"
        text = f"{wanting}{f' on one {place}' if len(tasks) == 1 else ''}; {amount_figure(name, total)} are free in sum on {places}, at most "
        text += f"{amount_figure(name, most)} on one {f'device (of {node})' if parts else f'({node})'}"
        text += "" if len(tasks) == 1 else f", and room for {_placed(facts)} of these pods"
    elif len(tasks) == 1:
        few = "the only node that it may use," if int(usable.sum()) == 1 else "of the nodes that it may use"
        text = f"{wanting}; {few} {node}{',' if int(usable.sum()) == 1 else ''} has "
        text += f"{of} free" if int(usable.sum()) == 1 else f"the most free: {of}"
    else:
        text = f"{wanting}; {amount_figure(name, total)} are free on the nodes that they may use, the most on {node} ({of})"
    text += f"; {' and '.join(also)} would not suffice either" if also else ""
    in_all = sum(row_wanted(task, row, int(table.min_gpu_memory)) for task in whole)
    capacity_in_all = int(table.allocatable[row][usable].sum())
    if in_all > capacity_in_all:
        text += f". Its {len(whole)} pods want {amount(name, in_all)}, and the nodes that they may use have {amount_figure(name, capacity_in_all)} in all"
    return Cause(
        code,
        f"{text}.",
        node_refs(table, [best]),
        {"resource": name, "wanted": wanted, "free": total, "node": node, "most": most, "also": list(also)},
    )


def shortage(facts: NodeFacts, code: CauseCode, row: int) -> Cause:
    """The cause that CPU, memory or pod slots are lacking where all other resources would suffice."""
    table, tasks = facts.table, facts.next_tasks
    task = tasks[0]
    name = table.layout.names[row]
    among = facts.usable_nodes([task])
    for other, value in task.info.rows.items():
        if other != row and value:
            among = among & (table.idle[other] >= value)
    if not among.any():
        among = facts.usable_nodes([task])
    free = np.maximum(table.idle[row], 0)
    best = best_node(free, among)
    assert best is not None
    node, most, capacity = table.nodes[best].name, int(free[best]), int(table.allocatable[row, best])
    where = "where GPUs are free" if task.info.request or task.info.shape.gpu.shared else "where it may run"
    only = int(among.sum()) == 1
    if row == PODS:
        full = f"{node} has {capacity - most} of {capacity}"
        text = f"The nodes {where} have as many pods as they take ({full})"
        if task.info.shape.gpu.shared:
            text = f"A share of a GPU needs 2 free pod slots, one for the pod that reserves the GPU; of the nodes {where} none has them ({full})"
        if len(tasks) > 1:
            text += f"; its {len(tasks)} pods must start together, and there is room for {_placed(facts)} of them"
    else:
        wanting = _wanting(facts, tasks, row, sum(pod.info.rows.get(row, 0) for pod in tasks))
        of = f"{amount_figure(name, most)} of {amount_figure(name, capacity)}"
        has = f"{node}, {where}, has {of} free" if only else f"of the nodes {where} {node} has the most free: {of}"
        text = f"{wanting}; {has}"
        if len(tasks) > 1:
            text += f", and there is room for {_placed(facts)} of these pods"
    return Cause(
        code,
        f"{text}.",
        node_refs(table, [best]),
        {"resource": name, "wanted": task.info.rows.get(row, 0), "node": node, "most": most, "capacity": capacity},
    )


def _wanting(facts: NodeFacts, tasks: Sequence[WTask], row: int, wanted: int) -> str:
    table = facts.table
    if len(tasks) == 1:
        waiting = sum(not task.node for task in facts.job)
        subject = "Its next pod wants" if waiting > 1 else "It wants"
        return f"{subject} {request_text(tasks[0].info, row, table)}"
    each = request_text(tasks[0].info, row, table)
    return capitalized(f"{pods_phrase(tasks)} {amount(table.layout.names[row], wanted)} ({each} each)")


def _placed(facts: NodeFacts) -> int:
    """For how many of the next pods there is room now."""
    return next((pending.numbers["placed"] for pending in facts.trials().pending if "placed" in pending.numbers), 0)


class _Confined(NamedTuple):
    constraint: Constraint
    tasks: list[WTask]


def domain_cause(facts: NodeFacts, tasks: list[WTask], *, free: bool) -> Cause:
    """The cause that no domain holds these pods. ``free``: by what is free now, else by the nodes' capacity.

    Pods beyond the minimum must join the first ones, so a group larger than every domain never fits, whatever else ends.
    """
    if free:
        larger = _short(_cause(facts, confined, free=False) for confined in _confined(facts.to_place([facts.uid])))
        if larger:
            return larger[0]
    causes = [_cause(facts, confined, free) for confined in _confined(tasks)]
    return (_short(causes) or causes)[0]


def _short(causes: Iterable[Cause]) -> list[Cause]:
    """The causes for which even the largest domain has too little."""
    return [cause for cause in causes if cause.facts["wanted"] > cause.facts["most"]]


def _confined(tasks: list[WTask]) -> Iterator[_Confined]:
    """The subgroups of these pods that require a topology level, the widest first."""
    job = tasks[0].job
    assert job is not None

    def visit(member: Member) -> Iterator[_Confined]:
        inside = set(member.podsets)
        own = [task for task in tasks if task.podset in inside]
        if member.constraint is not None and member.constraint.topology and own:
            yield _Confined(member.constraint, own)
        if isinstance(member, WSubGroup):
            for below in member.members:
                yield from visit(below)

    yield from visit(job.root)


def _cause(facts: NodeFacts, confined: _Confined, free: bool) -> Cause:
    constraint, tasks = confined
    label = constraint.required or constraint.preferred
    tree = facts.working_set.domain_tree(facts.working_set.topologies[constraint.topology])
    level = tree.levels.index(label)
    homes = _homes(facts, confined, tree) if free else []
    domains = homes or list(tree.by_level[level].values())
    tightest = _tightest(facts, tasks, domains, free)
    where = f"one {label} of topology {constraint.topology}"
    if homes:
        where += f", {some([home.id[-1] for home in homes])}, where pods of it run,"
    text = f"{_want(facts, tasks, tightest, where)}; "
    most, name = tightest.domain, facts.table.layout.names[tightest.row]
    deepest = tree.common(tree.member, constraint.preferred)
    if most is None:
        text += f"there is no {label} with a node that it may use"
    elif tightest.ratio > 1:
        head = f"the {label} with the most free" if free else f"the largest {label}"
        text += f"{most.id[-1] if homes else f'{head}, {most.id[-1]},'} has {amount_figure(name, tightest.has)}{' free' if homes else ''}"
    elif deepest.level > level:
        text += (
            f"all nodes of the topology are in one {tree.levels[deepest.level]}, {deepest.id[-1]}, and KAI's scheduler looks for a "
            f"{label} only below it: it finds none. A node outside of it, or a preferred level, would let it look"
        )
    else:
        no = "it has no room" if homes else f"no {label} has room"
        text += f"{no} for all of them: {most.id[-1]} has {amount_figure(name, tightest.has)} {'free ' if free else ''}in sum"
    return Cause(
        CauseCode.NO_DOMAIN_FREE if free else CauseCode.LARGER_THAN_ANY_DOMAIN,
        f"{text}.",
        (ObjectRef("Topology", "", constraint.topology),),
        {
            "topology": constraint.topology, "level": label, "domain": most.id[-1] if most is not None else "",
            "resource": name, "wanted": tightest.wanted, "most": tightest.has,
        },
    )  # fmt: skip


def _homes(facts: NodeFacts, confined: _Confined, tree: DomainTree) -> list[Domain]:
    """The domains that pods of the group already use and that these must join; empty if none runs."""
    constraint, tasks = confined
    podsets = list(dict.fromkeys(task.podset for task in tasks if task.podset is not None))
    return joined(tree, constraint.required, podsets, facts.table.index) or [] if constraint.required else []


class _Tightest(NamedTuple):
    """The row of which pods request the largest part of what the best domain has. ``ratio``: ``wanted`` / ``has``, above 1 if it is too
    little."""

    ratio: float
    row: int
    wanted: int
    has: int
    domain: Domain | None


def _tightest(facts: NodeFacts, tasks: list[WTask], domains: list[Domain], free: bool) -> _Tightest:
    table, usable = facts.table, facts.usable_nodes(tasks)
    device = int(table.min_gpu_memory)
    pool = np.maximum(table.idle, 0) if free else table.allocatable
    best: _Tightest | None = None
    for row in rows_of(tasks):
        wanted = sum(row_wanted(task, row, device) for task in tasks)
        room = {domain.id: int(pool[row][domain.mask & usable].sum()) for domain in domains}
        most = max(domains, key=lambda domain: (room[domain.id], [-ord(c) for c in domain.name]), default=None)
        has = room[most.id] if most is not None else 0
        ratio = wanted / has if has else float("inf")
        if best is None or (ratio > 1 and best.ratio <= 1):
            best = _Tightest(ratio, row, wanted, has, most)
    assert best is not None
    return best


def _want(facts: NodeFacts, tasks: list[WTask], tightest: _Tightest, where: str) -> str:
    """What the pods request together, with each pod's share where they share GPUs, as a share counts for less than its name."""
    table = facts.table
    each = request_text(tasks[0].info, tightest.row, table)
    if len(tasks) == 1:
        return f"It has to be in {where} and wants {each}"
    text = f"Its {len(tasks)} pods have to be in {where} and want {amount(table.layout.names[tightest.row], tightest.wanted)}"
    return f"{text} ({each} each)" if tasks[0].info.shape.gpu.shared else text


_SHORTAGES: Mapping[Resource, tuple[CauseCode, int, str]] = {
    "cpu": (CauseCode.NOT_ENOUGH_CPU, CPU, "CPU"),
    "memory": (CauseCode.NOT_ENOUGH_MEMORY, MEMORY, "memory"),
    "pods": (CauseCode.NO_POD_SLOTS, PODS, "pod slots"),
}
_DEVICES = (RoomGiven(("gpu",)), RoomGiven(("extended",)), ClaimsGone())


def find_lacking_room(group: WaitingPodGroup) -> Iterable[Cause]:
    """Causes that say more than that too little is free: fragmentation, other pods, topology, or CPU where GPUs are free."""
    facts = group.node_facts
    if facts is None:
        return
    missing = facts.missing_room
    devices = _devices(missing)
    for relaxation in missing:
        match relaxation:
            case AntiAffinityGone() | PortsGone():
                yield _kept_apart(facts)
            case CompanyNotNeeded():
                yield _missing_company(facts)
            case TopologyGone():
                yield domain_cause(facts, facts.next_tasks, free=True)
            case ZonesIgnored():
                yield _numa_misaligned(facts)
            case RoomGiven(resources=(resource,)) if resource in _SHORTAGES and not devices and _wants_devices(facts):
                yield _short_of(facts, resource)
    if devices and _in_sum(facts):
        yield too_few_devices(facts, CauseCode.FRAGMENTED, _also(facts))


def find_shortage(group: WaitingPodGroup) -> Iterable[Cause]:
    """Too little is free of devices, or of CPU or memory for work without devices."""
    facts = group.node_facts
    if facts is None or not facts.missing_room:
        return
    missing = facts.missing_room
    if facts.needs_domain and TopologyGone() not in missing:
        yield domain_cause(facts, facts.next_tasks, free=True)
    if _devices(missing):
        code = CauseCode.NOT_ENOUGH_GPUS if is_gpus(facts, device_row(facts)[0]) else CauseCode.NOT_ENOUGH_RESOURCES
        yield too_few_devices(facts, code, _also(facts), _workload_tasks(group, facts))
        return
    for relaxation in missing:
        if isinstance(relaxation, RoomGiven) and relaxation.resources[0] in _SHORTAGES:
            yield _short_of(facts, relaxation.resources[0])


def find_closed_nodes(group: WaitingPodGroup) -> Iterable[Cause]:
    """Nodes that have room for it but are cordoned, not ready or tainted."""
    facts = group.node_facts
    if facts is None or not facts.missing_room:
        return
    table, info = facts.table, facts.next_tasks[0].info
    for opening in (NodesOpened(), AllTolerated()):
        outcome = facts.trials(opening)
        used = np.array(sorted({table.index[bind.node] for bind in outcome.binds}), dtype=np.int64)
        used = used[~facts.open_nodes(info)[used]] if len(used) else used
        if len(used):
            # One cycle uses one of several equal nodes; the cause names all of them.
            used = np.union1d(used, _opened(facts, opening, info))
            yield cordon_cause(table, used) if opening == NodesOpened() else taint_cause(table, info, used)


def _opened(facts: NodeFacts, opening: Relaxation, info: ShapeInfo) -> np.ndarray:
    """Nodes (positions) that have room for a shape and that it may use only with a relaxation."""
    relaxed_facts = NodeFacts(facts.trials.after(opening), facts.uid)
    # The relaxation may have changed the shape itself, what it tolerates.
    [relaxed, *_] = relaxed_facts.next_tasks
    mask = relaxed_facts.open_nodes(relaxed.info) & ~facts.open_nodes(info)
    for row, value in relaxed.info.rows.items():
        mask = mask & (relaxed_facts.table.idle[row] >= value)
    return np.flatnonzero(mask)


def _short_of(facts: NodeFacts, resource: Resource) -> Cause:
    code, row, _ = _SHORTAGES[resource]
    return shortage(facts, code, row)


def _workload_tasks(group: WaitingPodGroup, facts: NodeFacts) -> list[WTask]:
    """The pods of all PodGroups of its workload that are like the next ones, as these may be what fills the nodes."""
    if group.subject.kind == "Queue":
        return []
    alike = [task.info.shape for task in facts.next_tasks]
    return [task for task in facts.to_place(sorted(workload_podgroups(group.state))) if task.info.shape in alike]


def _wants_devices(facts: NodeFacts) -> bool:
    return any(not task.info.cpu_only or task.info.shape.extended for task in facts.next_tasks)


def _devices(missing: Iterable[Relaxation]) -> bool:
    return any(relaxation in _DEVICES for relaxation in missing)


def _also(facts: NodeFacts) -> list[str]:
    """The resources that are lacking beside devices."""
    missing = facts.missing_room
    lacking = [name for resource, (_, _, name) in _SHORTAGES.items() if RoomGiven((resource,)) in missing]
    if RoomGiven(("extended",)) in missing and RoomGiven(("gpu",)) in missing:
        names = dict.fromkeys(name for task in facts.next_tasks for name, _ in task.info.shape.extended)
        lacking = [*names, *lacking]
    return lacking


def _in_sum(facts: NodeFacts) -> bool:
    """Whether the nodes that it may use have as much free in sum as it requests."""
    row, wanted = device_row(facts)
    return wanted > 0 and int(free_devices(facts, row).sum()) >= wanted


def _kept_apart(facts: NodeFacts) -> Cause:
    rules = (NodeRule.ANTI_AFFINITY, NodeRule.PORT)
    answers = [answer for answer in facts.answers if answer.rule in rules]
    if not answers:
        keys = sorted(
            {
                term.topology_key
                for task in facts.next_tasks
                for term in task.info.shape.anti_affinity
                if not term.weight
            }
        )
        return Cause(
            CauseCode.KEPT_APART,
            f"Its {len(facts.next_tasks)} pods must start together, and their anti-affinity keeps them apart (one for each {some(keys)}); "
            "there is no room for all of them.",
            (),
            {"pods": len(facts.next_tasks), "topologyKeys": keys},
        )
    nodes = [node for answer in answers for node in answer.nodes]
    by = "a host port" if answers[0].rule == NodeRule.PORT else "anti-affinity"
    where = "the node" if len(nodes) == 1 else f"each of the {len(nodes)} nodes"
    blockers = some([f"{answer.nodes[0]} has pod {answer.pod}" for answer in answers])
    return Cause(
        CauseCode.KEPT_APART,
        f"{capitalized(by)} keeps it off {where} where it could run: {blockers}.",
        tuple(ObjectRef("Node", "", node) for node in nodes[:4]),
        {"nodes": nodes},
    )


def _missing_company(facts: NodeFacts) -> Cause:
    answers = [answer for answer in facts.answers if answer.rule == NodeRule.AFFINITY]
    nodes = [node for answer in answers for node in answer.nodes]
    reason = answers[0].text if answers else "no pod that its affinity wants to be with"
    return Cause(
        CauseCode.SELECTOR_MATCHES_NO_NODE,
        f"Its required pod affinity demands other pods beside it, and there are none where it could run ({reason}).",
        tuple(ObjectRef("Node", "", node) for node in nodes[:4]),
    )


def _numa_misaligned(facts: NodeFacts) -> Cause:
    nodes = [node for answer in facts.answers if answer.rule == NodeRule.NUMA for node in answer.nodes]
    return Cause(
        CauseCode.FRAGMENTED,
        f"Enough is free on {some(nodes) or 'nodes'}, but not in NUMA zones that can be aligned as the policy of the node demands.",
        tuple(ObjectRef("Node", "", node) for node in nodes[:4]),
    )


def find_fleet_limits(group: WaitingPodGroup) -> Iterable[Cause]:
    """Causes that remain without any other work."""
    facts = group.node_facts
    if facts is None or any(task.shape.blocked for task in group.pending_tasks):
        return
    table = facts.empty_working_set.table
    if not group.picture.nodes:
        yield Cause(CauseCode.LARGER_THAN_THE_FLEET, "There are no nodes.")
        return
    codes: set[CauseCode] = set()
    for info in {id(task.info): task.info for task in facts.waiting_alone()}.values():
        causes = closed_node_causes(table, info)
        if causes and group.state.running and group.subject.kind != "Queue":
            causes = closed_node_causes(table, info, _full(group, info))
        for cause in causes:
            if cause.code not in codes:
                codes.add(cause.code)
                yield cause
    if not codes and facts.ready and facts.topologies_known and not facts.starts_alone().further:
        yield from _gang_causes(group, facts)


def _full(group: WaitingPodGroup, info: ShapeInfo) -> np.ndarray:
    """The nodes (a mask) on which the running pods of its workload leave too little room for one more."""
    table = group.state.trials.about(*sorted(workload_podgroups(group.state))).after(OthersGone()).working.table
    full: np.ndarray = ~table.all
    for row, wanted in info.needs:
        full |= (table.allocatable[row] >= wanted) & (table.idle[row] < wanted)
    return full


_RELAXATIONS: tuple[Relaxation, ...] = (
    SelectorGone(), RoomGiven(), TopologyGone(), AntiAffinityGone(), AllTolerated(), NodesOpened(),
)  # fmt: skip
"""In this order each is given up if the others suffice, so the later ones are named first."""


def needed_relaxations(facts: NodeFacts, relaxations: tuple[Relaxation, ...]) -> list[Relaxation]:
    """The fewest of these relaxations that let the group start on empty nodes; empty if all together do not."""
    left = list(relaxations)
    if not facts.starts_alone(*left).further:
        return []
    for relaxation in relaxations:
        fewer = [other for other in left if other is not relaxation]
        if facts.starts_alone(*fewer).further:
            left = fewer
    return left


def _gang_causes(group: WaitingPodGroup, facts: NodeFacts) -> Iterable[Cause]:
    """Causes of a group of which each pod fits on some node, but not all at once."""
    tasks = facts.starting_tasks
    for relaxation in reversed(needed_relaxations(facts, _RELAXATIONS)):
        match relaxation:
            case NodesOpened():
                yield cordon_cause(facts.table, np.flatnonzero(~facts.table.available))
            case AllTolerated():
                yield _taints_of_fleet(facts, tasks)
            case AntiAffinityGone():
                yield _too_few_domains(facts, tasks)
            case TopologyGone():
                yield domain_cause(facts, tasks, free=False)
            case RoomGiven():
                yield larger_than_the_fleet(facts, tasks)
            case SelectorGone():
                yield larger_than_the_fleet(facts, tasks)


def _taints_of_fleet(facts: NodeFacts, tasks: list[WTask]) -> Cause:
    table = facts.table
    info = tasks[0].info
    tainted = [
        i
        for i, node in enumerate(table.nodes)
        if any(taint.key not in LIFECYCLE_TAINTS for taint in untolerated_taints(info.shape, node.taints))
    ]
    return taint_cause(table, info, np.array(tainted, dtype=np.int64))


def _too_few_domains(facts: NodeFacts, tasks: list[WTask]) -> Cause:
    usable = facts.usable_nodes(tasks)
    keys = sorted({term.topology_key for task in tasks for term in task.info.shape.anti_affinity if not term.weight})
    domains = some([f"{len(set(facts.table.column(key)[0][usable]) - {-1})} {key}" for key in keys])
    return Cause(
        CauseCode.KEPT_APART,
        f"Its {len(tasks)} pods must start together, and their anti-affinity keeps them apart (one for each {some(keys)}); the nodes "
        f"that they may use have {domains}.",
        (),
        {"pods": len(tasks), "topologyKeys": keys},
    )


def larger_than_the_fleet(facts: NodeFacts, tasks: list[WTask]) -> Cause:
    """The cause that a gang requests more than all nodes have, or more than fits on them."""
    table = facts.table
    usable = facts.usable_nodes(tasks)
    device = int(table.min_gpu_memory)
    nodes = np.flatnonzero(usable)
    for row in rows_of(tasks):
        wanted = sum(row_wanted(task, row, device) for task in tasks)
        has = int(table.allocatable[row][usable].sum())
        if wanted > has:
            name = table.layout.names[row]
            shares = f" ({request_text(tasks[0].info, row, table)} each)" if tasks[0].info.shape.gpu.shared else ""
            return Cause(
                CauseCode.LARGER_THAN_THE_FLEET,
                f"{capitalized(pods_phrase(tasks))} {amount(name, wanted)}{shares}; the nodes that they may use have {amount_figure(name, has)} in all.",
                node_refs(table, nodes[:4]),
                {"pods": len(tasks), "resource": name, "wanted": wanted, "capacity": has},
            )
    row = _decisive(facts, tasks)
    name = table.layout.names[row]
    has = int(table.allocatable[row][usable].sum())
    wanted = sum(row_wanted(task, row, device) for task in tasks)
    alone = facts.starts_alone()
    placed = next((pending.numbers["placed"] for pending in alone.pending if "placed" in pending.numbers), 0)
    each = request_text(tasks[0].info, row, table)
    return Cause(
        CauseCode.FRAGMENTED,
        f"{capitalized(pods_phrase(tasks))} {amount(name, wanted)} ({each} each); the {len(nodes)} nodes that they may use have "
        f"{amount_figure(name, has)} in all, and room for {placed} of these pods even when they are empty.",
        node_refs(table, nodes[:4]),
        {"pods": len(tasks), "placed": placed, "resource": name, "wanted": wanted, "capacity": has},
    )


_RESOURCES: Mapping[int, Resource] = {CPU: "cpu", MEMORY: "memory", GPUS: "gpu", PODS: "pods"}


def _decisive(facts: NodeFacts, tasks: list[WTask]) -> int:
    """The row of which more room alone would let them start together; devices if no row alone does."""
    rows = rows_of(tasks)
    more = (row for row in rows if facts.starts_alone(RoomGiven((_RESOURCES.get(row, "extended"),))).further)
    return next(more, rows[0])
