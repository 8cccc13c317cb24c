"""Reads objects into records of the engine: one kind of object, or one part of a pod, per module.

``tasks`` and ``shapes`` read pods (with ``requests``, ``affinity``, ``numa``, ``references``), ``podgroups``, ``queues``, ``nodes`` and
``claims`` their kinds. ``accounts`` counts GPUs for tables. None of them writes to a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable

from kailab.cluster.protocol import WatchEvent
from kailab.model.objects import metadata_of


def latest_events(events: Iterable[WatchEvent], kinds: Iterable[str]) -> dict[str, dict[str, WatchEvent]]:
    """The latest event of each object: kind -> UID -> event."""
    latest: dict[str, dict[str, WatchEvent]] = {kind: {} for kind in kinds}
    for event in events:
        metadata = metadata_of(event.object)
        # By UID: an object deleted and created again under its name is two objects, and both events count.
        latest[event.kind][metadata.get("uid") or metadata["name"]] = event
    return latest
