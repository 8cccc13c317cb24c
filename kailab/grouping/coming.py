"""PodGroups that were handed over to a cluster and are not there yet, and what waits for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from kailab.cluster.handed import Awaited
from kailab.cluster.protocol import HandingOver, Object
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


class ComingPodGroups:
    """Each is handed over once at a time."""

    def __init__(self, cluster: HandingOver) -> None:
        self._cluster = cluster
        self._coming: dict[Key, Coming] = {}
        self._handed: Awaited[Key] = Awaited()

    def get(self, key: Key) -> Coming | None:
        return self._coming.get(key)

    def hand_over(self, new: Iterable[tuple[Key, Grouping, Create]]) -> None:
        """Have PodGroups made, and do not wait for it."""
        made = list(new)
        self._coming |= {key: Coming([grouping], [], {}) for key, grouping, _ in made}
        if made:
            self._handed.add(self._cluster.hand_over([[create] for _, _, create in made]), [key for key, _, _ in made])

    def answered(self) -> Iterator[tuple[Key, Coming, Outcome]]:
        """Those of which it is known what became of them; they are not coming any more."""
        for key, outcome in self._handed.answered():
            yield key, self._coming.pop(key), outcome
