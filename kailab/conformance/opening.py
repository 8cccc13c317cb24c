"""A cluster before the first cycle, as engine records, and the moment all test cycles take place at."""

from __future__ import annotations

from dataclasses import dataclass, field

from kailab.engine.config import EngineConfig
from kailab.engine.records import Node, PodGroup, Queue, ResourceClaim, Status, Task, Topology

NOW = 1_767_225_600.0

PLACED = frozenset(
    {
        Status.ALLOCATED,
        Status.PIPELINED,
        Status.BINDING,
        Status.BOUND,
        Status.RUNNING,
        Status.RELEASING,
        Status.STUCK_RELEASING,
    }
)
LEAVING = frozenset({Status.RELEASING, Status.STUCK_RELEASING})
ACTIVE = PLACED - LEAVING - {Status.PIPELINED}  # really allocated


@dataclass(slots=True, kw_only=True)
class Opening:
    """Records to fill a snapshot with. Evicted tasks of ``deleted_for_good`` PodGroups don't come back."""

    nodes: list[Node]
    queues: list[Queue]
    podgroups: list[PodGroup]
    tasks: list[Task]
    topologies: list[Topology] = field(default_factory=list)
    claims: list[ResourceClaim] = field(default_factory=list)
    config: EngineConfig = field(default_factory=EngineConfig)
    deleted_for_good: frozenset[str] = frozenset()
