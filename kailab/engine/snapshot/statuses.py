"""What the states of a task stand for: sets of them, told apart by what counts for whom.

Source: KAI pod_status. Sets are tuples of flags indexed by Status: the lookup is made for every task of every cycle.
"""

from __future__ import annotations

from kailab.engine.snapshot.records import Status


def _flags(*statuses: Status) -> tuple[bool, ...]:
    return tuple(status in statuses for status in Status)


# KAI's sets in this order: IsActiveUsedStatus, IsActiveAllocatedStatus, IsAliveStatus, AllocatedStatus. A promise
# counts for the gang, but for its queue only while a cycle is at work.
_PLACED = (Status.ALLOCATED, Status.PIPELINED, Status.BINDING, Status.BOUND, Status.RUNNING)
ON_NODE = _flags(*_PLACED, Status.RELEASING, Status.STUCK_RELEASING)  # holds or is promised resources
ACTIVE = _flags(*_PLACED)  # counts for its gang
ALIVE = _flags(*_PLACED, Status.PENDING, Status.GATED)
ALLOCATED = _flags(Status.ALLOCATED, Status.BINDING, Status.BOUND, Status.RUNNING)  # counts for its queue
