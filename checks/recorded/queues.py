"""Queues as recordings of KAI's division (fairshare.json) have them, as records of the engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kailab.engine.snapshot.records import GPU, Queue, Share


def scaled(resource: str, value: float) -> int:
    """A recorded amount (devices, millicores, bytes; -1 unlimited) in engine units."""
    return -1 if value == -1 else round(value * (GPU if resource == "gpu" else 1))


def name_of(raw: Mapping[str, Any]) -> str:
    return str(raw["uid"] or raw["name"])


def queue_of(raw: Mapping[str, Any]) -> Queue:
    def share(resource: str) -> Share:
        part = raw[resource]
        return Share(
            quota=scaled(resource, part["deserved"]),
            limit=scaled(resource, part["max_allowed"]),
            weight=float(part["over_quota_weight"]),
        )

    return Queue(
        name=name_of(raw),
        uid=raw["uid"],
        parent=raw.get("parent", ""),
        priority=raw["priority"],
        created=float(raw.get("creation_order", 0)),
        gpu=share("gpu"),
        cpu=share("cpu"),
        memory=share("memory"),
    )
