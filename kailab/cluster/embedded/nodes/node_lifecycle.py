"""What happens to pods when their node fails, comes back or is deleted, as the node lifecycle and pod GC controllers do
it.

A node whose Ready condition is not True gets taints, its pods become not Ready, and nothing starts or stops on it. A
pod that does not tolerate a NoExecute taint is deleted: at once, or after its ``tolerationSeconds`` (300 s for a node
that is not ready, unless the pod says otherwise). On a node that does not answer, it stays terminating until the node
is back. A deleted node takes its pods with it at once. Pods bound to a node that never existed are deleted after a
while.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from kailab.cluster.embedded.clock import VirtualClock
from kailab.cluster.embedded.deletion import Deletion
from kailab.cluster.embedded.nodes.kubelet import Kubelet, node_ready
from kailab.cluster.embedded.pod_status import bound_at, condition, disrupted_pod, with_conditions
from kailab.cluster.embedded.storage.store import ObjectStore
from kailab.cluster.protocol import EventType, Object
from kailab.model.objects import ENDED_PHASES, Key, is_terminating
from kailab.model.times import parse_time

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
TOLERATION_SECONDS = 300
"""Seconds that a pod without a toleration of its own stays on a node that is not ready."""


class EvictingTaint(NamedTuple):
    """A taint that evicts pods, and since when it is there (seconds since the epoch; 0: unknown)."""

    taint: Mapping[str, Any]
    since: float


class TaintEviction(NamedTuple):
    """When a pod has to go (seconds since the epoch), and the key of the taint that evicts it."""

    at: float
    taint: str


def taints_of(node: Object) -> Sequence[Mapping[str, Any]]:
    return (node.get("spec") or {}).get("taints") or ()


def evicting_taints(node: Object) -> tuple[EvictingTaint, ...]:
    taints = [EvictingTaint(taint, _time(taint, "timeAdded")) for taint in taints_of(node) if _evicts(taint)]
    for entry in _not_ready(node):
        key = UNREACHABLE if entry.get("status") == "Unknown" else NOT_READY
        # A node of a real cluster has the taint itself.
        if all(reason.taint.get("key") != key for reason in taints):
            taints.append(EvictingTaint({"key": key, "effect": "NoExecute"}, _time(entry, "lastTransitionTime")))
    return tuple(taints)


def with_readiness_taints(node: Object) -> Object | None:
    """The node with exactly the taints that its Ready condition asks for; None if it has them already."""
    needed = {UNREACHABLE if entry.get("status") == "Unknown" else NOT_READY for entry in _not_ready(node)}
    present = taints_of(node)
    remaining = [
        taint for taint in present if taint.get("key") not in (NOT_READY, UNREACHABLE) or taint.get("key") in needed
    ]
    remaining_keys = {(taint.get("key"), taint.get("effect")) for taint in remaining}
    since = {entry.get("lastTransitionTime") for entry in _not_ready(node)}
    dates = {"timeAdded": str(next(iter(since)))} if len(since) == 1 and None not in since else {}
    for key in sorted(needed):
        if (key, "NoSchedule") not in remaining_keys:
            remaining.append({"key": key, "effect": "NoSchedule"})
        if (key, "NoExecute") not in remaining_keys:
            remaining.append({"key": key, "effect": "NoExecute", **dates})
    if remaining == list(present):
        return None
    spec = {field: value for field, value in (node.get("spec") or {}).items() if field != "taints"}
    return {**node, "spec": {**spec, "taints": remaining} if remaining else spec}


def with_taint_times(node: Object, before: Object | None, now: str) -> Object | None:
    """The node with a time on each evicting taint and condition: the one it had ``before``, else ``now``. None if all
    have one."""
    taints = [taint for taint in taints_of(node) if _evicts(taint) and not taint.get("timeAdded")]
    conditions = [entry for entry in _not_ready(node) if not entry.get("lastTransitionTime")]
    new = node
    # A manifest without times that is applied again does not restart the time of its taints.
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


def taint_eviction(pod: Object, node: Object) -> TaintEviction | None:
    """When the pod has to leave the node because of a taint; None: it may stay."""
    # A manifest may carry times from before the node existed, and no pod counts the time before it was bound.
    begun = max(parse_time(node["metadata"]["creationTimestamp"]), bound_at(pod))
    earliest: TaintEviction | None = None
    for taint, since in evicting_taints(node):
        patience = _patience(pod, taint)
        if patience is not None and (earliest is None or max(since, begun) + patience < earliest.at):
            earliest = TaintEviction(max(since, begun) + patience, taint["key"])
    return earliest


def _patience(pod: Object, taint: Mapping[str, Any]) -> float | None:
    """Seconds that the pod tolerates a taint; None: for ever."""
    for toleration in pod["spec"].get("tolerations") or ():
        # Any toleration counts, also of everything: DefaultTolerationSeconds then adds none of its own.
        if covers_taint(toleration, taint):
            seconds = toleration.get("tolerationSeconds")
            return None if seconds is None else max(0.0, float(seconds))
    return float(TOLERATION_SECONDS) if taint["key"] in (NOT_READY, UNREACHABLE) else 0.0


def covers_taint(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    return toleration.get("operator") == "Exists" or (
        bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", "")
    )


def _evicts(taint: Mapping[str, Any]) -> bool:
    return taint.get("effect") == "NoExecute"


def _not_ready(node: Object) -> list[dict[str, Any]]:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return [entry for entry in conditions if entry.get("type") == "Ready" and entry.get("status") != "True"]


def _time(obj: Mapping[str, Any], field: str) -> float:
    return parse_time(obj[field]) if obj.get(field) else 0.0


def _identity(taint: Mapping[str, Any]) -> tuple[Any, ...]:
    return taint.get("key"), taint.get("value") or "", taint.get("effect")


QUARANTINE_SECONDS = 40.0
"""Seconds that PodGC waits for the node that a pod is bound to."""


class NodeLifecycle:
    """Evicts and marks pods as their nodes change. It has soft state only."""

    def __init__(self, store: ObjectStore, clock: VirtualClock, deletion: Deletion, kubelet: Kubelet) -> None:
        self._store = store
        self._clock = clock
        self._deletion = deletion
        self._kubelet = kubelet
        self._evicting: set[str] = set()  # nodes with evicting taints
        store.hook("Node", self._node_changed)
        store.hook("Pod", self._pod_changed)

    def restore(self) -> None:
        """Resume the nodes with evicting taints when a saved store is loaded."""
        for (_, name), node in self._store.table("Node").objects.items():
            if evicting_taints(node):
                self._evicting.add(name)
                self._plan(name, node, self._pods(name))
        for name in self._missing():
            for _, pod in self._pods(name):
                self._collect_later(pod)

    def _node_changed(self, type: EventType, key: Key, old: Object | None, new: Object | None) -> None:
        assert new is not None
        name = key[1]
        if type == "DELETED":
            self._evicting.discard(name)
            for pod_key, pod in self._pods(name):
                self._deletion.delete("Pod", pod_key, self._orphaned(pod_key, pod), 0)
            return
        # A new node may have pods already, bound to its name before it existed.
        if type == "ADDED" or node_ready(new) != node_ready(old):
            if node_ready(new):
                self._resume(self._pods(name))
            else:
                self._mark_not_ready(self._pods(name))
        # Times are stored, so that a resumed lab goes on exactly as one that was never stopped.
        written = with_taint_times(new, old, self._clock.stamp()) or with_readiness_taints(new)
        if written is not None:
            self._store.replace("Node", key, new, written)  # this method is called again for it
            return
        present = evicting_taints(new)
        if old is None or present != evicting_taints(old):
            if present:
                self._evicting.add(name)
            else:
                self._evicting.discard(name)
            self._evict_due(name, new)

    def _pod_changed(self, type: EventType, key: Key, old: Object | None, new: Object | None) -> None:
        if type == "DELETED" or new is None or (old is not None and old["spec"] is new["spec"]):
            return
        name = new["spec"].get("nodeName")
        if not name:
            return
        # The pod was bound, or its tolerations have changed.
        node = self._store.find("Node", ("", name))
        if node is None:
            self._collect_later(new)
        elif name in self._evicting:
            self._plan(name, node, [(key, new)])

    def _missing(self) -> list[str]:
        """Nodes that do not exist and have pods bound to them."""
        nodes = self._store.table("Node").objects
        return [name for name in self._kubelet.on_node if ("", name) not in nodes]

    def _collect_later(self, pod: Object) -> None:
        """Check again after PodGC's delay whether a pod's node exists."""
        when = max(_gone_at(pod), self._clock.now)
        self._clock.call_at(when, self._collect, prompt=False, key=f"pod-gc/{when}")

    def _collect(self) -> None:
        for name in self._missing():
            for key, _ in self._pods(name):
                # A pod deleted earlier may have removed everything it owned.
                pod = self._store.find("Pod", key)
                if pod is not None and _gone_at(pod) <= self._clock.now:
                    self._deletion.delete("Pod", key, self._orphaned(key, pod), 0)

    def _pods(self, node: str) -> list[tuple[Key, Object]]:
        pods = self._store.table("Pod").objects
        return [(key, pods[key]) for key in self._kubelet.on_node.get(node, ()) if key in pods]

    def _orphaned(self, key: Key, pod: Object) -> Object:
        # PodGC marks only pods that have not ended; others keep their phase.
        if pod["status"].get("phase") in ENDED_PHASES:
            return pod
        new = disrupted_pod(pod, "DeletionByPodGC", "PodGC: node no longer exists", self._clock.stamp())
        return self._store.replace("Pod", key, pod, {**new, "status": {**new["status"], "phase": "Failed"}})

    def _resume(self, pods: list[tuple[Key, Object]]) -> None:
        for key, pod in pods:
            if is_terminating(pod):
                self._kubelet.leave(key, pod)
            else:
                if pod["status"].get("phase") == "Running":
                    pod = self._set_ready(key, pod, "True", "")
                self._kubelet.consider(key, pod)

    def _mark_not_ready(self, pods: list[tuple[Key, Object]]) -> None:
        for key, pod in pods:
            if pod["status"].get("phase") == "Running":
                self._set_ready(key, pod, "False", "NodeNotReady")

    def _set_ready(self, key: Key, pod: Object, status: str, reason: str) -> Object:
        ready = condition("Ready", status, self._clock.stamp(), reason)
        conditions = with_conditions(pod["status"].get("conditions"), ready)
        return self._store.replace("Pod", key, pod, {**pod, "status": {**pod["status"], "conditions": conditions}})

    def _plan(self, name: str, node: Object, pods: Iterable[tuple[Key, Object]]) -> None:
        """Set a timer for each time at which pods have to go; which ones is decided then."""
        now = self._clock.now
        leaving = (taint_eviction(pod, node) for _, pod in pods if not is_terminating(pod))
        for when in sorted({eviction.at for eviction in leaving if eviction is not None}):
            self._clock.call_at(
                max(when, now), partial(self._fall_due, name), prompt=False, key=f"node-taints/{name}/{when}"
            )

    def _fall_due(self, name: str) -> None:
        node = self._store.find("Node", ("", name))
        if node is not None:
            self._evict_due(name, node)

    def _evict_due(self, name: str, node: Object) -> None:
        """Evict the pods whose time has come, and plan the others."""
        now = self._clock.now
        for key, _ in self._pods(name):
            # A pod deleted earlier may have removed everything it owned.
            pod = self._store.find("Pod", key)
            if pod is None or is_terminating(pod):
                continue
            leaves = taint_eviction(pod, node)
            if leaves is not None and leaves.at <= now:
                self._delete(key, pod, f"Taint manager: deleting due to NoExecute taint {leaves.taint}")
        self._plan(name, node, self._pods(name))

    def _delete(self, key: Key, pod: Object, message: str) -> None:
        disrupted = disrupted_pod(pod, "DeletionByTaintManager", message, self._clock.stamp())
        self._deletion.delete("Pod", key, self._store.replace("Pod", key, pod, disrupted), None)


def _gone_at(pod: Object) -> float:
    """When a pod whose node does not exist is deleted."""
    return max(parse_time(pod["metadata"]["creationTimestamp"]), bound_at(pod)) + QUARANTINE_SECONDS
