"""Reads node and pod affinity, taints and tolerations into the engine's records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kailab.engine.snapshot.records import NodeTerm, Operator, PodTerm, PreferredNodes, Requirement, Taint, Toleration

_OPERATORS: dict[str, Operator] = {name: name for name in ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

Namespaces = Callable[[Mapping[str, Any]], tuple[str, ...]]
"""Returns the names of the namespaces that a namespaceSelector selects, sorted."""


def requirements(expressions: Any) -> tuple[Requirement, ...]:
    """``matchExpressions`` or ``matchFields``. An unknown operator matches nothing."""
    parsed = []
    for expression in expressions or ():
        operator = _OPERATORS.get(expression.get("operator", ""))
        # Labels are text, while YAML reads an unquoted 1 or true as another type.
        values = tuple(str(value) for value in expression.get("values") or ())
        if operator is None:
            operator, values = "In", ()
        parsed.append(Requirement(key=expression.get("key", ""), operator=operator, values=values))
    return tuple(parsed)


def selector(labels: Mapping[str, Any] | None) -> tuple[Requirement, ...]:
    """A ``nodeSelector`` or ``matchLabels`` mapping, ordered by key."""
    return tuple(
        Requirement(key=key, operator="In", values=(str(value),)) for key, value in sorted((labels or {}).items())
    )


def label_selector(block: Mapping[str, Any] | None) -> tuple[Requirement, ...] | None:
    """A ``LabelSelector``; None selects nothing, an empty one everything."""
    if block is None:
        return None
    return selector(block.get("matchLabels")) + requirements(block.get("matchExpressions"))


def node_terms(affinity: Mapping[str, Any]) -> tuple[NodeTerm, ...]:
    """Required node affinity: any one of the terms suffices. A term without requirements matches no node."""
    required = (affinity.get("nodeAffinity") or {}).get(_REQUIRED) or {}
    terms = []
    for term in required.get("nodeSelectorTerms") or ():
        labels, fields = requirements(term.get("matchExpressions")), requirements(term.get("matchFields"))
        if labels or fields:
            terms.append(NodeTerm(requirements=labels, fields=fields))
    # Kubernetes: required affinity whose terms are all empty matches no node, unlike no affinity at all.
    if required and not terms:
        terms.append(NodeTerm(requirements=(Requirement(key="", operator="In", values=()),)))
    return tuple(terms)


def preferred_nodes(affinity: Mapping[str, Any]) -> tuple[PreferredNodes, ...]:
    terms = []
    for entry in (affinity.get("nodeAffinity") or {}).get(_PREFERRED) or ():
        preference = entry.get("preference") or {}
        terms.append(
            PreferredNodes(
                weight=int(entry.get("weight", 1)),
                requirements=requirements(preference.get("matchExpressions")),
                fields=requirements(preference.get("matchFields")),
            )
        )
    return tuple(terms)


def pod_terms(
    block: Mapping[str, Any] | None, namespace: str, labels: Mapping[str, str], namespaces: Namespaces
) -> tuple[PodTerm, ...]:
    """Terms of ``podAffinity`` or ``podAntiAffinity``, required ones (weight 0) first.

    ``namespace`` and ``labels`` are the pod's: a term without namespaces selects the pod's own, and ``matchLabelKeys`` select the pod's
    own values.
    """
    if not block:
        return ()
    weighted_terms = [(0, term) for term in block.get(_REQUIRED) or ()]
    weighted_terms += [(int(e.get("weight", 1)), e.get("podAffinityTerm") or {}) for e in block.get(_PREFERRED) or ()]
    terms = []
    for weight, term in weighted_terms:
        selected = label_selector(term.get("labelSelector"))
        if selected is None:
            continue  # selects no pod
        extra = []
        for keys, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
            for key in term.get(keys) or ():
                # Kubernetes ignores keys that the pod itself lacks.
                if key in labels:
                    extra.append(Requirement(key=key, operator=_OPERATORS[operator], values=(labels[key],)))
        where = {str(name) for name in term.get("namespaces") or ()}
        if term.get("namespaceSelector") is not None:
            where.update(namespaces(term["namespaceSelector"]))
        elif not where:
            where.add(namespace)
        terms.append(
            PodTerm(
                topology_key=term.get("topologyKey", ""),
                requirements=selected + tuple(extra),
                namespaces=tuple(sorted(where)),
                weight=weight,
            )
        )
    return tuple(terms)


def tolerations(entries: Any) -> tuple[Toleration, ...]:
    return tuple(
        Toleration(
            key=entry.get("key") or "",
            operator="Exists" if entry.get("operator") == "Exists" else "Equal",
            value=str(entry.get("value") or ""),
            effect=entry.get("effect") or "",
        )
        for entry in entries or ()
    )


def taints(entries: Any) -> tuple[Taint, ...]:
    """Taints with an effect on scheduling, including ``PreferNoSchedule``."""
    return tuple(
        Taint(key=entry.get("key", ""), value=str(entry.get("value") or ""), effect=entry["effect"])
        for entry in entries or ()
        if entry.get("effect") in ("NoSchedule", "NoExecute", "PreferNoSchedule")
    )
