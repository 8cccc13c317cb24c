"""Rules between pods: required affinity and anti-affinity per topology domain, and host ports.

Source: Kubernetes' InterPodAffinity and NodePorts filters. A pod in thought (promised or leaving) counts where it is.
"""

from __future__ import annotations

import numpy as np

from kailab.engine.fit import matches
from kailab.engine.nodes import NodeTable
from kailab.engine.records import PodTerm, Shape
from kailab.engine.state import WTask


def selects(term: PodTerm, shape: Shape) -> bool:
    """Whether a pod of this shape is one the term speaks of."""
    if term.namespaces and shape.namespace not in term.namespaces:
        return False
    labels = dict(shape.labels)
    return all(matches(requirement, labels) for requirement in term.requirements)


def narrow(table: NodeTable, task: WTask, candidates: np.ndarray) -> None:
    """Take out of ``candidates`` the nodes where the task's terms, or those of pods already there, forbid it."""
    shape = task.info.shape
    for term in shape.affinity:
        if not term.weight:
            _require(table, task, term, candidates)
    for term in shape.anti_affinity:
        if not term.weight:
            column, _ = table.column(term.topology_key)
            taken = _domains(table, task, lambda other, term=term: selects(term, other.info.shape), column)
            if taken:
                candidates &= ~np.isin(column, list(taken))
    _respect_others(table, task, candidates)


def _require(table: NodeTable, task: WTask, term: PodTerm, candidates: np.ndarray) -> None:
    column, _ = table.column(term.topology_key)
    there = _domains(table, task, lambda other: selects(term, other.info.shape), column)
    if there:
        candidates &= np.isin(column, list(there))
    elif selects(term, task.info.shape):
        candidates &= column >= 0  # the first of a group that wants to be together
    else:
        candidates &= False


def _domains(table: NodeTable, task: WTask, wanted, column: np.ndarray) -> set[int]:  # type: ignore[no-untyped-def]
    found: set[int] = set()
    for i, tasks in enumerate(table.tasks):
        code = int(column[i])
        if code >= 0 and code not in found and tasks:
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


def narrow_ports(table: NodeTable, shape: Shape, candidates: np.ndarray) -> None:
    for i in np.flatnonzero(candidates):
        for other in table.tasks[i].values():
            if any(_clash(mine, theirs) for mine in shape.ports for theirs in other.info.shape.ports):
                candidates[i] = False
                break


def _clash(one: tuple[str, str, int], other: tuple[str, str, int]) -> bool:
    anywhere = ("", "0.0.0.0", "::")
    return one[1:] == other[1:] and (one[0] == other[0] or one[0] in anywhere or other[0] in anywhere)
