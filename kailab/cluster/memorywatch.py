"""Watches in memory: each watcher has its own queue of changes, which ``poll`` empties."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from kailab.cluster.protocol import EventType, Object, WatchEvent
from kailab.errors import Gone

# A watcher nobody polls would grow without bound; a real API server drops its history too.
LIMIT = 4_000_000

Backlog: TypeAlias = Sequence[tuple[str, Sequence[Object]]]
"""Objects that exist when a watch begins, by kind. Objects are not changed, but replaced."""


class MemoryWatch:
    """One watcher's queue."""

    def __init__(self, hub: WatchHub, kinds: frozenset[str] | None, backlog: Backlog) -> None:
        self._hub = hub
        self.kinds = kinds
        self.queue: list[WatchEvent] = []
        self._backlog = backlog
        self._closed = False

    def poll(self) -> list[WatchEvent]:
        """The changes since the last call, in order. Raises Gone if too many were left unread."""
        queue = self.queue
        if self._backlog:
            # In place: another thread may be adding to the queue.
            queue[:0] = [WatchEvent("ADDED", kind, obj) for kind, objects in self._backlog for obj in objects]
            self._backlog = ()
        if not queue:
            return []
        self.queue = []
        if len(queue) > LIMIT:
            self.close()
            raise Gone(f"more than {LIMIT} changes were left unread: begin a new watch")
        return queue

    def close(self) -> None:
        """End the watch; further polls give nothing."""
        if not self._closed:
            self._closed = True
            self.queue = []
            self._backlog = ()
            self._hub.remove(self)


class WatchHub:
    """Hands each change to the watchers of its kind."""

    def __init__(self) -> None:
        self._watchers: list[MemoryWatch] = []
        self._by_kind: dict[str, list[MemoryWatch]] = {}

    def open(self, kinds: Iterable[str] | None, backlog: Backlog) -> MemoryWatch:
        """``backlog``: the objects that exist. Their events are made by the first ``poll``, as many watches are never polled: a lab that
        is only asked a question has all its controllers."""
        watch = MemoryWatch(self, None if kinds is None else frozenset(kinds), backlog)
        self._watchers.append(watch)
        self._by_kind.clear()
        return watch

    def remove(self, watch: MemoryWatch) -> None:
        self._watchers.remove(watch)
        self._by_kind.clear()

    def watchers(self, kind: str) -> list[MemoryWatch]:
        watchers = self._by_kind.get(kind)
        if watchers is None:
            watchers = [w for w in self._watchers if w.kinds is None or kind in w.kinds]
            self._by_kind[kind] = watchers
        return watchers

    def publish(self, type: EventType, kind: str, obj: Object) -> None:
        watchers = self._by_kind.get(kind)
        if watchers is None:
            watchers = self.watchers(kind)
        if watchers:
            # One event for all watchers: it is read-only, and so is its object.
            event = WatchEvent(type, kind, obj)
            for watch in watchers:
                queue = watch.queue
                # One event beyond the limit is still taken, so that ``poll`` sees that some were lost.
                if len(queue) <= LIMIT:
                    queue.append(event)

    def publish_lazily(self, type: EventType, kind: str, make: Callable[[], Object]) -> None:
        """As ``publish``, but the object is made only if someone watches."""
        if self.watchers(kind):
            self.publish(type, kind, make())
