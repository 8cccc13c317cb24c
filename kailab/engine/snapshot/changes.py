"""What became of a cluster's records from one moment to another, as a value that applies to an older one.

A working set collects it for whoever follows it (``WorkingSet.follow``): that costs what changed, and nothing where nobody
follows. ``Snapshot`` + ``Changes`` = the next ``Snapshot``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import msgspec

from kailab.engine.snapshot import jsonform
from kailab.engine.snapshot.snapshot import FORMAT, IDENTITY, Formatted, Snapshot


class RemovedRecords(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Identities of records that are gone, by kind, sorted."""

    nodes: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    podgroups: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    topologies: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()


class Changes(Formatted, frozen=True, kw_only=True):
    """``set``: records that are new or replace one of the same identity. ``removed``: of records that need not have been there.
    ``whole``: ``set`` is all there is, whatever was there before."""

    set: Snapshot = Snapshot()
    removed: RemovedRecords = RemovedRecords()
    whole: bool = False

    def applied_to(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with these changes."""
        if self.whole:
            return self.set
        kinds: dict[str, Any] = {}
        for kind, identity in IDENTITY.items():
            records = {identity(record): record for record in getattr(snapshot, kind)}
            for name in getattr(self.removed, kind):
                records.pop(name, None)
            # After removing, so that a record that is in both counts as there.
            records |= {identity(record): record for record in getattr(self.set, kind)}
            kinds[kind] = tuple(records.values())
        return Snapshot(**kinds)

    def as_json(self) -> bytes:
        return jsonform.encode(self)

    @classmethod
    def from_json(cls, data: bytes | str) -> Changes:
        """Raises InputError where these are no changes, or of another format."""
        return jsonform.decode(data, Changes, "record changes", FORMAT)


def summed(changes: Iterable[Changes]) -> Snapshot:
    """All records after changes that came one after the other."""
    kinds: dict[str, dict[str, Any]] = {kind: {} for kind in IDENTITY}
    for one in changes:
        for kind, identity in IDENTITY.items():
            records = kinds[kind]
            if one.whole:
                records.clear()
            for name in getattr(one.removed, kind):
                records.pop(name, None)
            records |= {identity(record): record for record in getattr(one.set, kind)}
    return Snapshot(**{kind: tuple(records.values()) for kind, records in kinds.items()})


class Records(Protocol):
    """Where the records are now."""

    def record(self, kind: str, identity: str) -> Any: ...

    def value(self) -> Snapshot: ...


class Follower:
    """Remembers which records changed until they are asked for."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._begun = False
        self._touched: dict[str, dict[str, None]] = {kind: {} for kind in IDENTITY}

    def note(self, kind: str, identity: str) -> None:
        self._touched[kind][identity] = None

    def go_on(self, told: Snapshot) -> None:
        """These records were told by a follower before this one: ``take`` tells what is another now."""
        self._begun = True
        self._forget()
        now = self._records.value()
        for kind, identity in IDENTITY.items():
            before = {identity(record): record for record in getattr(told, kind)}
            for record in getattr(now, kind):
                name = identity(record)
                if before.pop(name, None) != record:
                    self.note(kind, name)
            for name in before:
                self.note(kind, name)

    def take(self) -> Changes:
        """All changes since the last call, each record as it is now; from the first call, everything there is, unless this goes on."""
        if not self._begun:
            self._begun = True
            self._forget()
            return Changes(set=self._records.value(), whole=True)
        found: dict[str, tuple[Any, ...]] = {}
        removed: dict[str, tuple[str, ...]] = {}
        for kind, touched in self._touched.items():
            # What matters is how each is now: one that came and went in between counts as removed.
            now = {identity: self._records.record(kind, identity) for identity in sorted(touched)}
            found[kind] = tuple(record for record in now.values() if record is not None)
            removed[kind] = tuple(identity for identity, record in now.items() if record is None)
        self._forget()
        return Changes(set=Snapshot(**found), removed=RemovedRecords(**removed))

    def _forget(self) -> None:
        for touched in self._touched.values():
            touched.clear()
