"""Rules between pods: required and preferred affinity and anti-affinity per topology domain, and host ports.

Source: Kubernetes' InterPodAffinity (filter and score) and NodePorts, as KAI's predicates and podaffinity plugins use them.
A pod in thought (promised or leaving) counts where it is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kailab.engine.placing.fit import matches
from kailab.engine.snapshot.records import PodTerm, Shape
from kailab.engine.working.nodes import NodeTable
from kailab.engine.working.state import ShapeInfo, WTask


def selects(term: PodTerm, shape: Shape) -> bool:
    """Whether a pod of this shape is one the term speaks of."""
    if term.namespaces and shape.namespace not in term.namespaces:
        return False
    labels = dict(shape.labels)
    return all(matches(requirement, labels) for requirement in term.requirements)


def narrow(table: NodeTable, task: WTask, candidates: np.ndarray) -> None:
    """Take out of ``candidates`` the nodes where the task's terms, or those of pods already there, forbid it."""
    shape = task.info.shape
    for _, allowed in _together(table, task):
        candidates &= allowed
    for term in shape.anti_affinity:
        if not term.weight:
            # A node without the label is in no domain, so nothing there can be in conflict.
            column, _ = table.column(term.topology_key)
            taken = _domains(table, task, lambda other, term=term: selects(term, other.info.shape), column)
            if taken:
                candidates &= ~np.isin(column, list(taken))
    # Required anti-affinity is mutual in Kubernetes: a pod that is there keeps newcomers off as well.
    _respect_others(table, task, candidates)


def _together(table: NodeTable, task: WTask) -> list[tuple[PodTerm, np.ndarray]]:
    """Each required term of affinity with the nodes that it allows. Only pods that all terms select count, for each of them."""
    terms = [term for term in task.info.shape.affinity if not term.weight]
    if not terms:
        return []
    columns = [table.column(term.topology_key)[0] for term in terms]
    there = [_domains(table, task, lambda other: _all_select(terms, other.info.shape), column) for column in columns]
    # The first of a group that wants to be together.
    if not any(there) and _all_select(terms, task.info.shape):
        return [(term, column >= 0) for term, column in zip(terms, columns, strict=True)]
    return [(term, np.isin(column, list(found))) for term, column, found in zip(terms, columns, there, strict=True)]


def _all_select(terms: list[PodTerm], shape: Shape) -> bool:
    return all(selects(term, shape) for term in terms)


def _domains(table: NodeTable, task: WTask, wanted, column: np.ndarray) -> set[int]:  # type: ignore[no-untyped-def]
    found: set[int] = set()
    for i, tasks in enumerate(table.tasks):
        code = int(column[i])
        if code >= 0 and code not in found and tasks:
            # One pod is enough for the whole domain, and the task itself never counts.
            for other in tasks.values():
                if other is not task and wanted(other):
                    found.add(code)
                    break
    return found


def _respect_others(table: NodeTable, task: WTask, candidates: np.ndarray) -> None:
    shape = task.info.shape
    for i, tasks in enumerate(table.tasks):
        for other in tasks.values():
            if other is task:
                continue
            for term in other.info.shape.anti_affinity:
                if not term.weight and selects(term, shape):
                    column, _ = table.column(term.topology_key)
                    if column[i] >= 0:
                        candidates &= column != column[i]


class AffinityConflict(NamedTuple):
    """What stands between a task and a node. ``other``: the pod that it is about; None where the term wants one and there is none.
    ``own``: the term is the task's, else the other's."""

    term: PodTerm
    other: WTask | None
    own: bool


class AffinityConflicts:
    """Why ``narrow`` takes nodes away: the first term and the first pod, by one look through the pods that are there."""

    def __init__(self, table: NodeTable, task: WTask) -> None:
        self._table = table
        shape = task.info.shape
        self._own = [term for term in shape.anti_affinity if not term.weight]
        self._keeping: dict[tuple[str, int], AffinityConflict] = {}  # by topology key and domain
        for i, tasks in enumerate(table.tasks):
            for other in tasks.values():
                if other is not task:
                    self._look(i, other, shape)
        self._together = _together(table, task)

    def _look(self, i: int, other: WTask, shape: Shape) -> None:
        sides = ((term, True) for term in self._own if selects(term, other.info.shape))
        theirs = other.info.shape.anti_affinity
        others = ((term, False) for term in theirs if not term.weight and selects(term, shape)) if theirs else ()
        for term, own in (*sides, *others):
            code = int(self._table.column(term.topology_key)[0][i])
            if code >= 0:
                self._keeping.setdefault((term.topology_key, code), AffinityConflict(term, other, own))

    def at(self, i: int) -> AffinityConflict | None:
        """Of one node."""
        for term, allowed in self._together:
            if not allowed[i]:
                return AffinityConflict(term, None, True)
        for key in dict.fromkeys(key for key, _ in self._keeping):
            found = self._keeping.get((key, int(self._table.column(key)[0][i])))
            if found is not None:
                return found
        return None


def preferences(table: NodeTable, info: ShapeInfo) -> np.ndarray | None:
    """Points per node from preferred terms, those of the shape and those of pods that are there and mean it; None where no
    term has a say. Required terms of others give none: KAI leaves their weight (hardPodAffinityWeight) at zero."""
    points: np.ndarray | None = None
    # By shape and not by pod: equal pods on a node give equal points, so they are counted once and multiplied.
    for other, homes in table.residents.items():
        if not (info.prefers_pods or other.prefers_pods):
            continue
        for key, weight in _liking(info, other):
            column, codes = table.column(key)
            domains = np.zeros(len(codes) + 1, dtype=np.int64)  # the last entry is for nodes without the label
            for i, count in homes.items():
                domains[column[i]] += count * weight
            # Pods on nodes without the label went there, and count for nobody.
            domains[-1] = 0
            points = domains[column] if points is None else points + domains[column]
    return points


def _liking(info: ShapeInfo, other: ShapeInfo) -> tuple[tuple[str, int], ...]:
    """(topology key, weight) of each preferred term between a shape and one that is there, whoever of them has it."""
    found = info.liked.get(other)
    if found is None:
        mine, theirs = info.shape, other.shape
        sides = (
            (mine.affinity, theirs, 1),
            (mine.anti_affinity, theirs, -1),
            (theirs.affinity, mine, 1),
            (theirs.anti_affinity, mine, -1),
        )
        # Kept for good: shapes don't change, and there are far fewer pairs of them than of pods.
        found = info.liked[other] = tuple(
            (term.topology_key, sign * term.weight)
            for terms, meant, sign in sides
            for term in terms
            if term.weight and selects(term, meant)
        )
    return found


def narrow_ports(table: NodeTable, shape: Shape, candidates: np.ndarray) -> None:
    for i in np.flatnonzero(candidates):
        if holder_of_port(table, shape, int(i)) is not None:
            candidates[i] = False


def holder_of_port(table: NodeTable, shape: Shape, i: int) -> tuple[WTask, int] | None:
    """Who has a host port on a node that the shape wants, and which."""
    for other in table.tasks[i].values():
        for mine in shape.ports:
            if any(_clash(mine, theirs) for theirs in other.info.shape.ports):
                return other, mine[2]
    return None


def _clash(one: tuple[str, str, int], other: tuple[str, str, int]) -> bool:
    anywhere = ("", "0.0.0.0", "::")
    return one[1:] == other[1:] and (one[0] == other[0] or one[0] in anywhere or other[0] in anywhere)
