"""Whether a lab has changed whose cluster goes on by itself: the file of such a lab stays as it is."""

from __future__ import annotations

from pathlib import Path

from kailab.cluster.protocol import LiveNews, Object, WatchEvent
from kailab.lab.lab import Lab

KINDS = ("Pod", "PodGroup", "Queue", "Node")


class Onlooker:
    """Of the lab of a file, until it is closed. Raises StateError, ConnectError."""

    def __init__(self, path: Path) -> None:
        self._lab = Lab.resume(path, read_only=True)
        self._watch = self._lab.cluster.watch(KINDS)
        self._nodes: dict[str, Object] = {}
        self.moved()

    def moved(self) -> bool:
        """Whether anything has changed since it was asked last."""
        cluster = self._lab.cluster
        if isinstance(cluster, LiveNews):
            cluster.wait(0.0)
        moved = False
        for event in self._watch.poll():
            moved |= self._counts(event)
        return moved

    def _counts(self, event: WatchEvent) -> bool:
        if event.kind != "Node":
            return True
        # Heartbeats are no news.
        name, shown = event.object["metadata"]["name"], _shown(event.object)
        same = event.type == "MODIFIED" and self._nodes.get(name) == shown
        self._nodes[name] = shown
        return not same

    def close(self) -> None:
        self._watch.close()
        self._lab.close()


def _shown(node: Object) -> Object:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return {
        "labels": node["metadata"].get("labels"),
        "spec": node.get("spec"),
        "capacity": (node.get("status") or {}).get("allocatable"),
        "conditions": [(one.get("type"), one.get("status")) for one in conditions],
    }
