"""The shared GPUs of one node: which tasks share which device, and what that leaves.

A *group* is one shared physical device. Its effect on the node's whole-device pools depends only on its tasks:

* some tasks stay: idle -1, releasing 0;
* all tasks are leaving: idle -1, releasing +1;
* all tasks are leaving and others wait for their room (pipelined): idle -1, releasing 0;
* there are only tasks that wait: idle 0, releasing -1.

Memory is in MiB. Half a device is half of the memory of one of the node's GPUs, rounded down, as in KAI.
"""

from __future__ import annotations

from kailab.engine.snapshot.counting import portion
from kailab.engine.snapshot.gpu_requests import GpuRequest
from kailab.engine.snapshot.records import GPU, Status


class GpuGroup:
    """One shared device: memory held (``allocated``), the part of it that is leaving, and memory promised to waiting
    tasks.
    """

    __slots__ = ("allocated", "holders", "leaving", "leaving_memory", "promised", "waiting")

    def __init__(self) -> None:
        self.allocated = 0
        self.leaving_memory = 0
        self.promised = 0
        self.holders = 0
        self.leaving = 0
        self.waiting = 0

    def pools(self) -> tuple[int, int]:
        """(idle, releasing) devices that this group adds to the node's pools."""
        if self.holders:
            # It becomes a whole device once all have left, but not while a part of it is promised.
            return -1, 1 if self.leaving == self.holders and not self.waiting else 0
        return 0, -1 if self.waiting else 0

    def count(self, status: Status, memory: int, sign: int) -> None:
        """Add (1) or remove (-1) a task that holds, leaves or waits for ``memory`` MiB."""
        if status == Status.PIPELINED:
            self.promised += sign * memory
            self.waiting += sign
        else:
            self.allocated += sign * memory
            self.holders += sign
            if status == Status.RELEASING:
                self.leaving_memory += sign * memory
                self.leaving += sign

    @property
    def used(self) -> int:
        return self.allocated + self.promised

    @property
    def empty(self) -> bool:
        return not self.holders and not self.waiting


class SharedGpus:
    """The groups of one node."""

    __slots__ = ("groups", "memory")

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self.groups: dict[str, GpuGroup] = {}

    def change(self, group_id: str, status: Status, memory: int, sign: int) -> tuple[int, int]:
        """Add (sign 1) or remove (-1) a task. Returns the change of (idle, releasing) in milli-GPU."""
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = GpuGroup()
        # The difference of the device's effect before and after, which is exact in any order of changes.
        idle, releasing = group.pools()
        group.count(status, memory, sign)
        new_idle, new_releasing = group.pools()
        if group.empty:
            del self.groups[group_id]
        return (new_idle - idle) * GPU, (new_releasing - releasing) * GPU

    def free_mib(self, group: GpuGroup) -> int:
        """MiB of a shared device that no task holds."""
        return self.memory - group.allocated

    def room(self, group: GpuGroup) -> int:
        """The largest share, in MiB, that fits on a shared device once leaving tasks are gone. -1 if none fits, and if
        all tasks leave, because such a device counts as a whole free one.
        """
        # Promises are not available to others; KAI subtracts them from the releasing memory of the device.
        leaving = group.leaving_memory - group.promised
        if group.used == 0 or group.allocated == leaving:
            return -1
        return max(self.memory - group.allocated + leaving, -1)

    def rooms(self) -> list[int]:
        """``room`` of each group, in descending order."""
        return sorted([self.room(group) for group in self.groups.values()], reverse=True)

    def fits(self, group: GpuGroup, memory: int) -> bool:
        """True if a share fits on the group once leaving tasks are gone."""
        return self.room(group) >= memory

    def fits_now(self, group: GpuGroup, memory: int) -> bool:
        return group.holders > 0 and self.free_mib(group) >= memory

    def fitting(self, request: GpuRequest) -> int:
        """The number of groups that could take one device's share of the request."""
        memory = request.share_memory(self.memory)
        return sum(1 for group in self.groups.values() if self.fits(group, memory))

    def idle_shares(self) -> int:
        """Milli-GPU free on shared devices in use."""
        return sum(self.idle_parts())

    def releasing_shares(self) -> int:
        """Milli-GPU that become free on shared devices which stay in use."""
        return sum(self.releasing_parts())

    def idle_parts(self) -> list[int]:
        """``idle_shares`` of each device, rounded as in KAI (to 0.01 device)."""
        return [GPU - self._portion(group.allocated) for group in self.groups.values() if group.allocated > 0]

    def releasing_parts(self) -> list[int]:
        """``releasing_shares`` of each device, rounded alike."""
        parts = []
        for group in self.groups.values():
            leaving = group.leaving_memory - group.promised
            # A device that all tasks leave counts as a whole one, in the node's own ``releasing``.
            if leaving > 0 and not (group.used and leaving == group.used):
                parts.append(self._portion(leaving))
        return parts

    def available_shares(self) -> int:
        """Milli-GPU that shares could still take on devices in use."""
        if self.memory <= 0:
            return 0
        total = 0
        for group in self.groups.values():
            free = self.memory - group.allocated + group.leaving_memory - group.promised
            # KAI's AvailableSharedGPUFractions, used only for topology, where an upper estimate is enough.
            if group.used > 0 and free > 0:
                total += free * GPU // self.memory
        return total

    def _portion(self, memory: int) -> int:
        return portion(memory, self.memory)
