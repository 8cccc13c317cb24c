"""A cluster as a value: all records that decisions depend on, in canonical order, with JSON both ways.

A cycle depends on a snapshot, a configuration (``EngineConfig``) and a time; ``cycle.decide`` is a pure function of the
three. A cycle works on a ``WorkingSet`` made from the snapshot.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec

from kailab.engine.snapshot import jsonform
from kailab.engine.snapshot.records import Node, PodGroup, Queue, ResourceClaim, Task, Topology

FORMAT = 1
"""The format of the JSON. It grows when a change of a record makes older JSON unreadable."""


def _name(record: Any) -> str:
    return str(record.name)


def _uid(record: Any) -> str:
    return str(record.uid)


IDENTITY: dict[str, Callable[[Any], str]] = {
    "nodes": _name,
    "queues": _name,
    "topologies": _name,
    "claims": _name,
    "podgroups": _uid,
    "tasks": _uid,
}
"""The identity of the records of each kind."""


class Formatted(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    tag_field="format",
    tag=FORMAT,
):
    """A Struct whose JSON names its format."""


class Snapshot(Formatted, frozen=True, kw_only=True):
    """Records by kind. Each kind is sorted by identity, so equal clusters are equal values with equal JSON. Raises
    ValueError if two records share an identity.
    """

    nodes: tuple[Node, ...] = ()
    queues: tuple[Queue, ...] = ()
    podgroups: tuple[PodGroup, ...] = ()
    tasks: tuple[Task, ...] = ()
    topologies: tuple[Topology, ...] = ()
    claims: tuple[ResourceClaim, ...] = ()

    def __post_init__(self) -> None:
        for kind, identity in IDENTITY.items():
            records = tuple(sorted(getattr(self, kind), key=identity))
            for record, next in pairwise(records):
                if identity(record) == identity(next):
                    raise ValueError(f"two records of {kind} are called {identity(record)!r}")
            # Frozen Structs can be sorted in no other way.
            msgspec.structs.force_setattr(self, kind, records)

    def as_json(self) -> bytes:
        """Canonical JSON: equal snapshots have equal bytes. See ``from_json``."""
        return jsonform.encode(self)

    @classmethod
    def from_json(cls, data: bytes | str) -> Snapshot:
        """Parse ``as_json``. Raises InputError for other JSON or another format."""
        return jsonform.decode(data, Snapshot, "a snapshot", FORMAT)

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON, in hex: equal for equal snapshots."""
        return hashlib.sha256(jsonform.canonical(self)).hexdigest()
