"""Nodes of one pool as the engine's records, put together from three kinds of objects: Node, NodeResourceTopology, ResourceSlice.

They come in any order, and each alone can change what a node offers; so the Node object is kept, and its record is made anew
from all three whenever one of them changes.
"""

from __future__ import annotations

from kailab.cluster.protocol import Object, WatchEvent
from kailab.engine.snapshot.records import Node, Numa, Topology
from kailab.engine.working.workingset import WorkingSet
from kailab.scheduler.reading.claims import Claims
from kailab.scheduler.reading.nodes import node_record
from kailab.scheduler.reading.numa import numa_record
from kailab.scheduler.reading.podgroups import node_pool


class NodeRecords:
    """Nodes and topologies, handed to the working set as they change. ``pool``: nodes of others are left out."""

    def __init__(self, working: WorkingSet, claims: Claims, pool: str) -> None:
        self.nodes: dict[str, Node] = {}
        self.aliases: dict[str, dict[str, str]] = {}  # topology -> alias of a level -> its node label
        self._working = working
        self._claims = claims
        self._pool = pool
        self._objects: dict[str, Object] = {}
        self._numa: dict[str, Numa] = {}
        self._topologies: dict[str, Topology] = {}

    def capacity(self) -> dict[str, int]:
        """What the available nodes offer, in engine units."""
        nodes = [node for node in self.nodes.values() if not node.unavailable]
        return {
            "gpu": sum(node.gpus for node in nodes),
            "cpu": sum(node.cpu for node in nodes),
            "memory": sum(node.memory for node in nodes),
        }

    def take_node(self, event: WatchEvent) -> None:
        name = event.object["metadata"]["name"]
        if event.type == "DELETED" or node_pool(event.object["metadata"]) != self._pool:
            self._objects.pop(name, None)
            if self.nodes.pop(name, None) is not None:
                self._working.remove_node(name)
            return
        self._objects[name] = event.object
        self.refresh(name)

    def take_zones(self, event: WatchEvent) -> None:
        """Zones of a node, which is to be refreshed."""
        name = event.object["metadata"]["name"]
        zones = numa_record(event.object) if event.type != "DELETED" else None
        if zones is None:
            self._numa.pop(name, None)
        else:
            self._numa[name] = zones

    def take_topology(self, event: WatchEvent) -> bool:
        """True if aliases of levels have changed: PodGroups that name levels by them then mean others."""
        name = event.object["metadata"]["name"]
        if event.type == "DELETED":
            self._topologies.pop(name, None)
            self._working.remove_topology(name)
            return self.aliases.pop(name, None) is not None
        levels = (event.object.get("spec") or {}).get("levels") or ()
        record = Topology(name=name, levels=tuple(level["nodeLabel"] for level in levels))
        if self._topologies.get(name) != record:
            self._topologies[name] = record
            self._working.set_topology(record)
        aliases = {level["alias"]: level["nodeLabel"] for level in levels if level.get("alias")}
        changed = self.aliases.get(name, {}) != aliases
        self.aliases[name] = aliases
        return changed

    def refresh(self, name: str) -> None:
        """Bring one node's record in line with what is known of it."""
        # Zones and slices may come before their node, and stay after it.
        obj = self._objects.get(name)
        if obj is None:
            return
        # Heartbeats make most news of nodes, and equal records: those go no further.
        record = node_record(obj, self._claims.gpus_on(name), self._claims.devices_on(name), self._numa.get(name))
        if self.nodes.get(name) != record:
            self.nodes[name] = record
            self._working.set_node(record)
