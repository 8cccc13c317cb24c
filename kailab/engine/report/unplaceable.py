"""Waiting work that would not fit even if the cluster's nodes were empty.

The engine places each group alone, without queue rules. Of equal groups one is tried.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec
from msgspec import structs

from kailab.engine.config import EngineConfig
from kailab.engine.placing.allocation import Allocator
from kailab.engine.session import Session
from kailab.engine.snapshot.records import UNLIMITED, PodGroup, Queue, ResourceClaim, ResourceShare, Status, Task
from kailab.engine.snapshot.snapshot import Snapshot
from kailab.engine.working.workingset import WorkingSet

_ENDED = (Status.SUCCEEDED, Status.FAILED, Status.UNKNOWN)
_WAITS = (Status.PENDING, Status.GATED)
_ALL = "all"
_FREE = ResourceShare(quota=UNLIMITED, limit=UNLIMITED, weight=1.0)


class UnplaceableGroups(msgspec.Struct, frozen=True, kw_only=True):
    """Equal groups (``podgroups``: uids) that do not fit, and the engine's reason for the first of them. ``pods``: how
    many must start together. ``gpu``: milli-GPU that they want. ``placed``: how many found a place.
    """

    podgroups: tuple[str, ...]
    message: str
    pods: int
    gpu: int
    placed: int = 0


class _Group(NamedTuple):
    record: PodGroup
    tasks: list[Task]


def unplaceable_groups(snapshot: Snapshot, config: EngineConfig, now: float) -> tuple[UnplaceableGroups, ...]:
    """The groups that do not fit, among those of which no pod has a place. Groups that must be near other pods are left
    out, because an empty cluster has none.
    """
    alike: dict[object, list[_Group]] = {}
    for group in _waiting(snapshot):
        # Equal shapes read by the scheduler are one object. Otherwise equal groups are only tried more often.
        key = (group.record.root, tuple(sorted((id(task.shape), task.subgroup) for task in group.tasks)))
        alike.setdefault(key, []).append(group)
    session = Session(_emptied(snapshot, [groups[0] for groups in alike.values()]), config, now)
    result = []
    try:
        allocator = Allocator(session)
        for groups in alike.values():
            unplaceable = _try_group(session, allocator, groups)
            if unplaceable is not None:
                result.append(unplaceable)
    finally:
        session.close()
    return tuple(result)


def _waiting(snapshot: Snapshot) -> Iterable[_Group]:
    members: dict[str, list[Task]] = {}
    for task in snapshot.tasks:
        if task.podgroup and task.status not in _ENDED:
            members.setdefault(task.podgroup, []).append(task)
    for record in snapshot.podgroups:
        tasks = members.get(record.uid, [])
        if not tasks or any(task.status not in _WAITS for task in tasks):
            continue
        # The pods that it must be with are not on an empty cluster, so a failure would prove nothing.
        if any(not term.weight for task in tasks for term in task.shape.affinity):
            continue
        yield _Group(record, tasks)


def _emptied(snapshot: Snapshot, groups: list[_Group]) -> WorkingSet:
    named = {name for group in groups for task in group.tasks for name in task.shape.claims}
    return WorkingSet.of(
        Snapshot(
            nodes=snapshot.nodes,
            # One queue without bounds, because only room on nodes is in question.
            queues=(Queue(name=_ALL, gpu=_FREE, cpu=_FREE, memory=_FREE),),
            # Preemptible, so that no quota applies.
            podgroups=tuple(structs.replace(group.record, queue=_ALL, preemptible=True) for group in groups),
            tasks=tuple(task for group in groups for task in group.tasks),
            topologies=snapshot.topologies,
            claims=tuple(_released_claim(claim) for claim in snapshot.claims if claim.name in named),
        )
    )


def _released_claim(claim: ResourceClaim) -> ResourceClaim:
    # Without the queue label, which would have to name the real queue.
    return structs.replace(claim, allocated=False, held=(), node="", reserved=(), queue=None)


def _try_group(session: Session, allocator: Allocator, groups: list[_Group]) -> UnplaceableGroups | None:
    job = session.jobs[groups[0].record.uid]
    if not job.root.ready:
        return None  # fewer pods than its minimum: not a matter of room
    # Each group alone: a placed group would take room from the next.
    mark = session.mark()
    placed = allocator.place(job, None, False)
    session.undo(mark)
    if placed:
        return None
    failure = session.ledger.failures.get(job.uid)
    return UnplaceableGroups(
        podgroups=tuple(group.record.uid for group in groups),
        message=failure.message if failure is not None else "no node has room",
        pods=sum(podset.minimum for podset in job.podsets),
        gpu=session.wanted(job)[2],
        placed=int((failure.numbers or {}).get("placed", 0)) if failure is not None else 0,
    )
