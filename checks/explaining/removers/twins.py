"""More room: empty copies of the nodes that there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from checks.explaining.place import Place, Remover
from checks.explaining.situation import Step
from kailab.cluster.protocol import Object
from kailab.model import labels

TWINS = 12
"""Copies of each node, empty ones: more room of each kind that there is, where it is."""
_TWIN = "-twin"
_AMPLE = {"cpu": "4096", "memory": "64Ti", "pods": "1000"}
"""What the largest copies offer: many times a small node's memory would still be too little."""


def twins(places: Sequence[str] = (), factor: int = 1, offered: Mapping[str, str] | None = None) -> Remover:
    """Empty copies of each node. ``places``: labels by which each copy is in a place of its own. ``factor``: how many times as large
    they are. ``offered``: what they offer beside."""

    def steps(place: Place) -> Iterator[Step]:
        nodes = {node["metadata"]["name"]: node for node in place.lab.cluster.list("Node")}
        own = [node for name, node in nodes.items() if not _is_twin(name)]
        made = [_twin(node, number, places, factor, offered or {}) for node in own for number in range(TWINS)]
        missing = [one for one in made if one["metadata"]["name"] not in nodes]
        if missing:
            yield {"apply": missing}

    return steps


def _is_twin(name: str) -> bool:
    """Whether a node of that name is a copy."""
    return _TWIN in name


def _twin(node: Object, number: int, places: Sequence[str], factor: int, beside: Mapping[str, str]) -> Object:
    name = (
        f"{node['metadata']['name']}{_TWIN}-{factor}{'-split' if beside else ''}{'-apart' if places else ''}-{number}"
    )
    named = {**(node["metadata"].get("labels") or {}), labels.HOSTNAME: name}
    named |= {key: f"{named[key]}{_TWIN}-{number}" for key in places if key in named}
    offered = {key: _times(amount, factor) for key, amount in node["status"]["allocatable"].items()}
    if factor > 1:  # with whole GPUs, whatever those of the node are split into
        offered = {key: amount for key, amount in offered.items() if not key.startswith(labels.MIG_PREFIX)}
        offered |= {labels.GPU_RESOURCE: str(8 * factor), **_AMPLE}
        named = {key: value for key, value in named.items() if "mig" not in key}
    if beside:
        offered |= beside
        named["node-role.kubernetes.io/mig-enabled"] = "true"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": named,
            "annotations": dict(node["metadata"].get("annotations") or {}),
        },
        "spec": {key: value for key, value in (node.get("spec") or {}).items() if key in ("taints", "unschedulable")},
        "status": {**deepcopy(node["status"]), "capacity": offered, "allocatable": dict(offered)},
    }


def _times(amount: Any, factor: int) -> str:
    """A quantity, so many times.

    >>> _times("512Gi", 2), _times(8, 2)
    ('1024Gi', '16')
    """
    text = str(amount)
    digits = text.rstrip("KMGTPEkimunp")
    return f"{int(digits) * factor}{text[len(digits) :]}"
