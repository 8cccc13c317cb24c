"""KAI's Queue, PodGroup and Topology, and the PriorityClass that ranks work."""

from __future__ import annotations

from typing import Any

from kailab.model.objects.base import Metadata, Record


class QueueResource(Record, frozen=True, kw_only=True):
    """``quota`` and ``limit``: -1 is unlimited. gpu counts devices, cpu millicores, memory megabytes (10^6
    bytes)."""

    quota: float = 0.0
    limit: float = 0.0
    over_quota_weight: float = 0.0


class QueueResources(Record, frozen=True, kw_only=True):
    gpu: QueueResource = QueueResource()
    cpu: QueueResource = QueueResource()
    memory: QueueResource = QueueResource()


class QueueSpec(Record, frozen=True, kw_only=True):
    """``resources`` None: no block at all, which KAI reads as zeros throughout (a limit of 0 too)."""

    display_name: str = ""
    parent_queue: str = ""
    priority: int | None = None
    resources: QueueResources | None = None
    preempt_min_runtime: str | None = None
    reclaim_min_runtime: str | None = None


class QueueObject(Record, frozen=True, kw_only=True):
    metadata: Metadata
    spec: QueueSpec = QueueSpec()
    status: dict[str, Any] = {}


class TopologyConstraint(Record, frozen=True, kw_only=True):
    topology: str = ""
    required_topology_level: str = ""
    preferred_topology_level: str = ""


class SubGroupSpec(Record, frozen=True, kw_only=True):
    name: str
    min_member: int | None = None
    min_sub_group: int | None = None
    parent: str | None = None
    topology_constraint: TopologyConstraint | None = None


class PodGroupSpec(Record, frozen=True, kw_only=True):
    queue: str = ""
    min_member: int | None = None
    min_sub_group: int | None = None
    priority_class_name: str = ""
    preemptibility: str = ""
    topology_constraint: TopologyConstraint = TopologyConstraint()
    sub_groups: tuple[SubGroupSpec, ...] = ()
    mark_unschedulable: bool | None = None
    scheduling_backoff: int | None = None
    preemption_delay: str | None = None
    staleness_grace_period: str | None = None


class PodGroupObject(Record, frozen=True, kw_only=True):
    metadata: Metadata
    spec: PodGroupSpec = PodGroupSpec()
    status: dict[str, Any] = {}


class TopologyLevel(Record, frozen=True, kw_only=True):
    node_label: str
    alias: str = ""


class TopologySpec(Record, frozen=True, kw_only=True):
    levels: tuple[TopologyLevel, ...] = ()


class TopologyObject(Record, frozen=True, kw_only=True):
    metadata: Metadata
    spec: TopologySpec = TopologySpec()


class PriorityClass(Record, frozen=True, kw_only=True):
    metadata: Metadata
    value: int = 0
    global_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"
    description: str = ""
