"""Which of the fitting nodes: kube-scheduler's default scores and their weights.

NodeResourcesFit (least allocated) 1, balanced allocation 1, topology spreading of a controller's pods 2, preferred node
affinity 2, preferred pod affinity 2, PreferNoSchedule taints 3. Each score is 0..100. kube-scheduler breaks ties at
random; here the node with fewer pods wins, then the first name, so that runs are the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from kailab.scheduler.baseline.neighbours import preferences
from kailab.scheduler.baseline.pods import BaselinePod
from kailab.scheduler.baseline.table import Mask, NodeTable, matches_term, scored_needs
from kailab.scheduler.reading.affinity import tolerates

Scores = npt.NDArray[np.float64]


class Standing:
    """Where pods of one shape fit and what each node scores for its resources, kept up to date node by node.

    Most pods are like the one before them, and since then a single node has changed.
    """

    def __init__(self, pod: BaselinePod, table: NodeTable) -> None:
        self._pod = pod
        self._table = table
        self._seen = -1
        self.fits: Mask = np.zeros(len(table), bool)
        self.scores: Scores = np.zeros(len(table), np.float64)

    def refresh(self) -> None:
        table, pod = self._table, self._pod
        changes = table.changes
        # Beyond some share of the nodes the array expressions are faster than node by node.
        if self._seen < 0 or len(changes) - self._seen > len(table) // 8:
            self.fits = table.allowed(pod.shape)[0] & table.fitting(pod.needs, table.free)
            self.scores = _resource_scores(pod, table)
        else:
            allowed = table.allowed(pod.shape)[0]
            for position in dict.fromkeys(changes[self._seen :]):
                self.fits[position] = allowed[position] and not table.lacking(position, pod.needs, table.free)
                self.scores[position] = _resource_score(pod, table, position)
        self._seen = len(changes)


def best_node(pod: BaselinePod, table: NodeTable, fits: Mask, resources: Scores, placed: Iterable[BaselinePod]) -> int:
    """The position of the node to take; ``fits`` has at least one. ``resources``: scores of all nodes for resources."""
    candidates = np.flatnonzero(fits)
    scores = resources[candidates]
    counts = table.kin.get(pod.kin) if pod.kin else None
    if counts is not None:
        own = counts[candidates]
        most = own.max()
        if most:
            # Whole points, as in kube-scheduler: fractions would break ties that it has.
            scores += 2 * np.floor((most - own) * 100 / most)
    if pod.shape.preferred:
        scores += 2 * _up_to_100(_preferred(pod, table, candidates))
    if table.soft_taints:
        bad = _soft_taints(pod, table, candidates)
        if bad.any():
            # The other way round: the node with the most taints that are not tolerated gets nothing.
            scores += 3 * (100 - _up_to_100(bad))
    points = preferences(pod, table, placed) if pod.shape.affinity or pod.shape.anti_affinity else None
    if points is not None:
        near = points[candidates]
        width = near.max() - near.min()
        if width:
            scores += 2 * np.floor((near - near.min()) * 100 / width)
    best = candidates[scores == scores.max()]
    # argmin gives the first of several, and the table is in the order of names.
    return int(best[int(np.argmin(table.count[best]))])


def _resource_scores(pod: BaselinePod, table: NodeTable) -> Scores:
    """Least allocated and balanced, over cpu and memory."""
    cpu, memory = scored_needs(pod)
    capacity = table.allocatable[:2]
    used = table.scored + np.array([[cpu], [memory]], np.int64)
    # A node may offer none of it.
    safe = np.maximum(capacity, 1)
    free = np.where(used > capacity, 0, (capacity - used) * 100 // safe)
    parts = np.minimum(used / safe, 1.0)
    scores: Scores = free.sum(axis=0) // 2 + np.floor((1 - np.abs(parts[0] - parts[1]) / 2) * 100)
    return scores


def _resource_score(pod: BaselinePod, table: NodeTable, position: int) -> float:
    """The same for one node."""
    free = 0
    parts = []
    for row, wanted in enumerate(scored_needs(pod)):
        capacity = int(table.allocatable[row, position])
        used = int(table.scored[row, position]) + wanted
        safe = max(capacity, 1)
        free += 0 if used > capacity else (capacity - used) * 100 // safe
        parts.append(min(used / safe, 1.0))
    return free // 2 + math.floor((1 - abs(parts[0] - parts[1]) / 2) * 100)


def _up_to_100(points: Scores) -> Scores:
    most = points.max()
    return np.floor(points * 100 / most) if most else points


def _preferred(pod: BaselinePod, table: NodeTable, candidates: npt.NDArray[np.intp]) -> Scores:
    points = np.zeros(len(candidates), np.float64)
    for place, position in enumerate(candidates):
        name, labels = table.names[position], table.labels[position]
        for term in pod.shape.preferred:
            if matches_term(name, labels, term.requirements, term.fields):
                points[place] += term.weight
    return points


def _soft_taints(pod: BaselinePod, table: NodeTable, candidates: npt.NDArray[np.intp]) -> Scores:
    return np.array(
        [
            sum(
                taint.effect == "PreferNoSchedule" and not any(tolerates(t, taint) for t in pod.shape.tolerations)
                for taint in table.nodes[position].taints
            )
            for position in candidates
        ],
        np.float64,
    )
