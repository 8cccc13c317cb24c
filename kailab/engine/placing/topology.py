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


class DomainRooms:
    """The free resources of the domains under ``top``, and how many of the tasks fit there by amounts. ``need``: the
    sum of the tasks' requests. ``free``, ``fitting``: by node; ``fitting`` None: pods differ, so they are not counted.
    """

    def __init__(
        self, tree: DomainTree, top: Domain, need: np.ndarray, free: np.ndarray, fitting: np.ndarray | None
    ) -> None:
        self._tree = tree
        self._top = top
        self._by_node = free
        self._wanted = [(int(amount), row) for row, amount in enumerate(need) if amount > 0 and row != PODS]
        self._free = {row: tree.sums(free[row]) for _, row in self._wanted}
        self._pods = None if fitting is None else tree.sums(fitting)

    def _counts(self, domain: Domain) -> bool:
        # What is outside of ``top`` is not counted, as in KAI; this includes the domains around it.
        return self._top.contains(domain)

    def pods(self, domain: Domain) -> int | None:
        """How many pods fit. None: not counted."""
        if self._pods is None or not self._counts(domain):
            return None
        return self._pods[domain.end] - self._pods[domain.start]

    def free(self, domain: Domain) -> np.ndarray | None:
        """What is free, or becoming free, by resource row. None: not counted."""
        return self._by_node[:, domain.nodes].sum(axis=1) if self._counts(domain) else None

    def ratio(self, domain: Domain) -> float:
        """The largest part of a domain's free resources that the tasks want."""
        ratio, counts = 0.0, self._counts(domain)
        for amount, row in self._wanted:
            sums = self._free[row]
            free = sums[domain.end] - sums[domain.start] if counts else 0
            ratio = max(ratio, NOT_IN_DOMAIN if free <= 0 else amount / free)
        return ratio

    def suffice(self, domain: Domain, count: int) -> bool:
        """Whether a domain seems to have room for all tasks. ``count``: their number."""
        # The count of pods is stricter; sums may fit although no single node has enough.
        pods = self.pods(domain)
        return self.ratio(domain) <= 1.0 if pods is None else pods >= count

    def packed(self, depth: int) -> list[list[Domain]]:
        """The domains from the root down to level ``depth``, level by level: those around ``top``, ``top`` itself, and
        below it, in the order of their parents, the fullest first.
        """
        way = [self._tree.by_level[level][self._top.id[: level + 1]] for level in range(self._top.level + 1)]
        levels = [[domain] for domain in (self._tree.root, *way)]
        while levels[-1][0].level < depth and levels[-1][0].children:
            # A domain that is too small has a ratio above 1 and comes first; it is left out later.
            levels.append(
                [
                    child
                    for parent in levels[-1]
                    for child in sorted(parent.children, key=lambda child: (-self.ratio(child), child.name))
                ]
            )
        return levels


class TopologyPlan:
    """Chooses and ranks topology domains while a session places jobs."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._scores: dict[int, np.ndarray] = {}
        self.rooms: dict[str, DomainRooms] = {}
        """Topology -> the counts of the group that was asked about last."""

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
        return working.domain_tree(topology)

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
        rooms = self.rooms[constraint.topology] = self._rooms(tree, top, tasks)
        # If the domain that contains all allowed nodes has too little, no domain in it has enough.
        if not rooms.suffice(top, len(tasks)):
            self._fail(job, self._no_room(job, member, top), quiet)
            return []
        levels = _levels(tree, constraint, member)
        # Levels below the first one tried are never tried, so their order does not matter.
        packed = rooms.packed(max(levels))
        if constraint.preferred:
            self._scores[id(member)] = _preference(packed[-1], len(table))
        # A required level includes running pods, which the others must join.
        homes = occupied_domains(tree, constraint.required, podsets, table.index) if constraint.required else None
        domains = [
            domain
            for level in reversed(packed)
            for domain in level
            if domain.level in levels
            and (homes is None or any(home.contains(domain) for home in homes))
            and rooms.suffice(domain, len(tasks))
        ]
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

    def _rooms(self, tree: DomainTree, top: Domain, tasks: list[WTask]) -> DomainRooms:
        """Count free resources (and how many pods fit) in the domains under ``top``."""
        table = self.session.table
        rows = len(table.layout)
        vectors = [_vector(task, rows) for task in tasks]
        shared = table.claims.counted_twice(tasks)
        for vector, twice in zip(vectors, shared, strict=True):
            vector[GPUS] -= twice
        need = cast("np.ndarray", np.sum(vectors, axis=0))
        # As in KAI (calcSubTreeFreeResources), without free parts of shared devices.
        free = table.free
        # Pods that share a claim differ, because only the first of them needs the devices.
        fitting = self._pods_per_node(tasks, vectors, free) if _alike(tasks) and not any(shared) else None
        return DomainRooms(tree, top, need, free, fitting)

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


def occupied_domains(
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


def _preference(packed: list[Domain], count: int) -> np.ndarray:
    """Scores that keep a group in few domains of the preferred level: each domain has its own rank. ``packed``: the
    domains of that level in packing order; ``count``: of all nodes.
    """
    scores = np.full(count, np.nan)
    for rank, domain in enumerate(packed):
        # As in KAI, the last in packing order, the emptiest, gets the most points. Rounding down to whole steps keeps
        # the parts of a node's score apart; beyond ten domains several share a step.
        scores[domain.nodes] = np.floor((rank + 1) / len(packed) * 10) * TOPOLOGY
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
