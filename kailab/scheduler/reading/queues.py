"""Reads Queue objects into engine queues. Source: KAI queue_info.NewQueueInfo."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kailab.cluster.protocol import Object
from kailab.engine.snapshot.records import NO_SHARE, UNLIMITED, Queue, ResourceShare
from kailab.errors import InputError
from kailab.model.objects import metadata_of, parent_of, share_of, spec_of
from kailab.model.times import duration_seconds, time_or_none

_GPU, _CPU, _MEMORY = 1000, 1, 10**6  # milli-GPU, millicores, bytes for one unit of a Queue's spec
DEFAULT_QUEUE_PRIORITY = 100


def queue_record(queue: Object) -> Queue:
    """Units: GPUs become milli-GPU, memory (megabytes of 10^6) becomes bytes; CPU is in millicores.

    Without a resources block every number is 0, including the limit, so the queue runs nothing, as in KAI.
    """
    metadata, spec = metadata_of(queue), spec_of(queue)
    priority = spec.get("priority")
    return Queue(
        name=metadata["name"],
        parent=parent_of(queue),
        priority=DEFAULT_QUEUE_PRIORITY if priority is None else int(priority),
        created=creation_time(metadata),
        uid=metadata.get("uid", ""),
        gpu=_share(share_of(queue, "gpu"), _GPU),
        cpu=_share(share_of(queue, "cpu"), _CPU),
        memory=_share(share_of(queue, "memory"), _MEMORY),
        reclaim_min_runtime=duration_or_none(spec.get("reclaimMinRuntime")),
        preempt_min_runtime=duration_or_none(spec.get("preemptMinRuntime")),
    )


def _share(block: Mapping[str, Any] | None, unit: int) -> ResourceShare:
    if not block:
        return NO_SHARE
    return ResourceShare(
        quota=_amount(block.get("quota"), unit),
        limit=_amount(block.get("limit"), unit),
        weight=float(block.get("overQuotaWeight") or 0),
    )


def _amount(value: Any, unit: int) -> int:
    number = float(value or 0)
    return UNLIMITED if number < 0 else round(number * unit)


def duration_or_none(value: Any) -> float | None:
    """Seconds of a Go duration; None if it is missing or invalid."""
    if not value:
        return None
    try:
        return duration_seconds(value, signed=True)
    except InputError:
        return None


def creation_time(metadata: Mapping[str, Any]) -> float:
    """The creationTimestamp in seconds since the epoch; 0 if it is missing or invalid."""
    return timestamp_or_none(metadata.get("creationTimestamp")) or 0.0


def timestamp_or_none(text: Any) -> float | None:
    """An RFC 3339 time in seconds since the epoch; None if it is missing or invalid."""
    return time_or_none(text) if text else None
