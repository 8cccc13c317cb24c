"""The tree of topology domains into which a Topology's levels divide the nodes.

Level 0 is the widest. A domain is identified by the label values on its path; nodes without one of the labels are not
part of the topology. A tree does not change: a search keeps what it counts, and the order in which it packs, for itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kailab.engine.snapshot.records import Topology
from kailab.engine.working.nodes import NodeTable

ROOT = -1


class Domain:
    """``children``: in the order of their ids. ``start``, ``end``: its nodes as a part of ``DomainTree.by_domain``."""

    __slots__ = ("children", "end", "id", "level", "mask", "name", "nodes", "start")

    def __init__(self, id: tuple[str, ...], level: int) -> None:
        self.id = id
        self.level = level
        self.name = ".".join(id) or "root"
        self.children: list[Domain] = []
        self.nodes: np.ndarray = np.empty(0, dtype=np.int64)
        self.mask: np.ndarray = np.empty(0, dtype=bool)
        self.start = self.end = 0

    def below(self) -> Iterator[Domain]:
        """The domain and all domains under it."""
        yield self
        for child in self.children:
            yield from child.below()

    def contains(self, other: Domain) -> bool:
        """Whether the other domain is this one, or below it."""
        return other.id[: len(self.id)] == self.id


class DomainTree:
    """All domains of one topology over one node table."""

    def __init__(self, topology: Topology, table: NodeTable) -> None:
        self.topology = topology
        self.levels = topology.levels
        count = len(table)
        member = [i for i, labels in enumerate(table.labels) if all(level in labels for level in self.levels)]
        self.member = np.zeros(count, dtype=bool)
        self.member[member] = True
        self.root = Domain((), ROOT)
        self.by_level: list[dict[tuple[str, ...], Domain]] = [{} for _ in self.levels]
        inside: dict[tuple[str, ...], list[int]] = {(): member}
        for i in member:
            labels = table.labels[i]
            parent = self.root
            path: tuple[str, ...] = ()
            for depth, level in enumerate(self.levels):
                # By the whole path, because two blocks may each have a rack of the same name.
                path = (*path, labels[level])
                domain = self.by_level[depth].get(path)
                if domain is None:
                    domain = self.by_level[depth][path] = Domain(path, depth)
                    parent.children.append(domain)
                # Collected in lists first, because growing an array for each node would copy it each time.
                inside.setdefault(path, []).append(i)
                parent = domain
        for domain in self.root.below():
            domain.nodes = np.array(inside[domain.id], dtype=np.int64)
            domain.mask = np.zeros(count, dtype=bool)
            domain.mask[domain.nodes] = True
            domain.children.sort(key=lambda child: child.id)
        # The nodes of the topology, those of each domain next to each other, so that a domain's sum is a difference.
        self.by_domain = np.array(list(self._arranged(self.root, 0)), dtype=np.int64)

    def _arranged(self, domain: Domain, start: int) -> Iterator[int]:
        domain.start, domain.end = start, start + len(domain.nodes)
        if not domain.children:
            yield from domain.nodes
        for child in domain.children:
            yield from self._arranged(child, start)
            start = child.end

    def sums(self, amounts: np.ndarray) -> list[int]:
        """Running sums of amounts by node: those of a domain are ``sums[domain.end] - sums[domain.start]``."""
        return [0, *np.cumsum(amounts[self.by_domain]).tolist()]

    def level_index(self, label: str) -> int | None:
        return self.levels.index(label) if label in self.levels else None

    def common(self, nodes: np.ndarray, stop: str) -> Domain:
        """The lowest domain that contains all the given member nodes, no lower than level ``stop``."""
        domain = self.root
        # Without nodes every child would contain them all; KAI stays at the root then.
        one = int(nodes.argmax()) if nodes.any() else -1
        while domain.children and one >= 0:
            inside = next((child for child in domain.children if child.mask[one]), None)
            if inside is None or (nodes & ~inside.mask).any():
                break
            domain = inside
            if self.levels[domain.level] == stop:
                break
        return domain
