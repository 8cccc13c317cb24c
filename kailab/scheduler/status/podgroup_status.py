"""What each PodGroup requests and holds, summed over its pods: KAI's ``status.resourcesStatus``.

Source: KAI podgroupcontroller. Requested: containers of pods that wait or run; allocated: of pods that are
scheduled. A share of a GPU counts as such (for several devices, on each of them); GPU memory is requested as
``run.ai/gpu.memory``, held as the part of the device it is on.

That is not how KAI's scheduler, and with it kailab.engine.snapshot.counting, counts a pod: init containers, overhead and the rounding of
GPU memory differ. The status is KAI's, so it says what KAI's says; what kailab shows of a pod goes by the scheduler.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from kailab.cluster.protocol import Object, WatchEvent
from kailab.model import labels as names
from kailab.model.quantities import format_bytes, format_cpu
from kailab.scheduler.reading import requests
from kailab.scheduler.reading.claims import Claims
from kailab.scheduler.reading.nodes import gpu_memory
from kailab.scheduler.reading.podgroups import Priorities, is_preemptible
from kailab.scheduler.reading.shapes import gpu_request

GPU_MEMORY_RESOURCE = "run.ai/gpu.memory"
KINDS = ("PriorityClass", "ResourceClaim", "ResourceClaimTemplate", "Node", "PodGroup", "Pod")
FIELDS = ("requested", "allocated", "allocatedNonPreemptible")

Amounts = dict[str, int]
"""Resource -> amount: cpu and nvidia.com/gpu in thousandths, the rest whole."""

GroupName = tuple[str, str]
_SHARING = (names.GPU_FRACTION, names.GPU_MEMORY, names.GPU_FRACTION_DEVICES)
_NOTHING: Mapping[str, Any] = {}
_encode = msgspec.msgpack.Encoder().encode


def quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    """Amounts as Kubernetes writes them, by resource name; zeros are left out."""
    return _written(tuple(amounts.items())).copy() if amounts else {}


# Most PodGroups ask for what another one asks for.
@lru_cache(maxsize=4096)
def _written(amounts: tuple[tuple[str, int], ...]) -> dict[str, str]:
    found = {}
    for name, value in sorted(amounts):
        if value:
            if name in ("cpu", names.GPU_RESOURCE):
                found[name] = format_cpu(value)
            else:
                found[name] = format_bytes(value) if name == "memory" else str(value)
    return found


def merge_patch(before: Mapping[str, Any] | None, after: Mapping[str, str]) -> dict[str, str | None] | None:
    """A merge patch from one resource list to another; None if they are equal."""
    before = before or _NOTHING
    if before == after:
        return None
    # A null takes away what is no longer held: a merge patch leaves alone what it does not name.
    return {**dict.fromkeys(name for name in before if name not in after), **after}


class _Pod(msgspec.Struct):
    group: GroupName
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
    """Requests and holdings of all PodGroups, kept up to date event by event. ``dirty``: groups to look at again."""

    def __init__(self) -> None:
        self.groups: dict[GroupName, _Group] = {}
        self.dirty: dict[GroupName, None] = {}
        self._pods: dict[str, _Pod] = {}
        self._objects: dict[str, Object] = {}  # pods whose amounts depend on other objects
        self._priorities = Priorities()
        self._claims = Claims()
        self._gpu_memory: dict[str, int] = {}
        self._cache: dict[bytes, tuple[Amounts, Amounts, int]] = {}

    def take(self, latest: Mapping[str, Mapping[str, WatchEvent]]) -> None:
        """The latest event of each object, by kind."""
        again = False
        for event in latest["PriorityClass"].values():
            if event.type == "DELETED":
                self._priorities.remove(event.object["metadata"]["name"])
            else:
                self._priorities.set(event.object)
        for kind in ("ResourceClaim", "ResourceClaimTemplate"):
            for event in latest[kind].values():
                self._claims.take(kind, event.object, event.type == "DELETED")
                again = True
        for event in latest["Node"].values():
            metadata = event.object["metadata"]
            memory = gpu_memory(metadata.get("labels") or _NOTHING)
            again |= self._gpu_memory.get(metadata["name"]) != memory
            self._gpu_memory[metadata["name"]] = memory
        if latest["PriorityClass"]:
            # A class decides by its value whether a PodGroup that says nothing is preemptible.
            for name, group in self.groups.items():
                if group.object is not None and self._read(group, group.object):
                    self.dirty[name] = None
        for event in latest["PodGroup"].values():
            self._podgroup(event)
        for uid, event in latest["Pod"].items():
            self._pod(uid, None if event.type == "DELETED" else event.object)
        # After the pods' own news: those are counted with the new claims and nodes already.
        if again:
            for uid, pod in list(self._objects.items()):
                self._pod(uid, pod)

    def _podgroup(self, event: WatchEvent) -> None:
        metadata = event.object["metadata"]
        name = (metadata.get("namespace", ""), metadata["name"])
        group = self.groups.get(name)
        if event.type == "DELETED":
            if group is not None:
                # Its pods may outlive it, and a PodGroup made anew under its name finds their sums.
                group.object = None
                self.dirty[name] = None
            return
        if group is None:
            group = self.groups[name] = _Group({}, {})
        new = group.object is None
        if self._read(group, event.object) or new:
            self.dirty[name] = None

    def _read(self, group: _Group, obj: Object) -> bool:
        group.object = obj
        spec = obj.get("spec") or _NOTHING
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
        group = self.groups.get(pod.group)
        if group is None:
            group = self.groups[pod.group] = _Group({}, {})
        for into, amounts in ((group.requested, pod.requested), (group.allocated, pod.allocated)):
            for name, value in amounts.items():
                into[name] = into.get(name, 0) + sign * value
        self.dirty[pod.group] = None

    def _amounts(self, uid: str, pod: Object) -> _Pod | None:
        """What a pod counts for; None for a pod of no group."""
        metadata = pod["metadata"]
        annotations = metadata.get("annotations") or _NOTHING
        name = annotations.get(names.POD_GROUP)
        if not name:
            return None
        group = (metadata["namespace"], name)
        status = pod.get("status") or _NOTHING
        phase = status.get("phase") or "Pending"
        if phase not in ("Pending", "Running"):
            # An ended pod counts for nothing, and stays known as its group's.
            return _Pod(group, {}, {})
        spec = pod["spec"]
        requested, held, memory = self._of_spec(spec, annotations)
        if spec.get("resourceClaims"):
            self._objects[uid] = pod
            classes = self._claims.of_pod(pod)[0]
            requested = {**requested, **dict(classes)}
            held = {**held, **dict(classes)}
        if phase == "Pending" and not _scheduled(status):
            return _Pod(group, requested, {})
        if memory:
            self._objects[uid] = pod
            size = self._gpu_memory.get(spec.get("nodeName") or "", 0)
            if size:
                held = {**held, names.GPU_RESOURCE: held.get(names.GPU_RESOURCE, 0) + memory * 1000 // size}
        return _Pod(group, requested, held)

    def _of_spec(self, spec: Mapping[str, Any], annotations: Mapping[str, Any]) -> tuple[Amounts, Amounts, int]:
        """Requested, held, and MiB of GPU memory; by a key of what matters."""
        containers = spec.get("containers") or ()
        sharing = tuple(map(annotations.get, _SHARING))
        # Thousands of pods of one workload share a sum; the cache lives as long as the controller.
        key = _encode(([container.get("resources") for container in containers], sharing))
        found = self._cache.get(key)
        if found is None:
            amounts = requests.of_containers(containers)
            devices = amounts.pop(names.GPU_RESOURCE, 0) * 1000
            memory = 0
            extra: Amounts = {}
            if any(sharing):
                # No devices and no MIG profiles are handed in: only what the annotations say of sharing is asked for.
                gpu = gpu_request(0, {}, {key: annotations[key] for key in annotations if key.startswith("gpu-")})
                memory = gpu.devices * gpu.memory_mib
                if memory:
                    extra = {GPU_MEMORY_RESOURCE: memory}
                else:
                    devices += gpu.devices * gpu.portion
            held = {**amounts, names.GPU_RESOURCE: devices} if devices else amounts
            found = self._cache[key] = ({**held, **extra}, held, memory)
        return found


def _scheduled(status: Mapping[str, Any]) -> bool:
    return any(
        condition.get("type") == "PodScheduled" and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )


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
    current = (group.object.get("status") or _NOTHING).get("resourcesStatus") or _NOTHING
    changes = {}
    for field, amounts in group_amounts(group).items():
        change = merge_patch(current.get(field), quantities(amounts))
        if change is not None:
            changes[field] = change
    return {"status": {"resourcesStatus": changes}} if changes else None
