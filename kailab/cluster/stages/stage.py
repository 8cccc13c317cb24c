"""The form of a Stage object. Source: kwok.x-k8s.io/v1alpha1."""

from __future__ import annotations

from typing import Any, NamedTuple

from kailab.cluster.pod_lifecycle import PodEvent
from kailab.cluster.protocol import Object

API_VERSION = "kwok.x-k8s.io/v1alpha1"


class StageRule(NamedTuple):
    """A condition on the object: values of a jq expression, and an operator (In, NotIn, Exists, DoesNotExist)."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


def absent(key: str) -> StageRule:
    return StageRule(key, "DoesNotExist")


def present(key: str) -> StageRule:
    return StageRule(key, "Exists")


def among(key: str, *values: str) -> StageRule:
    return StageRule(key, "In", values)


def outside(key: str, *values: str) -> StageRule:
    return StageRule(key, "NotIn", values)


def stage(
    name: str,
    kind: str,
    rules: list[StageRule],
    *,
    due: str = "",
    default_delay: float = 0.0,
    patch: str = "",
    subresource: str = "status",
    delete: bool = False,
    event: PodEvent | None = None,
    annotations: dict[str, str] | None = None,
) -> Object:
    """A Stage object. ``due``: a jq expression for the time left, as a Go duration; ``default_delay`` (seconds) if it
    gives none. ``patch``: a Go template of a strategic merge patch, for this subresource (empty: for the object without
    its status)."""
    following: dict[str, Any] = {}
    if event is not None:
        following["event"] = event._asdict()
    if delete:
        following["delete"] = True
    if patch:
        following["patches"] = [{**({"subresource": subresource} if subresource else {}), "template": patch}]
    selector: dict[str, Any] = {"matchExpressions": [{"jq": _expression(rule)} for rule in rules]}
    if annotations:
        selector["matchAnnotations"] = annotations
    spec: dict[str, Any] = {"resourceRef": {"apiGroup": "v1", "kind": kind}, "selector": selector}
    if due or default_delay:
        spec["delay"] = {"durationMilliseconds": round(default_delay * 1000)}
    if due:
        spec["delay"]["durationFrom"] = {"jq": {"expression": due}}
    spec["next"] = following
    return {"apiVersion": API_VERSION, "kind": "Stage", "metadata": {"name": name}, "spec": spec}


def _expression(rule: StageRule) -> dict[str, Any]:
    values = {"values": list(rule.values)} if rule.values else {}
    return {"key": rule.key, "operator": rule.operator, **values}
