"""A cluster as a value: all records that decisions depend on, in canonical order, with JSON both ways.

With a configuration (``EngineConfig``) and a time it is all that a cycle depends on: ``cycle.decide`` is a pure function of
the three. What a cycle changes while it tries things is a ``WorkingSet``, made from it.
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
"""Of the JSON. It grows when a record changes so that what was written before can't be read any more."""


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
"""By what the records of each kind are known."""


class Formatted(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    tag_field="format",
    tag=FORMAT,
):
    """Its JSON says which format it has."""


class Snapshot(Formatted, frozen=True, kw_only=True):
    """Records by kind. Each kind is kept in the order of its identities, whatever the order in which it was given, so equal
    clusters are equal values with equal JSON. Raises ValueError where two records have one identity."""

    nodes: tuple[Node, ...] = ()
    queues: tuple[Queue, ...] = ()
    podgroups: tuple[PodGroup, ...] = ()
    tasks: tuple[Task, ...] = ()
    topologies: tuple[Topology, ...] = ()
    claims: tuple[ResourceClaim, ...] = ()

    def __post_init__(self) -> None:
        for kind, identity in IDENTITY.items():
            records = tuple(sorted(getattr(self, kind), key=identity))
            for one, next in pairwise(records):
                if identity(one) == identity(next):
                    raise ValueError(f"two records of {kind} are called {identity(one)!r}")
            # Frozen Structs have no other way to be put in order while they are made.
            msgspec.structs.force_setattr(self, kind, records)

    def as_json(self) -> bytes:
        """Canonical: equal snapshots have equal bytes. See ``from_json``."""
        return jsonform.encode(self)

    @classmethod
    def from_json(cls, data: bytes | str) -> Snapshot:
        """Raises InputError where this is no snapshot, or one of another format."""
        return jsonform.decode(data, Snapshot, "a snapshot", FORMAT)

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON, in hex: equal for equal snapshots."""
        return hashlib.sha256(jsonform.canonical(self)).hexdigest()
