"""All nodes in arrays: one column a node (sorted by name), one row a resource.

``idle`` is what no task holds; ``releasing`` is what leaving tasks will free, less the promises of it. Both are in the
units of ``kailab.engine.working.layout``. A task changes them through ``change_usage``; removing it restores them exactly
(integers).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

import numpy as np

from kailab.engine.snapshot.counting import (
    DEFAULT_GPU_MEMORY,
    device_memory,
    smallest_device,
)
from kailab.engine.snapshot.gpu_requests import GpuRequest
from kailab.engine.snapshot.records import (
    ACTIVE,
    GPU,
    ON_NODE,
    UNREPORTED_CAPACITY,
    Node,
    ResourceClaim,
    Status,
)
from kailab.engine.working.claims import Claims
from kailab.engine.working.float_sums import sum_in_turn
from kailab.engine.working.layout import GPUS, QUEUE_RESOURCES, Layout
from kailab.engine.working.numa import NumaNodes
from kailab.engine.working.shared_gpu_arrays import SharedGpuArrays
from kailab.engine.working.shared_gpus import SharedGpus
from kailab.engine.working.state import ShapeInfo, TaskPlace, WTask

MIG_ENABLED = "node-role.kubernetes.io/mig-enabled"
MIG_STRATEGY = "nvidia.com/mig.strategy"
GPU_COUNT = "nvidia.com/gpu.count"


class NodeTable:
    """Rebuilt when nodes change, not when tasks do; the masks of shapes are valid for one table. ``claims`` and
    ``tasks``: the working set's resource claims, and all tasks it knows.
    """

    multiples_fit = False
    """True if a whole multiple of a device's memory passes for a share of one device, as in KAI."""
    lacking_gpus_refuse = False
    """True if a node whose free GPUs count less than zero also refuses tasks that ask for none, as in KAI (LessEqual)."""
    devices_by_age = False
    """True if the first of equally full shared devices is the one that was used first, instead of the first by name."""

    def __init__(
        self,
        nodes: Iterable[Node],
        layout: Layout,
        claims: Mapping[str, ResourceClaim] | None = None,
        tasks: Container[str] = (),
    ) -> None:
        self.layout = layout
        self.nodes = sorted(nodes, key=lambda node: node.name)
        self.index = {node.name: i for i, node in enumerate(self.nodes)}
        count = len(self.nodes)
        rows = [layout.of_node(node) for node in self.nodes]
        self.allocatable = np.zeros((len(layout), count), dtype=np.int64)
        for i, amounts in enumerate(rows):
            for row, amount in amounts.items():
                self.allocatable[row, i] = amount
        self._fill_unreported(0)
        self.idle = self.allocatable.copy()
        self.releasing = np.zeros_like(self.allocatable)
        self.changes = np.zeros(count, dtype=np.int64)  # a counter of changes for each node
        # a policy's cached scores, kept by ``policies.node_scores``
        self.scored: tuple[object, dict[Any, Any]] | None = None
        self._leaving = False  # True if ``releasing`` may have an entry that is not zero
        self.labels = [dict(node.labels) for node in self.nodes]
        self.available = np.array([not node.unavailable for node in self.nodes], dtype=bool)
        self.gpu_memory = np.array([device_memory(node.gpu_memory_mib) for node in self.nodes], dtype=np.int64)
        self.memory_known = np.array([node.gpu_memory_mib > 0 for node in self.nodes], dtype=bool)
        self.mig = np.array([self._mig(i) for i in range(count)], dtype=object)
        self.claimed_gpus = np.array([node.claimed_gpus for node in self.nodes], dtype=bool)
        self.cpu_only = np.array([not self.mig[i] and self.allocatable[GPUS, i] <= 0 for i in range(count)], dtype=bool)
        self.gpu_count = np.array([self._gpu_count(i) for i in range(count)], dtype=np.int64)
        self.shares = SharedGpuArrays(self.gpu_memory)
        # The tasks of each node, for rules between pods and for reports.
        self.tasks: list[dict[str, WTask]] = [{} for _ in range(count)]
        self._residents: dict[ShapeInfo, dict[int, int]] | None = None  # computed on first use, then updated
        # The default memory of nodes that report none does not count if other nodes report theirs.
        known = [int(m) for m in self.gpu_memory if m > DEFAULT_GPU_MEMORY]
        self.min_gpu_memory = smallest_device(known)
        self.max_gpu_memory = max(known, default=DEFAULT_GPU_MEMORY)
        self._columns: dict[str, tuple[np.ndarray, dict[str, int]]] = {}
        self._owners: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self.all = np.ones(count, dtype=bool)
        self.numa = NumaNodes(self.nodes)
        devices = [node.devices for node in self.nodes]
        self.claims = Claims({} if claims is None else claims, tasks, self.index, devices)

    def __len__(self) -> int:
        return len(self.nodes)

    def _mig(self, i: int) -> str:
        """'' if devices are whole, else the MIG strategy: 'none', 'single' or 'mixed'."""
        labels = self.labels[i]
        enabled = labels.get(MIG_ENABLED)
        # The label decides if present, even against what the node offers (KAI: IsMIGEnabled).
        if enabled is not None:
            on = enabled.lower() in ("true", "1", "t")
        else:
            on = self.nodes[i].mig or any(self.allocatable[row, i] > 0 for row in self.layout.mig)
        if not on:
            return ""
        strategy = labels.get(MIG_STRATEGY, "")
        return strategy if strategy in ("mixed", "single") else "none"

    def _gpu_count(self, i: int) -> int:
        try:
            return int(self.labels[i][GPU_COUNT]) * GPU
        except (KeyError, ValueError):
            return int(self.allocatable[GPUS, i])

    def grow(self) -> None:
        """Add rows for resources that appeared since."""
        # Rows are only added at the end, so the present rows stay valid.
        missing = len(self.layout) - len(self.allocatable)
        if missing > 0:
            known = len(self.allocatable)
            empty = np.zeros((missing, len(self.nodes)), dtype=np.int64)
            self.allocatable = np.vstack([self.allocatable, empty])
            self._fill_unreported(known)
            self.idle = np.vstack([self.idle, self.allocatable[known:]])
            self.releasing = np.vstack([self.releasing, empty])

    def _fill_unreported(self, first: int) -> None:
        """Fill in the assumed capacity of resources that nodes do not report, in rows from ``first`` on."""
        for name, amount in UNREPORTED_CAPACITY.items():
            row = self.layout.rows.get(name, -1)
            if first <= row < len(self.allocatable):
                reported = np.array(
                    [any(name == resource for resource, _ in node.extended) for node in self.nodes], dtype=bool
                )
                self.allocatable[row, ~reported] = amount

    @property
    def free(self) -> np.ndarray:
        """What is free once leaving tasks are gone, less promises. Read-only."""
        # The sum allocates an array of all nodes, and usually nothing is leaving.
        return self.idle + self.releasing if self._some_leaving() else self.idle

    def free_of(self, row: int) -> np.ndarray:
        """One resource of ``free``."""
        return self.idle[row] + self.releasing[row] if self._some_leaving() else self.idle[row]

    def _some_leaving(self) -> bool:
        # Searched only after a write, because filling a cluster asks for it for each pod.
        if self._leaving:
            self._leaving = bool(self.releasing.any())
        return self._leaving

    def shift(self, nodes: np.ndarray, idle: np.ndarray, releasing: np.ndarray) -> None:
        """Add to the idle and releasing amounts of these nodes: one row a resource, one column a node."""
        self.changes[nodes] += 1
        self.idle[:, nodes] += idle
        self.releasing[:, nodes] += releasing
        self._leaving = True

    def owners(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        """The nodes that have the resource at all, as a mask and as numbers."""
        cached = self._owners.get(row)
        if cached is None:
            mask = self.allocatable[row] != 0
            cached = self._owners[row] = (mask, np.flatnonzero(mask))
        return cached

    def column(self, key: str) -> tuple[np.ndarray, dict[str, int]]:
        """A node label as codes (-1: absent), and the code of each value."""
        cached = self._columns.get(key)
        if cached is None:
            # Labels as small numbers: a mask is one array operation, and each value is compared once.
            codes: dict[str, int] = {}
            column = np.full(len(self.nodes), -1, dtype=np.int64)
            for i, labels in enumerate(self.labels):
                value = labels.get(key)
                if value is not None:
                    column[i] = codes.setdefault(value, len(codes))
            cached = self._columns[key] = (column, codes)
        return cached

    @property
    def shared(self) -> dict[int, SharedGpus]:
        """The shared devices of nodes that have some or once had. Changed only by ``change_usage``."""
        return self.shares.nodes

    def sharing(self, i: int) -> SharedGpus:
        return self.shares.on(i)

    def change_usage(self, task: WTask, status: Status, node: str, groups: tuple[str, ...], sign: int) -> None:
        """Add (1) or remove (-1) the effect of a task in ``status`` on ``node``. Unknown nodes are ignored."""
        i = self.index.get(node)
        if i is None or not ON_NODE[status]:
            return
        self.changes[i] += 1
        info = task.info
        if info.shape.claims:
            self._place_claims(info, i, status, sign)
        if self.numa and ACTIVE[status] and task.zones:
            self.numa.change(i, task, sign)
        if status == Status.PIPELINED:
            # Also if it waits for something idle: ``releasing`` then goes below zero, so that the sum of both pools is
            # right, which promises are based on.
            pools = self.releasing
            self._leaving = True
            for row, amount in info.needs:
                pools[row, i] -= sign * amount
        else:
            pools = self.idle
            for row, amount in info.needs:
                pools[row, i] -= sign * amount
            # A stuck deletion frees nothing to wait for, so it is subtracted only from ``idle``.
            if status == Status.RELEASING:
                pools = self.releasing
                self._leaving = True
                for row, amount in info.needs:
                    pools[row, i] += sign * amount
        if info.shape.gpu.shared:
            shared = self.sharing(i)
            memory = info.shape.gpu.share_memory(shared.memory)
            for group in groups:
                idle, releasing = shared.change(group, status, memory, sign)
                self.idle[GPUS, i] += idle
                if releasing:
                    self.releasing[GPUS, i] += releasing
                    self._leaving = True
            self.shares.changed(i)

    def leave(self, task: WTask) -> None:
        """Remove a task, with its claims, from where it is."""
        if task.node:
            self.change_usage(task, task.status, task.node, task.groups, -1)
            self.host(task, task.node, False)
        for node, groups in task.vacated:  # its pod is there until it is gone
            self.change_usage(task, Status.RELEASING, node, groups, -1)
            self.host(task, node, False)
        if task.info.shape.claims:
            self.claims.leave(task, task.info.shape)

    def enter(self, task: WTask) -> None:
        """Add a task where it is: the inverse of ``leave``."""
        if task.info.shape.claims:
            self.claims.enter(task, task.info.shape)
        for node, groups in task.vacated:
            self.change_usage(task, Status.RELEASING, node, groups, 1)
            self.host(task, node, True)
        if task.node:
            self.change_usage(task, task.status, task.node, task.groups, 1)
            self.host(task, task.node, True)

    def move(self, task: WTask, status: Status, node: str, vacated: tuple[TaskPlace, ...]) -> None:
        """``change_usage`` and ``host`` in one step for a plain task that gets this state. Unchanged parts are not removed and
        added again.
        """
        changes: dict[str, list[int]] = {}
        _count(changes, task.status, task.node, task.vacated, -1)
        _count(changes, status, node, vacated, 1)
        new_nodes = (node, *(name for name, _ in vacated))
        for name, (idle, releasing) in changes.items():
            i = self.index.get(name)
            if i is None:
                continue
            self.changes[i] += 1
            if releasing:
                self._leaving = True
            for sign, pool in ((idle, self.idle), (releasing, self.releasing)):
                if sign:
                    for row, amount in task.info.needs:
                        pool[row, i] += sign * amount
            tasks = self.tasks[i]
            # Also if it stays: the task that changed last comes last.
            was_present = tasks.pop(task.uid, None) is not None
            stays = name in new_nodes
            if stays:
                tasks[task.uid] = task
            if self._residents is not None and was_present != stays:
                self._settle_resident(self._residents, task.info, i, 1 if stays else -1)

    def renew(self, task: WTask, status: Status) -> None:
        """Called when a task is evicted a second time, and when that is undone. Nothing to do here, because a task
        counts once; ``StepwiseNodeTable`` counts it again.
        """

    def _place_claims(self, info: ShapeInfo, i: int, status: Status, sign: int) -> None:
        """Count the GPUs of claims once a node, and subtract what ``change_usage`` has counted for the same GPUs."""
        # ``change_usage`` counts the shape's whole request, claims included; claims are counted by ``change`` instead.
        twice = info.rows[GPUS] - self.claims.own_gpus(info.shape, info.rows[GPUS])
        idle, releasing = self.claims.change(i, status, info.shape, sign)
        if status == Status.PIPELINED:
            releasing += sign * twice
        else:
            idle += sign * twice
            if status == Status.RELEASING:
                releasing -= sign * twice
        self.idle[GPUS, i] += idle
        self.releasing[GPUS, i] += releasing
        self._leaving = True

    def keeps(self, task: WTask) -> bool:
        """True if a task's node has room for it once leaving tasks are gone, and for all else that is promised there.
        Certain for tasks without claims only; False for others.
        """
        i = self.index.get(task.node)
        if i is None or task.info.shape.claims or self.numa:
            return False
        if any(self.idle[row, i] + self.releasing[row, i] < 0 for row in {GPUS, *task.info.rows}):
            return False
        groups = self.sharing(i).groups if task.groups else {}
        return all(groups[name].used - groups[name].leaving_memory <= int(self.gpu_memory[i]) for name in task.groups)

    def host(self, task: WTask, node: str, present: bool) -> None:
        """Update the list of tasks on a node (for pod affinity and for reports)."""
        i = self.index.get(node)
        if i is None:
            return
        self.changes[i] += 1
        # A task can be on a node twice, by its new place and by the one it leaves; only the first and last time count.
        if self._residents is not None and (task.uid in self.tasks[i]) != present:
            self._settle_resident(self._residents, task.info, i, 1 if present else -1)
        if present:
            self.tasks[i][task.uid] = task
        else:
            self.tasks[i].pop(task.uid, None)

    @property
    def residents(self) -> dict[ShapeInfo, dict[int, int]]:
        """Shape -> node -> number of such tasks on it."""
        if self._residents is None:
            self._residents = {}
            for i, tasks in enumerate(self.tasks):
                for task in tasks.values():
                    self._settle_resident(self._residents, task.info, i, 1)
        return self._residents

    @staticmethod
    def _settle_resident(residents: dict[ShapeInfo, dict[int, int]], info: ShapeInfo, i: int, change: int) -> None:
        """Count a task in (1) or out (-1). Shapes without tasks are dropped."""
        homes = residents.setdefault(info, {})
        homes[i] = homes.get(i, 0) + change
        if not homes[i]:
            del homes[i]
            if not homes:
                del residents[info]

    def accepted_gpus(self, info: ShapeInfo, node: str) -> int:
        """Milli-GPU that a task of this shape counts for in its queue on ``node``."""
        gpu = info.shape.gpu
        if gpu.by_memory:
            i = self.index.get(node)
            return gpu.held_gpus(int(self.gpu_memory[i]) if i is not None else self.min_gpu_memory)
        return info.quota[2]

    def whole_multiples(self, gpu: GpuRequest) -> np.ndarray:
        """The nodes where the requested GPU memory counts as two or more whole devices, once rounded up to 0.01 device.

        KAI lets such a request through (``isValidGpuPortion``), but binds it as a share of one device.
        """
        more: np.ndarray = (self.gpu_memory > 0) & (self.gpu_memory < gpu.memory_mib)
        if more.any():
            more[more] = -(-gpu.memory_mib * 100 // self.gpu_memory[more]) % 100 == 0
        return more

    def memory_fits(self, gpu: GpuRequest) -> np.ndarray:
        """The nodes whose devices are large enough for the requested GPU memory."""
        fitting: np.ndarray = self.gpu_memory >= gpu.memory_mib
        return fitting | self.whole_multiples(gpu) if self.multiples_fit else fitting

    def total(self) -> list[int]:
        """The capacity of all available nodes, per queue resource. MIG profiles count by their leading number."""
        # Unavailable nodes are not divided among queues.
        totals = [int(self.allocatable[row][self.available].sum()) for row in QUEUE_RESOURCES]
        for row, weight in self.layout.mig.items():
            # The layout may have rows for resources that appeared after this table was made.
            if row < len(self.allocatable):
                totals[2] += weight * int(self.allocatable[row][self.available].sum())
        return totals

    def _mig_pool(self, pool: np.ndarray, i: int) -> int:
        return sum(weight * int(pool[row, i]) for row, weight in self.layout.mig.items() if row < len(pool))

    def unheld_gpus(self, i: int) -> int:
        """Milli-GPU of a node that no task holds, free parts of shared devices included."""
        return int(self.idle[GPUS, i]) + self._mig_pool(self.idle, i) + int(self.shares.idle[i])

    def free_gpu_vector(self) -> np.ndarray:
        """Milli-GPU idle or releasing on each node, free parts of shared devices included. Promises lower it."""
        free = self._with_mig(self.free_of(GPUS), self.idle, self.releasing)
        if self.shared:
            free = free + self.shares.idle + self.shares.releasing
        return free

    def free_gpu_floats(self) -> np.ndarray:
        """``free_gpu_vector`` in GPUs, with the parts of shared devices added as floats one by one, as KAI adds them
        (GetSumOfIdleGPUs, GetSumOfReleasingGPUs).
        """
        whole = self._with_mig(self.idle[GPUS], self.idle), self._with_mig(self.releasing[GPUS], self.releasing)
        idle, releasing = (amount / GPU for amount in whole)
        if self.shared:
            for i, shares in self.shares.nodes.items():
                idle[i] = sum_in_turn(1 - (GPU - part) / GPU for part in shares.idle_parts()) + idle[i]
                releasing[i] = sum_in_turn(part / GPU for part in shares.releasing_parts()) + releasing[i]
        return idle + releasing

    def some_gpu_free(self) -> np.ndarray:
        """The nodes where some GPU is idle, or some is releasing: a mask. Promises for what is idle make ``releasing``
        negative, but a node with something idle still counts.
        """
        if not self._some_leaving() and not self.shared:
            return self.free_gpu_vector() > 0
        shares = self.shares
        idle = self._with_mig(self.idle[GPUS] + shares.idle, self.idle)
        releasing = self._with_mig(self.releasing[GPUS] + shares.releasing, self.releasing)
        return (idle > 0) | (releasing > 0)

    def _with_mig(self, gpus: np.ndarray, *pools: np.ndarray) -> np.ndarray:
        """These milli-GPU of each node, and the MIG instances of these pools."""
        for row, weight in self.layout.mig.items():
            for pool in pools:
                if row < len(pool):
                    gpus = gpus + weight * pool[row]
        return gpus


def _count(changes: dict[str, list[int]], status: Status, node: str, vacated: tuple[TaskPlace, ...], sign: int) -> None:
    """The effect of a plain task in this state on its nodes: node -> multiples of its needs in ``idle`` and
    ``releasing``. See ``change_usage``.
    """
    if node:
        pools = changes.setdefault(node, [0, 0])
        if status == Status.PIPELINED:
            pools[1] -= sign
        elif ON_NODE[status]:
            pools[0] -= sign
            if status == Status.RELEASING:
                pools[1] += sign
    for name, _ in vacated:  # its pod is there until it is gone
        pools = changes.setdefault(name, [0, 0])
        pools[0] -= sign
        pools[1] += sign
