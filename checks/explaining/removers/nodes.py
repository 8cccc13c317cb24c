"""Nodes that are there, patched."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from checks.explaining.place import Place, Remover
from checks.explaining.removers.workload import labelled
from checks.explaining.situation import Step
from kailab.cluster.protocol import Object
from kailab.model import labels


def patched(patch: Callable[[Object], Object]) -> Remover:
    def steps(place: Place) -> Iterator[Step]:
        for node in place.lab.cluster.list("Node"):
            yield {"patch": {"kind": "Node", "name": node["metadata"]["name"], "patch": patch(node)}}

    return steps


def served(place: Place) -> Iterator[Step]:
    """Neither nodes nor the workload are of a node pool."""
    yield from patched(lambda _: {"metadata": {"labels": {labels.NODE_POOL: None}}})(place)
    yield from labelled(labels.NODE_POOL, lambda _: None)(place)
