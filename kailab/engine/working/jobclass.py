"""Classes of waiting jobs that a cycle can't tell apart but by their place in the order.

Two jobs of one class and one queue ask for the same, in the same way, and hold nothing. So what is refused to the one
is refused to the other for as long as nodes and queues stay as they are.
"""

from __future__ import annotations

from typing import NamedTuple

from kailab.engine.snapshot.records import Status
from kailab.engine.working.state import Job, ShapeInfo


class JobClass(NamedTuple):
    """What equal jobs have in common. ``info``: the shape of each of their ``pods``, of which ``minimum`` start together."""

    info: ShapeInfo
    pods: int
    minimum: int
    priority: int
    preemptible: bool
    pod_priority: tuple[str, int | None]


def class_of(job: Job) -> JobClass | None:
    """The class of a job; None if it depends on more than amounts, node filters and its queue, or holds something."""
    record, root = job.record, job.root
    if (
        len(job.podsets) != 1
        or job.unassigned_tasks
        or record.preemption_delay > 0
        or root.constraint is not None
        or root.min_members is not None
    ):
        return None
    (podset,) = root.podsets
    pods = len(job.tasks)
    if (
        podset.parent is not root
        or podset.constraint is not None
        or not pods
        or job.pending != pods
        or not podset.ready
    ):
        return None
    first = None
    for task in job.tasks.values():
        own = task.record
        if own.status != Status.PENDING or own.nominated_node:
            return None
        if first is None:
            first = task
        elif task.info is not first.info or own.pod_priority != first.record.pod_priority:
            return None
    assert first is not None
    info = first.info
    shape = info.shape
    if info.requires_pods or info.prefers_pods or shape.ports or shape.claims or not info.needs:
        return None
    # Which devices the pods of a gang share depends on the order in which they are placed.
    if shape.gpu.shared and pods > 1:
        return None
    return JobClass(info, pods, podset.minimum, record.priority, record.preemptible, first.record.pod_priority)
