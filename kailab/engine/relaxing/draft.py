"""The input of a cycle while it is being changed: records, configuration, time. Nothing is copied but what changes."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from kailab.engine.config import EngineConfig
from kailab.engine.snapshot.changes import Changes, Removed
from kailab.engine.snapshot.records import PodGroup, Queue, Task
from kailab.engine.snapshot.snapshot import IDENTITY, Snapshot

Kinds = dict[str, dict[str, Any]]
"""Records by identity, by kind."""


def by_identity(snapshot: Snapshot) -> Kinds:
    """All records of a snapshot."""
    return {kind: {identity(one): one for one in getattr(snapshot, kind)} for kind, identity in IDENTITY.items()}


class Draft:
    """``subject``: UIDs of the PodGroups that the question is about, ``members`` of their tasks. ``config`` and ``now`` may be set to
    others."""

    def __init__(
        self, before: Kinds, config: EngineConfig, now: float, subject: tuple[str, ...], members: Collection[str]
    ) -> None:
        self._before = before
        self._members = members
        self._changed: Kinds = {kind: {} for kind in IDENTITY}  # None: removed
        self.config = config
        self.now = now
        self.subject = subject

    def records(self, kind: str) -> Iterator[Any]:
        """All records of a kind, as they are with the changes."""
        changed = self._changed[kind]
        # Copied first, because relaxations change records while they go through them.
        for identity, record in list(self._before[kind].items()):
            record = changed.get(identity, record)
            if record is not None:
                yield record
        for identity, record in list(changed.items()):
            if record is not None and identity not in self._before[kind]:
                yield record

    def record(self, kind: str, identity: str) -> Any:
        """None where there is none, or none any more."""
        # A removed record is there as None, which get returns as it is.
        return self._changed[kind].get(identity, self._before[kind].get(identity))

    def set(self, kind: str, record: Any) -> None:
        """Add a record, or replace the one of the same identity."""
        self._changed[kind][IDENTITY[kind](record)] = record

    def remove(self, kind: str, identity: str) -> None:
        """Take a record out."""
        self._changed[kind][identity] = None

    def podgroups(self) -> list[PodGroup]:
        """Of the subject, as far as they are there."""
        found = (self.record("podgroups", uid) for uid in self.subject)
        return [podgroup for podgroup in found if podgroup is not None]

    def tasks(self) -> list[Task]:
        """Of the subject."""
        changed = self._changed["tasks"]
        # All records are not gone through: there may be very many, and few of the subject.
        found = (changed.get(uid, self._before["tasks"][uid]) for uid in self._members)
        added = (task for uid, task in changed.items() if uid not in self._before["tasks"])
        return [task for task in (*found, *added) if task is not None and task.podgroup in self.subject]

    def way(self, name: str) -> list[Queue]:
        """A queue and its ancestors, up to the root, as far as they are there."""
        found: dict[str, Queue] = {}
        while name and name not in found and (queue := self.record("queues", name)) is not None:
            found[name] = queue
            name = queue.parent
        return list(found.values())

    @property
    def size(self) -> int:
        """How many records change."""
        return sum(map(len, self._changed.values()))

    def changes(self) -> Changes:
        """What was changed, to be applied to where it was begun from."""
        kept = {kind: tuple(one for one in found.values() if one is not None) for kind, found in self._changed.items()}
        gone = {
            kind: tuple(sorted(identity for identity, one in found.items() if one is None))
            for kind, found in self._changed.items()
        }
        return Changes(set=Snapshot(**kept), removed=Removed(**gone))

    def undoing(self) -> Changes:
        """What takes ``changes`` back."""
        kept: dict[str, tuple[Any, ...]] = {}
        gone: dict[str, tuple[str, ...]] = {}
        for kind, found in self._changed.items():
            before = self._before[kind]
            # What was replaced or removed comes back as it was; what was new has to go.
            kept[kind] = tuple(before[identity] for identity in found if identity in before)
            gone[kind] = tuple(sorted(identity for identity in found if identity not in before))
        return Changes(set=Snapshot(**kept), removed=Removed(**gone))

    def whole(self) -> Snapshot:
        """All records, with the changes."""
        return Snapshot(**{kind: tuple(self.records(kind)) for kind in IDENTITY})
