"""Rules between pods: required and preferred affinity and anti-affinity per topology domain, and host ports.

Source: Kubernetes' InterPodAffinity (filter and score) and NodePorts, as KAI's predicates and podaffinity plugins use
them. A pod that is promised a place or provisionally evicted counts where it is.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from kailab.engine.placing.fit import meets
from kailab.engine.snapshot.records import PodTerm, Shape
from kailab.engine.working.nodes import NodeTable
from kailab.engine.working.state import ShapeInfo, WTask


def selects(term: PodTerm, shape: Shape) -> bool:
    """True if the term selects a pod of this shape."""
    if term.namespaces and shape.namespace not in term.namespaces:
        return False
    labels = dict(shape.labels)
    return all(meets(requirement, labels) for requirement in term.requirements)


def narrow(table: NodeTable, task: WTask, candidates: np.ndarray) -> None:
    """Remove nodes from ``candidates`` that the task's terms, or those of pods on the nodes, forbid."""
    for _, allowed in _allowed_by_affinity(table, task):
        candidates &= allowed
    info = task.info
    mine = any(not term.weight for term in info.shape.anti_affinity)
    # By shape, not by pod: pods of one shape keep it off alike.
    for other in table.residents:
        if not (mine or other.requires_pods):
            continue
        for key in _separating_keys(info, other):
            # A node without the label is in no domain, so nothing there conflicts.
            column, _ = table.column(key)
            taken = _domains(table, task, other, column)
            if taken:
                candidates &= ~np.isin(column, list(taken))


def _separating_keys(info: ShapeInfo, other: ShapeInfo) -> tuple[str, ...]:
    """The topology keys of the required anti-affinity between a shape and a present one. It is mutual in Kubernetes:
    present pods keep newcomers off too.
    """
    keys = info.kept_apart.get(other)
    if keys is None:
        mine, theirs = info.shape, other.shape
        sides = ((mine.anti_affinity, theirs), (theirs.anti_affinity, mine))
        # Cached permanently, as in ``_preferred_weights``.
        keys = info.kept_apart[other] = tuple(
            dict.fromkeys(
                term.topology_key
                for terms, meant in sides
                for term in terms
                if not term.weight and selects(term, meant)
            )
        )
    return keys


def _allowed_by_affinity(table: NodeTable, task: WTask) -> list[tuple[PodTerm, np.ndarray]]:
    """Each required affinity term with the nodes that it allows. Only pods that all terms select count for any of them."""
    terms = [term for term in task.info.shape.affinity if not term.weight]
    if not terms:
        return []
    columns = [table.column(term.topology_key)[0] for term in terms]
    selected = [other for other in table.residents if _all_select(terms, other.shape)]
    domains = [{code for other in selected for code in _domains(table, task, other, column)} for column in columns]
    # The first pod of a group with affinity to itself.
    if not any(domains) and _all_select(terms, task.info.shape):
        return [(term, column >= 0) for term, column in zip(terms, columns, strict=True)]
    return [(term, np.isin(column, list(codes))) for term, column, codes in zip(terms, columns, domains, strict=True)]


def _all_select(terms: list[PodTerm], shape: Shape) -> bool:
    return all(selects(term, shape) for term in terms)


def _domains(table: NodeTable, task: WTask, other: ShapeInfo, column: np.ndarray) -> set[int]:
    """The domains with pods of a shape, beside the task itself."""
    homes = table.residents[other]
    codes = {
        int(column[i])
        for i, count in homes.items()
        if count > 1 or other is not task.info or table.tasks[i].get(task.uid) is not task
    }
    codes.discard(-1)
    return codes


class AffinityConflict(NamedTuple):
    """A rule between pods that keeps a task off a node. ``other``: the conflicting pod; None if the term needs a pod
    that is missing. ``own``: the term is the task's, else the other pod's.
    """

    term: PodTerm
    other: WTask | None
    own: bool


class AffinityConflicts:
    """Why ``narrow`` removes nodes: the first term and the first pod, found in one pass over the pods."""

    def __init__(self, table: NodeTable, task: WTask) -> None:
        self._table = table
        shape = task.info.shape
        self._own = [term for term in shape.anti_affinity if not term.weight]
        self._keeping: dict[tuple[str, int], AffinityConflict] = {}  # by topology key and domain
        for i, tasks in enumerate(table.tasks):
            for other in tasks.values():
                if other is not task:
                    self._add_conflicts(i, other, shape)
        self._allowed_by_affinity = _allowed_by_affinity(table, task)

    def _add_conflicts(self, i: int, other: WTask, shape: Shape) -> None:
        sides = ((term, True) for term in self._own if selects(term, other.info.shape))
        theirs = other.info.shape.anti_affinity
        others = ((term, False) for term in theirs if not term.weight and selects(term, shape)) if theirs else ()
        for term, own in (*sides, *others):
            code = int(self._table.column(term.topology_key)[0][i])
            if code >= 0:
                self._keeping.setdefault((term.topology_key, code), AffinityConflict(term, other, own))

    def at(self, i: int) -> AffinityConflict | None:
        """The conflict on one node, or None."""
        for term, allowed in self._allowed_by_affinity:
            if not allowed[i]:
                return AffinityConflict(term, None, True)
        for key in dict.fromkeys(key for key, _ in self._keeping):
            conflict = self._keeping.get((key, int(self._table.column(key)[0][i])))
            if conflict is not None:
                return conflict
        return None


def preferences(table: NodeTable, info: ShapeInfo) -> np.ndarray | None:
    """Points per node from preferred terms, both of the shape and of present pods; None if no term applies. As in KAI,
    required terms of other pods give no points (hardPodAffinityWeight 0).
    """
    points: np.ndarray | None = None
    # By shape, not by pod: equal pods give equal points, so these are computed once and multiplied.
    for other, homes in table.residents.items():
        if not (info.prefers_pods or other.prefers_pods):
            continue
        for key, weight in _preferred_weights(info, other):
            column, codes = table.column(key)
            domains = np.zeros(len(codes) + 1, dtype=np.int64)  # the last entry is for nodes without the label
            for i, count in homes.items():
                domains[column[i]] += count * weight
            # Pods on nodes without the label are in no domain.
            domains[-1] = 0
            points = domains[column] if points is None else points + domains[column]
    return points


def _preferred_weights(info: ShapeInfo, other: ShapeInfo) -> tuple[tuple[str, int], ...]:
    """(topology key, weight) of each preferred term between a shape and a present one, of either side."""
    weights = info.liked.get(other)
    if weights is None:
        mine, theirs = info.shape, other.shape
        sides = (
            (mine.affinity, theirs, 1),
            (mine.anti_affinity, theirs, -1),
            (theirs.affinity, mine, 1),
            (theirs.anti_affinity, mine, -1),
        )
        # Cached permanently: shapes are constant, and there are far fewer pairs of them than of pods.
        weights = info.liked[other] = tuple(
            (term.topology_key, sign * term.weight)
            for terms, meant, sign in sides
            for term in terms
            if term.weight and selects(term, meant)
        )
    return weights


def narrow_ports(table: NodeTable, shape: Shape, candidates: np.ndarray) -> None:
    for i in np.flatnonzero(candidates):
        if holder_of_port(table, shape, int(i)) is not None:
            candidates[i] = False


def holder_of_port(
    table: NodeTable, shape: Shape, i: int, without: Collection[str] = frozenset()
) -> tuple[WTask, int] | None:
    """The task on the node that holds a host port of the shape, and the port; None if there is none. ``without``: UIDs of
    tasks that do not count.
    """
    for other in table.tasks[i].values():
        if other.uid in without:
            continue
        for mine in shape.ports:
            if any(_ports_clash(mine, theirs) for theirs in other.info.shape.ports):
                return other, mine[2]
    return None


def _ports_clash(left: tuple[str, str, int], right: tuple[str, str, int]) -> bool:
    anywhere = ("", "0.0.0.0", "::")
    return left[1:] == right[1:] and (left[0] == right[0] or left[0] in anywhere or right[0] in anywhere)
