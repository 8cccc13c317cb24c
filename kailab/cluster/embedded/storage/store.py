"""The store of an embedded cluster: objects by kind with their resource versions, owners and hooks; and the log of
Kubernetes Events.

Events are one small record per (object, reason, message), turned into an object only when read: a lab of tens of
thousands of pods records several events for each, which would cost more than the pods as full objects.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import structs

from kailab.cluster.embedded.storage.state_file import PackedSection
from kailab.cluster.embedded.storage.table import ObjectTable
from kailab.cluster.memorywatch import WatchHub
from kailab.cluster.protocol import EventType, Object
from kailab.errors import Forbidden, NotFound, StateError
from kailab.model.kinds import KINDS
from kailab.model.multimap import SetIndex
from kailab.model.objects import Key, uid_of
from kailab.model.times import format_time

# Beyond this many, the oldest are dropped, as a real cluster drops events after an hour.
LIMIT = 400_000


class EventRecord(msgspec.Struct, frozen=True):
    """One event and its repeats: a repeat replaces the record. ``first`` and ``last``: seconds since the epoch."""

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
        """The core/v1 Event of this record."""
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
    """Events by object, type, reason and message."""

    def __init__(self) -> None:
        self._records: dict[Identity, EventRecord] = {}
        self._saved: PackedSection | None = None  # a saved log that is not unpacked yet

    def fork(self) -> EventLog:
        """An independent copy."""
        forked = EventLog()
        forked._records, forked._saved = self._records.copy(), self._saved
        return forked

    @property
    def records(self) -> dict[Identity, EventRecord]:
        """Records by their identity, oldest first."""
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
        """Count a repeat, or add a record; True if it is new."""
        meta = involved["metadata"]
        uid = meta.get("uid", "")
        # Neither component nor time is part of the identity: the same statement about an object is a repeat.
        identity = (uid or meta.get("namespace", "") + "/" + meta["name"], type, reason, message)
        # By the property: the first event after a start unpacks the saved log.
        records = self.records
        old = records.get(identity)
        if old is not None:
            repeat = records[identity] = structs.replace(old, count=old.count + 1, last=now, version=version)
            return repeat, False
        namespace = meta.get("namespace", "")
        event_uid = new_uid()
        record = EventRecord(
            name=f"{meta['name']}.{event_uid[-12:]}",
            # Events about cluster-wide objects are in "default", as client-go's recorder puts them.
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
        """The identity of the event of this (namespace, name). A scan: it is rarely asked."""
        for identity, record in self.records.items():
            if record.name == key[1] and record.namespace == key[0]:
                return identity
        return None

    def drop_namespace(self, namespace: str) -> None:
        for identity in [identity for identity, record in self.records.items() if record.namespace == namespace]:
            del self.records[identity]

    def __iter__(self) -> Iterator[EventRecord]:
        return iter(self.records.values())

    def dump(self) -> dict[str, list[Any]]:
        """By kind, as objects are dumped; empty without events."""
        # Rows without field names: there may be hundreds of thousands.
        rows = [structs.astuple(record) for record in self.records.values()]
        return {"Event": rows} if rows else {}

    def restore(self, saved: Mapping[str, list[Any] | PackedSection]) -> None:
        """Restore a saved log; a packed one is unpacked on demand."""
        self._records = {}
        rows = saved.get("Event", [])
        if isinstance(rows, PackedSection):
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


Hook = Callable[[EventType, Key, Object | None, Object | None], None]
"""Called synchronously for each change of a kind: (type, key, before, after)."""

Reference = tuple[str, Key]
"""(kind key, (namespace, name))."""

# Kubernetes' alphabet for generated names: no vowels, no characters that look alike.
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_NAMES = len(_ALPHABET) ** 5
_STRIDE = 7_368_787  # coprime with _NAMES: every sequence number gives another suffix
MAX_GENERATED = 63  # as in Kubernetes' name generator: prefixes are cut to leave five characters


def name_suffix(seed: str, number: int) -> str:
    """Five characters for the ``number``-th name of ``seed``: all different, and not visibly counting up."""
    value = (zlib.crc32(seed.encode()) + number * _STRIDE) % _NAMES
    letters = []
    for _ in range(5):
        value, digit = divmod(value, 27)
        letters.append(_ALPHABET[digit])
    return "".join(letters)


def safe_text(digits: str) -> str:
    """Text in the alphabet of generated names, character by character, as Kubernetes writes its hashes."""
    return "".join(_ALPHABET[ord(letter) % len(_ALPHABET)] for letter in digits)


MOST_OBJECTS = 150_000
"""Of one kind: the number of pods that Kubernetes supports in a cluster."""


def store_key(kind: str, name: str, namespace: str | None) -> Key:
    """The key of an object in the table of its kind. For a kind unknown to kailab the namespace is taken as given."""
    known = KINDS.get(kind)
    if known is not None:
        return (namespace or "default" if known.namespaced else "", name)
    return (namespace or "", name)


class ObjectStore:
    """Objects of all kinds and their counters."""

    def __init__(self) -> None:
        self._tables: dict[str, ObjectTable] = {}
        self._saved: dict[str, PackedSection] = {}  # kinds of a saved cluster that are not unpacked yet
        self._single: dict[str, dict[Key, msgspec.Raw]] = {}  # of such kinds, once a single object was looked up
        self.sealed = False
        """The store is read-only: the controllers that would act on changes are not running."""
        # Of a sealed store that was forked: everything unpacked, with its index of owners.
        self._whole: ObjectStore | None = None
        self.version = 0
        self.uids = 0
        self.names: dict[str, int] = {}  # how many names were generated for "kind|namespace|prefix"
        self.events = EventLog()
        self.hub = WatchHub()
        self.dependents: SetIndex[str, Reference] = SetIndex()  # by the owner's uid
        self._hooks: dict[str, list[Hook]] = {}

    def hook(self, kind: str, hook: Hook) -> None:
        """Call ``hook`` for each change of a kind ("*": of every kind), after it is stored."""
        self._hooks.setdefault(kind, []).append(hook)

    def table(self, kind: str) -> ObjectTable:
        table = self._tables.get(kind)
        if table is None and (table := self.existing_table(kind)) is None:
            table = self._tables[kind] = ObjectTable(kind)
        return table

    def existing_table(self, kind: str) -> ObjectTable | None:
        """The objects of a kind; None if there never were any."""
        table = self._tables.get(kind)
        if table is None and kind in self._saved:
            self._fill(kind, self._saved.pop(kind).unpack())
            table = self._tables[kind]
        return table

    def kinds_with_objects(self) -> list[str]:
        """The kinds that have objects, sorted."""
        return sorted([*self._saved, *(kind for kind, table in self._tables.items() if len(table))])

    def find(self, kind: str, key: Key) -> Object | None:
        # Looking up one object does not unpack all of its kind.
        if self.sealed and kind in self._saved:
            return self._one(kind, key)
        table = self._tables.get(kind)
        if table is None:
            table = self.existing_table(kind)
        return None if table is None else table.objects.get(key)

    def get(self, kind: str, key: Key, uid: str = "") -> Object:
        """``uid``: the only object that is meant, whoever has its name now. Raises NotFound."""
        obj = self.find(kind, key)
        if obj is None or (uid and uid_of(obj) != uid):
            place = f" in namespace {key[0]}" if key[0] else ""
            other = "" if obj is None else f": another one has its name, with the uid {uid_of(obj)} instead of {uid}"
            raise NotFound(f"{kind} {key[1]!r} not found{place}{other}")
        return obj

    def _one(self, kind: str, key: Key) -> Object | None:
        """One object of a kind that is not unpacked."""
        single = self._single.get(kind)
        if single is None:
            single = self._single[kind] = self._saved[kind].by_name()
        raw = single.get(key)
        return None if raw is None else msgspec.msgpack.decode(raw)

    def new_uid(self) -> str:
        """The next uid; as strings they sort in order of creation."""
        self.uids += 1
        return f"00000000-0000-4000-8000-{self.uids:012x}"

    def generate_name(self, kind: str, namespace: str, prefix: str) -> str:
        """A free name that begins with ``prefix``; a prefix never gets the same name twice."""
        seed = f"{kind}|{namespace}|{prefix}"
        table = self.table(kind).objects
        while True:
            number = self.names.get(seed, 0)
            # Saved and forked with the store, so that no name is given a second time.
            self.names[seed] = number + 1
            name = prefix[: MAX_GENERATED - 5] + name_suffix(seed, number)
            # Somebody may have chosen the name.
            if (namespace, name) not in table:
                return name

    def _writable(self) -> None:
        if self.sealed:
            raise StateError("this lab is open read-only; open it for changes")

    def insert(self, kind: str, key: Key, obj: Object, timestamp: str) -> Object:
        """Store a new object, filling in its metadata in place: the store owns ``obj`` and its metadata. Raises
        Forbidden if there are ``MOST_OBJECTS`` of its kind.
        """
        table = self.table(kind)
        if len(table.objects) >= MOST_OBJECTS:
            raise Forbidden(f"{kind} {key[1]!r}: a lab holds no more than {MOST_OBJECTS:,} objects of one kind")
        self._writable()
        self.version += 1
        meta = obj["metadata"]
        meta["uid"] = self.new_uid()
        meta["resourceVersion"] = str(self.version)
        meta["creationTimestamp"] = timestamp
        if "spec" in obj:
            meta["generation"] = 1
        table.add(key, obj)
        owners = meta.get("ownerReferences")
        if owners:
            self._own(kind, key, owners)
        self._publish("ADDED", kind, key, None, obj)
        return obj

    def replace(self, kind: str, key: Key, old: Object, new: Object) -> Object:
        """Store ``new`` for ``old`` under the next resource version; ``new`` must be a dict not stored before."""
        self._writable()
        self.version += 1
        meta = new["metadata"]
        # Watchers and forks still hold the old state, so its metadata must not change.
        if meta is old["metadata"]:
            meta = dict(meta)
            new["metadata"] = meta
        elif meta.get("ownerReferences") != old["metadata"].get("ownerReferences"):
            self._disown(kind, key, old["metadata"].get("ownerReferences") or ())
            self._own(kind, key, meta.get("ownerReferences") or ())
        meta["resourceVersion"] = str(self.version)
        self.table(kind).replace(key, old, new)
        self._publish("MODIFIED", kind, key, old, new)
        return new

    def remove(self, kind: str, key: Key) -> Object:
        """Remove an object; its last state has the resource version of the deletion, as in Kubernetes."""
        self._writable()
        old = self.table(kind).remove(key)
        self.version += 1
        meta = old["metadata"]
        # Only as a dependent: as an owner it stays in the index until ``Deletion.remove`` has handled its dependents.
        if owners := meta.get("ownerReferences"):
            self._disown(kind, key, owners)
        last = {**old, "metadata": {**meta, "resourceVersion": str(self.version)}}
        self._publish("DELETED", kind, key, old, last)
        return last

    def _own(self, kind: str, key: Key, owners: Any) -> None:
        for owner in owners:
            if uid := owner.get("uid"):
                self.dependents.add(uid, (kind, key))

    def _disown(self, kind: str, key: Key, owners: Any) -> None:
        for owner in owners:
            self.dependents.discard(owner.get("uid", ""), (kind, key))

    def _publish(self, type: EventType, kind: str, key: Key, old: Object | None, new: Object) -> None:
        # Watchers queue the event; hooks act at once, and may change the store again.
        self.hub.publish(type, kind, new)
        for hooked in (kind, "*"):
            for hook in self._hooks.get(hooked, ()):
                hook(type, key, old, new)

    def restore(self, kind: str, objects: list[Object] | PackedSection) -> None:
        """Restore saved objects of a kind, in their order, without hooks. Packed objects are unpacked on demand; their
        owner references are unknown before that.
        """
        if isinstance(objects, PackedSection):
            self._saved[kind] = objects
        else:
            self._fill(kind, objects)

    def fork(self, without: Iterable[Reference] = ()) -> ObjectStore:
        """An independent store with the same content. Objects are shared, since stored ones never change. It has no
        watchers, and may be written to even if this one may not. ``without``: objects to leave out, with everything
        that only they own.
        """
        if self.sealed:
            if self._whole is None:
                self._whole = self._completed()
            return self._whole.fork(without)
        self.complete()
        forked = self._alike()
        omitted: dict[str, set[Key]] = {}
        for kind, key in self._with_owned(without):
            omitted.setdefault(kind, set()).add(key)
        forked._tables = {kind: table.fork(omitted.get(kind, frozenset())) for kind, table in self._tables.items()}
        if omitted:
            for kind, table in forked._tables.items():
                for key, obj in table.objects.items():
                    if owners := obj["metadata"].get("ownerReferences"):
                        forked._own(kind, key, owners)
        else:
            forked.dependents = self.dependents.copy()
        return forked

    def _with_owned(self, owners: Iterable[Reference]) -> dict[Reference, None]:
        """These objects, what only they own, what only that owns, and so on, as far as it exists."""
        result: dict[Reference, None] = {}
        uids: set[str] = set()
        ahead = [(owner, True) for owner in owners]
        while ahead:
            reference, explicit = ahead.pop()
            obj = None if reference in result else self.find(*reference)
            if obj is None:
                continue
            # An object with other owners is looked at again when those go.
            if explicit or all(owner.get("uid") in uids for owner in obj["metadata"]["ownerReferences"]):
                result[reference] = None
                uids.add(obj["metadata"]["uid"])
                ahead += [(owned, False) for owned in self.dependents.of(obj["metadata"]["uid"])]
        return result

    def _completed(self) -> ObjectStore:
        """A sealed store with everything unpacked and indexed by owner."""
        whole = self._alike()
        for kind in self.kinds_with_objects():
            table = self._tables.get(kind)
            whole._fill(kind, self._saved[kind].unpack() if table is None else list(table))
        return whole

    def _alike(self) -> ObjectStore:
        """A store with the same counters and events, without objects."""
        forked = ObjectStore()
        forked.version, forked.uids, forked.names = self.version, self.uids, self.names.copy()
        forked.events = self.events.fork()
        return forked

    def complete(self) -> None:
        """Unpack everything."""
        for kind in list(self._saved):
            self.existing_table(kind)

    def _fill(self, kind: str, objects: list[Object]) -> None:
        table = self._tables[kind] = ObjectTable(kind)
        for obj in objects:
            meta = obj["metadata"]
            key = (meta.get("namespace", ""), meta["name"])
            table.add(key, obj)
            if not self.sealed and (owners := meta.get("ownerReferences")):
                self._own(kind, key, owners)
