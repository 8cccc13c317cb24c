"""All objects of one kind, by (namespace, name), in order of creation, with indexes built on demand."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Set

from kailab.cluster.protocol import Object
from kailab.cluster.selectors import Selector, matches
from kailab.model.objects import Key


class ObjectTable:
    """Objects of one kind. ``objects`` keeps the order of creation; ``listing`` sorts by (namespace, name)."""

    __slots__ = ("_indexes", "_new", "_order", "_stale", "kind", "objects")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.objects: dict[Key, Object] = {}
        self._order: list[Key] = []
        self._new: list[Key] = []
        self._stale = False
        self._indexes: dict[str, dict[str, dict[Key, None]]] = {}

    def fork(self, without: Set[Key] = frozenset()) -> ObjectTable:
        """An independent table with the same objects, except ``without``."""
        forked = ObjectTable(self.kind)
        if without:
            forked.objects = {key: obj for key, obj in self.objects.items() if key not in without}
            forked._order, forked._new, forked._stale = self._order.copy(), self._new.copy(), True
            return forked
        forked.objects = self.objects.copy()
        # Indexes by label are rebuilt on demand.
        forked._order, forked._new, forked._stale = self._order.copy(), self._new.copy(), self._stale
        return forked

    def __len__(self) -> int:
        return len(self.objects)

    def add(self, key: Key, obj: Object) -> None:
        self.objects[key] = obj
        self._new.append(key)
        if self._indexes:
            self._index(key, None, obj)

    def replace(self, key: Key, old: Object, new: Object) -> None:
        self.objects[key] = new
        if self._indexes:
            self._index(key, old, new)

    def remove(self, key: Key) -> Object:
        obj = self.objects.pop(key)
        self._stale = True
        if self._indexes:
            self._index(key, obj, None)
        return obj

    def _index(self, key: Key, old: Object | None, new: Object | None) -> None:
        before = (old["metadata"].get("labels") or {}) if old else {}
        after = (new["metadata"].get("labels") or {}) if new else {}
        # Unchanged labels are shared between the two states.
        if before is after:
            return
        for label, index in self._indexes.items():
            a, b = before.get(label), after.get(label)
            if a == b:
                continue
            if a is not None:
                index[a].pop(key, None)
            if b is not None:
                index.setdefault(b, {})[key] = None

    def _sorted(self) -> list[Key]:
        # Nearly sorted input: sorting again after appending new keys is cheap.
        if self._stale or self._new:
            objects = self.objects
            order = [key for key in self._order if key in objects] if self._stale else self._order
            if self._new:
                order = list(dict.fromkeys(order + [key for key in self._new if key in objects]))
                order.sort()
            self._order, self._new, self._stale = order, [], False
        return self._order

    def _labelled(self, label: str, values: frozenset[str]) -> list[Key]:
        index = self._indexes.get(label)
        if index is None:
            index = self._indexes[label] = {}
            for key, obj in self.objects.items():
                value = (obj["metadata"].get("labels") or {}).get(label)
                if value is not None:
                    index.setdefault(value, {})[key] = None
        return sorted(key for value in values for key in index.get(value, ()))

    def listing(self, namespace: str | None, selector: Selector) -> list[Object]:
        """Matching objects in (namespace, name) order, of one namespace or of all."""
        objects = self.objects
        # An index answers the first term that names values; the others filter its result.
        for term in selector:
            if term.operator == "In":
                matching = [
                    objects[key]
                    for key in self._labelled(term.key, term.values)
                    if namespace is None or key[0] == namespace
                ]
                if len(selector) == 1:
                    return matching
                return [obj for obj in matching if matches(selector, obj["metadata"].get("labels"))]
        order = self._sorted()
        if namespace is not None:
            start = bisect_left(order, (namespace, ""))
            # The smallest text that sorts after this namespace.
            end = bisect_left(order, (namespace + "\0", ""))
            order = order[start:end]
        if not selector:
            return [objects[key] for key in order]
        return [obj for key in order if matches(selector, (obj := objects[key])["metadata"].get("labels"))]

    def __iter__(self) -> Iterator[Object]:
        return iter(self.objects.values())
