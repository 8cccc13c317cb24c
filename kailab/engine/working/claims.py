"""Resource claims (DRA): devices that tasks hold by the name of a claim, possibly several tasks the same devices.

The first task that uses a claim decides its node; all others must follow. A device that several tasks share through one
claim counts once on its node, from the first task on. When the last holder leaves, the claim may go elsewhere. For a
claim that is not allocated yet, devices are chosen as they will be when its pod is bound. Source: KAI's
dynamicresources plugin and node_info's sharing of DRA devices. (A device that KAI gives to a claim in the present cycle
counts once per pod, and once in all from the next cycle on, so that pods that come together may wait beside it.)
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kailab.engine.snapshot.devices import DeviceId, choose_devices, device_id, plain_request
from kailab.engine.snapshot.records import ACTIVE, GPU, LEAVING, ResourceClaim, Shape, Status
from kailab.engine.working.device_supply import DeviceSupply
from kailab.engine.working.layout import GPUS
from kailab.engine.working.shared_gpus import GpuGroup
from kailab.engine.working.state import WTask
from kailab.model.device_selectors import Device

MOST_HOLDERS = 256  # the most pods for which one claim can be reserved, in Kubernetes

_NOWHERE = -1  # not on a node, or on any node
_NOBODY: Mapping[str, tuple[int, bool]] = {}


class ClaimRefusal(NamedTuple):
    """A claim (``namespace/name``) that no pod can use as it is, and the reason."""

    claim: str
    why: str


class Claims:
    """The claims on the nodes of one table. ``records`` and ``tasks`` are the working set's own."""

    def __init__(
        self,
        records: Mapping[str, ResourceClaim],
        tasks: Container[str],
        index: Mapping[str, int],
        devices: Sequence[tuple[Device, ...] | None],
    ) -> None:
        self._records = records
        self._tasks = tasks
        self._index = index
        self._supply = DeviceSupply(devices)
        # claim -> task -> (node, the task is where the cluster has it)
        self._holders: dict[str, dict[str, tuple[int, bool]]] = {}
        self._held: dict[str, tuple[int, tuple[DeviceId, ...]]] = {}  # claim -> (node, devices) that count as taken
        # devices chosen in this cycle, in case the claim returns
        self._given: dict[tuple[str, int], tuple[DeviceId, ...]] = {}
        self._chosen: set[tuple[int, DeviceId]] = set()  # devices that this cycle gave to a claim, now counted as taken
        self._shared: dict[str, dict[int, GpuGroup]] = {}  # claim -> node -> tasks that count for its GPUs there
        # True to count the GPUs of a claim that is not allocated yet for each of its pods, as KAI does in the cycle in
        # which it allocates the claim (allocatedGPUDeviceKeys). Set before any task enters.
        self.per_pod = False
        self.refresh(records)

    def begin(self) -> None:
        """Start a cycle, which chooses devices anew."""
        self._given.clear()

    @property
    def taken(self) -> list[list[DeviceId]]:
        """The taken devices of each node."""
        return [sorted(of_node) for of_node in self._supply.taken]

    # Holders

    def enter(self, task: WTask, shape: Shape) -> None:
        """Add the task where it is now: on a node, or waiting with a claim that is reserved for it."""
        as_recorded = task.status == task.record.status
        # A provisionally evicted task returns its claims at once (KAI: deallocateHandlerFn). A pod that is leaving in
        # the cluster keeps them until it is gone.
        holds = ACTIVE[task.status] or (LEAVING[task.status] and as_recorded)
        i = self._index.get(task.node, _NOWHERE) if holds else _NOWHERE
        in_place = as_recorded if task.status == Status.PENDING else task.node == task.record.node
        for name in shape.claims:
            record = self._records.get(name)
            # Only a holder that is where the cluster has it keeps the claim on its node.
            pinned = in_place and record is not None and record.allocated and task.uid in record.reserved
            if i != _NOWHERE or (pinned and task.status == Status.PENDING):
                self._holders.setdefault(name, {})[task.uid] = (i, pinned)
        self.refresh(shape.claims)

    def leave(self, task: WTask, shape: Shape) -> None:
        for name in shape.claims:
            holders = self._holders.get(name)
            if holders is not None and holders.pop(task.uid, None) is not None and not holders:
                del self._holders[name]
        self.refresh(shape.claims)

    def refresh(self, names: Iterable[str]) -> None:
        """Update where the devices of these claims count as taken."""
        for name in names:
            i, devices = self._held.pop(name, (_NOWHERE, ()))
            if i >= 0:
                self._take(i, devices, -1)
                self._chosen.difference_update((i, device) for device in devices)
            node = self.node_of(name)
            record = self._records.get(name)
            if node is None or record is None:
                continue
            holders = self._holders.get(name)
            # The allocation names no node, so the devices count on the node of the holders.
            if node == _NOWHERE and holders:
                node = max(held for held, _ in holders.values())
            if 0 <= node < len(self._supply.devices):
                devices = self._devices(record, node)
                self._held[name] = (node, devices)
                self._take(node, devices, 1)
                if devices != record.held:
                    self._chosen.update((node, device) for device in devices)

    def _take(self, i: int, devices: Iterable[DeviceId], sign: int) -> None:
        self._supply.take(i, devices, sign)

    def _devices(self, record: ResourceClaim, i: int) -> tuple[DeviceId, ...]:
        """The devices that the claim has, or would be given, on a node. A claim that returns gets its former devices
        unless another claim got them meanwhile.
        """
        held_here = record.held and self._index.get(record.node, i) == i
        if held_here and not any((i, device) in self._chosen for device in record.held):
            return record.held
        taken = self._supply.taken[i]
        before = self._given.get((record.name, i))
        if before is not None and not any(device in taken for device in before):
            return before
        chosen = choose_devices(record.requests, self._supply.devices[i] or (), taken.__contains__)
        # The node has no devices for the claim, so none count as taken.
        if isinstance(chosen, str):
            return ()
        # Administrative access takes nothing from other claims.
        devices = tuple(device_id(choice.device) for choice in chosen if not choice.admin)
        self._given[record.name, i] = devices
        return devices

    def node_of(self, name: str) -> int | None:
        """The node to which holders of the claim must go. -1: any node; past the last node: none of these nodes; None:
        the claim is not allocated.
        """
        record = self._records.get(name)
        holders = self._holders.get(name, {})
        if record is not None and record.allocated:
            # It stays where it is allocated, unless it is reserved only for pods that this cycle has evicted. Pods that
            # are unknown here cannot be evicted.
            pinned = any(in_place for _, in_place in holders.values()) or not record.reserved
            if pinned or any(uid not in self._tasks for uid in record.reserved):
                return self._index.get(record.node, len(self._supply.devices)) if record.node else _NOWHERE
        return max((node for node, _ in holders.values()), default=None)

    def devices(self, name: str) -> tuple[DeviceId, ...]:
        """The devices of a claim that count as taken, on whichever node."""
        return self._held.get(name, (_NOWHERE, ()))[1]

    # Where a task may go

    def refusal(self, task: str, shape: Shape, queue: str) -> ClaimRefusal | None:
        """Why no node may take this task (by UID) with its claims, or None."""
        for name in shape.claims:
            record = self._records.get(name)
            # In the order of KAI's preFilter. A fault of the requests matters only until devices are chosen.
            if record is None:
                return ClaimRefusal(name, f"resource claim {name} does not exist")
            if self._consumers(record, task) >= MOST_HOLDERS:
                most = f"resource claim {name} is reserved for {MOST_HOLDERS} pods, the most there may be"
                return ClaimRefusal(name, most)
            if record.queue is not None and record.queue != queue:
                label = f"the queue label {record.queue}" if record.queue else "no queue label"
                return ClaimRefusal(name, f"GPU claim {name} is shared and has {label}; it must name queue {queue}")
            if record.requests.fault and not record.allocated:
                return ClaimRefusal(name, f"resource claim {name}: {record.requests.fault}")
        return None

    def _consumers(self, record: ResourceClaim, but: str) -> int:
        """The number of pods for which the claim is or will be reserved, except one."""
        holders = self._holders.get(record.name, {})
        strangers = sum(uid not in self._tasks for uid in record.reserved) if record.reserved else 0
        return len(holders) - (but in holders) + strangers

    def narrow(self, shape: Shape, candidates: np.ndarray) -> None:
        """Keep only the nodes of allocated claims, and those with devices for the other claims."""
        wanted = []
        for name in dict.fromkeys(shape.claims):
            node = self.node_of(name)
            record = self._records.get(name)
            if node is None:
                if record is not None:
                    wanted.append(record)
            elif node >= 0:
                only = np.zeros(len(candidates), dtype=bool)
                # A slice, because a number past the last node stands for a node that is not here: then none is left.
                only[node : node + 1] = True
                candidates &= only
        wishes = [plain_request(record.requests) for record in wanted]
        for wish in wishes:
            if wish is not None:
                candidates &= self._supply.enough(wish)
        # One plain claim is decided by counting. Several claims may want the same devices, so each node needs a search.
        if len(wanted) > 1 or None in wishes:
            for i in np.flatnonzero(candidates & ~self._supply.unknown):
                candidates[i] = self._lacking(wanted, int(i)) is None

    def _lacking(self, wanted: Iterable[ResourceClaim], i: int) -> str | None:
        """Why a node cannot serve these claims at once, or None."""
        own: set[DeviceId] = set()
        taken = self._supply.taken[i]
        for record in wanted:
            chosen = choose_devices(
                record.requests, self._supply.devices[i] or (), lambda device: device in taken or device in own
            )
            if isinstance(chosen, str):
                return f"resource claim {record.name}: {chosen}"
            own.update(device_id(choice.device) for choice in chosen if not choice.admin)
        return None

    def lacking(self, shape: Shape, i: int) -> str | None:
        """Why a node cannot serve a task's claims, or None."""
        wanted = []
        for name in dict.fromkeys(shape.claims):
            node, record = self.node_of(name), self._records.get(name)
            if node is None and record is not None:
                wanted.append(record)
            elif node is not None and node not in (_NOWHERE, i):
                return f"resource claim {name} is held on another node"
        if not wanted or self._supply.unknown[i]:
            return None
        if not self._supply.devices[i]:
            return f"resource claim {wanted[0].name}: the node has no devices (no ResourceSlice tells of any)"
        # The same two methods as in ``narrow``, so that the report agrees with the decision.
        wish = plain_request(wanted[0].requests) if len(wanted) == 1 else None
        if wish is None:
            return self._lacking(wanted, i)
        lack = self._supply.lack(wish, i)
        return f"resource claim {wanted[0].name}: {lack}" if lack else None

    # GPUs of claims that several tasks share

    def own_gpus(self, shape: Shape, amount: int) -> int:
        """Milli-GPU of ``amount`` that a task takes by itself. Devices of its claims count separately, once for all
        pods of a claim.
        """
        # Not below zero, because a claim may have more GPUs than this task requests through it.
        return max(0, amount - sum(self._gpus(name) for name in shape.claims))

    def counted_twice(self, tasks: Iterable[WTask]) -> list[int]:
        """For each task, the milli-GPU of its request that it does not need for itself: devices of claims that an
        earlier task names too, or that are on a node already.
        """
        seen: set[str] = set()
        result = []
        for task in tasks:
            twice = 0
            for name in task.info.shape.claims:
                if name in seen or self._placed(name):
                    twice += self._gpus(name)
                seen.add(name)
            result.append(min(twice, task.info.rows[GPUS]))
        return result

    def together(self, tasks: Sequence[WTask]) -> dict[str, dict[int, int]]:
        """For each claim that is on no node yet and that several of these tasks name: what these tasks want, in all, of
        the node where it will be.
        """
        result: dict[str, dict[int, int]] = {}
        for name in dict.fromkeys(name for task in tasks for name in task.info.shape.claims):
            sharers = [task for task in tasks if name in task.info.shape.claims]
            if len(sharers) < 2 or self._placed(name):
                continue
            wants = result[name] = {}
            for task, twice in zip(sharers, self.counted_twice(sharers), strict=True):
                for row, amount in () if task.info.empty else task.info.needs:
                    wants[row] = wants.get(row, 0) + amount - (twice if row == GPUS else 0)
        return result

    def _placed(self, name: str) -> bool:
        return any(node != _NOWHERE for node, _ in self._holders.get(name, _NOBODY).values())

    def change(self, i: int, status: Status, shape: Shape, sign: int) -> tuple[int, int]:
        """The change of (idle, releasing) milli-GPU when a task comes to a node (sign 1) or leaves it (-1)."""
        idle = releasing = 0
        for name in shape.claims:
            gpus = self._gpus(name)
            if not gpus:
                continue
            group = self._shared.setdefault(name, {}).setdefault(i, GpuGroup())
            # By differences, as for shared devices: the claim's effect on the node follows from its tasks there.
            before = group.pools()
            if status == Status.PIPELINED:
                group.waiting += sign
            else:
                group.holders += sign
                if status == Status.RELEASING:
                    group.leaving += sign
            after = group.pools()
            if group.empty:
                del self._shared[name][i]
            idle += (after[0] - before[0]) * gpus
            releasing += (after[1] - before[1]) * gpus
        return idle, releasing

    def counted(self, shape: Shape, pool: np.ndarray) -> np.ndarray:
        """The pool with the amounts that the task's claims hold already on each node, because the task needs no more
        for them.
        """
        # If all holders of a claim are leaving, its GPUs are counted as becoming free already (their pools add up to
        # zero).
        credits = [
            (i, self._gpus(name))
            for name in shape.claims
            for i, group in self._shared.get(name, {}).items()
            if sum(group.pools()) < 0
        ]
        if not credits:
            return pool
        pool = pool.copy()
        for i, gpus in credits:
            pool[GPUS, i] += gpus
        return pool

    def _gpus(self, name: str) -> int:
        record = self._records.get(name)
        if record is None or (self.per_pod and not record.allocated):
            return 0
        return record.gpus * GPU
