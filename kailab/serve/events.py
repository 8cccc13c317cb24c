"""Kubernetes Events of a lab that goes on: taken in as they come, in the order in which they began."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

from kailab.cluster.protocol import Cluster, Object

_KIND = "Event"


class Events(Sequence[Object]):
    """Of one cluster, until it is closed. Their objects are read when somebody asks for one."""

    def __init__(self, cluster: Cluster) -> None:
        self.about: list[str] = []
        """The object of each, as evidence calls it."""
        self._cluster = cluster
        self._watch = cluster.watch((_KIND,))
        self._keys: list[tuple[str, str]] = []
        self._places: dict[tuple[str, str], int] = {}
        self._gone = 0
        self._read: dict[tuple[str, str], Object] | None = None

    def look(self) -> int | None:
        """Take in what came. How many, the oldest, went; None where others went, and all of it is another."""
        gone: set[tuple[str, str]] = set()
        self._read = None
        for event in self._watch.poll():
            metadata = event.object["metadata"]
            key = metadata.get("namespace", ""), metadata["name"]
            if event.type == "DELETED":
                gone.add(key)
            elif key not in self._places:
                self._places[key] = self._gone + len(self._keys)
                self._keys.append(key)
                self.about.append(_about(event.object))
        count = len(gone)
        if not gone:
            return 0
        if gone == set(self._keys[:count]):
            self._gone += count
            del self._keys[:count], self.about[:count]
            for key in gone:
                del self._places[key]
            return count
        kept = [(key, about) for key, about in zip(self._keys, self.about) if key not in gone]
        self._keys, self.about = [key for key, _ in kept], [about for _, about in kept]
        self._places, self._gone = {key: place for place, key in enumerate(self._keys)}, 0
        return None

    def close(self) -> None:
        self._watch.close()

    def __len__(self) -> int:
        return len(self._keys)

    @overload
    def __getitem__(self, place: int) -> Object: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Object]: ...

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[at] for at in range(*place.indices(len(self)))]
        if self._read is None:
            self._read = {
                (one["metadata"].get("namespace", ""), one["metadata"]["name"]): one
                for one in self._cluster.list(_KIND)
            }
        return self._read[self._keys[place]]

    def __iter__(self) -> Iterator[Object]:
        return (self[place] for place in range(len(self)))


def _about(event: Object) -> str:
    involved = event.get("involvedObject") or {}
    return f"{involved.get('kind', '')} {involved.get('namespace', '')}/{involved.get('name', '')}"
