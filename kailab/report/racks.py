"""Group nodes on the page: by the narrowest level of a topology, else by a rack label, else by pool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from kailab.cluster.protocol import Object
from kailab.errors import KailabError
from kailab.fleet.reading import read_fleet
from kailab.model.labels import GPU_PRODUCT, HOSTNAME, RACK_SUFFIX, gpu_model
from kailab.model.objects import labels_of, name_of

REST = "other nodes"
ObjectsByKind: TypeAlias = Mapping[str, Sequence[Object]]
"""Objects of each kind."""


class NodePlace(NamedTuple):
    """Where a node stands on the page, and its GPU model ("": it does not name it)."""

    rack: str
    model: str = ""


class RackMap:
    """Maps nodes to racks. ``by``: the criterion in words."""

    def __init__(
        self,
        labels: Mapping[str, Mapping[str, str]],
        topologies: Iterable[Object],
        pools: Mapping[str, str] | None = None,
    ) -> None:
        """``labels``: of each node. ``pools``: pool of each node as far as known."""
        self._labels, self._pools = labels, pools or {}
        self._key = self._chosen(topologies)
        self.by = f"label {self._key}" if self._key else "pool" if self._pools else f"label {GPU_PRODUCT}"

    @classmethod
    def of_nodes(cls, nodes: Iterable[Object], topologies: Iterable[Object]) -> RackMap:
        """The racks of a running cluster."""
        return cls({name_of(node): labels_of(node) for node in nodes}, topologies)

    @classmethod
    def of_listings(cls, fleet: str, listings: Iterable[ObjectsByKind]) -> RackMap:
        """The racks of a lab's evidence: its fleet file (or empty), and nodes and topologies at each listing."""
        labels: dict[str, dict[str, str]] = {}
        pools: dict[str, str] = {}
        topologies: Sequence[Object] = ()
        for name, pool, own in _fleet(fleet) if fleet else ():
            pools[name] = pool
            labels.setdefault(name, {}).update(own)
        for listing in listings:
            for node in listing.get("nodes", ()):
                known = labels.setdefault(name_of(node), {})
                known |= labels_of(node)
            topologies = listing.get("topologies") or topologies
        return cls(labels, topologies, pools)

    def of(self, node: str, labels: Iterable[tuple[str, str]] = ()) -> str:
        """The rack of a node. ``labels``: from the engine's record of the node."""
        merged = {**self._labels.get(node, {}), **dict(labels)}
        if self._key:
            return merged.get(self._key) or REST
        return self._pools.get(node) or gpu_model(merged) or REST

    def place_of(self, node: str, labels: Iterable[tuple[str, str]] = ()) -> NodePlace:
        """The rack and the GPU model of a node. ``labels``: from the engine's record of the node."""
        labels = tuple(labels)
        return NodePlace(self.of(node, labels), gpu_model({**self._labels.get(node, {}), **dict(labels)}))

    def _chosen(self, topologies: Iterable[Object]) -> str:
        for topology in topologies:
            levels = [level.get("nodeLabel", "") for level in (topology.get("spec") or {}).get("levels") or ()]
            narrow = [key for key in levels if key and key != HOSTNAME]
            if narrow:
                return str(narrow[-1])
        keys: Mapping[str, None] = {
            key: None for labels in self._labels.values() for key in labels if key.endswith(RACK_SUFFIX)
        }
        return min(keys, default="")


@lru_cache(maxsize=4)
def _fleet(text: str) -> tuple[tuple[str, str, Mapping[str, str]], ...]:
    """Name, pool and labels of each node, cached because tests of a run mostly share one fleet."""
    try:
        fleet = read_fleet(text)
    # This version may not read an old fleet file; racks then follow the objects.
    except KailabError:
        return ()
    return tuple((name_of(node), pool.name, labels_of(node)) for pool in fleet.pools for node in pool.nodes())
