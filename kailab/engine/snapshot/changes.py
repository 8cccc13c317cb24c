"""Changes of a cluster's records between two moments, as a value that can be applied to the older snapshot.

A working set collects them for its followers (``WorkingSet.follow``). That costs as much as changed, and nothing
without followers. ``Snapshot`` + ``Changes`` = the next ``Snapshot``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import msgspec

from kailab.engine.snapshot import jsonform
from kailab.engine.snapshot.snapshot import FORMAT, IDENTITY, Formatted, Snapshot


class RemovedRecords(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Identities of removed records, by kind, sorted."""

    nodes: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    podgroups: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    topologies: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()


class Changes(Formatted, frozen=True, kw_only=True):
    """``set``: records that are new or replace one of the same identity. ``removed``: identities of removed records;
    they need not exist. ``whole``: ``set`` is the whole new state, whatever was there before.
    """

    set: Snapshot = Snapshot()
    removed: RemovedRecords = RemovedRecords()
    whole: bool = False

    def applied_to(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot after these changes."""
        if self.whole:
            return self.set
        kinds: dict[str, Any] = {}
        for kind, identity in IDENTITY.items():
            records = {identity(record): record for record in getattr(snapshot, kind)}
            for name in getattr(self.removed, kind):
                records.pop(name, None)
            # After removing, so that a record that is in both stays.
            records |= {identity(record): record for record in getattr(self.set, kind)}
            kinds[kind] = tuple(records.values())
        return Snapshot(**kinds)

    def as_json(self) -> bytes:
        return jsonform.encode(self)

    @classmethod
    def from_json(cls, data: bytes | str) -> Changes:
        """Parse ``as_json``. Raises InputError for other JSON or another format."""
        return jsonform.decode(data, Changes, "record changes", FORMAT)


def summed(changes: Iterable[Changes]) -> Snapshot:
    """All records after a sequence of changes."""
    kinds: dict[str, dict[str, Any]] = {kind: {} for kind in IDENTITY}
    for change in changes:
        for kind, identity in IDENTITY.items():
            records = kinds[kind]
            if change.whole:
                records.clear()
            for name in getattr(change.removed, kind):
                records.pop(name, None)
            records |= {identity(record): record for record in getattr(change.set, kind)}
    return Snapshot(**{kind: tuple(records.values()) for kind, records in kinds.items()})


class Records(Protocol):
    """A container of the present records."""

    def record(self, kind: str, identity: str) -> Any: ...

    def value(self) -> Snapshot: ...


class Follower:
    """Remembers which records changed since the last ``take``."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._begun = False
        self._touched: dict[str, dict[str, None]] = {kind: {} for kind in IDENTITY}

    def note(self, kind: str, identity: str) -> None:
        self._touched[kind][identity] = None

    def go_on(self, reported: Snapshot) -> None:
        """Continue after an earlier follower that reported these records: ``take`` returns what differs now."""
        self._begun = True
        self._forget()
        now = self._records.value()
        for kind, identity in IDENTITY.items():
            before = {identity(record): record for record in getattr(reported, kind)}
            for record in getattr(now, kind):
                name = identity(record)
                if before.pop(name, None) != record:
                    self.note(kind, name)
            for name in before:
                self.note(kind, name)

    def take(self) -> Changes:
        """All changes since the last call, each record in its present form. The first call returns everything, unless
        ``go_on`` was called.
        """
        if not self._begun:
            self._begun = True
            self._forget()
            return Changes(set=self._records.value(), whole=True)
        present: dict[str, tuple[Any, ...]] = {}
        removed: dict[str, tuple[str, ...]] = {}
        for kind, touched in self._touched.items():
            # Only the present state counts: a record that was added and removed in between is reported as removed.
            now = {identity: self._records.record(kind, identity) for identity in sorted(touched)}
            present[kind] = tuple(record for record in now.values() if record is not None)
            removed[kind] = tuple(identity for identity, record in now.items() if record is None)
        self._forget()
        return Changes(set=Snapshot(**present), removed=RemovedRecords(**removed))

    def _forget(self) -> None:
        for touched in self._touched.values():
            touched.clear()
