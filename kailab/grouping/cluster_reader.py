"""Reads objects of a cluster from watches: each kind is watched from its first read on.

A controller groups thousands of pods by few owners; a request for each owner would be slow. The watch of a kind keeps its objects in
memory and reports changes, after which waiting pods are grouped again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias

from kailab.cluster.protocol import Cluster, Object, Watch, find_object
from kailab.errors import ApiError
from kailab.model.kinds import key_of
from kailab.model.objects import object_key

# Kinds with many objects, of which few are read.
_UNWATCHED = frozenset({"Pod", "PodGroup"})

# A change of one of these invalidates the plans of all owners.
_SHARED_KINDS = frozenset({"PriorityClass", "ConfigMap", "Namespace"})


class ObjectLookup(NamedTuple):
    """An object that was read, existing or not. ``namespace`` is "" for cluster-scoped kinds."""

    kind: str
    namespace: str
    name: str


_Reads: TypeAlias = list[ObjectLookup]


class _Watched(NamedTuple):
    """The objects of one kind, from its watch."""

    watch: Watch
    objects: dict[tuple[str, str], Object]


class ClusterReader:
    """An ``ObjectReader`` over a cluster. ``reads`` lists the lookups since it was last cleared. ``epoch`` counts changes of objects that
    affect the plans of all owners.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._watched: dict[str, _Watched | None] = {}
        self._initial: _Reads = []  # the first events of new watches
        self.reads: _Reads = []
        self.epoch = 0

    def get(self, api_version: str, kind: str, namespace: str | None, name: str) -> Object | None:
        key = key_of(api_version, kind)
        self.reads.append(ObjectLookup(key, namespace or "", name))
        if key not in _UNWATCHED:
            watched = self._watched[key] if key in self._watched else self._begin(key)
            obj = watched.objects.get((namespace or "", name)) if watched is not None else None
            if obj is not None:
                return obj
        # The watch may lag behind the event that named the object.
        return find_object(self._cluster, key, name, namespace)

    def list(
        self, api_version: str, kind: str, namespace: str, labels: Mapping[str, str] | None = None
    ) -> list[Object]:
        return self._cluster.list(key_of(api_version, kind), namespace, labels)

    def changes(self) -> Iterator[ObjectLookup]:
        """The changes of all watched kinds since the last call, in the order in which the kinds were first read."""
        yield from self._initial
        self._initial.clear()
        for key, watched in self._watched.items():
            if watched is not None:
                yield from self._absorb(key, watched)

    def close(self) -> None:
        for watched in self._watched.values():
            if watched is not None:
                watched.watch.close()

    def _begin(self, key: str) -> _Watched | None:
        try:
            watched = _Watched(self._cluster.watch((key,)), {})
        except ApiError:  # the cluster does not serve this kind
            self._watched[key] = None
            return None
        self._watched[key] = watched
        self._initial += self._absorb(key, watched)
        return watched

    def _absorb(self, key: str, watched: _Watched) -> _Reads:
        changed: _Reads = []
        for event in watched.watch.poll():
            place = object_key(event.object)
            if event.type == "DELETED":
                watched.objects.pop(place, None)
            else:
                watched.objects[place] = event.object
            changed.append(ObjectLookup(key, *place))
        if changed and key in _SHARED_KINDS:
            self.epoch += 1
        return changed
