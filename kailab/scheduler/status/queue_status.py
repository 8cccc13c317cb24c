"""Status of queues and PodGroups: what is requested and held, summed up the queue tree.

One controller does what KAI's podgroupcontroller and queuecontroller do. However many pods changed, each PodGroup
and each queue is written once per step, and only if what it says has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kailab.cluster.protocol import Cluster, Object, WatchEvent
from kailab.cluster.retries import Retries
from kailab.cluster.unreadable import UnreadableObjects
from kailab.cluster.writes import Patch
from kailab.errors import ApiError, NotFound
from kailab.scheduler.status.podgroup_status import (
    FIELDS,
    KINDS,
    Amounts,
    GroupName,
    GroupTotals,
    group_amounts,
    group_patch,
    merge_patch,
    quantities,
)

MOST_HELD_SECONDS = 30.0
QUEUE_SECONDS = 1.0
AT_ONCE = 200
"""PodGroups written in one step of a live cluster: what is bound next must not wait for thousands."""

AT_ONCE_WHILE_BUSY = 2
"""Of those that have waited long enough, in QUEUE_SECONDS: a status costs the server about as much as a binding."""
_NOTHING: Mapping[str, Any] = {}
Sums = dict[str, Amounts]
"""Field of the status -> resource -> amount."""


def _no_sums() -> Sums:
    return {field: {} for field in FIELDS}


def _move(into: Sums, amounts: Mapping[str, Mapping[str, int]], sign: int) -> None:
    for field in FIELDS:
        target = into[field]
        for name, value in amounts[field].items():
            target[name] = target.get(name, 0) + sign * value


class QueueStatus:
    """Writes ``status`` of queues (allocated, allocatedNonPreemptible, requested, childQueues) and of PodGroups
    (resourcesStatus).

    ``busy``: whether there is more urgent to write (binds). Then what people read waits: each PodGroup for so long as
    MOST_HELD_SECONDS, and from then on few at a time, queues for QUEUE_SECONDS; what changes meanwhile is written once. Without it all is
    written at once."""

    def __init__(self, cluster: Cluster, busy: Callable[[], bool] | None = None) -> None:
        self._cluster = cluster
        self._busy = busy
        self._queues_at = float("-inf")
        self._unwritten: dict[GroupName, float] = {}  # since when, in that order
        self._retries: Retries[GroupName | str] = Retries()
        self._unreadable = UnreadableObjects(cluster.event, "queue-controller")
        self._watch = cluster.watch((*KINDS, "Queue"))
        self._totals = GroupTotals()
        self._counted: dict[GroupName, tuple[str, Sums]] = {}  # what each group adds, and to which queue
        self._own: dict[str, Sums] = {}  # of a queue's PodGroups
        self._sums: dict[str, Sums] = {}  # with those of the queues below
        self._queues: dict[str, Object] = {}
        self._parents: dict[str, str] = {}
        self._children: dict[str, list[str]] = {}
        self._dirty: dict[str, None] = {}
        self._moved: dict[str, Sums] = {}  # what PodGroups add to their queues, not yet in the sums

    def step(self) -> bool:
        """Handle what the watch delivered; True if anything was written."""
        events = self._watch.poll()
        if not events and not self._unwritten and not self._dirty:
            return False
        latest: dict[str, dict[str, WatchEvent]] = {kind: {} for kind in (*KINDS, "Queue")}
        for event in events:
            metadata = event.object["metadata"]
            latest[event.kind][metadata.get("uid") or metadata["name"]] = event
        if latest["Queue"]:
            self._take_queues(latest["Queue"])
        self._totals.take(latest)
        groups, self._totals.dirty = self._totals.dirty, {}
        for name in groups:
            self._count(name)
        self._sum_up()
        now = self._cluster.now()
        for name in groups:
            # What changes again keeps its place: a PodGroup that never rests is written all the same.
            self._unwritten.setdefault(name, now)
        busy = self._busy is not None and self._busy()
        if busy and now - self._queues_at < QUEUE_SECONDS:
            return False
        wrote = self._write(self._group_patches(busy, now))
        # Queues are few, and each is written once, however many PodGroups of it have changed.
        self._queues_at = now
        queues = [queue for queue in self._dirty if not self._retries.held(queue, now)]
        for queue in queues:
            del self._dirty[queue]
        changes: dict[str, dict[str, Any]] = {}
        for queue in sorted(queue for queue in queues if queue in self._queues):
            obj = self._queues[queue]
            try:
                patch = self._queue_patch(queue, obj)
            except Exception as error:
                self._unreadable.note(obj, error)
                continue
            if patch is not None:
                changes[queue] = patch
        return self._write_queues(changes) or wrote

    def _group_patches(self, busy: bool, now: float) -> dict[GroupName, dict[str, Any]]:
        """What PodGroups need now, those first that have waited longest; what has failed waits for its time."""
        most = AT_ONCE_WHILE_BUSY if busy else AT_ONCE
        found: dict[GroupName, dict[str, Any]] = {}
        looked_at = []
        for name, since in self._unwritten.items():
            if (busy and now - since < MOST_HELD_SECONDS) or (self._busy is not None and len(found) == most):
                # In the order of waiting: none behind this one has waited longer.
                break
            if self._retries.held(name, now):
                continue
            looked_at.append(name)
            group = self._totals.groups.get(name)
            patch = group_patch(group) if group is not None else None
            if patch is not None:
                found[name] = patch
        for name in looked_at:
            del self._unwritten[name]
        return found

    def _written(self, one: GroupName | str, error: ApiError | None) -> bool:
        """Whether it was. What could not be is tried again after a while."""
        # What is gone has no status, and is not tried again.
        if error is None or isinstance(error, NotFound):
            self._retries.done(one)
            return error is None
        now = self._cluster.now()
        self._retries.failed(one, now)
        if isinstance(one, str):
            self._dirty[one] = None
        else:
            # At the end of the row: what is refused again and again must not keep others waiting.
            self._unwritten[one] = now
        return False

    def _write(self, patches: Mapping[GroupName, dict[str, Any]]) -> bool:
        """The status of PodGroups."""
        chains = [[Patch("PodGroup", name, space, patch, "status")] for (space, name), patch in patches.items()]
        wrote = False
        for name, outcome in zip(patches, self._cluster.write_all(chains), strict=True):
            wrote |= self._written(name, outcome.error)
        return wrote

    def _write_queues(self, patches: Mapping[str, dict[str, Any]]) -> bool:
        chains = [[Patch("Queue", name, None, patch, "status")] for name, patch in patches.items()]
        wrote = False
        for name, outcome in zip(patches, self._cluster.write_all(chains), strict=True):
            wrote |= self._written(name, outcome.error)
        return wrote

    def close(self) -> None:
        self._watch.close()

    # --- PodGroups ---------------------------------------------------------------------------------------------------

    def _count(self, name: GroupName) -> None:
        """Count what a PodGroup holds now to its queue."""
        group = self._totals.groups[name]
        before = self._counted.pop(name, None)
        if group.object is None:
            if before is not None:
                self._add(before[0], before[1], -1)
            # Pods may be known before their PodGroup, and after it has gone; their sums wait for it.
            if not any(group.requested.values()) and not any(group.allocated.values()):
                del self._totals.groups[name]
            return
        after = {field: dict(amounts) for field, amounts in group_amounts(group).items()}
        counted = self._counted[name] = (group.queue, after)
        # What it added is taken off as it was added then: its queue may be another one by now.
        if before != counted:
            if before is not None:
                self._add(before[0], before[1], -1)
            self._add(group.queue, after, 1)

    def _add(self, queue: str, amounts: Sums, sign: int) -> None:
        moved = self._moved.get(queue)
        if moved is None:
            moved = self._moved[queue] = _no_sums()
        _move(moved, amounts, sign)

    def _sum_up(self) -> None:
        """Bring the sums of queues in line: each once, however many of its PodGroups have changed."""
        moved, self._moved = self._moved, {}
        for queue, amounts in moved.items():
            _move(self._own.setdefault(queue, _no_sums()), amounts, 1)
            for name in self._with_parents(queue):
                _move(self._sums.setdefault(name, _no_sums()), amounts, 1)
                self._dirty[name] = None

    def _with_parents(self, queue: str) -> list[str]:
        """A queue and those above it; a circle is walked once."""
        found = [queue]
        while (queue := self._parents.get(queue, "")) and queue not in found:
            found.append(queue)
        return found

    # --- queues ------------------------------------------------------------------------------------------------------

    def _take_queues(self, events: Mapping[str, WatchEvent]) -> None:
        moved = False
        for event in events.values():
            name = event.object["metadata"]["name"]
            if event.type == "DELETED":
                moved |= self._queues.pop(name, None) is not None
                self._parents.pop(name, None)
                continue
            parent = (event.object.get("spec") or _NOTHING).get("parentQueue") or ""
            moved |= name not in self._queues or self._parents.get(name, "") != parent
            self._queues[name] = event.object
            self._parents[name] = parent
        if moved:
            self._rebuild()

    def _rebuild(self) -> None:
        """The tree has changed: sum up anew and look at every queue again."""
        self._children = {}
        # By name: the status lists the children in this order.
        for name in sorted(self._queues):
            parent = self._parents[name]
            if parent:
                self._children.setdefault(parent, []).append(name)
        # From the own sums, which do not depend on the tree.
        self._sums = {}
        for queue, amounts in self._own.items():
            for name in self._with_parents(queue):
                _move(self._sums.setdefault(name, _no_sums()), amounts, 1)
        self._dirty.update(dict.fromkeys(self._queues))

    def _queue_patch(self, name: str, obj: Object) -> dict[str, Any] | None:
        current = obj.get("status") or _NOTHING
        sums = self._sums.get(name) or _no_sums()
        changes: dict[str, Any] = {}
        for field in FIELDS:
            change = merge_patch(current.get(field), quantities(sums[field]))
            if change is not None:
                changes[field] = change
        children = self._children.get(name, [])
        if list(current.get("childQueues") or ()) != children:
            changes["childQueues"] = children or None
        return {"status": changes} if changes else None
