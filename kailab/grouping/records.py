"""The results of grouping as plain records: the PodGroup of a pod before it is written.

The fields are those that KAI's podgrouper computes. A record does not change after its family returns it, because the pods of an owner
share it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from kailab.cluster.protocol import Object
from kailab.errors import KailabError
from kailab.model.labels import TOPOLOGY, TOPOLOGY_PREFERRED, TOPOLOGY_REQUIRED


class GroupingError(KailabError):
    """A pod can't be grouped because its owner or its labels are invalid. The controller writes the message as a Warning event of the pod."""


class GroupOwner(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The owner reference of a PodGroup. None: the field is left out."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None

    def as_object(self) -> dict[str, Any]:
        """The entry of ``ownerReferences``."""
        return msgspec.to_builtins(self)


class PlannedTopology(NamedTuple):
    """The topology constraint of a group. Levels are keys of node labels, or ""."""

    topology: str = ""
    required_level: str = ""
    preferred_level: str = ""


UNCONSTRAINED = PlannedTopology()


def annotated_topology(read: Callable[[str], str | None]) -> PlannedTopology:
    """The topology constraint that annotations ask for. ``read``: the value of an annotation."""
    return PlannedTopology(read(TOPOLOGY) or "", read(TOPOLOGY_REQUIRED) or "", read(TOPOLOGY_PREFERRED) or "")


@dataclass(slots=True)
class PlannedSubGroup:
    """A part of a gang with its own minimum: a parent that counts subgroups (``min_sub_group``), or a leaf that counts pods.

    ``pods``: names of pods, if the owner lists them (Grove), and the pod of ``group_pod``.
    """

    name: str
    min_member: int = 0
    min_sub_group: int | None = None
    parent: str | None = None
    topology: PlannedTopology | None = None
    pods: tuple[str, ...] = ()


@dataclass(slots=True)
class Grouping:
    """The content of a PodGroup. ``min_sub_group`` replaces ``min_member`` if it is set.

    ``preemptibility`` "": by the priority. Durations are Go durations such as ``1m30s``. ``shared``: several pods own the PodGroup and the
    first one decided its content (gang labels of an older KAI); it is deleted with the last of them.
    """

    name: str
    namespace: str
    queue: str
    priority_class: str
    owner: GroupOwner
    preemptibility: str = ""
    min_member: int = 1
    min_sub_group: int | None = None
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    preemption_delay: str | None = None
    staleness_grace_period: str | None = None
    topology: PlannedTopology = UNCONSTRAINED
    sub_groups: list[PlannedSubGroup] = field(default_factory=list)
    shared: bool = False


def no_sub_group(pod: Object) -> str:
    return ""


class Plan(NamedTuple):
    """A grouping for all equal pods of an owner. ``sub_group_of(pod)`` returns the name of a pod's subgroup or ""; it may raise
    GroupingError."""

    grouping: Grouping
    sub_group_of: Callable[[Object], str] = no_sub_group
