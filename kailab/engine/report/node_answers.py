"""The answer of each node to a task: it takes the task, or the first rule that refuses it, with both values.

The rules are the filters that place tasks. Nodes with the same answer are reported together.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import msgspec
import numpy as np

from kailab.engine.placing import fit, podaffinity
from kailab.engine.placing.placement import Placer
from kailab.engine.report.domain_answers import DomainAnswers
from kailab.engine.report.node_filter import (
    NodeFilter,
    NodeRule,
    affinity_text,
    filter_nodes,
    kind_text,
    lack_text,
    share_text,
    unavailable_text,
    untolerated_text,
)
from kailab.engine.session import Session
from kailab.engine.snapshot.records import ON_NODE
from kailab.engine.working.layout import PODS
from kailab.engine.working.nodes import NodeTable
from kailab.engine.working.state import WTask


class NodeAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The common answer of ``nodes``. ``rule``: None if they take the task now. ``text``: the reason with both values.
    ``resource``: the missing resource by its node name, with ``free``, ``capacity`` and ``wanted`` in engine units.
    ``pod``: the pod in the way.
    """

    text: str
    nodes: tuple[str, ...]
    rule: NodeRule | None = None
    resource: str = ""
    free: int = 0
    capacity: int = 0
    wanted: int = 0
    pod: str = ""


def node_answers(session: Session, task: WTask) -> tuple[NodeAnswer, ...]:
    """The answers to a task of a PodGroup, most nodes first.

    Queue rules, and room for the rest of the gang, are not considered. For a task that is on a node, the other nodes
    answer as things stand.
    """
    table = session.table
    if not len(table):
        return ()
    placer = Placer(session)
    wrong = _wrong_on_all_nodes(placer, task)
    if wrong:
        return (NodeAnswer(rule=NodeRule.BLOCKED, text=wrong, nodes=tuple(node.name for node in table.nodes)),)
    # The task's own node cannot answer, because the task holds resources there.
    own_node = table.index.get(task.node, -1) if ON_NODE[task.status] else -1
    node_filter = filter_nodes(table, task.info, session.config.predicates)
    conflicts = _ask_about_pods(session, placer, task, node_filter)
    domains = DomainAnswers(session, task)
    for mask in domains.masks:
        node_filter.keep(NodeRule.TOPOLOGY, mask)
    answers: dict[NodeAnswer, list[str]] = {}

    def note(answer: NodeAnswer, i: int) -> None:
        answers.setdefault(answer, []).append(table.nodes[i].name)

    wording = _Wording(table, task, conflicts, domains.text)
    for stage in node_filter.stages:
        for i in np.flatnonzero(stage.refused):
            if i != own_node:
                note(wording.answer(stage.rule, stage.row, int(i)), int(i))
    for i in np.flatnonzero(node_filter.open):
        if i != own_node:
            note(NodeAnswer(text="takes it", nodes=()), int(i))
    if own_node >= 0:
        note(NodeAnswer(text="it is here", nodes=()), own_node)
    result = [msgspec.structs.replace(answer, nodes=tuple(names)) for answer, names in answers.items()]
    return tuple(sorted(result, key=lambda answer: (answer.rule is not None, -len(answer.nodes), answer.text)))


def _wrong_on_all_nodes(placer: Placer, task: WTask) -> str:
    if task.info.shape.blocked and placer.session.config.predicates:
        return "; ".join(task.info.shape.blocked)
    refused = placer.claim_refusal(task)
    return refused.why if refused is not None else ""


def _ask_about_pods(
    session: Session, placer: Placer, task: WTask, node_filter: NodeFilter
) -> podaffinity.AffinityConflicts | None:
    """Apply the rules between pods, and the placer's rules for shared devices, to the nodes that are open so far."""
    table, shape = session.table, task.info.shape
    conflicts = None
    if session.config.predicates and node_filter.open.any():
        if task.info.requires_pods or session.working.has_anti_affinity:
            conflicts = podaffinity.AffinityConflicts(table, task)
            # ``narrow`` only removes a node; the first conflict says by which of the two rules.
            for rule, terms in ((NodeRule.AFFINITY, False), (NodeRule.ANTI_AFFINITY, True)):
                passing = table.all.copy()
                podaffinity.narrow(table, task, passing)
                for i in np.flatnonzero(node_filter.open & ~passing):
                    conflict = conflicts.at(int(i))
                    if conflict is not None and (conflict.other is not None) != terms:
                        passing[i] = True
                node_filter.keep(rule, passing)
        if shape.ports:
            passing = node_filter.open.copy()
            podaffinity.narrow_ports(table, shape, passing)
            node_filter.keep(NodeRule.PORT, passing)
    if shape.gpu.shared and node_filter.open.any():
        _, candidates = placer.candidates(task, None)
        # The placer narrows shares by two rules (``_narrow_shared``); if pod slots suffice, it was the queue's bound.
        slots = table.idle[PODS] + table.releasing[PODS] >= 2
        node_filter.keep(NodeRule.RESERVATION, candidates | slots)
        node_filter.keep(NodeRule.QUEUE, candidates)
    return conflicts


class _Wording:
    """The texts of each rule on each node."""

    def __init__(
        self,
        table: NodeTable,
        task: WTask,
        conflicts: podaffinity.AffinityConflicts | None,
        domain: Callable[[int], str],
    ) -> None:
        self._table = table
        self._task = task
        self._conflicts = conflicts
        self._domain = domain

    @cached_property
    def _mig_mask(self) -> np.ndarray:
        return fit.mig_mask(self._table, self._task.info)

    def answer(self, rule: NodeRule, row: int, i: int) -> NodeAnswer:
        table, shape = self._table, self._task.info.shape
        if rule in (NodeRule.CAPACITY, NodeRule.FREE):
            wanted = self._task.info.rows[row]
            pool = table.claims.counted(shape, table.idle) if shape.claims else table.idle
            # A node that has shrunk may hold more than it has; free is never reported below zero.
            free, capacity = max(0, int(pool[row, i])), int(table.allocatable[row, i])
            name = table.layout.names[row]
            leaving = int(table.releasing[row, i]) if rule == NodeRule.FREE else 0
            text = lack_text(name, free, capacity, wanted, leaving, ever=rule == NodeRule.FREE)
            return NodeAnswer(
                rule=rule, text=text, nodes=(), resource=name, free=free, capacity=capacity, wanted=wanted
            )
        return NodeAnswer(rule=rule, text=self._text(rule, i), nodes=(), pod=self._pod(rule, i))

    def _pod(self, rule: NodeRule, i: int) -> str:
        if rule == NodeRule.PORT:
            holder = podaffinity.holder_of_port(self._table, self._task.info.shape, i)
            return _name(holder[0]) if holder is not None else ""
        conflict = None
        if rule == NodeRule.ANTI_AFFINITY and self._conflicts is not None:
            conflict = self._conflicts.at(i)
        return _name(conflict.other) if conflict is not None and conflict.other is not None else ""

    def _text(self, rule: NodeRule, i: int) -> str:
        table, info = self._table, self._task.info
        match rule:
            case NodeRule.UNAVAILABLE:
                return unavailable_text(table.nodes[i])
            case NodeRule.SELECTOR:
                return affinity_text(table.nodes[i].name, table.labels[i], info.shape)
            case NodeRule.TAINT:
                return untolerated_text(info.shape, table.nodes[i].taints)
            case NodeRule.GPU_KIND | NodeRule.GPU_MEMORY:
                return kind_text(table, info, i, bool(self._mig_mask[i]))
            case NodeRule.CLAIM:
                return table.claims.lacking(info.shape, i) or "can't serve its resource claims"
            case NodeRule.SHARE:
                return share_text(table, info, i)
            case NodeRule.NUMA:
                policy = table.numa.zones[i].policy if i in table.numa.zones else "none"
                return f"can't align it to NUMA zones, as policy {policy} demands"
            case NodeRule.AFFINITY | NodeRule.ANTI_AFFINITY:
                return self._pods_text(i)
            case NodeRule.PORT:
                holder = podaffinity.holder_of_port(table, info.shape, i)
                assert holder is not None
                return f"host port {holder[1]} is taken by pod {_name(holder[0])}"
            case NodeRule.RESERVATION:
                return "no second pod slot free, for the pod that reserves a shared GPU"
            case NodeRule.QUEUE:
                return "its share of a GPU here would be more than its queue may have"
            case NodeRule.TOPOLOGY:
                return self._domain(i)
        return str(rule)

    def _pods_text(self, i: int) -> str:
        conflict = self._conflicts.at(i) if self._conflicts is not None else None
        if conflict is None:
            return "kept off by other pods"
        key = conflict.term.topology_key
        where = "" if key == "kubernetes.io/hostname" else f" in {key}={self._table.labels[i].get(key, '')}"
        if conflict.other is None:
            return f"no pod{where} that its affinity wants to be with"
        owner = "its anti-affinity" if conflict.own else "their anti-affinity"
        return f"pod {_name(conflict.other)} is{where or ' there'}: kept apart by {owner}"


def _name(task: WTask) -> str:
    return f"{task.record.namespace}/{task.record.name}"
