"""Which pods a node sends away, and when: NoExecute taints, and for how long pods put up with them.

A node that is not ready is tainted, as by the node lifecycle controller: ``not-ready`` where its Ready condition is False,
``unreachable`` where it is Unknown, both NoSchedule and NoExecute, until it is ready again. Source: Kubernetes' node lifecycle and
taint eviction controllers, DefaultTolerationSeconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kailab.cluster.protocol import Object
from kailab.model.times import parse_time

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
TOLERATION_SECONDS = 300
"""How long a pod that says nothing of it stays on a node that is not ready."""


class Reason(NamedTuple):
    """A taint, and since when it is there (seconds since the epoch; 0: it does not say)."""

    taint: Mapping[str, Any]
    since: float


class Departure(NamedTuple):
    """When a pod has to go (seconds since the epoch), and the key of the taint that sends it."""

    at: float
    taint: str


def taints_of(node: Object) -> Sequence[Mapping[str, Any]]:
    return (node.get("spec") or {}).get("taints") or ()


def reasons(node: Object) -> tuple[Reason, ...]:
    """All that sends pods away from a node."""
    found = [Reason(taint, _time(taint, "timeAdded")) for taint in taints_of(node) if _sends(taint)]
    for entry in _not_ready(node):
        key = UNREACHABLE if entry.get("status") == "Unknown" else NOT_READY
        # A node of a real cluster has the taint itself.
        if all(reason.taint.get("key") != key for reason in found):
            found.append(Reason({"key": key, "effect": "NoExecute"}, _time(entry, "lastTransitionTime")))
    return tuple(found)


def marked(node: Object) -> Object | None:
    """The node with the taints that its Ready condition asks for and no others of theirs; None where it has them."""
    asked = {UNREACHABLE if entry.get("status") == "Unknown" else NOT_READY for entry in _not_ready(node)}
    present = taints_of(node)
    kept = [taint for taint in present if taint.get("key") not in (NOT_READY, UNREACHABLE) or taint.get("key") in asked]
    there = {(taint.get("key"), taint.get("effect")) for taint in kept}
    since = {entry.get("lastTransitionTime") for entry in _not_ready(node)}
    dates = {"timeAdded": str(next(iter(since)))} if len(since) == 1 and None not in since else {}
    for key in sorted(asked):
        if (key, "NoSchedule") not in there:
            kept.append({"key": key, "effect": "NoSchedule"})
        if (key, "NoExecute") not in there:
            kept.append({"key": key, "effect": "NoExecute", **dates})
    if kept == list(present):
        return None
    spec = {field: value for field, value in (node.get("spec") or {}).items() if field != "taints"}
    return {**node, "spec": {**spec, "taints": kept} if kept else spec}


def dated(node: Object, before: Object | None, now: str) -> Object | None:
    """The node with the time on each taint and condition that sends pods away and has none: the one it had ``before``, else
    ``now``. None where none lacks it."""
    taints = [taint for taint in taints_of(node) if _sends(taint) and not taint.get("timeAdded")]
    conditions = [entry for entry in _not_ready(node) if not entry.get("lastTransitionTime")]
    new = node
    # What is applied once more, from a manifest without times, has been there all along.
    if taints:
        known = {_identity(taint): taint.get("timeAdded") for taint in (taints_of(before) if before else ())}
        listed = [
            {**taint, "timeAdded": known.get(_identity(taint)) or now} if taint in taints else taint
            for taint in taints_of(node)
        ]
        new = {**new, "spec": {**node["spec"], "taints": listed}}
    if conditions:
        earlier = {
            entry.get("status"): entry.get("lastTransitionTime") for entry in (_not_ready(before) if before else ())
        }
        listed = [
            {**entry, "lastTransitionTime": earlier.get(entry.get("status")) or now} if entry in conditions else entry
            for entry in node["status"]["conditions"]
        ]
        new = {**new, "status": {**node["status"], "conditions": listed}}
    return None if new is node else new


def departure(pod: Object, node: Object) -> Departure | None:
    """When the pod has to leave the node for one of its taints; None: it may stay."""
    # A manifest may carry times from long before this node was made; and nobody waits for a taint where it is not yet.
    begun = max(parse_time(node["metadata"]["creationTimestamp"]), bound_at(pod))
    found: Departure | None = None
    for taint, since in reasons(node):
        patience = _patience(pod, taint)
        if patience is not None and (found is None or max(since, begun) + patience < found.at):
            found = Departure(max(since, begun) + patience, taint["key"])
    return found


def _patience(pod: Object, taint: Mapping[str, Any]) -> float | None:
    """Seconds the pod puts up with a taint; None: for ever."""
    for toleration in pod["spec"].get("tolerations") or ():
        # Also one of everything: DefaultTolerationSeconds adds none of its own beside it.
        if _tolerates(toleration, taint):
            seconds = toleration.get("tolerationSeconds")
            return None if seconds is None else max(0.0, float(seconds))
    return float(TOLERATION_SECONDS) if taint["key"] in (NOT_READY, UNREACHABLE) else 0.0


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    return toleration.get("operator") == "Exists" or (
        bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", "")
    )


def _sends(taint: Mapping[str, Any]) -> bool:
    return taint.get("effect") == "NoExecute"


def _not_ready(node: Object) -> list[dict[str, Any]]:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return [entry for entry in conditions if entry.get("type") == "Ready" and entry.get("status") != "True"]


def _time(obj: Mapping[str, Any], field: str) -> float:
    return parse_time(obj[field]) if obj.get(field) else 0.0


def _identity(taint: Mapping[str, Any]) -> tuple[Any, ...]:
    return taint.get("key"), taint.get("value") or "", taint.get("effect")


def bound_at(pod: Object) -> float:
    for entry in (pod.get("status") or {}).get("conditions") or ():
        if entry.get("type") == "PodScheduled" and entry.get("status") == "True":
            return _time(entry, "lastTransitionTime")
    return 0.0
