"""The node table as KAI keeps it: counts that change step by step, with the faults that follow from that.

Used only with ``EngineConfig.imitate_faults``. Three faults of KAI come from its steps (docs/conformance.md), and each can be left out:

* Whether the first share on a GPU takes it from the idle ones, and the last one gives it back, depends on a comparison
  of the node's GPUs with the idle and used ones. Promised GPUs count as used, so on a node with promises the comparison
  can fail, and a free GPU is lost from the count or one in use is counted as free.
* A node has one record for each pod. A share that moves to another GPU of its node replaces the record of its leaving
  copy, so when the move is undone, only the promise is removed; the leaving copy stays in the counts.
* A device of a claim that was given to a promise while its pod leaves may not count for the promise (``stepwise_claims``).

Source: KAI's gpu_sharing_node_info.go, node_info.go (addTask, RemoveTask, UpdateTask) and statement.go.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import NamedTuple

from kailab.engine.snapshot.records import GPU, ON_NODE, Node, ResourceClaim, Status, ZoneShare
from kailab.engine.working.layout import GPUS, Layout
from kailab.engine.working.nodes import NodeTable
from kailab.engine.working.shared_gpus import GpuGroup, SharedGpus
from kailab.engine.working.state import TaskPlace, WTask
from kailab.engine.working.stepwise_claims import DeviceRecords, StepwiseClaims


class NodeRecord(NamedTuple):
    """What a node knows of one task: the state in which it was last added."""

    status: Status
    groups: tuple[str, ...]
    zones: tuple[ZoneShare, ...]


class TaskPlacement(NamedTuple):
    """The state of a task before or after a step."""

    status: Status
    node: str
    groups: tuple[str, ...]
    vacated: tuple[TaskPlace, ...]
    zones: tuple[ZoneShare, ...]


class StepwiseSharedGpus(SharedGpus):
    """The shared GPUs of a node whose idle and releasing GPUs are updated by KAI's comparisons.

    ``surplus``: the node's idle and used whole GPUs less the GPUs that it has, without shared ones.
    """

    __slots__ = ("_surplus", "marked")

    def __init__(self, memory: int, surplus: Callable[[], int]) -> None:
        super().__init__(memory)
        self._surplus = surplus
        self.marked: set[str] = set()  # groups that are counted among the releasing GPUs because all their tasks leave

    def change(self, group_id: str, status: Status, memory: int, sign: int) -> tuple[int, int]:
        """Add (sign 1) or remove (-1) a task. Returns the change of (idle, releasing) in milli-GPU."""
        # Groups without tasks stay, because a removed leaving copy may belong to one.
        group = self.groups.setdefault(group_id, GpuGroup())
        used_before, leaving_before = group.used, group.leaving_memory - group.promised
        group.count(status, memory, sign)
        used, leaving = group.used, group.leaving_memory - group.promised
        idle = releasing = 0
        if status == Status.PIPELINED:
            if sign > 0:
                releasing = -(used_before == leaving_before)
            else:
                releasing = int(used_before == leaving_before or used == leaving == 0)
        elif sign > 0:
            first = used == leaving if status == Status.RELEASING else used <= memory
            if first and self._counted() > 0:
                idle = -1
            if status != Status.RELEASING:
                releasing = self._mark(group_id, False)
            elif first:
                releasing = self._mark(group_id, True)
        else:
            if used <= 0 and self._counted() <= 0:
                idle = 1
            if status == Status.RELEASING:
                releasing = self._mark(group_id, False) if used <= 0 else 0
            elif used and used == leaving:
                releasing = self._mark(group_id, True)
        return idle * GPU, releasing * GPU

    def _counted(self) -> int:
        """Idle and used GPUs, shared ones included, less the GPUs that the node has."""
        return self._surplus() + sum(1 for group in self.groups.values() if group.used > 0)

    def _mark(self, group_id: str, leaving: bool) -> int:
        """Count the group among the releasing GPUs, or not. Returns the change of their number."""
        if (group_id in self.marked) == leaving:
            return 0
        (self.marked.add if leaving else self.marked.discard)(group_id)
        return 1 if leaving else -1


class StepwiseNodeTable(NodeTable):
    """A node table that changes as KAI's does. Valid for one cycle: undoing a cycle need not restore it.

    ``loses_gpus``: idle and releasing GPUs change by KAI's comparisons. ``keeps_copies``: a share that moves on its
    node leaves its old place in the counts if the move is undone. ``passes_devices``: a promised device may not count.
    """

    def __init__(
        self,
        nodes: Iterable[Node],
        layout: Layout,
        claims: Mapping[str, ResourceClaim] | None = None,
        tasks: Container[str] = (),
        *,
        loses_gpus: bool,
        keeps_copies: bool,
        passes_devices: bool,
    ) -> None:
        super().__init__(nodes, layout, claims, tasks)
        self._loses_gpus, self._keeps_copies = loses_gpus, keeps_copies
        self._passes_devices = passes_devices
        self._claim_records = {} if claims is None else claims
        if passes_devices:
            devices = [node.devices for node in self.nodes]
            self.claims = StepwiseClaims(self._claim_records, tasks, self.index, devices)
        self._devices: DeviceRecords | None = None  # from the first step of a task with claims on
        self._records: list[dict[str, NodeRecord]] = [{} for _ in self.nodes]
        self._used = [0] * len(self.nodes)  # milli-GPU of whole devices that tasks hold or wait for
        self._before: TaskPlacement | None = None

    def sharing(self, i: int) -> SharedGpus:
        if not self._loses_gpus:
            return super().sharing(i)
        shared = self.shares.nodes.get(i)
        if shared is None:
            shared = StepwiseSharedGpus(int(self.gpu_memory[i]), lambda: self._surplus(i))
            self.shares.nodes[i] = shared
        return shared

    def _surplus(self, i: int) -> int:
        # Each amount is rounded to whole devices towards zero.
        idle, used, count = int(self.idle[GPUS, i]), self._used[i], int(self.gpu_count[i])
        return int(idle / GPU) + int(used / GPU) - int(count / GPU)

    def change_usage(self, task: WTask, status: Status, node: str, groups: tuple[str, ...], sign: int) -> None:
        """``NodeTable.change_usage``, with the node's record of the task."""
        i = self.index.get(node)
        if i is None or not ON_NODE[status]:
            return
        if sign > 0:
            self._records[i][task.uid] = NodeRecord(status, groups, task.zones)
        else:
            self._records[i].pop(task.uid, None)
        # As in KAI, before the shared devices are counted.
        self._used[i] += sign * task.info.rows[GPUS]
        super().change_usage(task, status, node, groups, sign)

    def leave(self, task: WTask) -> None:
        """Begin a step of a task; ``enter`` ends it."""
        self._before = TaskPlacement(task.status, task.node, task.groups, task.vacated, task.zones)
        if task.info.shape.claims:
            if self._passes_devices and self._devices is None:
                self._devices = DeviceRecords(self._claim_records, self.claims, self.tasks)
            super().leave(task)
            return
        self._host_all(task, self._before, False)

    def enter(self, task: WTask) -> None:
        """End a step of a task: change its nodes' counts as KAI does for such a step."""
        before, self._before = self._before, None
        assert before is not None
        after = TaskPlacement(task.status, task.node, task.groups, task.vacated, task.zones)
        if task.info.shape.claims:
            super().enter(task)
            if self._devices is not None:
                self._pass_devices(self._devices, task, before, after)
            return
        self._step(task, before, after)
        self._host_all(task, after, True)

    def move(self, task: WTask, status: Status, node: str, vacated: tuple[TaskPlace, ...]) -> None:
        """A step of a plain task. See ``NodeTable.move``."""
        before = TaskPlacement(task.status, task.node, task.groups, task.vacated, task.zones)
        after = TaskPlacement(status, node, (), vacated, ())
        self._host_all(task, before, False)
        self._step(task, before, after)
        self._host_all(task, after, True)

    def renew(self, task: WTask, status: Status) -> None:
        """Remove the node's record of a task and add it with this status, as KAI does for each further eviction."""
        if not task.info.shape.claims:
            self._forget(task, task.node)
            self.change_usage(task, status, task.node, task.groups, 1)

    def _step(self, task: WTask, before: TaskPlacement, after: TaskPlacement) -> None:
        if (before.node, before.groups, before.vacated) == (after.node, after.groups, after.vacated):
            # Evicted, or put back: the record changes, or is made if a move has taken it.
            self._forget(task, after.node)
            self._add(task, after)
        elif not ON_NODE[after.status] or (before.status, after.status) == (Status.PIPELINED, Status.RELEASING):
            self._forget(task, before.node)  # a place taken back; the record there goes, whatever it says
            if not self._keeps_copies and after.node == before.node and after.groups != before.groups:
                # The leaving copy still counts, so the node knows of it again, and the next step removes it.
                self._records[self.index[after.node]][task.uid] = NodeRecord(after.status, after.groups, after.zones)
        else:
            i = self.index.get(after.node)
            record = None if i is None else self._records[i].get(task.uid)
            if record is not None and (not after.groups or after.groups == record.groups):
                self._forget(task, after.node)
            # A move to another GPU replaces the record without removing its effect.
            self._add(task, after)

    def _pass_devices(self, devices: DeviceRecords, task: WTask, before: TaskPlacement, after: TaskPlacement) -> None:
        """Leave out the claimed devices of a task that its node counts for another one, as KAI does for such a step."""
        here, there = self.index.get(after.node), self.index.get(before.node)
        stays = (before.node, before.vacated) == (after.node, after.vacated)
        back = not ON_NODE[after.status] or (before.status, after.status) == (Status.PIPELINED, Status.RELEASING)
        if there is not None and (stays or back):
            self._count_less(there, before.status, -devices.remove(task, there))
        if here is not None and ON_NODE[after.status] and (stays or not back):
            if not stays:
                self._count_less(here, Status.RELEASING, -devices.remove(task, here))
            self._count_less(here, after.status, devices.add(task, here, anew=not stays))
            if not stays:
                devices.hold(task, here)

    def _count_less(self, i: int, status: Status, gpus: int) -> None:
        """Count a task in ``status`` with so many milli-GPU less on a node."""
        if status == Status.PIPELINED:
            self.releasing[GPUS, i] += gpus
            return
        self.idle[GPUS, i] += gpus
        if status == Status.RELEASING:
            self.releasing[GPUS, i] -= gpus

    def _add(self, task: WTask, situation: TaskPlacement) -> None:
        self.change_usage(task, situation.status, situation.node, situation.groups, 1)

    def _forget(self, task: WTask, node: str) -> None:
        """Remove the node's record of a task and its effect, if there is one."""
        i = self.index.get(node)
        record = None if i is None else self._records[i].get(task.uid)
        if record is None:
            return
        # ``change_usage`` reads the zones of the task, which may have changed since it was added.
        zones, task.zones = task.zones, record.zones
        self.change_usage(task, record.status, node, record.groups, -1)
        task.zones = zones

    def _host_all(self, task: WTask, situation: TaskPlacement, present: bool) -> None:
        for node in (situation.node, *(name for name, _ in situation.vacated)):
            if node:
                self.host(task, node, present)
