"""PodGroups that were handed over to a cluster and are not there yet, and what waits for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from kailab.cluster.protocol import HandedOver, HandingOver, Object
from kailab.cluster.writes import Create, Outcome
from kailab.grouping.clusterreader import Read
from kailab.grouping.records import Grouping

# (namespace, name)
Key = tuple[str, str]


class Wanted(NamedTuple):
    """What a pod needs: its PodGroup there, and a patch of its metadata (empty: none)."""

    key: Key
    pod: Object
    group: Key
    patch: dict[str, Any]
    reads: tuple[Read, ...]


class Coming(NamedTuple):
    """``wanted``: what waits for it; ``later``: pods to be looked at once it is there; ``groupings``: what it is to be, in the order
    in which that was said."""

    groupings: list[Grouping]
    wanted: list[Wanted]
    later: dict[Key, None]


class _Batch:
    """PodGroups that were handed over together. ``left``: how many are not answered."""

    def __init__(self, handed: HandedOver, keys: list[Key]) -> None:
        self.handed = handed
        self.keys = keys
        self.left = len(keys)


class ComingPodGroups:
    """Each is handed over once at a time."""

    def __init__(self, cluster: HandingOver) -> None:
        self._cluster = cluster
        self._coming: dict[Key, Coming] = {}
        self._batches: list[_Batch] = []

    def get(self, key: Key) -> Coming | None:
        return self._coming.get(key)

    def hand_over(self, new: Iterable[tuple[Key, Grouping, Create]]) -> None:
        """Have PodGroups made, and do not wait for it."""
        made = list(new)
        self._coming |= {key: Coming([grouping], [], {}) for key, grouping, _ in made}
        if made:
            handed = self._cluster.hand_over([[create] for _, _, create in made])
            self._batches.append(_Batch(handed, [key for key, _, _ in made]))

    def answered(self) -> Iterator[tuple[Key, Coming, Outcome]]:
        """Those of which it is known what became of them; they are not coming any more."""
        batches, self._batches = self._batches, []
        for batch in batches:
            for number, outcome in batch.handed.take():
                batch.left -= 1
                key = batch.keys[number]
                yield key, self._coming.pop(key), outcome
            if batch.left:
                self._batches.append(batch)
