"""What becomes of pods when their node fails, comes back or goes, as the node lifecycle and pod GC controllers do.

A node whose Ready condition is not True: its pods turn not Ready, nothing there starts or stops, and after the pod's
toleration of ``node.kubernetes.io/not-ready`` (300 s unless the pod says otherwise; a timer that is not prompt) they are deleted,
staying as terminating until the node is back. A deleted node takes its pods with it at once. A NoExecute taint sends
away what does not tolerate it.
"""

from __future__ import annotations

from typing import Any

from kailab.cluster.embedded.clock import VirtualClock
from kailab.cluster.embedded.deletion import Deletion
from kailab.cluster.embedded.nodes.kubelet import Kubelet, node_ready
from kailab.cluster.embedded.podwrites import condition, disrupted, with_conditions
from kailab.cluster.embedded.storage.store import Store
from kailab.cluster.embedded.storage.table import Key
from kailab.cluster.protocol import EventType, Object
from kailab.model.times import format_time, parse_time

NOT_READY = "node.kubernetes.io/not-ready"
TOLERATION_SECONDS = 300


class NodeLifecycle:
    """Watches nodes on behalf of their pods. Soft state only."""

    def __init__(self, store: Store, clock: VirtualClock, deletion: Deletion, kubelet: Kubelet) -> None:
        self._store = store
        self._clock = clock
        self._deletion = deletion
        self._kubelet = kubelet
        store.hook("Node", self._node_changed)

    def restore(self) -> None:
        """Take up the nodes that were not Ready when the store was saved."""
        for (_, name), node in self._store.table("Node").objects.items():
            if not node_ready(node):
                self._plan_eviction(name, node)

    def _node_changed(self, type: EventType, key: Key, old: Object | None, new: Object | None) -> None:
        assert new is not None
        name = key[1]
        pods = self._pods(name)
        if type == "DELETED":
            for pod_key, pod in pods:
                self._deletion.delete("Pod", pod_key, self._orphaned(pod_key, pod), 0)
            return
        # A node that appears may have pods already, bound to its name before it was there.
        if type == "ADDED" or node_ready(new) != node_ready(old):
            if node_ready(new):
                self._back(pods)
            else:
                self._lost(name, new, pods)
        taints = (new.get("spec") or {}).get("taints")
        if taints and (old is None or (old.get("spec") or {}).get("taints") is not taints):
            self._no_execute(taints, pods)

    def _pods(self, node: str) -> list[tuple[Key, Object]]:
        found = self._store.table("Pod").objects
        return [(key, found[key]) for key in self._kubelet.on_node.get(node, ()) if key in found]

    def _orphaned(self, key: Key, pod: Object) -> Object:
        # PodGC marks only pods that have not ended: these keep how they ended.
        if pod["status"].get("phase") in ("Succeeded", "Failed"):
            return pod
        now = format_time(self._clock.now // 1)
        new = disrupted(pod, "DeletionByPodGC", "PodGC: node no longer exists", now)
        return self._store.replace("Pod", key, pod, {**new, "status": {**new["status"], "phase": "Failed"}})

    def _back(self, pods: list[tuple[Key, Object]]) -> None:
        for key, pod in pods:
            if "deletionTimestamp" in pod["metadata"]:
                self._kubelet.leave(key, pod)
            else:
                if pod["status"].get("phase") == "Running":
                    pod = self._set_ready(key, pod, "True", "")
                self._kubelet.consider(key, pod)

    def _lost(self, name: str, node: Object, pods: list[tuple[Key, Object]]) -> None:
        for key, pod in pods:
            if pod["status"].get("phase") == "Running":
                self._set_ready(key, pod, "False", "NodeNotReady")
        self._plan_eviction(name, node)

    def _set_ready(self, key: Key, pod: Object, status: str, reason: str) -> Object:
        now = format_time(self._clock.now // 1)
        conditions = with_conditions(pod["status"].get("conditions"), condition("Ready", status, now, reason))
        return self._store.replace("Pod", key, pod, {**pod, "status": {**pod["status"], "conditions": conditions}})

    def _plan_eviction(self, name: str, node: Object) -> None:
        since = self._clock.now // 1
        for entry in (node.get("status") or {}).get("conditions") or ():
            if entry.get("type") == "Ready" and entry.get("lastTransitionTime"):
                since = parse_time(entry["lastTransitionTime"])
        # A manifest may carry a condition from long before this node was made.
        since = max(since, parse_time(node["metadata"]["creationTimestamp"]))
        waits = {self._patience(pod) for _, pod in self._pods(name)} - {None}
        # A timer for each length of patience, not for each pod: ``_evict`` looks who is there when it falls due.
        for wait in sorted(w for w in waits if w is not None):
            self._clock.call_at(
                max(since + wait, self._clock.now),
                lambda wait=wait: self._evict(name, wait),  # type: ignore[misc]
                prompt=False,
                key=f"node-not-ready/{name}/{wait}",
            )

    @staticmethod
    def _patience(pod: Object) -> float | None:
        """Seconds the pod puts up with a node that is not ready; None: for ever."""
        for toleration in pod["spec"].get("tolerations") or ():
            # Also one of everything: Kubernetes' DefaultTolerationSeconds adds none of its own beside it.
            if _tolerates(toleration, {"key": NOT_READY, "effect": "NoExecute"}):
                seconds = toleration.get("tolerationSeconds")
                return None if seconds is None else float(seconds)
        return float(TOLERATION_SECONDS)

    def _evict(self, name: str, wait: float) -> None:
        node = self._store.find("Node", ("", name))
        if node is None or node_ready(node):
            return
        for key, pod in self._pods(name):
            if self._patience(pod) == wait and "deletionTimestamp" not in pod["metadata"]:
                self._delete(key, pod, f"Taint manager: deleting due to {NOT_READY}")

    def _no_execute(self, taints: list[dict[str, Any]], pods: list[tuple[Key, Object]]) -> None:
        for taint in taints:
            if taint.get("effect") != "NoExecute":
                continue
            for key, pod in pods:
                # An earlier taint, or a pod deleted before with all it owned, may have taken it already.
                current = self._store.find("Pod", key)
                if current is None or "deletionTimestamp" in current["metadata"]:
                    continue
                if not any(_tolerates(t, taint) for t in pod["spec"].get("tolerations") or ()):
                    self._delete(key, current, f"Taint manager: deleting due to NoExecute taint {taint['key']}")

    def _delete(self, key: Key, pod: Object, message: str) -> None:
        now = format_time(self._clock.now // 1)
        pod = self._store.replace("Pod", key, pod, disrupted(pod, "DeletionByTaintManager", message, now))
        self._deletion.delete("Pod", key, pod, None)


def _tolerates(toleration: dict[str, Any], taint: dict[str, Any]) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    return toleration.get("operator") == "Exists" or (
        bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", "")
    )
