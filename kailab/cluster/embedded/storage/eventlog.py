"""Kubernetes Events, kept compact: one small record per (object, reason, message), a dict made only when read.

A lab of tens of thousands of pods records several events for each; as full objects they would cost more than the pods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import structs

from kailab.cluster.embedded.storage.persistence import Packed
from kailab.cluster.embedded.storage.table import Key
from kailab.cluster.protocol import Object
from kailab.model.times import format_time

# The oldest go first beyond this many, as a real cluster drops events after an hour.
LIMIT = 400_000


class EventRecord(msgspec.Struct, frozen=True):
    """What is kept of one event and its repeats: a repeat takes the place of the record before it. ``first`` and ``last`` are seconds since the epoch."""

    name: str
    namespace: str
    uid: str
    version: int
    involved: tuple[str, str, str, str, str]  # apiVersion, kind, namespace, name, uid
    type: str
    reason: str
    message: str
    component: str
    first: float
    last: float
    count: int = 1

    def materialise(self) -> Object:
        """The core/v1 Event this stands for."""
        api_version, kind, namespace, name, uid = self.involved
        involved = {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid}
        if namespace:
            involved["namespace"] = namespace
        first = format_time(self.first)
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "uid": self.uid,
                "resourceVersion": str(self.version),
                "creationTimestamp": first,
            },
            "involvedObject": involved,
            "type": self.type,
            "reason": self.reason,
            "message": self.message,
            "source": {"component": self.component},
            "reportingComponent": self.component,
            "reportingInstance": "",
            "firstTimestamp": first,
            "lastTimestamp": format_time(self.last),
            "count": self.count,
        }


Identity = tuple[str, str, str, str]


class EventLog:
    """Events by what they are about and say."""

    def __init__(self) -> None:
        self._records: dict[Identity, EventRecord] = {}
        self._saved: Packed | None = None  # a saved log that nobody has asked for yet

    def fork(self) -> EventLog:
        """The same events in a log of its own."""
        forked = EventLog()
        forked._records, forked._saved = self._records.copy(), self._saved
        return forked

    @property
    def records(self) -> dict[Identity, EventRecord]:
        """Events by their identity, oldest first."""
        if self._saved is not None:
            saved, self._saved = self._saved, None
            self._take(saved.unpack())
        return self._records

    @property
    def empty(self) -> bool:
        return self._saved is None and not self._records

    def record(
        self,
        involved: Object,
        type: str,
        reason: str,
        message: str,
        component: str,
        now: float,
        version: int,
        new_uid: Callable[[], str],
    ) -> tuple[EventRecord, bool]:
        """Count a repeat, or begin a record; says whether it is new."""
        meta = involved["metadata"]
        uid = meta.get("uid", "")
        # The component is not part of it, and neither is the time: what is said again about an object is a repeat.
        identity = (uid or meta.get("namespace", "") + "/" + meta["name"], type, reason, message)
        # By the property: the first event after a start takes in the saved log.
        records = self.records
        old = records.get(identity)
        if old is not None:
            repeat = records[identity] = structs.replace(old, count=old.count + 1, last=now, version=version)
            return repeat, False
        namespace = meta.get("namespace", "")
        event_uid = new_uid()
        record = EventRecord(
            name=f"{meta['name']}.{event_uid[-12:]}",
            # Events about objects without a namespace are in "default", as client-go's recorder puts them.
            namespace=namespace or "default",
            uid=event_uid,
            version=version,
            involved=(involved.get("apiVersion", ""), involved.get("kind", ""), namespace, meta["name"], uid),
            type=type,
            reason=reason,
            message=message,
            component=component,
            first=now,
            last=now,
        )
        records[identity] = record
        if len(records) > LIMIT:
            del records[next(iter(records))]
        return record, True

    def find(self, key: Key) -> Identity | None:
        """The identity of the event of this (namespace, name); a scan, since nobody asks often."""
        for identity, record in self.records.items():
            if record.name == key[1] and record.namespace == key[0]:
                return identity
        return None

    def drop_namespace(self, namespace: str) -> list[EventRecord]:
        """Forget the events of a namespace; gives what went."""
        gone = [identity for identity, record in self.records.items() if record.namespace == namespace]
        return [self.records.pop(identity) for identity in gone]

    def __iter__(self) -> Iterator[EventRecord]:
        return iter(self.records.values())

    def dump(self) -> dict[str, list[Any]]:
        """By kind, as objects are dumped; empty where there is none."""
        # Rows without field names: there may be hundreds of thousands.
        rows = [structs.astuple(record) for record in self.records.values()]
        return {"Event": rows} if rows else {}

    def restore(self, saved: Mapping[str, list[Any] | Packed]) -> None:
        """Put back a saved log; one that is packed stays so until it is asked for."""
        self._records = {}
        rows = saved.get("Event", [])
        if isinstance(rows, Packed):
            self._saved = rows
        else:
            self._take(rows)

    def _take(self, rows: list[Any]) -> None:
        for row in rows:
            values: list[Any] = [*row[:4], tuple(row[4]), *row[5:]]
            record = EventRecord(*values)
            involved = record.involved
            identity = (involved[4] or involved[2] + "/" + involved[3], record.type, record.reason, record.message)
            self._records[identity] = record
