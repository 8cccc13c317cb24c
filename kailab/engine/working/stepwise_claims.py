"""The claimed devices of nodes as KAI counts them, step by step, with the fault that follows from that.

Used only with ``EngineConfig.imitate_faults``. A node remembers with which devices it added a task. A task that it adds
with a device that another task was added with counts without that device, because the two are taken for sharers of one
claim. But an evicted task gives its devices back at once, while the node still counts it with them; so the device can
be given to a promise meanwhile. If that promise is evicted and put back, the node adds it with the device of both.

Source: KAI's dra_shared_device_info.go (dedupSharedDRAGpus, releaseSharedDRAGpus), statement.go (Evict, unevict,
Pipeline) and dynamicresources.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kailab.engine.snapshot.devices import DeviceId
from kailab.engine.snapshot.records import GPU, ON_NODE, ResourceClaim, Shape
from kailab.engine.working.claims import Claims
from kailab.engine.working.state import WTask

Known = Mapping[str, tuple[DeviceId, ...]]  # claim -> devices

_NOTHING: Known = {}


class DeviceRecords:
    """With which devices each node has added each task. Made before the first step of a cycle."""

    def __init__(
        self, records: Mapping[str, ResourceClaim], claims: Claims, tasks: Sequence[Mapping[str, WTask]]
    ) -> None:
        self._gpus = {name: record.gpus for name, record in records.items()}
        self._claims = claims
        # What each task has on each node while it holds its place there.
        self._own: dict[tuple[str, int], Known] = {}
        self._added: list[dict[str, Known]] = [{} for _ in tasks]
        for i, there in enumerate(tasks):
            for uid, task in there.items():
                if task.info.shape.claims and ON_NODE[task.status]:
                    self._added[i][uid] = self._own[uid, i] = self._devices(task)

    def _devices(self, task: WTask) -> Known:
        return {name: self._claims.devices(name) for name in task.info.shape.claims if self._gpus.get(name)}

    def hold(self, task: WTask, i: int) -> None:
        """Remember the devices that the task was given for a new place."""
        self._own[task.uid, i] = self._devices(task)

    def add(self, task: WTask, i: int, *, anew: bool) -> int:
        """Add the task to a node: ``anew`` before it has devices there. Returns the milli-GPU that do not count for it."""
        self._added[i][task.uid] = _NOTHING if anew else self._own.get((task.uid, i), _NOTHING)
        return self._shared(task, i)

    def remove(self, task: WTask, i: int) -> int:
        """Remove the task from a node. Returns the milli-GPU that stay counted for other tasks."""
        shared = self._shared(task, i)
        self._added[i].pop(task.uid, None)
        return shared

    def _shared(self, task: WTask, i: int) -> int:
        """Milli-GPU of the devices of a task that the node also has from other claims."""
        known = self._added[i].get(task.uid, _NOTHING)
        if not known:
            return 0
        others = {
            device
            for uid, added in self._added[i].items()
            if uid != task.uid
            for name, devices in added.items()
            if name not in known
            for device in devices
        }
        return GPU * sum(device in others for devices in known.values() for device in devices)


class StepwiseClaims(Claims):
    """Claims whose devices count as KAI counts them.

    A claim that returns to its place gets its former devices, also if they were given away since. The taken devices are
    a set, so that a device that two claims have is free once one of them gives it back.
    """

    def begin(self) -> None:
        self._given = {(name, i): devices for name, (i, devices) in self._held.items()}

    def enter(self, task: WTask, shape: Shape) -> None:
        # Only a task that returns to its place, so that it knows the devices, gets those that it had there.
        here = self._index.get(task.node)
        for name, i in [known for known in self._given if known[0] in shape.claims]:
            if i != here:
                del self._given[name, i]
        super().enter(task, shape)

    def _devices(self, record: ResourceClaim, i: int) -> tuple[DeviceId, ...]:
        if record.held and self._index.get(record.node, i) == i:
            return record.held
        return self._given.get((record.name, i)) or super()._devices(record, i)

    def _take(self, i: int, devices: Iterable[DeviceId], sign: int) -> None:
        taken = self._supply.taken[i]
        super()._take(i, [device for device in devices if (device in taken) == (sign < 0)], sign)
