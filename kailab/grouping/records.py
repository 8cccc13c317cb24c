"""What grouping decides: the gang a pod belongs to, as plain records.

Field for field this is what KAI's podgrouper works out before it writes a PodGroup. A record is finished when its
family returns it; nobody changes it afterwards (groupings are shared by the pods of an owner).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kailab.cluster.protocol import Object
from kailab.errors import KailabError


class GroupingError(KailabError):
    """A pod can't be grouped: its owner or its own labels say something that has no meaning.

    The controller shows the text as a Warning event on the pod and goes on with the others.
    """


class GroupOwner(NamedTuple):
    """What a PodGroup is owned by, and is deleted with. All that Kubernetes knows of an owner; None: not said."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None

    @classmethod
    def of_object(cls, reference: Mapping[str, Any]) -> GroupOwner:
        """An entry of ``ownerReferences``."""
        return cls(**{field: reference.get(key, cls._field_defaults.get(field, "")) for field, key in _KEYS.items()})

    def as_object(self) -> dict[str, Any]:
        """The entry of ``ownerReferences``, without what is not said."""
        return {key: value for field, key in _KEYS.items() if (value := getattr(self, field)) is not None}


_KEYS = {
    "api_version": "apiVersion",
    "kind": "kind",
    "name": "name",
    "uid": "uid",
    "controller": "controller",
    "block_owner_deletion": "blockOwnerDeletion",
}


class PlannedTopology(NamedTuple):
    """Where a group's pods must or should be together. Levels are node label keys; empty: not asked for."""

    topology: str = ""
    required_level: str = ""
    preferred_level: str = ""


UNCONSTRAINED = PlannedTopology()


@dataclass(slots=True)
class PlannedSubGroup:
    """A part of a gang with its own minimum. ``min_sub_group`` set: a parent, counting children; else a leaf of pods.

    ``pods`` are names, filled where the owner lists them (Grove) and by ``group`` for the one pod asked about.
    """

    name: str
    min_member: int = 0
    min_sub_group: int | None = None
    parent: str | None = None
    topology: PlannedTopology | None = None
    pods: tuple[str, ...] = ()


@dataclass(slots=True)
class Grouping:
    """A PodGroup in the making. ``min_sub_group`` set: it takes the place of ``min_member``.

    ``preemptibility`` is empty when nothing says so: the scheduler then goes by the priority. Durations are Go duration
    strings (``1m30s``) as PodGroup carries them. ``shared``: several pods own the PodGroup together and the first one
    decided its content (the gang labels of the older KAI); the PodGroup goes when the last of them goes.
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


def in_no_sub_group(pod: Object) -> str:
    """The ``sub_group_of`` of families without subgroups."""
    return ""


class Plan(NamedTuple):
    """A grouping that holds for all alike pods of an owner, and where each of them goes in it.

    ``sub_group_of(pod)`` names the pod's subgroup, empty for none; it may raise GroupingError.
    """

    grouping: Grouping
    sub_group_of: Callable[[Object], str] = in_no_sub_group
