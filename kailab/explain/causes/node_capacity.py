"""Causes in the room of nodes: too little is free now, no domain of a topology is large enough, or the whole fleet is too small.

Finders ask which relaxations of the engine let the group run (``NodeFacts.missing_room``) or start on empty nodes, and name the cause by
the relaxation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from kailab.engine.placing.fit import fits
from kailab.engine.placing.topology import occupied_domains
from kailab.engine.relaxing.relaxed_cycles import RelaxedCycleOutcome
from kailab.engine.relaxing.rules import (
    AllTolerated,
    AntiAffinityGone,
    ClaimsGone,
    NodesOpened,
    OthersGone,
    PodAffinityGone,
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
from kailab.engine.working.layout import CPU, GPUS, MEMORY, PODS
from kailab.engine.working.state import Member, ShapeInfo, WSubGroup, WTask
from kailab.evidence.wording import capitalized, count, some
from kailab.explain.causes.node_facts import (
    NodeFacts,
    amount_figure,
    counted_resource,
    node_refs,
    node_with_most,
    request_text,
    row_wanted,
    rows_of,
)
from kailab.explain.causes.node_restrictions import closed_node_causes, cordon_cause, taint_cause
from kailab.explain.causes.refusal import PlainRefusal, Refusal
from kailab.explain.causes.waiting_group import WaitingPodGroup
from kailab.lab.answer import CauseCode, ObjectRef
from kailab.model.labels import MIG_PREFIX


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


def _left(facts: NodeFacts, row: int) -> int:
    """What the node with the most free has left after the pod with the largest request."""
    return int(free_devices(facts, row).max(initial=0)) - max(task.info.rows.get(row, 0) for task in facts.next_tasks)


def free_devices(facts: NodeFacts, row: int) -> np.ndarray:
    """What each node where the group may run (``_device_nodes``) has free, with parts of shared GPUs for a group that requests parts."""
    return _free_on(facts, row, _device_nodes(facts, row))


def _free_on(facts: NodeFacts, row: int, nodes: np.ndarray) -> np.ndarray:
    """What these nodes (a mask) have free, as ``free_devices`` counts it; 0 for the others."""
    table = facts.table
    free = np.maximum(table.idle[row], 0)
    if row == GPUS and _wants_parts(facts):
        free = np.array([max(0, table.unheld_gpus(i)) for i in range(len(table))], dtype=np.int64)
    free_there: np.ndarray = np.where(nodes, free, 0)
    return free_there


def _device_nodes(facts: NodeFacts, row: int) -> np.ndarray:
    """The nodes (a mask) that the group may use and where all is free that its next pods want, except for this row.

    What other nodes have free is no room for it: the GPUs of a node whose FPGAs are in use. If more is lacking than this row, what nodes
    have counts instead of what they have free.
    """
    table = facts.table
    usable = facts.usable_nodes(facts.next_tasks)
    pool = table.allocatable if _also(facts) else table.idle
    fitting: np.ndarray = usable.copy()
    for task in {id(task.info): task for task in facts.next_tasks}.values():
        fitting &= _fits_but_for(facts, task, [row], pool)
    return fitting if fitting.any() else usable


def _wants_parts(facts: NodeFacts) -> bool:
    return any(task.info.shape.gpu.shared for task in facts.next_tasks)


def _on_devices(facts: NodeFacts, usable: np.ndarray, devices: int, portion: int) -> tuple[int, int]:
    """The node of which the best ``devices`` offer most, at most ``portion`` each, and how much that is, in milli-GPU."""
    table = facts.table
    columns = int(table.allocatable[GPUS].max(initial=GPU)) // GPU
    free = np.sort(np.minimum(table.shares.free_shares(columns), portion), axis=1)[:, ::-1]
    sums = np.pad(np.cumsum(free, axis=1), ((0, 0), (1, devices)), mode="edge")
    sums[:, 0] = 0
    whole = np.clip(table.idle[GPUS] // GPU, 0, devices)
    return _most(whole * min(portion, GPU) + sums[np.arange(len(table)), devices - whole], usable)


@dataclass(frozen=True, kw_only=True)
class RoomRefusal(Refusal):
    """A comparison of what pods that are placed together want of a resource of nodes with what nodes have of it. ``wanted``: by all
    ``pods``; ``one``: by the one that wants most, and ``each``: the same in words. ``waiting``: how many pods of the group wait."""

    resource: str
    wanted: int
    pods: int
    waiting: int
    one: int
    each: str

    @property
    def wants(self) -> str:
        """``It wants 2 GPUs``, ``Its 4 pods must start together and want 8 GPUs (2 GPUs each)``."""
        if self.pods == 1:
            return f"{'Its next pod wants' if self.waiting > 1 else 'It wants'} {self.each}"
        return f"Its {self.pods} pods must start together and want {counted_resource(self.resource, self.wanted)}{self.of_each}"

    @property
    def of_each(self) -> str:
        """What each pod wants, or the most that one wants. A share counts for less than its name."""
        is_share = self.each != counted_resource(self.resource, self.one)
        up_to = "" if is_share or self.pods * self.one == self.wanted else "up to "
        return f" ({up_to}{self.each} each)"

    def figure(self, value: int) -> str:
        """An amount of the resource, without its name."""
        return amount_figure(self.resource, value)


@dataclass(frozen=True, kw_only=True)
class DevicesLacking(RoomRefusal):
    """The nodes that the pods may use have less free in sum (``free``) than they want: at ``most`` of ``capacity`` on ``node``, the best of
    ``nodes`` nodes. ``with_rest``: other nodes have some free, but not all else that the pods want. ``also``: further resources of which too little is free. ``whole``: all pods of the workload, what they want, and what
    the nodes have in all."""

    FACTS: ClassVar[tuple[str, ...]] = ("resource", "wanted", "free", "node", "most", "also")
    free: int
    node: str
    most: int
    capacity: int
    nodes: int
    with_rest: bool
    also: tuple[str, ...]
    whole: tuple[int, int, int]

    @property
    def holds(self) -> bool:
        return self.most <= self.free < self.wanted

    @property
    def sentence(self) -> str:
        of = f"{self.figure(self.most)} of {self.figure(self.capacity)}"
        of_use = "that they may use" if self.pods > 1 else "that it may use"
        if self.with_rest:
            of_use += f" with all else free that {'they want' if self.pods > 1 else 'it wants'}"
        if self.pods > 1:
            text = f"{self.figure(self.free)} are free on the nodes {of_use}, the most on {self.node} ({of})"
        elif self.nodes == 1:
            text = f"the only node {of_use}, {self.node}, has {of} free"
        else:
            text = f"of the nodes {of_use} {self.node} has the most free: {of}"
        return f"{self.wants}; {text}{_also_lacking(self.also)}{self._whole}."

    @property
    def _whole(self) -> str:
        pods, wanted, capacity = self.whole
        if wanted <= capacity:
            return ""
        return f". Its {pods} pods want {counted_resource(self.resource, wanted)}, and the nodes that they may use have {self.figure(capacity)} in all"


@dataclass(frozen=True, kw_only=True)
class DevicesFragmented(RoomRefusal):
    """Enough is ``free`` in sum on ``nodes`` nodes, but at ``most`` on one of them, ``node``, or on one device of it (``of_device``); on the
    ``devices`` that a pod takes a part of each, what it could take of them. ``placed``: for how many of the pods there is room."""

    FACTS: ClassVar[tuple[str, ...]] = ("resource", "wanted", "free", "node", "most", "also")
    code: CauseCode = CauseCode.FRAGMENTED
    free: int
    node: str
    most: int
    nodes: int
    of_device: bool
    placed: int
    also: tuple[str, ...]
    devices: int = 1

    @property
    def holds(self) -> bool:
        return self.wanted <= self.free and (self.most < self.wanted if self.pods == 1 else self.placed < self.pods)

    @property
    def sentence(self) -> str:
        # A share of a GPU has to be on one device: what a node has free in sum is no room for it.
        unit, best = ("device", f"device (of {self.node})") if self.of_device else ("node", f"({self.node})")
        if self.devices > 1:
            each = self.figure(self.wanted // self.devices)
            unit, best = "node", f"node's {self.devices} devices (of {self.node}), of which it takes up to {each} each"
        return (
            f"{self.wants}{f' on one {unit}' if self.pods == 1 else ''}; {self.figure(self.free)} are free in sum on the "
            f"{count(self.nodes, 'node')} with room that it may use, at most {self.figure(self.most)} on one {best}"
            f"{'' if self.pods == 1 else f', and room for {self.placed} of these pods'}{_also_lacking(self.also)}."
        )


def _also_lacking(names: Sequence[str]) -> str:
    return f"; {' and '.join(names)} would not suffice either" if names else ""


@dataclass(frozen=True, kw_only=True)
class ResourceLacking(RoomRefusal):
    """CPU, memory or pod slots are lacking where all else suffices: of the ``nodes`` nodes there, ``node`` has the most free, ``most`` of
    ``capacity``. ``for_devices``: these are the nodes with free devices. ``placed``: for how many of the pods there is room."""

    FACTS: ClassVar[tuple[str, ...]] = ("resource", "node", "most", "capacity")
    node: str
    most: int
    capacity: int
    nodes: int
    placed: int
    for_devices: bool

    @property
    def facts(self) -> Mapping[str, Any]:
        return {**super().facts, "wanted": self.one}

    @property
    def holds(self) -> bool:
        return self.most < self.wanted if self.pods == 1 else self.placed < self.pods

    @property
    def sentence(self) -> str:
        of = f"{self.figure(self.most)} of {self.figure(self.capacity)}"
        where = "where GPUs are free" if self.for_devices else "where it may run"
        if self.nodes == 1:
            text = f"{self.wants}; {self.node}, {where}, has {of} free"
        else:
            text = f"{self.wants}; of the nodes {where} {self.node} has the most free: {of}"
        return f"{text}{f', and there is room for {self.placed} of these pods' if self.pods > 1 else ''}."


@dataclass(frozen=True, kw_only=True)
class PodSlotsLacking(ResourceLacking):
    """``shared``: the pods request shares of GPUs, each of which may take a second slot."""

    code: CauseCode = CauseCode.NO_POD_SLOTS
    shared: bool

    @property
    def holds(self) -> bool:
        needed = 2 * self.wanted if self.shared else self.wanted
        return self.most < needed if self.pods == 1 else self.placed < self.pods

    @property
    def sentence(self) -> str:
        where = "where GPUs are free" if self.for_devices else "where it may run"
        full = f"{self.node} has {self.capacity - self.most} of {self.capacity}"
        text = f"The nodes {where} have as many pods as they take ({full})"
        if self.shared:
            text = f"A share of a GPU needs 2 free pod slots, one for the pod that reserves the GPU; of the nodes {where} none has them ({full})"
        if self.pods > 1:
            text += f"; its {self.pods} pods must start together, and there is room for {self.placed} of them"
        return f"{text}."


def _room(facts: NodeFacts, tasks: Sequence[WTask], row: int, wanted: int) -> dict[str, Any]:
    """The fields of every ``RoomRefusal``."""
    largest = max(tasks, key=lambda task: task.info.rows.get(row, 0)).info
    return {
        "resource": facts.table.layout.names[row], "wanted": wanted, "pods": len(tasks), "each": request_text(largest, row, facts.table),
        "one": largest.rows.get(row, 0),
        "waiting": sum(not task.node for task in facts.job),
    }  # fmt: skip


def _fragmented(facts: NodeFacts) -> DevicesFragmented:
    """The refusal that the free devices are on several nodes, or in parts of several devices."""
    table, tasks = facts.table, facts.next_tasks
    row, wanted = device_row(facts)
    usable = _device_nodes(facts, row)
    free = _free_on(facts, row, usable)
    of_device = row == GPUS and _wants_parts(facts)
    # A part of each of several devices: what one device has is no measure of them.
    devices = tasks[0].info.shape.gpu.devices if of_device and len(tasks) == 1 else 1
    portion = wanted // devices if devices > 1 else GPU
    best, most = _on_devices(facts, usable, devices, portion) if of_device else _most(free, usable)
    return DevicesFragmented(
        **_room(facts, tasks, row, wanted),
        free=int(free.sum()),
        node=table.nodes[best].name,
        most=most,
        nodes=int((free > 0).sum()),
        of_device=of_device,
        placed=_placed(facts),
        also=tuple(_also(facts)),
        devices=max(devices, 1),
        objects=node_refs(table, [best]),
    )


def _too_few_devices(group: WaitingPodGroup, facts: NodeFacts) -> DevicesLacking:
    """The refusal that too few devices are free, also in sum."""
    table, tasks = facts.table, facts.next_tasks
    row, wanted = device_row(facts)
    usable, fitting, device = facts.usable_nodes(tasks), _device_nodes(facts, row), int(table.min_gpu_memory)
    free = _free_on(facts, row, fitting)
    best, most = _most(free, fitting)
    whole = _workload_tasks(group, facts)
    is_gpus = row == GPUS or table.layout.names[row].startswith(MIG_PREFIX)
    return DevicesLacking(
        code=CauseCode.NOT_ENOUGH_GPUS if is_gpus else CauseCode.NOT_ENOUGH_RESOURCES,
        **_room(facts, tasks, row, wanted),
        free=int(free.sum()),
        node=table.nodes[best].name,
        most=most,
        capacity=int(table.allocatable[row, best]),
        nodes=int(fitting.sum()),
        with_rest=bool((np.maximum(table.idle[row], 0) * (usable & ~fitting)).any()),
        also=tuple(_also(facts)),
        whole=(
            len(whole),
            sum(row_wanted(task, row, device) for task in whole),
            int(table.allocatable[row][usable].sum()),
        ),
        objects=node_refs(table, [best]),
    )


def _short_of(facts: NodeFacts, resource: Resource) -> Iterator[ResourceLacking]:
    """Yield the refusal that CPU, memory or pod slots are lacking where everything suffices that the pods do not lack beside them. Yield
    nothing if they are lacking only in the domain in which the pods have to be: ``DomainLacking`` says that."""
    table, tasks = facts.table, facts.next_tasks
    code, row, _ = _SHORTAGES[resource]
    task = tasks[0]
    usable = facts.usable_nodes([task])
    among = usable & _fits_but_for(facts, task, _given_rows(facts, facts.missing_room), table.idle)
    with_free_rest = bool(among.any())
    if not with_free_rest:
        # Evictions would free the rest.
        among = usable & _fits_but_for(facts, task, _given_rows(facts, facts.missing_without_evictions), table.idle)
    if not among.any():
        among = usable
    best, most = _most(np.maximum(table.idle[row], 0), among)
    shared = task.info.shape.gpu.shared
    fields = {
        **_room(facts, tasks, row, sum(pod.info.rows.get(row, 0) for pod in tasks)), "node": table.nodes[best].name, "most": most,
        "capacity": int(table.allocatable[row, best]), "nodes": int(among.sum()), "placed": _placed(facts),
        "for_devices": with_free_rest and bool(task.info.request or shared), "objects": node_refs(table, [best]),
    }  # fmt: skip
    lacking = PodSlotsLacking(**fields, shared=shared) if row == PODS else ResourceLacking(**fields, code=code)
    if lacking.holds or not facts.needs_domain:
        yield lacking


def _given_rows(facts: NodeFacts, relaxations: Iterable[Relaxation]) -> set[int]:
    """The rows of nodes of which relaxations give more."""
    layout = facts.table.layout
    named: dict[Resource, Iterable[int]] = {
        "cpu": (CPU,), "memory": (MEMORY,), "pods": (PODS,), "gpu": (GPUS,), "extended": range(PODS + 1, len(layout.names)),
    }  # fmt: skip
    given = [relaxation for relaxation in relaxations if isinstance(relaxation, RoomGiven)]
    return {row for relaxation in given for resource in relaxation.resources for row in named[resource]}


def _fits_but_for(facts: NodeFacts, task: WTask, rows: Iterable[int], pool: np.ndarray) -> np.ndarray:
    """The nodes (a mask) where a pod would fit into ``pool`` if nodes that have any of these rows had enough of them."""
    table = facts.table
    enough = pool.copy()
    for row in rows:
        enough[row] = np.where(table.allocatable[row] > 0, np.iinfo(pool.dtype).max, pool[row])
    return fits(table, task.info, enough)


def _most(free: np.ndarray, among: np.ndarray) -> tuple[int, int]:
    """The node with the most free, and how much that is. Some node is usable, as the group would start on empty nodes."""
    best = node_with_most(free, among)
    assert best is not None
    return best, int(free[best])


def _placed(facts: NodeFacts) -> int:
    """For how many of the next pods there is room now."""
    return _placed_of(facts.relaxed_cycles())


def _placed_of(outcome: RelaxedCycleOutcome) -> int:
    return next((pending.numbers["placed"] for pending in outcome.pending if "placed" in pending.numbers), 0)


class _Confined(NamedTuple):
    """``within``: the group around it that requires a domain of the same topology, if any."""

    constraint: Constraint
    tasks: list[WTask]
    within: Constraint | None = None


@dataclass(frozen=True, kw_only=True)
class DomainLacking(RoomRefusal):
    """No domain at the ``level`` of a ``topology`` holds the pods: ``most`` is free in the best ``domain``, or its nodes have that (``now``
    False). ``homes``: the domains where pods of the group run, which these have to join. ``common``: the level and name of the deepest
    domain that contains all nodes of the topology, or of the domain ``within`` that the group around it has to be in, where it is below
    ``level``. ``whole``: the pods that have to be in the one home with those that run there, what they want, and what the home has in all."""

    FACTS: ClassVar[tuple[str, ...]] = ("topology", "level", "domain", "resource", "wanted", "most")
    topology: str
    level: str
    domain: str
    most: int
    now: bool
    homes: tuple[str, ...]
    common: tuple[str, str] | None
    within: str = ""
    whole: tuple[int, int, int] = (0, 0, 0)

    @property
    def is_too_small(self) -> bool:
        """Whether even the best domain has too little in sum."""
        return self.wanted > self.most

    @property
    def wants(self) -> str:
        where = f"one {self.level} of topology {self.topology}"
        if self.homes:
            where += f", {some(self.homes)}, where pods of it run,"
        if self.common is not None and not self.is_too_small:
            return f"It has to be in {where}"
        if self.pods == 1:
            return f"It has to be in {where} and wants {self.each}"
        return f"Its {self.pods} pods have to be in {where} and want {counted_resource(self.resource, self.wanted)}{self.of_each}"

    @property
    def sentence(self) -> str:
        has = self.figure(self.most)
        if not self.domain:
            text = f"there is no {self.level} with a node that it may use"
        elif self.is_too_small:
            head = f"the {self.level} with the most free" if self.now else f"the largest {self.level}"
            text = f"{self.domain} has {has} free" if self.homes else f"{head}, {self.domain}, has {has}"
        elif self.common is not None:
            level, name = self.common
            text = (
                f"all nodes of {self.within or 'the topology'} are in one {level}, {name}, and KAI's scheduler looks for a {self.level} only below it: it "
                "finds none. A node outside of it, or a preferred level, would let it look"
            )
        else:
            no = "it has no room" if self.homes else f"no {self.level} has room"
            text = f"{no} for all of them: {self.domain} has {has} {'free ' if self.now else ''}in sum"
        return f"{self.wants}; {text}.{self._whole}"

    @property
    def _whole(self) -> str:
        """That its own pods fill the home, which has never room for all of them."""
        pods, wanted, capacity = self.whole
        if wanted <= capacity:
            return ""
        text = counted_resource(self.resource, wanted)
        return f" Its {pods} pods want {text} together, and {self.domain} has {self.figure(capacity)} in all."

    def lifted(self) -> tuple[Relaxation, ...]:
        return (TopologyGone(),)


def _no_domain(facts: NodeFacts, tasks: list[WTask], *, now: bool) -> DomainLacking:
    """The refusal that no domain holds these pods. ``now``: by what is free now, else by the nodes' capacity.

    Pods beyond the minimum must join the first ones, so a group larger than every domain never fits, whatever else ends.
    """
    if now:
        for confined in _confined(facts.to_place([facts.uid])):
            if (larger := _domain(facts, confined, now=False)).is_too_small:
                return larger
    domains = [_domain(facts, confined, now) for confined in _confined(tasks)]
    small = (domain for domain in domains if domain.is_too_small)
    hidden = (domain for domain in domains if domain.common is not None)
    return next(small, next(hidden, domains[0]))


def _confined(tasks: list[WTask]) -> Iterator[_Confined]:
    """The subgroups of these pods that require a topology level, the widest first."""
    job = tasks[0].job
    assert job is not None

    def visit(member: Member, around: Constraint | None) -> Iterator[_Confined]:
        inside = set(member.podsets)
        own = [task for task in tasks if task.podset in inside]
        constraint = member.constraint
        if constraint is not None and constraint.topology and own:
            same = around is not None and around.topology == constraint.topology
            yield _Confined(constraint, own, around if same else None)
            around = constraint if constraint.required else around
        if isinstance(member, WSubGroup):
            for below in member.members:
                yield from visit(below, around)

    yield from visit(job.root, None)


def _domain(facts: NodeFacts, confined: _Confined, now: bool) -> DomainLacking:
    constraint, tasks, around = confined
    label = constraint.required or constraint.preferred
    tree = facts.working_set.domain_tree(facts.working_set.topologies[constraint.topology])
    level = tree.levels.index(label)
    homes = _homes(facts, confined, tree) if now else []
    row, wanted, most, domain = _tightest(facts, tasks, homes or list(tree.by_level[level].values()), now)
    whole = (0, 0, 0)
    if len(homes) == 1 and domain is not None:
        podsets, device = {task.podset for task in tasks}, int(facts.table.min_gpu_memory)
        together = [task for task in facts.to_place([facts.uid]) if task.podset in podsets]
        usable = facts.usable_nodes(tasks) & domain.mask
        capacity = int(facts.table.allocatable[row][usable].sum())
        if capacity:
            whole = len(together), sum(row_wanted(task, row, device) for task in together), capacity
    common, within = tree.common(tree.member, constraint.preferred), ""
    if around is not None and domain is not None and common.level <= level:
        # KAI looks for the domain among the nodes of one that the group around it is in.
        outer = next(one for one in tree.by_level[tree.levels.index(around.required)].values() if one.contains(domain))
        below = tree.common(outer.mask & tree.member, constraint.preferred)
        common, within = below, f"{around.required} {outer.id[-1]}"
    return DomainLacking(
        code=CauseCode.NO_DOMAIN_FREE if now else CauseCode.LARGER_THAN_ANY_DOMAIN,
        **_room(facts, tasks, row, wanted),
        topology=constraint.topology,
        level=label,
        domain=domain.id[-1] if domain is not None else "",
        most=most,
        now=now,
        homes=tuple(home.id[-1] for home in homes),
        common=(tree.levels[common.level], common.id[-1]) if common.level > level else None,
        within=within,
        whole=whole,
        objects=(ObjectRef("Topology", "", constraint.topology),),
    )


def _homes(facts: NodeFacts, confined: _Confined, tree: DomainTree) -> list[Domain]:
    """The domains that pods of the group already use and that these must join; empty if none runs."""
    constraint, tasks, _ = confined
    podsets = list(dict.fromkeys(task.podset for task in tasks if task.podset is not None))
    return occupied_domains(tree, constraint.required, podsets, facts.table.index) or [] if constraint.required else []


def _tightest(
    facts: NodeFacts, tasks: list[WTask], domains: list[Domain], now: bool
) -> tuple[int, int, int, Domain | None]:
    """The row of which pods request more than the best domain has, or else the first of their rows; what they request of it, what the
    best domain has, and that domain."""
    table, usable = facts.table, facts.usable_nodes(tasks)
    device = int(table.min_gpu_memory)
    first = None
    for row in rows_of(tasks):
        wanted = sum(row_wanted(task, row, device) for task in tasks)
        has = _free_on(facts, row, usable) if now else np.where(usable, table.allocatable[row], 0)
        room = {domain.id: int(has[domain.mask].sum()) for domain in domains}
        best = max(domains, key=lambda domain: (room[domain.id], [-ord(c) for c in domain.name]), default=None)
        tightest = row, wanted, room[best.id] if best is not None else 0, best
        if wanted > tightest[2]:
            return tightest
        first = first or tightest
    assert first is not None
    return first


_SHORTAGES: Mapping[Resource, tuple[CauseCode, int, str]] = {
    "cpu": (CauseCode.NOT_ENOUGH_CPU, CPU, "CPU"),
    "memory": (CauseCode.NOT_ENOUGH_MEMORY, MEMORY, "memory"),
    "pods": (CauseCode.NO_POD_SLOTS, PODS, "pod slots"),
}
_DEVICES = (RoomGiven(("gpu",)), RoomGiven(("extended",)), ClaimsGone())


def find_lacking_room(group: WaitingPodGroup) -> Iterable[Refusal]:
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
            case PodAffinityGone():
                yield _missing_company(facts)
            case TopologyGone():
                lacking = _no_domain(facts, facts.next_tasks, now=True)
                # Pods that join others may want room that is there, on nodes that are closed.
                if lacking.homes and not lacking.most:
                    yield from find_closed_nodes(group)
                yield lacking
            case ZonesIgnored():
                yield _numa_misaligned(facts)
            case RoomGiven(resources=(resource,)) if resource in _SHORTAGES and not devices and _wants_devices(facts):
                yield from _short_of(facts, resource)
    if devices and _in_sum(facts):
        yield _fragmented(facts)


def find_shortage(group: WaitingPodGroup) -> Iterable[Refusal]:
    """Too little is free of devices, or of CPU or memory for work without devices."""
    facts = group.node_facts
    if facts is None or not facts.missing_room:
        return
    missing = facts.missing_room
    if facts.needs_domain and TopologyGone() not in missing:
        yield _no_domain(facts, facts.next_tasks, now=True)
    if _devices(missing):
        yield _too_few_devices(group, facts)
        return
    for relaxation in missing:
        if isinstance(relaxation, RoomGiven) and relaxation.resources[0] in _SHORTAGES:
            yield from _short_of(facts, relaxation.resources[0])


def find_closed_nodes(group: WaitingPodGroup) -> Iterable[Refusal]:
    """Nodes that have room for it but are cordoned, not ready or tainted."""
    facts = group.node_facts
    if facts is None or not facts.missing_room:
        return
    table, info = facts.table, facts.next_tasks[0].info
    for opening in (NodesOpened(), AllTolerated()):
        outcome = facts.relaxed_cycles(opening)
        used = np.array(sorted({table.index[bind.node] for bind in outcome.binds}), dtype=np.int64)
        used = used[~facts.open_nodes(info)[used]] if len(used) else used
        if len(used):
            # One cycle uses one of several equal nodes; the cause names all of them.
            opened = _opened(facts, opening, info)
            used = np.union1d(used, opened[_in_homes(facts)[opened]])
            yield cordon_cause(table, used) if opening == NodesOpened() else taint_cause(table, info, used)


def _opened(facts: NodeFacts, opening: Relaxation, info: ShapeInfo) -> np.ndarray:
    """Nodes (positions) that have room for a shape and that it may use only with a relaxation."""
    relaxed_facts = NodeFacts(facts.relaxed_cycles.after(opening), facts.uid)
    # The relaxation may have changed the shape itself, what it tolerates.
    [relaxed, *_] = relaxed_facts.next_tasks
    mask = relaxed_facts.open_nodes(relaxed.info) & ~facts.open_nodes(info)
    for row, value in relaxed.info.rows.items():
        mask = mask & (relaxed_facts.table.idle[row] >= value)
    return np.flatnonzero(mask)


def _in_homes(facts: NodeFacts) -> np.ndarray:
    """The nodes (a mask) of the domains that the next pods have to join."""
    mask = np.ones(len(facts.table), dtype=bool)
    topologies = facts.working_set.topologies
    for confined in _confined(facts.next_tasks):
        topology = topologies.get(confined.constraint.topology)
        if topology is not None and (homes := _homes(facts, confined, facts.working_set.domain_tree(topology))):
            mask &= np.any([home.mask for home in homes], axis=0)
    return mask


def _workload_tasks(group: WaitingPodGroup, facts: NodeFacts) -> list[WTask]:
    """The pods of all PodGroups of its workload that are like the next ones, as these may be what fills the nodes."""
    alike = [task.info.shape for task in facts.next_tasks]
    return [task for task in facts.to_place(sorted(group.workload_podgroups)) if task.info.shape in alike]


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


def _kept_apart(facts: NodeFacts) -> Refusal:
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
        return PlainRefusal.of(
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
    return PlainRefusal.of(
        CauseCode.KEPT_APART,
        f"{capitalized(by)} keeps it off {where} where it could run: {blockers}.",
        tuple(ObjectRef("Node", "", node) for node in nodes[:4]),
        {"nodes": nodes},
    )


def _missing_company(facts: NodeFacts) -> Refusal:
    answers = [answer for answer in facts.answers if answer.rule == NodeRule.AFFINITY]
    nodes = [node for answer in answers for node in answer.nodes]
    reason = answers[0].text if answers else "no pod that its affinity wants to be with"
    return PlainRefusal.of(
        CauseCode.SELECTOR_MATCHES_NO_NODE,
        f"Its required pod affinity demands other pods beside it, and there are none where it could run ({reason}).",
        tuple(ObjectRef("Node", "", node) for node in nodes[:4]),
    )


def _numa_misaligned(facts: NodeFacts) -> Refusal:
    nodes = [node for answer in facts.answers if answer.rule == NodeRule.NUMA for node in answer.nodes]
    return PlainRefusal.of(
        CauseCode.FRAGMENTED,
        f"Enough is free on {some(nodes) or 'nodes'}, but not in NUMA zones that can be aligned as the policy of the node demands.",
        tuple(ObjectRef("Node", "", node) for node in nodes[:4]),
    )


def find_fleet_limits(group: WaitingPodGroup) -> Iterable[Refusal]:
    """Causes that remain without any other work."""
    facts = group.node_facts
    if facts is None or any(task.shape.blocked for task in group.pending_tasks):
        return
    table = facts.empty_working_set.table
    if not group.picture.nodes:
        yield PlainRefusal.of(CauseCode.LARGER_THAN_THE_FLEET, "There are no nodes.")
        return
    codes: set[CauseCode] = set()
    for task in {id(task.info): task for task in facts.waiting_alone()}.values():
        causes = closed_node_causes(table, task.info)
        if causes and group.has_placed_pods:
            causes = closed_node_causes(table, task.info, _full(group, task))
        for cause in causes:
            if cause.code not in codes:
                codes.add(cause.code)
                yield cause
    if not codes and facts.ready and facts.topologies_known and not facts.starts_alone().further:
        yield from _gang_causes(facts)


def _full(group: WaitingPodGroup, task: WTask) -> np.ndarray:
    """The nodes (a mask) on which the pods of its workload that stay there leave too little room for one more."""
    cycles = group.state.relaxed_cycles.about(*sorted(group.workload_podgroups))
    working = cycles.after(OthersGone(), NodesOpened()).working
    table = working.table
    full: np.ndarray = ~table.all
    # Each working set has rows of its own for the resources that its pods request.
    for row, wanted in working.tasks[task.uid].info.needs:
        full |= (table.allocatable[row] >= wanted) & (table.free_of(row) < wanted)
    return full


_RELAXATIONS: tuple[Relaxation, ...] = (
    SelectorGone(), RoomGiven(), TopologyGone(), AntiAffinityGone(), AllTolerated(), NodesOpened(),
)  # fmt: skip
"""In this order each is given up if the others suffice, so the later ones are named first."""


def _gang_causes(facts: NodeFacts) -> Iterable[Refusal]:
    """Causes of a group whose pods each fit on some node, but not all at once."""
    tasks = facts.starting_tasks
    for relaxation in reversed(facts.needed_alone(_RELAXATIONS)):
        match relaxation:
            case NodesOpened():
                yield cordon_cause(facts.table, np.flatnonzero(~facts.table.available))
            case AllTolerated():
                yield _taints_of_fleet(facts, tasks)
            case AntiAffinityGone():
                yield _too_few_domains(facts, tasks)
            case TopologyGone():
                yield _no_domain(facts, tasks, now=False)
            case RoomGiven() | SelectorGone():
                yield _fleet_too_small(facts, tasks)


def _taints_of_fleet(facts: NodeFacts, tasks: list[WTask]) -> Refusal:
    table = facts.table
    info = tasks[0].info
    tainted = [
        i
        for i, node in enumerate(table.nodes)
        if any(taint.key not in LIFECYCLE_TAINTS for taint in untolerated_taints(info.shape, node.taints))
    ]
    return taint_cause(table, info, np.array(tainted, dtype=np.int64))


def _too_few_domains(facts: NodeFacts, tasks: list[WTask]) -> Refusal:
    table = facts.table
    room: np.ndarray = ~table.all
    for info in {id(task.info): task.info for task in tasks}.values():
        room |= fits(table, info, table.allocatable)
    usable = facts.usable_nodes(tasks)
    keys = sorted({term.topology_key for task in tasks for term in task.info.shape.anti_affinity if not term.weight})
    domains = {key: len(set(table.column(key)[0][usable & room]) - {-1}) for key in keys}
    has = f"the nodes with room for one of them have {some([f'{number} {key}' for key, number in domains.items()])}"
    if all(number >= len(tasks) for number in domains.values()):
        # It is too few only together with another rule, or for the larger ones of unlike pods.
        required = [confined.constraint for confined in _confined(tasks) if confined.constraint.required]
        has = "there is no room for all of them"
        if required:
            has = f"they also have to be in one {required[0].required} of topology {required[0].topology}"
    return PlainRefusal.of(
        CauseCode.KEPT_APART,
        f"Its {len(tasks)} pods must start together, and their anti-affinity keeps them apart (one for each {some(keys)}); {has}.",
        (),
        {"pods": len(tasks), "topologyKeys": keys},
    )


@dataclass(frozen=True, kw_only=True)
class FleetTooSmall(RoomRefusal):
    """The pods want more than the nodes that they may use have in all, their ``capacity``."""

    FACTS: ClassVar[tuple[str, ...]] = ("pods", "resource", "wanted", "capacity")
    code: CauseCode = CauseCode.LARGER_THAN_THE_FLEET
    capacity: int

    @property
    def holds(self) -> bool:
        return self.wanted > self.capacity

    @property
    def sentence(self) -> str:
        wants = f"It wants {counted_resource(self.resource, self.wanted)}" if self.pods == 1 else self.wants
        return f"{wants}; the nodes that they may use have {self.figure(self.capacity)} in all."


@dataclass(frozen=True, kw_only=True)
class FleetFragmented(RoomRefusal):
    """The ``nodes`` nodes that the pods may use have a ``capacity`` that is large enough in sum, and room for ``placed`` pods when they are
    empty."""

    FACTS: ClassVar[tuple[str, ...]] = ("pods", "placed", "resource", "wanted", "capacity")
    code: CauseCode = CauseCode.FRAGMENTED
    placed: int
    nodes: int
    capacity: int

    @property
    def holds(self) -> bool:
        return self.placed < self.pods and self.wanted <= self.capacity

    @property
    def sentence(self) -> str:
        return (
            f"{self.wants}; the {self.nodes} nodes that they may use have {self.figure(self.capacity)} in all, and room for {self.placed} of "
            "these pods even when they are empty."
        )


def _fleet_too_small(facts: NodeFacts, tasks: list[WTask]) -> RoomRefusal:
    """The refusal that a gang requests more than all nodes have, or more than fits on them."""
    table = facts.table
    usable = facts.usable_nodes(tasks)
    device = int(table.min_gpu_memory)
    rows = rows_of(tasks)
    capacity = {row: int(table.allocatable[row][usable].sum()) for row in rows}
    wanted = {row: sum(row_wanted(task, row, device) for task in tasks) for row in rows}
    refs = node_refs(table, np.flatnonzero(usable)[:4])
    for row in rows:
        if wanted[row] > capacity[row]:
            return FleetTooSmall(
                **_room(facts, tasks, row, wanted[row]),
                capacity=capacity[row],
                objects=refs,
            )
    row = _decisive(facts, tasks)
    placed = _placed_of(facts.starts_alone())
    return FleetFragmented(
        **_room(facts, tasks, row, wanted[row]),
        placed=placed,
        nodes=int(usable.sum()),
        capacity=capacity[row],
        objects=refs,
    )


_RESOURCES: Mapping[int, Resource] = {CPU: "cpu", MEMORY: "memory", GPUS: "gpu", PODS: "pods"}


def _decisive(facts: NodeFacts, tasks: list[WTask]) -> int:
    """The row of which more room alone would let them start together; devices if no row alone does."""
    rows = rows_of(tasks)
    more = (row for row in rows if facts.starts_alone(RoomGiven((_RESOURCES.get(row, "extended"),))).further)
    return next(more, rows[0])
