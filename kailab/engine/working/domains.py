"""The tree of topology domains into which a Topology's levels divide the nodes.

Level 0 is the widest. A domain is identified by the label values on its path; nodes without one of the labels are not
part of the topology. Children start in the order of their ids; searches reorder them, fullest first, to pack.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kailab.engine.snapshot.records import Topology
from kailab.engine.working.nodes import NodeTable

ROOT = -1


class Domain:
    """``pods``: how many pods of the current job fit (None: not counted). ``free``: resources free or becoming free."""

    __slots__ = ("children", "free", "id", "level", "mask", "nodes", "pods")

    def __init__(self, id: tuple[str, ...], level: int) -> None:
        self.id = id
        self.level = level
        self.children: list[Domain] = []
        self.nodes: np.ndarray = np.empty(0, dtype=np.int64)
        self.mask: np.ndarray = np.empty(0, dtype=bool)
        self.pods: int | None = None
        self.free: np.ndarray | None = None

    @property
    def name(self) -> str:
        return ".".join(self.id) or "root"

    def below(self) -> Iterator[Domain]:
        """The domain and all domains under it."""
        yield self
        for child in self.children:
            yield from child.below()


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

    def restore_order(self) -> None:
        """Reset the order that an earlier cycle left."""
        for domain in self.root.below():
            domain.children.sort(key=lambda child: child.id)

    def level_index(self, label: str) -> int | None:
        return self.levels.index(label) if label in self.levels else None

    def deepest_first(self) -> list[Domain]:
        """Level by level from the deepest, each in the order of its parents."""
        levels = [[self.root]]
        while True:
            below = [child for domain in levels[-1] for child in domain.children]
            if not below:
                break
            levels.append(below)
        return [domain for level in reversed(levels) for domain in level]

    def common(self, nodes: np.ndarray, stop: str) -> Domain:
        """The lowest domain that contains all the given member nodes, no lower than level ``stop``."""
        domain = self.root
        while domain.children:
            inside = next((child for child in domain.children if not (nodes & ~child.mask).any()), None)
            # Without nodes every child would contain them all; KAI stays at the root then.
            if inside is None or not nodes.any():
                break
            domain = inside
            if self.levels[domain.level] == stop:
                break
        return domain
