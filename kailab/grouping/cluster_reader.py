"""Reads of a cluster that cost a look-up: each kind is watched from the first time it is asked for.

A controller groups thousands of pods by a few owners; asking an API server for the owner of each would be the slowest
part of it. Watching a kind keeps its objects at hand, and tells what changed: the reason to look at waiting pods again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias

from kailab.cluster.protocol import Cluster, Object, Watch
from kailab.errors import ApiError, NotFound
from kailab.model.kinds import key_of

# Kinds with many objects of which few are ever read: not worth a watch here.
_UNWATCHED = frozenset({"Pod", "PodGroup"})

# Kinds that decide for pods of many owners: when one of them changes, no plan made before holds.
_DECIDES_FOR_MANY = frozenset({"PriorityClass", "ConfigMap", "Namespace"})


class ObjectLookup(NamedTuple):
    """One object asked for, there or not. ``namespace`` is empty for kinds without."""

    kind: str
    namespace: str
    name: str


_Reads: TypeAlias = list[ObjectLookup]


class _Watched:
    """The objects of one kind, as its watch told them."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.objects: dict[tuple[str, str], Object] = {}


class ClusterReader:
    """A ``Reader`` over a cluster. ``reads`` lists what was asked for since it was last cleared.

    ``epoch`` counts up when an object changes that may decide for pods of any owner.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._watched: dict[str, _Watched | None] = {}
        self._early: _Reads = []  # what watches delivered when they were begun
        self.reads: _Reads = []
        self.epoch = 0

    def get(self, api_version: str, kind: str, namespace: str | None, name: str) -> Object | None:
        key = key_of(api_version, kind)
        self.reads.append(ObjectLookup(key, namespace or "", name))
        if key not in _UNWATCHED:
            watched = self._watched[key] if key in self._watched else self._begin(key)
            found = watched.objects.get((namespace or "", name)) if watched is not None else None
            if found is not None:
                return found
        # A watch may lag behind the event that named the object.
        try:
            return self._cluster.get(key, name, namespace)
        except NotFound:
            return None

    def list(
        self, api_version: str, kind: str, namespace: str, labels: Mapping[str, str] | None = None
    ) -> list[Object]:
        return self._cluster.list(key_of(api_version, kind), namespace, labels)

    def changes(self) -> Iterator[ObjectLookup]:
        """What changed among the kinds read so far since the last call, in the order the kinds were first read."""
        yield from self._early
        self._early.clear()
        for key, watched in self._watched.items():
            if watched is not None:
                yield from self._absorb(key, watched)

    def close(self) -> None:
        for watched in self._watched.values():
            if watched is not None:
                watched.watch.close()

    def _begin(self, key: str) -> _Watched | None:
        try:
            watched = _Watched(self._cluster.watch((key,)))
        except ApiError:  # the cluster does not serve this kind
            self._watched[key] = None
            return None
        self._watched[key] = watched
        self._early += self._absorb(key, watched)
        return watched

    def _absorb(self, key: str, watched: _Watched) -> _Reads:
        changed: _Reads = []
        for event in watched.watch.poll():
            metadata = event.object["metadata"]
            place = (metadata.get("namespace") or "", metadata["name"])
            if event.type == "DELETED":
                watched.objects.pop(place, None)
            else:
                watched.objects[place] = event.object
            changed.append(ObjectLookup(key, *place))
        # Plans of all owners go at once: nobody keeps which plan has read which of these.
        if changed and key in _DECIDES_FOR_MANY:
            self.epoch += 1
        return changed
