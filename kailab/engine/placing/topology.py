"""Topology: which sets of nodes a group may be tried on, in which order, and which of them it prefers.

A required level confines the group to one domain of that level; a preferred one is tried from its own level upwards until
something fits. Among domains the deepest come first and, of one level, the fullest that still has room. Source: KAI's
topology plugin.
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
    """The constraint itself is wrong (a level that the topology does not have)."""


class TopologyPlan:
    """The topology side of placing one job after the other."""

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
            found = self._scores.get(id(member))
            if found is not None:
                return found
            member = member.parent
        return None

    def tree(self, name: str) -> DomainTree | None:
        working = self.session.working
        topology = working.topologies.get(name)
        if topology is None:
            return None
        tree = working.domain_tree(topology)
        # KAI builds its trees anew for each session. Within one the order that a search left is where the next begins.
        if name not in self._begun:
            self._begun.add(name)
            tree.restore_order()
        return tree

    def subsets(
        self, job: Job, member: Member, podsets: list[WPodSet], tasks: list[WTask], nodes: NodeMask, quiet: bool
    ) -> list[NodeMask]:
        """Node sets to try, best first. Records why there is none, unless ``quiet``."""
        constraint = member.constraint
        if constraint is None or not constraint.topology:
            return [nodes]
        tree = self.tree(constraint.topology)
        if tree is None:
            self._fail(job, f"topology {constraint.topology} does not exist", quiet)
            return []
        table = self.session.table
        # A node that lacks one of the labels is in no domain, so nothing of the group may go there.
        valid = tree.member if nodes is None else tree.member & nodes
        top = tree.common(valid, constraint.preferred)
        need = self._measure(tree, top, tasks)
        # The domain that holds all allowed nodes: where it has too little, no domain in it has enough.
        if not _has_room(top, need, len(tasks)):
            self._fail(job, self._no_room(job, member, top), quiet)
            return []
        # Levels below the one that is tried first are never tried, so their order does not matter.
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
        """Count what is free (and how many pods fit) in every domain under ``top``; returns what the tasks want."""
        table = self.session.table
        rows = len(table.layout)
        vectors = [_vector(task, rows) for task in tasks]
        shared = table.claims.counted_twice(tasks)
        for vector, twice in zip(vectors, shared, strict=True):
            vector[GPUS] -= twice
        need = cast("np.ndarray", np.sum(vectors, axis=0))
        # Free parts of shared devices are left out, as in KAI (calcSubTreeFreeResources).
        free = table.free
        # What the last search counted would pass for room in domains outside of ``top``.
        for domain in tree.root.below():
            domain.pods, domain.free = None, None
        # Pods that share a claim are not alike: the first of them needs the devices.
        fitting = self._pods_per_node(tasks, vectors, free) if _alike(tasks) and not any(shared) else None
        for domain in top.below():
            domain.free = free[:, domain.nodes].sum(axis=1)
            if fitting is not None:
                domain.pods = int(fitting[domain.nodes].sum())
        return need

    def _pods_per_node(self, tasks: list[WTask], vectors: list[np.ndarray], free: np.ndarray) -> np.ndarray:
        """How many pods as large as the largest in every resource fit on each node."""
        largest = np.max(vectors, axis=0)
        table = self.session.table
        # Who wants nothing but a pod slot fits on any node, however full it is, as in KAI (calcNodeAccommodation).
        if all(amount <= (1 if row == PODS else 0) for row, amount in enumerate(largest)):
            return np.full(len(table), len(tasks), dtype=np.int64)
        # Generous for requests of several devices: what really fits is found out when the tasks are placed.
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
        # A required level holds for the pods that run already, too: the others must join them.
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
    """The domains of the required level that pods of a group have to be in because others of it run there; None where none runs.
    ``index``: positions of nodes by name."""
    if not any(podset.active for podset in podsets):
        return None
    level = tree.level_index(required)
    homes = [
        index[task.node]
        for podset in podsets
        for task in podset.tasks.values()
        if ACTIVE[task.status] and task.node in index
    ]
    # Should pods run in several domains of that level, any of these may be joined.
    return [] if level is None else [one for one in tree.by_level[level].values() if one.mask[homes].any()]


def _vector(task: WTask, rows: int) -> np.ndarray:
    vector = np.zeros(rows, dtype=np.int64)
    for row, amount in task.info.rows.items():
        vector[row] = amount
    gpu = task.info.shape.gpu
    # GPU memory has no part before its device is known, and counts as no GPU, as in KAI's request vectors.
    if gpu.shared and not gpu.memory_mib:
        vector[GPUS] = gpu.devices * gpu.portion
    return vector


def _alike(tasks: list[WTask]) -> bool:
    """Whether counting pods makes sense: all or none want GPUs, and the same for every other resource."""
    with_gpu = 0
    others: dict[int, int] = {}
    for task in tasks:
        gpu = task.info.shape.gpu
        # Unlike tasks are held against sums instead (KAI: useRepresentorPodsAccounting).
        with_gpu += 1 if gpu.devices and not gpu.memory_mib else 0
        for row, amount in task.info.needs:
            if row > GPUS:
                others[row] = others.get(row, 0) + (1 if amount > 0 else 0)
    return with_gpu in (0, len(tasks)) and all(count == len(tasks) for count in others.values())


def _ratio(need: np.ndarray, domain: Domain) -> float:
    """The largest part of what is free in the domain that the tasks want."""
    ratio = 0.0
    for row, amount in enumerate(need):
        if amount > 0 and row != PODS:
            free = 0 if domain.free is None else int(domain.free[row])
            ratio = max(ratio, NOT_IN_DOMAIN if free <= 0 else int(amount) / free)
    return ratio


def _has_room(domain: Domain, need: np.ndarray, count: int) -> bool:
    # The count of pods is the sharper test; sums also fit where no single node has enough.
    if domain.pods is not None:
        return domain.pods >= count
    return _ratio(need, domain) <= 1.0


def _pack(domain: Domain, need: np.ndarray, depth: int | None) -> None:
    """Order children fullest first, down to level ``depth``."""
    if depth is None:
        return
    # A domain that is too small has a ratio above 1, so it comes first; ``_domains`` leaves it out.
    domain.children.sort(key=lambda child: (-_ratio(need, child), child.name))
    if domain.level != depth:
        for child in domain.children:
            _pack(child, need, depth)


def _preference(tree: DomainTree, top: Domain, preferred: str, count: int) -> np.ndarray:
    """Scores that keep a group in few domains of the preferred level: each domain has a rank of its own."""
    level = tree.level_index(preferred)
    ordered: list[Domain] = []
    stack = [top]
    while stack:
        domain = stack.pop(0)
        if domain.level == level:
            ordered.append(domain)
        else:
            # In front, so that children come in their packing order and not level by level.
            stack = domain.children + stack
    scores = np.full(count, np.nan)
    for rank, domain in enumerate(ordered):
        # As in KAI the last in packing order, the emptiest, has most points. Rounding down to whole steps keeps the
        # parts of a node's score apart; beyond ten domains several share a step.
        scores[domain.nodes] = np.floor((rank + 1) / len(ordered) * 10) * TOPOLOGY
    return scores


def _levels(tree: DomainTree, constraint: Constraint, member: Member) -> set[int]:
    """Levels whose domains may host the group: from the preferred (else required) one up to the required one (else all)."""
    found_required = found_preferred = False
    levels: set[int] = set()
    for level in [*range(len(tree.levels) - 1, -1, -1), ROOT]:
        label = tree.levels[level] if level != ROOT else ""
        # From the deepest level upwards: the first of the two that is met opens the range, the required one ends it.
        found_preferred = found_preferred or (bool(label) and label == constraint.preferred)
        found_required = found_required or (bool(label) and label == constraint.required)
        if found_preferred or found_required:
            levels.add(level)
        if found_required:
            break
    what = f"subgroup {member.name}" if member.name and member.name != "default" else "the workload"
    for kind, label, found in (
        ("required", constraint.required, found_required),
        ("preferred", constraint.preferred, found_preferred),
    ):
        if label and not found:
            raise TopologyError(
                f"{what} names {label} as its {kind} topology level, but topology {constraint.topology} has the levels "
                f"{', '.join(tree.levels)}"
            )
    if not constraint.required and not constraint.preferred:
        raise TopologyError(f"{what} names topology {constraint.topology} but no level of it")
    return levels
