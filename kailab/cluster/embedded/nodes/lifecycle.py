"""What becomes of pods when their node fails, comes back or goes, as the node lifecycle and pod GC controllers do.

A node whose Ready condition is not True: it is tainted, its pods turn not Ready, and nothing there starts or stops. Pods that do not put up with
a NoExecute taint, or with a node that is not ready (``taints``; 300 s unless the pod says otherwise; timers that are not prompt), are
deleted, and stay as terminating where the node is away until it is back. A deleted node takes its pods with it at once; pods that are bound to a
node that never was are deleted after a while.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from kailab.cluster.embedded.clock import VirtualClock
from kailab.cluster.embedded.deletion import Deletion
from kailab.cluster.embedded.nodes.kubelet import Kubelet, node_ready
from kailab.cluster.embedded.nodes.taints import bound_at, dated, departure, marked, reasons
from kailab.cluster.embedded.podwrites import condition, disrupted, with_conditions
from kailab.cluster.embedded.storage.store import Store
from kailab.cluster.embedded.storage.table import Key
from kailab.cluster.protocol import EventType, Object
from kailab.model.times import format_time, parse_time

QUARANTINE_SECONDS = 40.0
"""How long PodGC waits for the node that a pod is bound to."""


class NodeLifecycle:
    """Watches nodes on behalf of their pods. Soft state only."""

    def __init__(self, store: Store, clock: VirtualClock, deletion: Deletion, kubelet: Kubelet) -> None:
        self._store = store
        self._clock = clock
        self._deletion = deletion
        self._kubelet = kubelet
        self._shunned: set[str] = set()  # nodes that have something pods may not put up with
        store.hook("Node", self._node_changed)
        store.hook("Pod", self._pod_changed)

    def restore(self) -> None:
        """Take up the nodes that sent pods away when the store was saved."""
        for (_, name), node in self._store.table("Node").objects.items():
            if reasons(node):
                self._shunned.add(name)
                self._plan(name, node, self._pods(name))
        for name in self._missing():
            for _, pod in self._pods(name):
                self._doubt(pod)

    def _node_changed(self, type: EventType, key: Key, old: Object | None, new: Object | None) -> None:
        assert new is not None
        name = key[1]
        if type == "DELETED":
            self._shunned.discard(name)
            for pod_key, pod in self._pods(name):
                self._deletion.delete("Pod", pod_key, self._orphaned(pod_key, pod), 0)
            return
        # A node that appears may have pods already, bound to its name before it was there.
        if type == "ADDED" or node_ready(new) != node_ready(old):
            if node_ready(new):
                self._back(self._pods(name))
            else:
                self._lost(self._pods(name))
        # On record, so that a resumed lab goes on exactly as one that was never stopped.
        written = dated(new, old, format_time(self._clock.now // 1)) or marked(new)
        if written is not None:
            self._store.replace("Node", key, new, written)  # and is told here once more
            return
        present = reasons(new)
        if old is None or present != reasons(old):
            if present:
                self._shunned.add(name)
            else:
                self._shunned.discard(name)
            self._send_away(name, new)

    def _pod_changed(self, type: EventType, key: Key, old: Object | None, new: Object | None) -> None:
        if type == "DELETED" or new is None or (old is not None and old["spec"] is new["spec"]):
            return
        name = new["spec"].get("nodeName")
        if not name:
            return
        # It was bound, or is given another toleration.
        node = self._store.find("Node", ("", name))
        if node is None:
            self._doubt(new)
        elif name in self._shunned:
            self._plan(name, node, [(key, new)])

    def _missing(self) -> list[str]:
        """Nodes that pods are bound to and that are not there."""
        there = self._store.table("Node").objects
        return [name for name in self._kubelet.on_node if ("", name) not in there]

    def _doubt(self, pod: Object) -> None:
        """Look again, once PodGC would have, whether a pod's node is there."""
        when = max(_gone_at(pod), self._clock.now)
        self._clock.call_at(when, self._collect, prompt=False, key=f"pod-gc/{when}")

    def _collect(self) -> None:
        for name in self._missing():
            for key, _ in self._pods(name):
                # One deleted before may have taken all it owned with it.
                pod = self._store.find("Pod", key)
                if pod is not None and _gone_at(pod) <= self._clock.now:
                    self._deletion.delete("Pod", key, self._orphaned(key, pod), 0)

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

    def _lost(self, pods: list[tuple[Key, Object]]) -> None:
        for key, pod in pods:
            if pod["status"].get("phase") == "Running":
                self._set_ready(key, pod, "False", "NodeNotReady")

    def _set_ready(self, key: Key, pod: Object, status: str, reason: str) -> Object:
        now = format_time(self._clock.now // 1)
        conditions = with_conditions(pod["status"].get("conditions"), condition("Ready", status, now, reason))
        return self._store.replace("Pod", key, pod, {**pod, "status": {**pod["status"], "conditions": conditions}})

    def _plan(self, name: str, node: Object, pods: Iterable[tuple[Key, Object]]) -> None:
        """Set timers for those that have to go, one for each moment: who goes then is looked up when it has come."""
        now = self._clock.now
        leaving = (departure(pod, node) for _, pod in pods if "deletionTimestamp" not in pod["metadata"])
        for when in sorted({one.at for one in leaving if one is not None}):
            self._clock.call_at(
                max(when, now), partial(self._fall_due, name), prompt=False, key=f"node-taints/{name}/{when}"
            )

    def _fall_due(self, name: str) -> None:
        node = self._store.find("Node", ("", name))
        if node is not None:
            self._send_away(name, node)

    def _send_away(self, name: str, node: Object) -> None:
        """Whose time has come goes now, the others then."""
        now = self._clock.now
        for key, _ in self._pods(name):
            # A pod deleted before may have taken all it owned with it.
            pod = self._store.find("Pod", key)
            if pod is None or "deletionTimestamp" in pod["metadata"]:
                continue
            leaves = departure(pod, node)
            if leaves is not None and leaves.at <= now:
                self._delete(key, pod, f"Taint manager: deleting due to NoExecute taint {leaves.taint}")
        self._plan(name, node, self._pods(name))

    def _delete(self, key: Key, pod: Object, message: str) -> None:
        now = format_time(self._clock.now // 1)
        pod = self._store.replace("Pod", key, pod, disrupted(pod, "DeletionByTaintManager", message, now))
        self._deletion.delete("Pod", key, pod, None)


def _gone_at(pod: Object) -> float:
    """When a pod goes whose node is not there."""
    return max(parse_time(pod["metadata"]["creationTimestamp"]), bound_at(pod)) + QUARANTINE_SECONDS
