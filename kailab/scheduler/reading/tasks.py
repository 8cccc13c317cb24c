"""Reads Pod objects into engine tasks. Source: KAI pod_info.NewTaskInfo, getTaskStatus, resources.GetGpuGroups."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from msgspec import structs

from kailab.cluster.pod_lifecycle import seconds_of
from kailab.cluster.protocol import Object
from kailab.engine.snapshot.records import Shape, Status, Task
from kailab.model import labels as names
from kailab.model.objects import metadata_of, status_of
from kailab.scheduler.reading.numa import zones_held
from kailab.scheduler.reading.queues import creation_time, timestamp_or_none

STUCK_AFTER = 120.0
"""A running pod counts as stuck this many seconds after its deletionTimestamp (KAI's default)."""

_NOTHING: Mapping[str, Any] = {}
_TERMINAL = {"Succeeded": Status.SUCCEEDED, "Failed": Status.FAILED, "Unknown": Status.UNKNOWN}


def task_status(pod: Object, now: float) -> Status:
    phase = status_of(pod).get("phase") or "Pending"
    leaving = metadata_of(pod).get("deletionTimestamp")
    if phase == "Pending":
        if leaving:
            return Status.RELEASING
        spec = pod["spec"]
        # The kubelet has not started the pod yet.
        if spec.get("nodeName"):
            return Status.BOUND
        return Status.GATED if spec.get("schedulingGates") else Status.PENDING
    if phase == "Running":
        if not leaving:
            return Status.RUNNING
        # Nothing waits for the place of a stuck pod: it may never end.
        return Status.STUCK_RELEASING if now > stuck_at(leaving) else Status.RELEASING
    return _TERMINAL.get(phase, Status.UNKNOWN)


def stuck_at(deletion_timestamp: str) -> float:
    """The time from which a running pod that is being deleted counts as stuck."""
    return (timestamp_or_none(deletion_timestamp) or 0.0) + STUCK_AFTER


def gpu_groups(labels: Mapping[str, str]) -> tuple[str, ...]:
    """The GPU groups of a pod: one label for a single device, a label for each of several."""
    several = [value for key, value in labels.items() if key.startswith(names.GPU_MULTI_GROUP_PREFIX)]
    if several:
        return tuple(sorted(several))
    first = labels.get(names.GPU_GROUP)
    return (first,) if first else ()


def gpu_group_labels(groups: tuple[str, ...]) -> dict[str, str]:
    """The labels for these GPU groups; the inverse of ``gpu_groups``. Source: KAI resources.GetMultiFractionGpuGroupLabel."""
    if len(groups) == 1:
        return {names.GPU_GROUP: groups[0]}
    return {names.GPU_MULTI_GROUP_PREFIX + group: group for group in groups}


def task_record(pod: Object, podgroup: str, shape: Shape, now: float) -> Task:
    """``podgroup``: UID of the PodGroup, "" for a pod that only uses capacity."""
    metadata, spec = metadata_of(pod), pod["spec"]
    labels = metadata.get("labels") or _NOTHING
    annotations = metadata.get("annotations")
    subgroup, priority = "", None
    groups: tuple[str, ...] = ()
    if labels:
        subgroup = labels.get(names.SUBGROUP_NAME) or ""
        priority = labels.get(names.TASK_PRIORITY)
        # Without a request for a share of a GPU the labels mean nothing.
        if shape.gpu.shared:
            groups = gpu_groups(labels)
    return Task(
        uid=metadata["uid"],
        name=metadata["name"],
        namespace=metadata["namespace"],
        podgroup=podgroup,
        shape=shape,
        status=task_status(pod, now),
        subgroup=subgroup,
        node=spec.get("nodeName") or "",
        gpu_groups=groups,
        priority=_integer(priority) if priority is not None else None,
        pod_priority=_pod_priority(spec.get("priorityClassName") or "", spec.get("priority")),
        created=creation_time(metadata),
        nominated_node=status_of(pod).get("nominatedNodeName") or "",
        numa_zones=zones_held(annotations) if spec.get("nodeName") and annotations else (),
        expected_seconds=seconds_of(annotations.get(names.EXPECTED_SECONDS), None) if annotations else None,
        ran_seconds=seconds_of(annotations.get(names.RAN_SECONDS), 0.0) or 0.0 if annotations else 0.0,
    )


def with_status(task: Task, pod: Object, now: float) -> Task:
    """The task of a pod of which only the status and the deletion differ from what the task was made of."""
    return structs.replace(
        task, status=task_status(pod, now), nominated_node=status_of(pod).get("nominatedNodeName") or ""
    )


# Most pods have one of few priorities.
@lru_cache(maxsize=256)
def _pod_priority(priority_class: str, value: int | None) -> tuple[str, int | None]:
    return priority_class, value


def _integer(text: Any) -> int | None:
    try:
        return int(text)
    except (TypeError, ValueError):
        return None
