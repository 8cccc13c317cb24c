"""A fleet as its file has it: read again it gives an equal fleet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from kailab.fleet.fleet import KEY, Fleet, Object, Pool


def definition(fleet: Fleet) -> dict[str, Any]:
    """The content of a fleet file, as plain values; what has its default is left out, and so are comments."""
    found: dict[str, Any] = {"apiVersion": "kailab.dev/v1", "kind": "Fleet", "name": fleet.name}
    if fleet.description:
        found["description"] = fleet.description
    found["pools"] = [_pool(pool) for pool in fleet.pools]
    if fleet.topologies:
        found["topologies"] = [
            {"name": one["metadata"]["name"], "levels": [level["nodeLabel"] for level in one["spec"]["levels"]]}
            for one in fleet.topologies
        ]
    if fleet.priority_classes:
        found["priorityClasses"] = [_priority_class(one) for one in fleet.priority_classes]
    return found


def _pool(pool: Pool) -> dict[str, Any]:
    usual = Pool(name="", count=0, cpu="", memory="")
    found: dict[str, Any] = {"name": pool.name, "count": pool.count, "cpu": pool.cpu, "memory": pool.memory}
    for each in fields(Pool):
        value = getattr(pool, each.name)
        if KEY in each.metadata and value != getattr(usual, each.name):
            found[each.metadata[KEY]] = dict(value) if isinstance(value, Mapping) else value
    if pool.mig:
        found["mig"] = {"strategy": pool.mig_strategy, "profiles": dict(pool.mig)}
    if pool.taints is not None:
        found["taints"] = [dict(taint) for taint in pool.taints]
    if pool.layout:
        found["layout"] = [
            {"label": level.label, "nodes": level.nodes, "name": level.name, "start": level.start}
            for level in pool.layout
        ]
    return found


def _priority_class(obj: Object) -> dict[str, Any]:
    rest = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata")}
    return {"name": obj["metadata"]["name"], **rest}
