"""New states of a pod for the writes that Kubernetes has subresources for: binding and eviction."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from kailab.cluster.lifecycle import STARTED_CONDITIONS
from kailab.cluster.protocol import Object


@lru_cache(maxsize=1024)
def condition(type: str, status: str, since: str, reason: str = "", message: str = "") -> dict[str, Any]:
    """A pod condition. Equal ones are one dict, shared by all pods that carry it (and read-only, as all stored)."""
    made = {"type": type, "status": status, "lastProbeTime": None, "lastTransitionTime": since}
    if reason:
        made["reason"] = reason
    if message:
        made["message"] = message
    return made


def with_conditions(old: list[dict[str, Any]] | None, *new: dict[str, Any]) -> list[dict[str, Any]]:
    """Conditions with some set, each in its old place; the transition time stays while the status does."""
    result = list(old or ())
    for wanted in new:
        for index, there in enumerate(result):
            if there.get("type") == wanted["type"]:
                if there.get("status") == wanted["status"] and there.get("lastTransitionTime"):
                    wanted = {**wanted, "lastTransitionTime": there["lastTransitionTime"]}
                result[index] = wanted
                break
        else:
            result.append(wanted)
    return result


@lru_cache(maxsize=256)
def _scheduled_only(since: str) -> list[dict[str, Any]]:
    return [condition("PodScheduled", "True", since)]


@lru_cache(maxsize=256)
def _ready_after(scheduled: str, now: str) -> list[dict[str, Any]]:
    return with_conditions(_scheduled_only(scheduled), *_ready(now))


def _ready(now: str) -> list[dict[str, Any]]:
    return [condition(name, "True", now) for name in STARTED_CONDITIONS]


def ready_conditions(old: list[dict[str, Any]] | None, now: str) -> list[dict[str, Any]]:
    """Conditions of a pod that has just become ready; one shared list for all with the same history."""
    # The usual case. Identity with the cached condition proves that nobody has added a field to it.
    if old and len(old) == 1 and old[0] is condition("PodScheduled", "True", old[0]["lastTransitionTime"]):
        return _ready_after(old[0]["lastTransitionTime"], now)
    return with_conditions(old, *_ready(now))


def bound(pod: Object, node: str, annotations: Mapping[str, str] | None, now: str) -> Object:
    """The pod on its node, its PodScheduled condition true."""
    status = pod.get("status") or {}
    scheduled = condition("PodScheduled", "True", now)
    old = status.get("conditions")
    new_status = {**status, "conditions": with_conditions(old, scheduled) if old else _scheduled_only(now)}
    new_status.pop("nominatedNodeName", None)
    new = {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": new_status}
    if annotations:
        meta = dict(pod["metadata"])
        meta["annotations"] = {**(meta.get("annotations") or {}), **annotations}
        new["metadata"] = meta
    return new


def disrupted(pod: Object, reason: str, message: str, now: str) -> Object:
    """The pod with the condition that says it is to go, and why."""
    status = pod.get("status") or {}
    target = condition("DisruptionTarget", "True", now, reason, message)
    return {**pod, "status": {**status, "conditions": with_conditions(status.get("conditions"), target)}}
