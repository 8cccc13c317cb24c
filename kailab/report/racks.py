"""Which nodes stand together on the page: by the narrowest level of a topology, else by a label for racks, else by pool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from kailab.cluster.protocol import Object
from kailab.errors import KailabError
from kailab.evidence.store import TestEvidence
from kailab.fleet.reading import read_fleet
from kailab.model.labels import GPU_PRODUCT, HOSTNAME

RACK = "/rack"
"""How the key of a label for racks ends."""
REST = "other nodes"


class Racks:
    """Asked node by node. ``by``: what the grouping goes by, in words."""

    def __init__(self, test: TestEvidence, lab: str) -> None:
        self._labels: dict[str, dict[str, str]] = {}
        self._pools: dict[str, str] = {}
        topologies: list[Object] = []
        self._of_fleet(test, lab)
        for look in ("before", "after"):
            if (test.path / lab / look / "nodes.json").exists():
                self._of_objects(test.objects(lab, look, "nodes"))
            if (test.path / lab / look / "topologies.json").exists():
                topologies = test.objects(lab, look, "topologies") or topologies
        self._key = self._chosen(topologies)
        self.by = f"label {self._key}" if self._key else "pool" if self._pools else f"label {GPU_PRODUCT}"

    def of(self, node: str, labels: Iterable[tuple[str, str]] = ()) -> str:
        """``labels``: as the engine's record of it has them."""
        told = {**self._labels.get(node, {}), **dict(labels)}
        if self._key:
            return told.get(self._key) or REST
        return self._pools.get(node) or told.get(GPU_PRODUCT) or REST

    def _of_fleet(self, test: TestEvidence, lab: str) -> None:
        path = test.path / lab / "fleet.yaml"
        if not path.exists():
            return
        for name, pool, labels in _fleet(test.text(lab, "fleet.yaml")):
            self._pools[name] = pool
            self._labels.setdefault(name, {}).update(labels)

    def _of_objects(self, nodes: Iterable[Object]) -> None:
        for node in nodes:
            known = self._labels.setdefault(node["metadata"]["name"], {})
            known |= node["metadata"].get("labels") or {}

    def _chosen(self, topologies: Iterable[Object]) -> str:
        for topology in topologies:
            levels = [level.get("nodeLabel", "") for level in (topology.get("spec") or {}).get("levels") or ()]
            narrow = [key for key in levels if key and key != HOSTNAME]
            if narrow:
                return str(narrow[-1])
        keys: Mapping[str, None] = {
            key: None for labels in self._labels.values() for key in labels if key.endswith(RACK)
        }
        return min(keys, default="")


@lru_cache(maxsize=4)
def _fleet(text: str) -> tuple[tuple[str, str, dict[str, str]], ...]:
    """Name, pool and labels of each node. The tests of a run mostly share one fleet."""
    try:
        fleet = read_fleet(text)
    # Of a fleet that this version can't read any more: racks then go by the objects.
    except KailabError:
        return ()
    return tuple(
        (node["metadata"]["name"], pool.name, node["metadata"].get("labels") or {})
        for pool in fleet.pools
        for node in pool.nodes()
    )
