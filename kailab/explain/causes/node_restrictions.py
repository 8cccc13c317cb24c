"""Causes that no free room removes: rules of nodes that refuse every pod of a shape, and objects that work names and that do not exist or
are not for it (claims, ConfigMaps, topologies, node pools)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from kailab.engine.placing import fit
from kailab.engine.relaxing.rules import NodesAdded, TopologyGone
from kailab.engine.report.barriers import Barrier, Barriers, barriers
from kailab.engine.report.node_filter import NodeRule, taint_text, unavailable_text, untolerated_taints
from kailab.engine.snapshot.records import GPU, NodeTerm, Requirement, Taint
from kailab.engine.working.layout import GPUS
from kailab.engine.working.nodes import NodeTable
from kailab.engine.working.state import ShapeInfo
from kailab.evidence.wording import capitalized, some
from kailab.explain.causes.node_facts import (
    amount_figure,
    by_value,
    constraints,
    counted_resource,
    node_names,
    node_refs,
    node_with_most,
    nodes_that,
    request_text,
    requirement_text,
)
from kailab.explain.causes.refusal import PlainRefusal, Refusal
from kailab.explain.causes.waiting_group import WaitingPodGroup
from kailab.lab.answer import CauseCode, ObjectRef
from kailab.model.labels import MIG_PREFIX, NODE_POOL
from kailab.scheduler.reading import references
from kailab.scheduler.reading.nodes import node_record
from kailab.scheduler.reading.podgroups import node_pool

_KAI_BINDS_IT = (
    "KAI itself would start it on one GPU, with less memory than it wants, because that is a whole multiple of a GPU's "
    "memory; that is a fault of KAI."
)


def closed_node_causes(table: NodeTable, info: ShapeInfo, full: np.ndarray | None = None) -> list[Refusal]:
    """Why no node of an empty cluster takes a pod, the rule to change first at the head; empty if some node does.
    ``full``: nodes (a mask) that other pods of its workload fill."""
    blocking = barriers(table, info, full)
    if blocking is None:
        return []
    causes: list[Refusal] = []
    for cause in _causes(table, info, blocking):
        if cause.code not in {earlier.code for earlier in causes}:
            causes.append(cause)
    return causes


def _causes(table: NodeTable, info: ShapeInfo, blocking: Barriers) -> Iterable[Refusal]:
    short = [barrier for barrier in blocking.rules if barrier.rule == NodeRule.CAPACITY]
    for barrier in blocking.rules:
        match barrier.rule:
            case NodeRule.SELECTOR:
                yield _selector(table, info)
            case NodeRule.TAINT:
                yield taint_cause(table, info, blocking.nodes)
            case NodeRule.UNAVAILABLE:
                yield cordon_cause(table, blocking.nodes)
            case NodeRule.GPU_MEMORY:
                yield _memory_unknown(table, info, blocking.nodes)
            case NodeRule.SHARE:
                yield _share(table, info, blocking.nodes)
            case NodeRule.GPU_KIND if not info.shape.gpu.by_profile:
                yield _kind(table, info, blocking.nodes)
            case NodeRule.GPU_KIND:
                yield _profile(table, info, blocking.nodes)
            case NodeRule.CAPACITY if _is_profile(table, info, barrier):
                yield _profile(table, info, blocking.nodes)
            case NodeRule.CAPACITY:
                yield _larger(table, info, short, blocking.nodes)
            case NodeRule.CLAIM:
                lack = table.claims.lacking(info.shape, int(blocking.nodes[0])) or ""
                yield PlainRefusal.of(
                    CauseCode.LARGER_THAN_ANY_NODE,
                    f"No node has the devices that it claims; {nodes_that(blocking.nodes, table, 'that it may use')}: {lack}.",
                    node_refs(table, blocking.nodes),
                )
            case NodeRule.NUMA:
                yield PlainRefusal.of(
                    CauseCode.LARGER_THAN_ANY_NODE,
                    f"{capitalized(nodes_that(blocking.nodes, table, 'that it may use'))} can't align what it asks for to NUMA zones, as "
                    f"{'its' if len(blocking.nodes) == 1 else 'their'} policy demands.",
                    node_refs(table, blocking.nodes),
                )


def _selector(table: NodeTable, info: ShapeInfo) -> Refusal:
    shape = info.shape
    alone = [requirement for requirement in shape.selector if not fit.requirement_mask(table, requirement).any()]
    what = "node selector" if shape.selector and not shape.terms else "required node affinity"
    if alone or not shape.terms:
        requirements = alone or list(shape.selector)
        text = (
            f"No node meets its node selector {some([requirement_text(requirement) for requirement in requirements])}"
        )
        text += (
            _instead(table, requirements[0]) if alone else f": {_each(table, requirements)}, and none has all of them"
        )
        keys = [requirement.key for requirement in requirements]
    else:
        terms = [_term_text(term) for term in shape.terms]
        text = f"No node meets its {what} {' or '.join(terms[:3])}"
        first = next((requirement for term in shape.terms for requirement in term.requirements), None)
        text += _instead(table, first) if first is not None else ""
        keys = sorted({requirement.key for term in shape.terms for requirement in (*term.requirements, *term.fields)})
    return PlainRefusal.of(CauseCode.SELECTOR_MATCHES_NO_NODE, f"{text}.", (), {"keys": keys})


def _term_text(term: NodeTerm) -> str:
    return (
        " and ".join(requirement_text(requirement) for requirement in (*term.requirements, *term.fields))
        or "(an empty term)"
    )


def _instead(table: NodeTable, requirement: Requirement) -> str:
    """The values that nodes have of a label, where none has the requested one."""
    key = requirement.key
    having = [i for i, labels in enumerate(table.labels) if key in labels]
    if not having:
        return f": no node has the label {key}"
    return f"; there are {by_value(having, lambda i: table.labels[i][key])}"


def _each(table: NodeTable, requirements: Sequence[Requirement]) -> str:
    return ", ".join(
        f"{requirement_text(requirement)} is met by {int(fit.requirement_mask(table, requirement).sum())}"
        for requirement in requirements
    )


def taint_cause(table: NodeTable, info: ShapeInfo, nodes: np.ndarray) -> Refusal:
    """The cause that all nodes the shape could use have taints that it does not tolerate."""
    taints: dict[Taint, int] = {}
    for i in nodes:
        for taint in untolerated_taints(info.shape, table.nodes[i].taints):
            taints[taint] = taints.get(taint, 0) + 1
    order = sorted(taints, key=lambda taint: (-taints[taint], taint.key, taint.value))
    names = some([taint_text(taint) for taint in order])
    has = "has" if len(nodes) == 1 else "have"
    return PlainRefusal.of(
        CauseCode.TAINT_NOT_TOLERATED,
        f"{capitalized(nodes_that(nodes, table, 'that it could use'))} {has} {'taints' if len(order) > 1 else 'the taint'} {names}, "
        "which it does not tolerate.",
        node_refs(table, nodes),
        {"taints": [taint_text(taint) for taint in order], "nodes": [table.nodes[i].name for i in nodes]},
    )


def cordon_cause(table: NodeTable, nodes: np.ndarray) -> Refusal:
    """The cause that all nodes a shape could use are cordoned or not ready."""
    why = {i: unavailable_text(table.nodes[i]) or "not ready" for i in nodes}
    kinds = sorted(set(why.values()))
    if len(nodes) == 1:
        text = f"The node that it could use, {table.nodes[nodes[0]].name}, is {kinds[0]}"
    elif len(kinds) == 1:
        text = f"The {len(nodes)} nodes that it could use are {kinds[0]}: {node_names(table, nodes)}"
    else:
        reasons = some([f"{table.nodes[i].name} ({why[i]})" for i in nodes], 4)
        text = f"The {len(nodes)} nodes that it could use are cordoned or not ready: {reasons}"
    names = [table.nodes[i].name for i in nodes]
    return PlainRefusal.of(CauseCode.NODES_CORDONED, f"{text}.", node_refs(table, nodes), {"nodes": names})


def _memory_unknown(table: NodeTable, info: ShapeInfo, nodes: np.ndarray) -> Refusal:
    do = "does not tell how much memory its GPUs have" if len(nodes) == 1 else "do not tell how much their GPUs have"
    return PlainRefusal.of(
        CauseCode.GPU_MEMORY_UNKNOWN,
        f"It wants {info.shape.gpu.memory_mib} MiB of GPU memory, and {nodes_that(nodes, table, 'that it may use')} {do} (no label "
        "nvidia.com/gpu.memory).",
        node_refs(table, nodes),
        {"nodes": [table.nodes[i].name for i in nodes], "wanted": info.shape.gpu.memory_mib},
    )


@dataclass(frozen=True, kw_only=True)
class GPUShareTooLarge(Refusal):
    """A pod wants a share by memory (MiB) of a GPU, or shares of several GPUs of a node, and the best ``node`` has ``most``.
    ``kai_starts_it``: KAI would start it on one GPU all the same."""

    FACTS: ClassVar[tuple[str, ...]] = ("wanted", "most", "node")

    code: CauseCode = CauseCode.GPU_SHARE_TOO_LARGE
    wanted: int
    most: int
    node: str
    by_memory: bool
    kai_starts_it: bool = False

    @property
    def holds(self) -> bool:
        return self.wanted > self.most

    @property
    def sentence(self) -> str:
        if not self.by_memory:
            return f"It wants shares of {self.wanted} GPUs of one node; the nodes that it may use have {self.most} at most ({self.node})."
        fault = f" {_KAI_BINDS_IT}" if self.kai_starts_it else ""
        return (
            f"It wants {self.wanted} MiB of the memory of a GPU; the GPUs of the nodes that it may use have {self.most} MiB at most "
            f"({self.node}).{fault}"
        )


def _share(table: NodeTable, info: ShapeInfo, nodes: np.ndarray) -> GPUShareTooLarge:
    gpu = info.shape.gpu
    among = np.zeros(len(table), dtype=bool)
    among[nodes] = True
    by_memory = bool((~table.memory_fits(gpu)[nodes]).any())
    best = node_with_most(table.gpu_memory if by_memory else table.allocatable[GPUS], among)
    assert best is not None
    return GPUShareTooLarge(
        wanted=gpu.memory_mib if by_memory else gpu.devices,
        most=int(table.gpu_memory[best]) if by_memory else int(table.allocatable[GPUS, best]) // GPU,
        node=table.nodes[best].name,
        by_memory=by_memory,
        kai_starts_it=by_memory and bool(table.whole_multiples(gpu)[nodes].any()),
        objects=node_refs(table, [best]),
    )


def _kind(table: NodeTable, info: ShapeInfo, nodes: np.ndarray) -> Refusal:
    has = "has" if len(nodes) == 1 else "have"
    split = any(table.mig[i] for i in nodes)
    why = f"{has} only GPUs that are split (MIG)" if split else f"{has} only GPUs that are for resource claims"
    return PlainRefusal.of(
        CauseCode.LARGER_THAN_ANY_NODE,
        f"It wants {info.shape.gpu.text()}; {nodes_that(nodes, table, 'that it may use')} {why}.",
        node_refs(table, nodes),
    )


def _is_profile(table: NodeTable, info: ShapeInfo, barrier: Barrier) -> bool:
    """Whether a barrier is a MIG profile that no node has."""
    profiles = dict(info.shape.gpu.profiles)
    if barrier.row == GPUS and barrier.absent and profiles:
        return True
    return barrier.absent and table.layout.names[barrier.row] in profiles


def _profile(table: NodeTable, info: ShapeInfo, nodes: np.ndarray) -> Refusal:
    wanted = [name for name, _ in info.shape.gpu.profiles]
    usable = _offered_profiles(table, nodes)
    missing = [name for name in wanted if name not in usable] or wanted
    elsewhere = _offered_profiles(table, np.arange(len(table)))
    # Where other nodes offer it, the profiles to choose from are those of the nodes that it may use.
    if set(missing) & set(elsewhere):
        offered, where = usable, " of those that it may use"
    else:
        offered, where = elsewhere, ""
    none = f"no GPU{' of these' if where else ''} is split"
    there = f"{'these offer' if where else 'there are'} {some(offered, 6)}" if offered else none
    return PlainRefusal.of(
        CauseCode.MIG_PROFILE_ABSENT,
        f"It wants {some(missing)}, and no node{where} offers that profile; {there}.",
        (),
        {"wanted": missing, "offered": offered},
    )


def _offered_profiles(table: NodeTable, nodes: np.ndarray) -> list[str]:
    """The MIG profiles that these nodes offer."""
    profiles = [(name, row) for name, row in table.layout.rows.items() if name.startswith(MIG_PREFIX)]
    return sorted(name for name, row in profiles if table.allocatable[row][nodes].any())


class NodeShortage(NamedTuple):
    """A resource of which a pod wants more than the largest ``node`` has. ``text``: what it wants, in words."""

    resource: str
    wanted: int
    text: str
    most: int
    node: str


@dataclass(frozen=True, kw_only=True)
class LargerThanNodes(Refusal):
    """A pod wants more than any of ``nodes`` nodes has, which ``which`` names. ``resource`` and ``wanted``: of the first shortage."""

    FACTS: ClassVar[tuple[str, ...]] = ("resource", "wanted", "node")

    code: CauseCode = CauseCode.LARGER_THAN_ANY_NODE
    shortages: tuple[NodeShortage, ...]
    nodes: int
    which: str

    @property
    def resource(self) -> str:
        return self.shortages[0].resource

    @property
    def wanted(self) -> str:
        return counted_resource(self.resource, self.shortages[0].wanted)

    @property
    def node(self) -> str:
        return self.shortages[0].node

    @property
    def holds(self) -> bool:
        return all(shortage.wanted > shortage.most for shortage in self.shortages)

    @property
    def sentence(self) -> str:
        none = f"{self.which} {'has' if self.nodes == 1 else 'have'} none"
        shortages = [
            f"{text}; "
            + (f"the largest node that it may use, {node}, has {amount_figure(resource, most)}" if most else none)
            for resource, _, text, most, node in self.shortages
        ]
        return f"A pod of it wants {', and '.join(shortages)}."


def _larger(table: NodeTable, info: ShapeInfo, short: Sequence[Barrier], nodes: np.ndarray) -> LargerThanNodes:
    """``short``: the resources of which the best nodes have too little."""
    among = np.zeros(len(table), dtype=bool)
    among[nodes] = True
    shortages = []
    for row in (barrier.row for barrier in short):
        best = node_with_most(table.allocatable[row], among)
        assert best is not None
        wanted = info.rows.get(row, 0)
        if row == GPUS and info.shape.gpu.shared:
            wanted = info.shape.gpu.wanted_gpus(int(table.min_gpu_memory))
        most = max(0, int(table.allocatable[row, best]))
        name = table.layout.names[row]
        shortages.append(NodeShortage(name, wanted, request_text(info, row, table), most, table.nodes[best].name))
    # A node without GPUs is a barrier for claims and profiles, too, and these ask for no amount of whole GPUs.
    shortages = [shortage for shortage in shortages if shortage.wanted > shortage.most] or shortages
    return LargerThanNodes(
        shortages=tuple(shortages),
        nodes=len(nodes),
        which=nodes_that(nodes, table, "that it may use"),
        objects=(ObjectRef("Node", "", shortages[0].node),),
    )


def find_foreign_node_pool(group: WaitingPodGroup) -> Iterable[Refusal]:
    """The PodGroup, its queue or the nodes that it could use belong to a node pool that this scheduler does not serve."""
    served, podgroup = group.lab.spec.node_pool, group.podgroup
    if podgroup is None or group.record is None:
        own = node_pool(podgroup["metadata"]) if podgroup is not None else served
        if own != served:
            yield _not_served(
                f"It belongs to the node pool {own}", own, served, ObjectRef("PodGroup", *group.name.split("/", 1))
            )
        return
    queue = next(
        (candidate for candidate in group.lab.cluster.list("Queue") if candidate["metadata"]["name"] == group.queue),
        None,
    )
    if queue is not None and (of := node_pool(queue["metadata"])) != served:
        yield _not_served(
            f"Its queue {group.queue} belongs to the node pool {of}", of, served, ObjectRef("Queue", "", group.queue)
        )
    else:
        yield from _nodes_elsewhere(group, served)


def _nodes_elsewhere(group: WaitingPodGroup, served: str) -> Iterable[Refusal]:
    """No node of the served pool could take it, but nodes of other pools could; or the served pool has no nodes."""
    facts = group.node_facts
    pools = {name: own for name, node in group.picture.nodes.items() if (own := node_pool(node["metadata"])) != served}
    if not pools or facts is None:
        return
    if not len(facts.table):
        used = sorted(pools)
        who = f"Every node ({some(used)}) belongs"
    else:
        if not facts.ready or not facts.topologies_known or facts.starts_alone().further:
            return
        others = NodesAdded(tuple(node_record(group.picture.nodes[name]) for name in sorted(pools)))
        used = sorted({bind.node for bind in facts.starts_alone(others).binds} & pools.keys())
        who = f"{some(used)}, where it could run, {'belongs' if len(used) == 1 else 'belong'}"
    if used:
        names = sorted({pools[name] for name in used})
        what = f"{who} to the node pool {some(names)}"
        yield _not_served(what, names[0], served, *(ObjectRef("Node", "", name) for name in used[:4]))


def _not_served(what: str, name: str, served: str, *about: ObjectRef) -> Refusal:
    return PlainRefusal.of(
        CauseCode.NODE_POOL_NOT_SERVED,
        f"{what} (label {NODE_POOL}), and this scheduler serves only the pool {served}.",
        about,
        {"pool": name, "served": served},
    )


def find_missing_references(group: WaitingPodGroup) -> Iterable[Refusal]:
    """A claim or a ConfigMap that its pods use does not exist."""
    blocked = {text: task for task in group.pending_tasks for text in task.shape.blocked}
    if not blocked:
        return
    missing: dict[str, references.ObjectReference] = {}
    for row in group.pods:
        for reference in references.referenced_objects(group.pod(row)):
            missing.setdefault(references.missing_message(reference), reference)
    named = [missing[text] for text in blocked if text in missing]
    if named:
        names = some([f"{_KINDS[reference.kind]} {reference.name}" for reference in named])
        uses = "A pod of it uses" if group.subject.kind != "Pod" else "It uses"
        yield PlainRefusal.of(
            CauseCode.VOLUME_MISSING,
            f"{uses} {names}, which {'is' if len(named) == 1 else 'are'} missing in namespace {named[0].namespace}: no node takes it.",
            tuple(ObjectRef(*reference) for reference in named),
            {
                "missing": [
                    {"kind": reference.kind, "namespace": reference.namespace, "name": reference.name}
                    for reference in named
                ]
            },
        )
    for text in blocked:
        if text not in missing and "claim" in text:
            yield PlainRefusal.of(CauseCode.VOLUME_MISSING, f"No node takes it: {text}.")


def find_refused_claim(group: WaitingPodGroup) -> Iterable[Refusal]:
    """A resource claim that its pods can't use: it lacks the label of the queue, or has no place for one more pod."""
    if group.node_facts is None:
        return
    claims = group.node_facts.table.claims
    refusals = (claims.refusal(task.uid, task.shape, group.queue) for task in group.pending_tasks if task.shape.claims)
    refused = next((refusal for refusal in refusals if refusal is not None), None)
    if refused is not None:
        yield PlainRefusal.of(
            CauseCode.CLAIM_REFUSED,
            f"No node takes it: {refused.why}.",
            (ObjectRef("ResourceClaim", *refused.claim.split("/", 1)),),
            {"claim": refused.claim},
        )


_KINDS = {"PersistentVolumeClaim": "the volume claim", "ConfigMap": "the ConfigMap"}


def find_unknown_topology(group: WaitingPodGroup) -> Iterable[Refusal]:
    """It names a topology that does not exist, or a level that the topology does not have."""
    if group.relaxed_cycles is None or group.record is None:
        return
    known = {existing.name: existing for existing in group.moment.snapshot.topologies}
    for constraint in constraints(group.record.root):
        topology = known.get(constraint.topology)
        if topology is None:
            close = f"; there are {some(sorted(known))}" if known else "; no topology exists"
            yield PlainRefusal.of(
                CauseCode.TOPOLOGY_UNKNOWN,
                f"It names the topology {constraint.topology}, which does not exist{close}.",
                (ObjectRef("Topology", "", constraint.topology),),
                {"topology": constraint.topology, "known": sorted(known)},
            )
            return
        levels = [level for level in (constraint.required, constraint.preferred) if level]
        unknown = [level for level in levels if level not in topology.levels]
        has = f"topology {constraint.topology} has the levels {', '.join(topology.levels)}"
        if unknown or not levels:
            what = f"the level {unknown[0]}" if unknown else "no level"
            suffix = ", which does not exist" if unknown else " of it"
            yield PlainRefusal.of(
                CauseCode.TOPOLOGY_UNKNOWN,
                f"It names {what} of topology {constraint.topology}{suffix}: {has}."
                if unknown
                else f"It names topology {constraint.topology}, but{' ' + what}{suffix}: {has}.",
                (ObjectRef("Topology", "", constraint.topology),),
                {"topology": constraint.topology, "levels": list(topology.levels), "unknown": unknown},
            )
            return
        without = {
            level: sum(level not in dict(node.labels) for node in group.moment.snapshot.nodes)
            for level in topology.levels
        }
        bare = [level for level, number in without.items() if number == len(group.moment.snapshot.nodes)]
        if bare and group.relaxed_cycles(TopologyGone()) != group.relaxed_cycles():
            yield PlainRefusal.of(
                CauseCode.TOPOLOGY_UNKNOWN,
                f"It has to be in a domain of topology {constraint.topology}, and no node has the label {bare[0]} of that topology.",
                (ObjectRef("Topology", "", constraint.topology),),
                {"topology": constraint.topology, "unknown": bare},
            )
            return
