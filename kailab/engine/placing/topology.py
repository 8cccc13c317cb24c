"""Topology: the sets of nodes on which a group may be tried, their order, and preferences among them.

A required level confines the group to one domain of that level. A preferred level is tried first, then the levels above
it, until the group fits. The deepest domains come first and, within a level, the fullest that still has room. Source:
KAI's topology plugin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np

from kailab.engine.decisions import PendingCode
from kailab.engine.ledger import FailedAttempt
from kailab.engine.placing.placement import NodeMask
from kailab.engine.placing.score import TOPOLOGY
from kailab.engine.session import Session
from kailab.engine.snapshot.records import ACTIVE, GPU, Constraint
from kailab.engine.working.domains import ROOT, Domain, DomainTree
from kailab.engine.working.layout import GPUS, PODS
from kailab.engine.working.state import Job, Member, WPodSet, WTask

# KAI's requiredResourceNotInDomainRatio, for a resource of which a domain has nothing free.
NOT_IN_DOMAIN = 1000.0


class TopologyError(Exception):
    """The constraint itself is wrong (it names a level that the topology does not have)."""


class TopologyPlan:
    """The topology part of placing one job after the other."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._scores: dict[int, np.ndarray] = {}
        self._begun: set[str] = set()

    def forget_scores(self) -> None:
        if self._scores:
            self._scores = {}

    def scores_for(self, podset: WPodSet) -> np.ndarray | None:
        """Preference scores set by the pod set's own constraint or the nearest one above it; NaN: not considered."""
        if not self._scores:
            return None
        member: Member | None = podset
        while member is not None:
            scores = self._scores.get(id(member))
            if scores is not None:
                return scores
            member = member.parent
        return None

    def tree(self, name: str) -> DomainTree | None:
        working = self.session.working
        topology = working.topologies.get(name)
        if topology is None:
            return None
        tree = working.domain_tree(topology)
        # KAI rebuilds its trees for each session. Within a session, the order that one search left is where the next
        # begins.
        if name not in self._begun:
            self._begun.add(name)
            tree.restore_order()
        return tree

    def subsets(
        self, job: Job, member: Member, podsets: list[WPodSet], tasks: list[WTask], nodes: NodeMask, quiet: bool
    ) -> list[NodeMask]:
        """Sets of nodes to try, best first. Records the reason if there is none, unless ``quiet``."""
        constraint = member.constraint
        if constraint is None or not constraint.topology:
            return [nodes]
        tree = self.tree(constraint.topology)
        if tree is None:
            self._fail(job, f"topology {constraint.topology} does not exist", quiet)
            return []
        table = self.session.table
        # A node without one of the labels is in no domain, so the group may not go there.
        valid = tree.member if nodes is None else tree.member & nodes
        top = tree.common(valid, constraint.preferred)
        need = self._measure(tree, top, tasks)
        # If the domain that contains all allowed nodes has too little, no domain in it has enough.
        if not _has_room(top, need, len(tasks)):
            self._fail(job, self._no_room(job, member, top), quiet)
            return []
        # Levels below the first one tried are never tried, so their order does not matter.
        depth = constraint.preferred or constraint.required
        _pack(top, need, tree.level_index(depth) if depth else None)
        if constraint.preferred:
            self._scores[id(member)] = _preference(tree, top, constraint.preferred, len(table))
        domains = self._domains(tree, constraint, member, podsets, need, len(tasks))
        if not domains:
            self._fail(job, self._no_room(job, member, top), quiet)
        return [cast("NodeMask", domain.mask & valid) for domain in domains]

    def _fail(self, job: Job, message: str, quiet: bool) -> None:
        if not quiet:
            self.session.ledger.fail(job, FailedAttempt(PendingCode.POD_SCHEDULING_ERRORS, message))

    @staticmethod
    def _no_room(job: Job, member: Member, top: Domain) -> str:
        constraint = member.constraint
        assert constraint is not None
        where = f" in {top.name}" if top.level != ROOT else ""
        part = f", subgroup {member.name}," if member.name and len(job.podsets) > 1 else ""
        level = constraint.required or constraint.preferred
        return (
            f"topology {constraint.topology}: no domain of level {level}{where} has room for all pods of "
            f"{job.record.namespace}/{job.record.name}{part}"
        )

    def _measure(self, tree: DomainTree, top: Domain, tasks: list[WTask]) -> np.ndarray:
        """Count free resources (and how many pods fit) in every domain under ``top``. Returns what the tasks want."""
        table = self.session.table
        rows = len(table.layout)
        vectors = [_vector(task, rows) for task in tasks]
        shared = table.claims.counted_twice(tasks)
        for vector, twice in zip(vectors, shared, strict=True):
            vector[GPUS] -= twice
        need = cast("np.ndarray", np.sum(vectors, axis=0))
        # As in KAI (calcSubTreeFreeResources), without free parts of shared devices.
        free = table.free
        # Reset, so that counts of the last search are not mistaken for room outside of ``top``.
        for domain in tree.root.below():
            domain.pods, domain.free = None, None
        # Pods that share a claim differ, because only the first of them needs the devices.
        fitting = self._pods_per_node(tasks, vectors, free) if _alike(tasks) and not any(shared) else None
        for domain in top.below():
            domain.free = free[:, domain.nodes].sum(axis=1)
            if fitting is not None:
                domain.pods = int(fitting[domain.nodes].sum())
        return need

    def _pods_per_node(self, tasks: list[WTask], vectors: list[np.ndarray], free: np.ndarray) -> np.ndarray:
        """How many pods fit on each node, each as large as the largest in every resource."""
        largest = np.max(vectors, axis=0)
        table = self.session.table
        # As in KAI (calcNodeAccommodation), a pod that wants only a pod slot fits on any node, however full it is.
        if all(amount <= (1 if row == PODS else 0) for row, amount in enumerate(largest)):
            return np.full(len(table), len(tasks), dtype=np.int64)
        # An upper bound for requests of several devices; placing the tasks decides.
        if 0 < largest[GPUS] < GPU:
            free = free.copy()
            free[GPUS] += table.shares.available
        counts = np.full(len(table), np.iinfo(np.int64).max, dtype=np.int64)
        for row, amount in enumerate(largest):
            if amount > 0:
                counts = np.minimum(counts, np.maximum(free[row], 0) // amount)
        return counts

    def _domains(
        self, tree: DomainTree, constraint: Constraint, member: Member, podsets: list[WPodSet], need: np.ndarray,
        count: int,
    ) -> list[Domain]:  # fmt: skip
        levels = _levels(tree, constraint, member)
        # A required level includes running pods, which the others must join.
        homes = joined(tree, constraint.required, podsets, self.session.table.index) if constraint.required else None
        allowed = None if homes is None else {id(below) for home in homes for below in home.below()}
        return [
            domain
            for domain in tree.deepest_first()
            if domain.level in levels and (allowed is None or id(domain) in allowed) and _has_room(domain, need, count)
        ]


def joined(
    tree: DomainTree, required: str, podsets: Sequence[WPodSet], index: Mapping[str, int]
) -> list[Domain] | None:
    """The domains of the required level in which pods of the group run, so that others must join them; None if none
    runs. ``index``: node numbers by name.
    """
    if not any(podset.active for podset in podsets):
        return None
    level = tree.level_index(required)
    homes = [
        index[task.node]
        for podset in podsets
        for task in podset.tasks.values()
        if ACTIVE[task.status] and task.node in index
    ]
    # If pods run in several domains of that level, any of these may be joined.
    return [] if level is None else [domain for domain in tree.by_level[level].values() if domain.mask[homes].any()]


def _vector(task: WTask, rows: int) -> np.ndarray:
    vector = np.zeros(rows, dtype=np.int64)
    for row, amount in task.info.rows.items():
        vector[row] = amount
    gpu = task.info.shape.gpu
    # As in KAI's request vectors, GPU memory counts as no GPU before its device is known.
    if gpu.shared and not gpu.by_memory:
        vector[GPUS] = gpu.most_gpus
    return vector


def _alike(tasks: list[WTask]) -> bool:
    """True if counting pods makes sense: all or none want GPUs, and likewise for every other resource."""
    with_gpu = 0
    others: dict[int, int] = {}
    for task in tasks:
        gpu = task.info.shape.gpu
        # Unlike tasks are compared with sums instead (KAI: useRepresentorPodsAccounting).
        with_gpu += 1 if gpu.devices and not gpu.by_memory else 0
        for row, amount in task.info.needs:
            if row > GPUS:
                others[row] = others.get(row, 0) + (1 if amount > 0 else 0)
    return with_gpu in (0, len(tasks)) and all(count == len(tasks) for count in others.values())


def _ratio(need: np.ndarray, domain: Domain) -> float:
    """The largest part of a domain's free resources that the tasks want."""
    ratio = 0.0
    for row, amount in enumerate(need):
        if amount > 0 and row != PODS:
            free = 0 if domain.free is None else int(domain.free[row])
            ratio = max(ratio, NOT_IN_DOMAIN if free <= 0 else int(amount) / free)
    return ratio


def _has_room(domain: Domain, need: np.ndarray, count: int) -> bool:
    # The count of pods is stricter; sums may fit although no single node has enough.
    if domain.pods is not None:
        return domain.pods >= count
    return _ratio(need, domain) <= 1.0


def _pack(domain: Domain, need: np.ndarray, depth: int | None) -> None:
    """Sort children fullest first, down to level ``depth``."""
    if depth is None:
        return
    # A domain that is too small has a ratio above 1 and comes first; ``_domains`` leaves it out.
    domain.children.sort(key=lambda child: (-_ratio(need, child), child.name))
    if domain.level != depth:
        for child in domain.children:
            _pack(child, need, depth)


def _preference(tree: DomainTree, top: Domain, preferred: str, count: int) -> np.ndarray:
    """Scores that keep a group in few domains of the preferred level: each domain has its own rank."""
    level = tree.level_index(preferred)
    ordered: list[Domain] = []
    stack = [top]
    while stack:
        domain = stack.pop(0)
        if domain.level == level:
            ordered.append(domain)
        else:
            # In front, so that children come in packing order and not level by level.
            stack = domain.children + stack
    scores = np.full(count, np.nan)
    for rank, domain in enumerate(ordered):
        # As in KAI, the last in packing order, the emptiest, gets the most points. Rounding down to whole steps keeps
        # the parts of a node's score apart; beyond ten domains several share a step.
        scores[domain.nodes] = np.floor((rank + 1) / len(ordered) * 10) * TOPOLOGY
    return scores


def _levels(tree: DomainTree, constraint: Constraint, member: Member) -> set[int]:
    """Levels whose domains may host the group: from the preferred (else required) one up to the required one (else
    all).
    """
    found_required = found_preferred = False
    levels: set[int] = set()
    for level in [*range(len(tree.levels) - 1, -1, -1), ROOT]:
        label = tree.levels[level] if level != ROOT else ""
        # From the deepest level upwards: the first of the two labels begins the range, the required one ends it.
        found_preferred = found_preferred or (bool(label) and label == constraint.preferred)
        found_required = found_required or (bool(label) and label == constraint.required)
        if found_preferred or found_required:
            levels.add(level)
        if found_required:
            break
    subject = f"subgroup {member.name}" if member.name and member.name != "default" else "the workload"
    for kind, label, is_level in (
        ("required", constraint.required, found_required),
        ("preferred", constraint.preferred, found_preferred),
    ):
        if label and not is_level:
            raise TopologyError(
                f"{subject} names {label} as its {kind} topology level, but topology {constraint.topology} has the levels "
                f"{', '.join(tree.levels)}"
            )
    if not constraint.required and not constraint.preferred:
        raise TopologyError(f"{subject} names topology {constraint.topology} but no level of it")
    return levels
