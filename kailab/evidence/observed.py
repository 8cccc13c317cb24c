"""Decisions read off a cluster, for schedulers that tell nothing of their own: what was bound, what was evicted.

The entries have the form of the decision log's, with the action ``schedule``; reasons are those that pods carry.
"""

from __future__ import annotations

from typing import Any

from kailab.cluster.protocol import Cluster, Object
from kailab.evidence.canonical import rfc3339
from kailab.evidence.standing import condition, owner, pod_queue

ACTION = "schedule"


class Observer:
    """Sees pods being bound and evicted by others. ``opened``: the time that ``t`` counts from."""

    def __init__(self, cluster: Cluster, opened: float) -> None:
        self._cluster = cluster
        self._watch = cluster.watch(["Pod"])
        self._opened = opened
        self._bound: set[str] = set()
        self._evicted: set[str] = set()
        self._watch_begins()

    def _watch_begins(self) -> None:
        """What is bound already is nobody's news."""
        for event in self._watch.poll():
            if event.object["spec"].get("nodeName"):
                self._bound.add(event.object["metadata"]["uid"])

    def entries(self, cycle: int) -> list[dict[str, Any]]:
        """What has happened since the last call, as decision log entries of a cycle."""
        now = self._cluster.now()
        found: list[dict[str, Any]] = []
        for event in self._watch.poll():
            pod, uid = event.object, event.object["metadata"]["uid"]
            head = {"cycle": cycle, "t": round(now - self._opened, 6), "time": rfc3339(now), "action": ACTION}
            if pod["spec"].get("nodeName") and uid not in self._bound:
                self._bound.add(uid)
                found.append({**head, "decision": "bind", **_pod(pod)})
            disrupted = condition(pod, "DisruptionTarget")
            if disrupted is not None and uid not in self._evicted:
                self._evicted.add(uid)
                message = disrupted.get("message") or disrupted.get("reason", "")
                nobody = {"beneficiary": "", "beneficiary_queue": "", "shares": {}}
                found.append({**head, "decision": "evict", **_pod(pod), **nobody, "reason": message})
            if event.type == "DELETED":
                self._bound.discard(uid)
                self._evicted.discard(uid)
        return found

    def close(self) -> None:
        self._watch.close()


def _pod(pod: Object) -> dict[str, Any]:
    metadata = pod["metadata"]
    return {
        "pod": f"{metadata.get('namespace', '')}/{metadata['name']}",
        "app": (metadata.get("labels") or {}).get("app", ""),
        "owner": owner(pod),
        "podgroup": "",
        "queue": pod_queue(pod, {}),
        "node": pod["spec"].get("nodeName", ""),
    }
