"""Required pod affinity and anti-affinity: which nodes the pods already placed allow.

Source: kube-scheduler InterPodAffinity.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from kailab.engine.snapshot.records import PodTerm
from kailab.scheduler.baseline.pods import BaselinePod
from kailab.scheduler.baseline.table import Mask, NodeTable

AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
OTHERS_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"


def refusals(
    pod: BaselinePod, table: NodeTable, placed: Iterable[BaselinePod], keeping_away: Mapping[str, BaselinePod]
) -> list[tuple[Mask, str]]:
    """(nodes refused, reason) in the order in which kube-scheduler looks.

    ``keeping_away``: placed pods that have anti-affinity of their own.
    """
    found: list[tuple[Mask, str]] = []
    wanted = [term for term in pod.shape.affinity if not term.weight]
    hated = [term for term in pod.shape.anti_affinity if not term.weight]
    # Walked several times below.
    others = list(placed) if wanted or hated else []
    if wanted:
        # Only pods that all terms mean count, for each term.
        meant = [other for other in others if _all_mean(wanted, other)]
        near = [_near(term, table, meant) for term in wanted]
        # The first of a series that wants its own kind may start anywhere that has the topology.
        if not any(nodes.any() for nodes in near) and _all_mean(wanted, pod):
            near = [_has_key(term, table) for term in wanted]
        found.append((~np.logical_and.reduce(near), AFFINITY))
    if hated:
        refused = np.zeros(len(table), bool)
        for term in hated:
            refused |= _near(term, table, [other for other in others if _all_mean([term], other)])
        found.append((refused, ANTI_AFFINITY))
    refused = np.zeros(len(table), bool)
    # Anti-affinity holds both ways: a pod that is there may refuse the new one.
    for other in keeping_away.values():
        for term in other.shape.anti_affinity:
            if not term.weight and pod.matches(term.requirements, term.namespaces):
                refused |= _domain(term.topology_key, other.node, table)
    if refused.any():
        found.append((refused, OTHERS_ANTI_AFFINITY))
    return found


def preferences(pod: BaselinePod, table: NodeTable, placed: Iterable[BaselinePod]) -> np.ndarray | None:
    """Points from preferred terms, per node; None where the pod has none."""
    terms = [(term, 1) for term in pod.shape.affinity if term.weight]
    terms += [(term, -1) for term in pod.shape.anti_affinity if term.weight]
    if not terms:
        return None
    others = list(placed)
    points = np.zeros(len(table), np.float64)
    for term, sign in terms:
        for other in others:
            if other.matches(term.requirements, term.namespaces):
                points += sign * term.weight * _domain(term.topology_key, other.node, table)
    return points


def _all_mean(terms: Iterable[PodTerm], pod: BaselinePod) -> bool:
    return all(pod.matches(term.requirements, term.namespaces) for term in terms)


def _near(term: PodTerm, table: NodeTable, meant: Iterable[BaselinePod]) -> Mask:
    """Nodes in a domain of the term's topology with one of these pods."""
    values = {
        table.labels[position].get(term.topology_key)
        for other in meant
        if (position := table.index.get(other.node)) is not None
    } - {None}
    if not values:
        return np.zeros(len(table), bool)
    return np.array([labels.get(term.topology_key) in values for labels in table.labels], bool)


def _has_key(term: PodTerm, table: NodeTable) -> Mask:
    return np.array([term.topology_key in labels for labels in table.labels], bool)


def _domain(key: str, node: str, table: NodeTable) -> Mask:
    """Nodes in the same domain as one node; none if it has no such label."""
    position = table.index.get(node)
    value = table.labels[position].get(key) if position is not None else None
    if value is None:
        return np.zeros(len(table), bool)
    return np.array([labels.get(key) == value for labels in table.labels], bool)
