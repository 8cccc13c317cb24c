"""The newest time in objects: the moment at which a cluster was written to files that do not say when that was."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kailab.model.times import time_or_none

_PAST = frozenset(
    {
        "creationTimestamp", "lastTransitionTime", "lastHeartbeatTime", "lastProbeTime", "lastUpdateTime", "startTime", "startedAt",
        "finishedAt", "completionTime", "lastScheduleTime", "lastSuccessfulTime", "firstTimestamp", "lastTimestamp", "eventTime",
        "renewTime", "acquireTime",
    }
)  # fmt: skip
"""Fields with a time that has passed. Others, such as the end of a grace period or of a certificate, may lie ahead."""


def newest_time(value: Any) -> float | None:
    """The latest time that has passed in an object, in seconds since the epoch; None if it has none."""
    return max(_times(value, ""), default=None)


def _times(value: Any, field: str) -> Iterator[float]:
    if isinstance(value, list):
        for inside in value:
            yield from _times(inside, field)
    elif isinstance(value, dict):
        # Of a spec only that of a Lease says when something was.
        for key, inside in value.items():
            if isinstance(inside, str):
                written = key in _PAST or (key == "time" and field == "managedFields")
                if written and (seconds := time_or_none(inside)) is not None:
                    yield seconds
            elif isinstance(inside, dict | list) and (key != "spec" or value.get("kind") == "Lease"):
                yield from _times(inside, key)
