"""Nodes."""

from __future__ import annotations

from kailab.model.objects.affinity import Taint
from kailab.model.objects.base import Condition, Metadata, Record, Resources


class NodeSpec(Record, frozen=True, kw_only=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeStatus(Record, frozen=True, kw_only=True):
    capacity: Resources = {}
    allocatable: Resources = {}
    conditions: tuple[Condition, ...] = ()


class Node(Record, frozen=True, kw_only=True):
    metadata: Metadata
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
