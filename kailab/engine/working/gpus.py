"""Shared GPUs of one node: which tasks sit together on which device, and what that leaves.

A *group* is one physical device that is shared. Its effect on the node's whole-device pools depends only on who is on it:

================================  ======  ===========
on the group                       idle    releasing
================================  ======  ===========
somebody stays                      -1        0
all are leaving                     -1       +1
all are leaving, someone waits      -1        0
only tasks that wait (pipelined)     0       -1
================================  ======  ===========

Memory is in MiB; a share of a device counts as that share of the node's GPU memory, rounded down, as KAI does.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from kailab.engine.snapshot.counting import portion
from kailab.engine.snapshot.records import GPU, GpuRequest, Status

M = TypeVar("M", int, np.ndarray)


class GpuGroup:
    """One shared device: memory held (``allocated``), of it leaving, and promised to waiting tasks."""

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
            # It becomes a whole device once all have left, and is none to wait for while a part of it is promised.
            return -1, 1 if self.leaving == self.holders and not self.waiting else 0
        return 0, -1 if self.waiting else 0

    @property
    def used(self) -> int:
        return self.allocated + self.promised

    @property
    def empty(self) -> bool:
        return not self.holders and not self.waiting


def share_memory(request: GpuRequest, device: M) -> int | M:
    """MiB that one device's share of the request takes of a device of so many MiB, or of each of several."""
    return request.memory_mib or request.portion * device // GPU


class SharedGpus:
    """The groups of one node."""

    __slots__ = ("groups", "memory")

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self.groups: dict[str, GpuGroup] = {}

    def change(self, group_id: str, status: Status, memory: int, sign: int) -> tuple[int, int]:
        """Add (sign 1) or take away (-1) a task; returns the change of (idle, releasing) in milli-GPU."""
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = GpuGroup()
        # The difference of what the device does to the node: exact in whatever order tasks come and go.
        idle, releasing = group.pools()
        if status == Status.PIPELINED:
            group.promised += sign * memory
            group.waiting += sign
        else:
            group.allocated += sign * memory
            group.holders += sign
            if status == Status.RELEASING:
                group.leaving_memory += sign * memory
                group.leaving += sign
        new_idle, new_releasing = group.pools()
        if group.empty:
            del self.groups[group_id]
        return (new_idle - idle) * GPU, (new_releasing - releasing) * GPU

    def memory_of(self, request: GpuRequest) -> int:
        """MiB that one device's share of the request takes on this node."""
        return share_memory(request, self.memory)

    def left(self, group: GpuGroup) -> int:
        """MiB of a shared device that nobody holds."""
        return self.memory - group.allocated

    def room(self, group: GpuGroup) -> int:
        """MiB of a shared device that a share could take once leaving tasks are gone, -1 for none. A device that everyone leaves is a
        free one."""
        # What was promised is not there for others; KAI takes it off the releasing memory of the device.
        leaving = group.leaving_memory - group.promised
        if group.used == 0 or group.allocated == leaving:
            return -1
        return max(self.memory - group.allocated + leaving, -1)

    def rooms(self) -> list[int]:
        """``room`` of each group, the roomiest first."""
        return sorted([self.room(group) for group in self.groups.values()], reverse=True)

    def fits(self, group: GpuGroup, memory: int) -> bool:
        """Whether a share fits on the group once leaving tasks are gone."""
        return self.room(group) >= memory

    def fits_now(self, group: GpuGroup, memory: int) -> bool:
        return group.holders > 0 and self.left(group) >= memory

    def fitting(self, request: GpuRequest) -> int:
        """How many groups could take one device's share of the request."""
        memory = self.memory_of(request)
        return sum(1 for group in self.groups.values() if self.fits(group, memory))

    def idle_shares(self) -> int:
        """Milli-GPU free on shared devices that somebody holds, each rounded as KAI rounds (to 0.01 device)."""
        return sum(GPU - self._portion(group.allocated) for group in self.groups.values() if group.allocated > 0)

    def releasing_shares(self) -> int:
        total = 0
        for group in self.groups.values():
            leaving = group.leaving_memory - group.promised
            # A device that all leave is counted whole, by the node's own ``releasing``.
            if leaving > 0 and not (group.used and leaving == group.used):
                total += self._portion(leaving)
        return total

    def available_shares(self) -> int:
        """Milli-GPU that shares could still take on devices in use."""
        if self.memory <= 0:
            return 0
        total = 0
        for group in self.groups.values():
            free = self.memory - group.allocated + group.leaving_memory - group.promised
            # KAI's AvailableSharedGPUFractions, for topology alone: an upper estimate is enough there.
            if group.used > 0 and free > 0:
                total += free * GPU // self.memory
        return total

    def _portion(self, memory: int) -> int:
        return portion(memory, self.memory)
