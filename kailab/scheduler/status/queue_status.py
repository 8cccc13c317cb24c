"""Writes KAI's status of queues and PodGroups: allocated, requested, and ``status.resourcesStatus``.

Requested amounts sum the containers of pods that wait or run; allocated amounts sum scheduled pods. A GPU share counts as a fraction on
each of its devices. GPU memory is requested as ``run.ai/gpu.memory`` and allocated as a fraction of the device.

KAI's scheduler, and ``kailab.engine.snapshot.counting`` with it, counts pods differently: it adds init containers and overhead, and
rounds GPU memory. The status shows KAI's status amounts; everything else in kailab shows the scheduler's amounts.
Source: KAI podgroupcontroller, queuecontroller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from kailab.cluster.protocol import Cluster, Object, WatchEvent
from kailab.cluster.retries import Retries
from kailab.cluster.unreadable_objects import UnreadableObjects
from kailab.cluster.writes import PatchWrite
from kailab.errors import ApiError, NotFound
from kailab.model import labels as names
from kailab.model.objects import Key, has_condition, labels_of, metadata_of, name_of, parent_of, spec_of, status_of
from kailab.model.quantities import format_bytes, format_cpu
from kailab.scheduler.reading import latest_events, requests
from kailab.scheduler.reading.claims import ClaimIndex
from kailab.scheduler.reading.nodes import gpu_memory
from kailab.scheduler.reading.podgroups import PriorityClasses, is_preemptible
from kailab.scheduler.reading.shapes import gpu_request

GPU_MEMORY_RESOURCE = "run.ai/gpu.memory"
_KINDS = ("PriorityClass", "ResourceClaim", "ResourceClaimTemplate", "Node", "PodGroup", "Pod", "Queue")
STATUS_FIELDS = ("requested", "allocated", "allocatedNonPreemptible")

Amounts = dict[str, int]
"""Resource -> amount: cpu and nvidia.com/gpu in thousandths, the rest whole."""

_NOTHING: Mapping[str, Any] = {}
_encode = msgspec.msgpack.Encoder().encode


def quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    """Amounts as Kubernetes quantities, ordered by resource name, without zeros."""
    return _format(tuple(amounts.items())).copy() if amounts else {}


# Many PodGroups have equal amounts.
@lru_cache(maxsize=4096)
def _format(amounts: tuple[tuple[str, int], ...]) -> dict[str, str]:
    texts = {}
    for name, value in sorted(amounts):
        if value:
            if name in ("cpu", names.GPU_RESOURCE):
                texts[name] = format_cpu(value)
            else:
                texts[name] = format_bytes(value) if name == "memory" else str(value)
    return texts


def patch_between(before: Mapping[str, Any] | None, after: Mapping[str, str]) -> dict[str, str | None] | None:
    """A merge patch from one resource list to another; None if they are equal."""
    before = before or _NOTHING
    if before == after:
        return None
    # A merge patch removes a key only with null.
    return {**dict.fromkeys(name for name in before if name not in after), **after}


class _Pod(msgspec.Struct):
    group: Key
    requested: Amounts
    allocated: Amounts


class _Group(msgspec.Struct):
    """``object`` is None while only pods name the group."""

    requested: Amounts
    allocated: Amounts
    object: Object | None = None
    queue: str = ""
    preemptible: bool = True


class GroupTotals:
    """Requested and allocated amounts of all PodGroups, updated with each event. ``dirty``: groups that have changed."""

    def __init__(self) -> None:
        self.groups: dict[Key, _Group] = {}
        self.dirty: dict[Key, None] = {}
        self._pods: dict[str, _Pod] = {}
        self._objects: dict[str, Object] = {}  # pods whose amounts depend on other objects
        self._priorities = PriorityClasses()
        self._claims = ClaimIndex()
        self._gpu_memory: dict[str, int] = {}
        self._cache: dict[bytes, tuple[Amounts, Amounts, int]] = {}

    def process_events(self, latest: Mapping[str, Mapping[str, WatchEvent]]) -> None:
        """Process the latest event of each object. ``latest``: kind -> UID -> event."""
        recount = False
        for event in latest["PriorityClass"].values():
            self._priorities.process_event(event)
        for kind in ("ResourceClaim", "ResourceClaimTemplate"):
            for event in latest[kind].values():
                self._claims.process_object(kind, event.object, event.type == "DELETED")
                recount = True
        for event in latest["Node"].values():
            node, memory = name_of(event.object), gpu_memory(labels_of(event.object))
            recount |= self._gpu_memory.get(node) != memory
            self._gpu_memory[node] = memory
        if latest["PriorityClass"]:
            # The value of its class decides whether a PodGroup without ``preemptibility`` is preemptible.
            for name, group in self.groups.items():
                if group.object is not None and self._read(group, group.object):
                    self.dirty[name] = None
        for event in latest["PodGroup"].values():
            self._podgroup(event)
        for uid, event in latest["Pod"].items():
            self._pod(uid, None if event.type == "DELETED" else event.object)
        # After the events of pods, which already count with the new claims and nodes.
        if recount:
            for uid, pod in list(self._objects.items()):
                self._pod(uid, pod)

    def _podgroup(self, event: WatchEvent) -> None:
        metadata = metadata_of(event.object)
        name = (metadata.get("namespace", ""), metadata["name"])
        if event.type == "DELETED":
            if name in self.groups:
                # The sums stay: pods may outlive their PodGroup, and a new one of the same name counts them.
                self.groups[name].object = None
                self.dirty[name] = None
            return
        group = self.groups.setdefault(name, _Group({}, {}))
        new = group.object is None
        if self._read(group, event.object) or new:
            self.dirty[name] = None

    def _read(self, group: _Group, obj: Object) -> bool:
        """Read the object of a group. Returns whether its queue or preemptibility has changed."""
        group.object = obj
        spec = spec_of(obj)
        preemptible = is_preemptible(spec, self._priorities.of(spec.get("priorityClassName") or ""))
        changed = (group.queue, group.preemptible) != (spec.get("queue") or "", preemptible)
        group.queue, group.preemptible = spec.get("queue") or "", preemptible
        return changed

    def _pod(self, uid: str, pod: Object | None) -> None:
        before = self._pods.get(uid)
        after = self._amounts(uid, pod) if pod is not None else None
        if before == after:
            return
        if before is not None:
            self._count(before, -1)
            del self._pods[uid]
        if after is not None:
            self._count(after, 1)
            self._pods[uid] = after
        elif pod is None:
            self._objects.pop(uid, None)

    def _count(self, pod: _Pod, sign: int) -> None:
        group = self.groups.setdefault(pod.group, _Group({}, {}))
        for into, amounts in ((group.requested, pod.requested), (group.allocated, pod.allocated)):
            for name, value in amounts.items():
                into[name] = into.get(name, 0) + sign * value
        self.dirty[pod.group] = None

    def _amounts(self, uid: str, pod: Object) -> _Pod | None:
        """The amounts of a pod; None for a pod without a PodGroup."""
        metadata = metadata_of(pod)
        annotations = metadata.get("annotations") or _NOTHING
        name = annotations.get(names.POD_GROUP)
        if not name:
            return None
        group = (metadata["namespace"], name)
        status = pod.get("status") or _NOTHING
        phase = status.get("phase") or "Pending"
        if phase not in ("Pending", "Running"):
            # An ended pod stays in its group with zero amounts.
            return _Pod(group, {}, {})
        spec = pod["spec"]
        requested, allocated, memory = self._of_spec(spec, annotations)
        if spec.get("resourceClaims"):
            self._objects[uid] = pod
            classes = self._claims.of_pod(pod)[0]
            requested = {**requested, **dict(classes)}
            allocated = {**allocated, **dict(classes)}
        if phase == "Pending" and not has_condition(pod, "PodScheduled"):
            return _Pod(group, requested, {})
        if memory:
            self._objects[uid] = pod
            size = self._gpu_memory.get(spec.get("nodeName") or "", 0)
            if size:
                allocated = {
                    **allocated,
                    names.GPU_RESOURCE: allocated.get(names.GPU_RESOURCE, 0) + memory * 1000 // size,
                }
        return _Pod(group, requested, allocated)

    def _of_spec(self, spec: Mapping[str, Any], annotations: Mapping[str, Any]) -> tuple[Amounts, Amounts, int]:
        """The requested amounts, the allocated amounts, and MiB of GPU memory."""
        containers = spec.get("containers") or ()
        sharing = tuple(map(annotations.get, names.GPU_SHARING))
        # Thousands of pods of one workload share a sum.
        key = _encode(([container.get("resources") for container in containers], sharing))
        sums = self._cache.get(key)
        if sums is None:
            amounts = requests.sum_of_containers(containers)
            devices = amounts.pop(names.GPU_RESOURCE, 0) * 1000
            memory = 0
            extra: Amounts = {}
            if any(sharing):
                # Without devices and MIG profiles: only the annotations of sharing count here.
                gpu = gpu_request(0, {}, {key: annotations[key] for key in annotations if key.startswith("gpu-")})
                memory = gpu.memory_in_all
                if memory:
                    extra = {GPU_MEMORY_RESOURCE: memory}
                else:
                    devices += gpu.most_gpus
            allocated = {**amounts, names.GPU_RESOURCE: devices} if devices else amounts
            sums = self._cache[key] = ({**allocated, **extra}, allocated, memory)
        return sums


def group_amounts(group: _Group) -> dict[str, Amounts]:
    """The three lists of ``resourcesStatus``."""
    return {
        "requested": group.requested,
        "allocated": group.allocated,
        "allocatedNonPreemptible": {} if group.preemptible else group.allocated,
    }


def group_patch(group: _Group) -> dict[str, Any] | None:
    """The status patch that a PodGroup needs; None if its status is right."""
    if group.object is None:
        return None
    current = status_of(group.object).get("resourcesStatus") or _NOTHING
    changes = {}
    for field, amounts in group_amounts(group).items():
        change = patch_between(current.get(field), quantities(amounts))
        if change is not None:
            changes[field] = change
    return {"status": {"resourcesStatus": changes}} if changes else None


MOST_DELAY_SECONDS = 30.0
QUEUE_SECONDS = 1.0
AT_ONCE = 200
"""The most PodGroups to write in one step of a live cluster, so that binds don't wait for thousands of status writes."""

AT_ONCE_WHILE_BUSY = 2
"""The most overdue PodGroups to write per QUEUE_SECONDS while binds are under way: a status costs the server about as much as a binding."""
Sums = dict[str, Amounts]
"""Status field -> resource -> amount."""


def _no_sums() -> Sums:
    return {field: {} for field in STATUS_FIELDS}


def _move(into: Sums, amounts: Mapping[str, Mapping[str, int]], sign: int) -> None:
    for field in STATUS_FIELDS:
        target = into[field]
        for name, value in amounts[field].items():
            target[name] = target.get(name, 0) + sign * value


class QueueStatus:
    """Writes ``status`` of queues (allocated, allocatedNonPreemptible, requested, childQueues) and of PodGroups (resourcesStatus).

    ``busy`` returns whether binds are under way. Then the status of each PodGroup waits up to MOST_DELAY_SECONDS, after that few are
    written at a time, and queues wait QUEUE_SECONDS; several changes meanwhile are one write. Without ``busy`` everything is written at
    once. If ``unread`` returns True, nobody reads any status from then on, so that nothing is followed or written."""

    def __init__(
        self, cluster: Cluster, busy: Callable[[], bool] | None = None, unread: Callable[[], bool] | None = None
    ) -> None:
        self._busy, self._unread = busy, unread
        self._cluster = cluster
        self._queues_at = float("-inf")
        self._unwritten: dict[Key, float] = {}  # the time of the first unwritten change, in that order
        self._retries: Retries[Key | str] = Retries()
        self._unreadable = UnreadableObjects(cluster.event, "queue-controller")
        self._watch = cluster.watch(_KINDS)
        self._totals = GroupTotals()
        self._counted: dict[Key, tuple[str, Sums]] = {}  # queue and amounts with which each group counts
        self._own: dict[str, Sums] = {}  # sums over a queue's own PodGroups
        self._sums: dict[str, Sums] = {}  # sums including child queues
        self._queues: dict[str, Object] = {}
        self._parents: dict[str, str] = {}
        self._children: dict[str, list[str]] = {}
        self._dirty: dict[str, None] = {}
        self._moved: dict[str, Sums] = {}  # changes of queues that are not in the sums yet

    def step(self) -> bool:
        """Handle the watch events. Returns whether anything was written."""
        if self._unread is not None and self._unread():
            self._watch.close()
            return False
        events = self._watch.poll()
        if not events and not self._unwritten and not self._dirty:
            return False
        latest = latest_events(events, _KINDS)
        if latest["Queue"]:
            self._process_queues(latest["Queue"])
        self._totals.process_events(latest)
        groups, self._totals.dirty = self._totals.dirty, {}
        for name in groups:
            self._count(name)
        self._sum_up()
        now = self._cluster.now()
        for name in groups:
            # A PodGroup that changes again keeps its position, so that each one is written eventually.
            self._unwritten.setdefault(name, now)
        busy = self._busy is not None and self._busy()
        if busy and now - self._queues_at < QUEUE_SECONDS:
            return False
        wrote = self._write(self._group_patches(busy, now))
        self._queues_at = now
        queues = [queue for queue in self._dirty if not self._retries.is_paused(queue, now)]
        for queue in queues:
            del self._dirty[queue]
        changes: dict[Key | str, dict[str, Any]] = {}
        for queue in sorted(queue for queue in queues if queue in self._queues):
            obj = self._queues[queue]
            try:
                patch = self._queue_patch(queue, obj)
            except Exception as error:
                self._unreadable.note(obj, error)
                continue
            if patch is not None:
                changes[queue] = patch
        return self._write(changes) or wrote

    def _group_patches(self, busy: bool, now: float) -> dict[Key | str, dict[str, Any]]:
        """The status patches to write now, oldest changes first. Failed ones wait for their retry."""
        most = AT_ONCE_WHILE_BUSY if busy else AT_ONCE
        patches: dict[Key | str, dict[str, Any]] = {}
        handled = []
        for name, since in self._unwritten.items():
            if (busy and now - since < MOST_DELAY_SECONDS) or (self._busy is not None and len(patches) == most):
                break  # all following changes are newer
            if self._retries.is_paused(name, now):
                continue
            handled.append(name)
            group = self._totals.groups.get(name)
            patch = group_patch(group) if group is not None else None
            if patch is not None:
                patches[name] = patch
        for name in handled:
            del self._unwritten[name]
        return patches

    def _handle_outcome(self, name: Key | str, error: ApiError | None) -> bool:
        """Plan a retry for a failed write of a PodGroup or queue. Returns whether the write succeeded."""
        # A deleted object needs no status.
        if error is None or isinstance(error, NotFound):
            self._retries.forget(name)
            return error is None
        now = self._cluster.now()
        self._retries.failed(name, now)
        if isinstance(name, str):
            self._dirty[name] = None
        else:
            # Back to the end, so that repeated failures do not delay others.
            self._unwritten[name] = now
        return False

    def _write(self, patches: Mapping[Key | str, dict[str, Any]]) -> bool:
        """Write the status of PodGroups (by namespace and name) or queues (by name). Returns whether anything was written."""
        chains = []
        for key, patch in patches.items():
            kind, space, name = ("Queue", None, key) if isinstance(key, str) else ("PodGroup", *key)
            chains.append([PatchWrite(kind, name, space, patch, "status")])
        wrote = False
        for key, outcome in zip(patches, self._cluster.write_all(chains), strict=True):
            wrote |= self._handle_outcome(key, outcome.error)
        return wrote

    def close(self) -> None:
        self._watch.close()

    # --- PodGroups ---------------------------------------------------------------------------------------------------

    def _count(self, name: Key) -> None:
        """Update the amounts with which a PodGroup counts for its queue."""
        group = self._totals.groups[name]
        before = self._counted.pop(name, None)
        if group.object is None:
            if before is not None:
                self._add(before[0], before[1], -1)
            # Pods may exist before and after their PodGroup; their sums stay.
            if not any(group.requested.values()) and not any(group.allocated.values()):
                del self._totals.groups[name]
            return
        after = {field: dict(amounts) for field, amounts in group_amounts(group).items()}
        counted = self._counted[name] = (group.queue, after)
        # Subtract from the queue to which it was added, which may be another one by now.
        if before != counted:
            if before is not None:
                self._add(before[0], before[1], -1)
            self._add(group.queue, after, 1)

    def _add(self, queue: str, amounts: Sums, sign: int) -> None:
        _move(self._moved.setdefault(queue, _no_sums()), amounts, sign)

    def _sum_up(self) -> None:
        """Add the collected changes to the sums of queues and of their parents."""
        moved, self._moved = self._moved, {}
        for queue, amounts in moved.items():
            _move(self._own.setdefault(queue, _no_sums()), amounts, 1)
            for name in self._with_parents(queue):
                _move(self._sums.setdefault(name, _no_sums()), amounts, 1)
                self._dirty[name] = None

    def _with_parents(self, queue: str) -> list[str]:
        """A queue and its ancestors. A cycle is followed once."""
        queues = [queue]
        while (queue := self._parents.get(queue, "")) and queue not in queues:
            queues.append(queue)
        return queues

    # --- queues ------------------------------------------------------------------------------------------------------

    def _process_queues(self, events: Mapping[str, WatchEvent]) -> None:
        moved = False
        for event in events.values():
            name = name_of(event.object)
            if event.type == "DELETED":
                moved |= self._queues.pop(name, None) is not None
                self._parents.pop(name, None)
                continue
            parent = parent_of(event.object)
            moved |= name not in self._queues or self._parents.get(name, "") != parent
            self._queues[name] = event.object
            self._parents[name] = parent
        if moved:
            self._rebuild()

    def _rebuild(self) -> None:
        """Compute all sums again, after a change of the tree."""
        self._children = {}
        # By name, the order of ``childQueues``.
        for name in sorted(self._queues):
            parent = self._parents[name]
            if parent:
                self._children.setdefault(parent, []).append(name)
        self._sums = {}
        for queue, amounts in self._own.items():
            for name in self._with_parents(queue):
                _move(self._sums.setdefault(name, _no_sums()), amounts, 1)
        self._dirty.update(dict.fromkeys(self._queues))

    def _queue_patch(self, name: str, obj: Object) -> dict[str, Any] | None:
        current = status_of(obj)
        sums = self._sums.get(name) or _no_sums()
        changes: dict[str, Any] = {}
        for field in STATUS_FIELDS:
            change = patch_between(current.get(field), quantities(sums[field]))
            if change is not None:
                changes[field] = change
        children = self._children.get(name, [])
        if list(current.get("childQueues") or ()) != children:
            changes["childQueues"] = children or None
        return {"status": changes} if changes else None
