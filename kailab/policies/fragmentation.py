"""Fragmentation, and the policy that lets it grow the least: GPUs are a fragment to a pod that can't use them.

Source: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent", USENIX ATC 2023, section 4, and its simulator."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar

import msgspec
import numpy as np

from kailab.engine.policies.contract import NodeScore
from kailab.engine.policies.views import NodesView
from kailab.engine.snapshot.records import GPU, Task
from kailab.model.labels import GPU_PRODUCT
from kailab.policies.placement import HAIR, hundredths

_UNIT = 10**9
"""Parts of all pods are counted in these, so that sums are of whole numbers: equal states are equal to the last bit, in whatever order they are summed up."""


class TypicalWorkload(msgspec.Struct, frozen=True, array_like=True):
    """A sort of pod that is to be expected: ``cpu`` in millicores, ``devices`` times ``portion`` thousandths of a GPU, on one of ``models`` (any where
    empty), and which part of all pods are such."""

    cpu: int
    devices: int
    portion: int
    models: tuple[str, ...]
    part: float


class Fgd(NodeScore, frozen=True):
    """The node on which this pod lets the expected fragmentation grow least (or shrink most), and on it, for a share, the device of which that is true.
    ``workload``: the sorts of pods to be expected; their parts add up to 1.

    As in the simulator the score is a whole number from 0 to 100 (here in hundredths): nodes on which it grows by about as much are equal, and the
    first by name is taken."""

    workload: tuple[TypicalWorkload, ...]
    local: ClassVar[bool] = True

    def score(self, task: Task, nodes: NodesView) -> np.ndarray:
        ground = FragmentationTable.of(nodes, self.workload)
        rows, room = choices(task, nodes.devices)
        found = np.zeros(len(nodes.records))
        np.maximum.at(found, rows, shrinking(ground.grows(task, rows, room)))
        return found

    def devices(self, task: Task, node: NodesView, room: np.ndarray) -> np.ndarray:
        ground = FragmentationTable.of(node, self.workload)
        return shrinking(ground.grows(task, np.zeros(len(room), dtype=np.int64), room))


class FgdPacked(Fgd, frozen=True):
    """FGD, which of nodes that are about as good takes one in use before an untouched one, for a share the device on which the least is left, and for work
    without GPUs the node of which the least GPUs are free.

    kailab's own. In FGD the first by name of many equal nodes is taken, whatever it looks like. Here a node in use counts 0.9 hundredths, and a device on which
    nothing is left 2, less in proportion to what is left. Work without GPUs lets the fragmentation grow by so little that most nodes are equal to it in whole
    hundredths: for it the score is not cut, and a node without free GPUs counts 1.3 hundredths: 1 is less in proportion to the part of its GPUs that is
    free, 0.3 to how many are, of the largest node's."""

    def score(self, task: Task, nodes: NodesView) -> np.ndarray:
        ground = FragmentationTable.of(nodes, self.workload)
        used = (nodes.idle_cpu < nodes.all_cpu) | (ground.free < nodes.all_gpu)
        rows, room = choices(task, nodes.devices)
        grows = ground.grows(task, rows, room)
        found = np.zeros(len(nodes.records))
        if task.shape.gpu.devices:
            np.maximum.at(found, rows, _with_gpus(task, grows, room, used[rows]))
            return found
        part = ground.free / np.maximum(nodes.all_gpu, 1)
        taken = (1 - part) + 0.3 * (1 - ground.free / nodes.largest_gpu)
        return _counted(100 * logistic(grows) + taken, used)

    def devices(self, task: Task, node: NodesView, room: np.ndarray) -> np.ndarray:
        ground = FragmentationTable.of(node, self.workload)
        grows = ground.grows(task, np.zeros(len(room), dtype=np.int64), room)
        return _with_gpus(task, grows, room, np.zeros(len(room), dtype=bool))


def _with_gpus(task: Task, grows: np.ndarray, room: np.ndarray, used: np.ndarray) -> np.ndarray:
    gpu = task.shape.gpu
    left = np.maximum(room - gpu.portion, 0) / GPU if gpu.shared else np.zeros(len(room))
    return _counted(100 * shrinking(grows) + 2 * (1 - left), used)


def _counted(score: np.ndarray, used: np.ndarray) -> np.ndarray:
    """A score in hundredths, of at most 102, and what a node in use counts for, as a number from 0 to 1. In whole thousandths of a hundredth, so that what is equal
    is equal to the last bit."""
    counted: np.ndarray = np.floor(score * 1000 + 1000 * HAIR) + np.where(used, 900, 0)
    return counted / 102_900


def logistic(grows: np.ndarray) -> np.ndarray:
    """0.5 where the fragmentation stays as it is, up to 1 the more milli-GPU it shrinks by."""
    found: np.ndarray = 1 / (1 + np.exp(np.clip(grows / GPU, -60, 60)))
    return found


def shrinking(grows: np.ndarray) -> np.ndarray:
    """``logistic`` in whole hundredths, cut off."""
    return hundredths(logistic(grows))


def choices(task: Task, devices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where on its devices a node could take the task: node by node, what is free on the device that would take a share, each amount once. Whole devices
    (and none) are one choice a node, with an amount that means nothing."""
    gpu = task.shape.gpu
    if not gpu.shared:
        return np.arange(len(devices)), np.full(len(devices), GPU)
    sorted_ = np.sort(devices, axis=1)
    first = np.ones(sorted_.shape, dtype=bool)
    first[:, 1:] = sorted_[:, 1:] != sorted_[:, :-1]
    rows, columns = np.nonzero(first & (sorted_ >= gpu.portion))
    return rows, sorted_[rows, columns]


class _Expected:
    """Sorts of pods as arrays: ``part`` of each with GPUs in ``_UNIT``, and of those ``without``; ``portions`` and sets of ``models`` that there are,
    and which each sort has."""

    def __init__(self, workload: Sequence[TypicalWorkload]) -> None:
        sorts = [sort for sort in workload if sort.devices]
        self.without = round(sum(sort.part for sort in workload if not sort.devices) * _UNIT)
        self.part = np.array([round(sort.part * _UNIT) for sort in sorts], dtype=np.int64)
        self.cpu = np.array([sort.cpu for sort in sorts], dtype=np.int64)
        self.count = np.array([sort.devices for sort in sorts], dtype=np.int64)
        self.portions, self.portion = np.unique([sort.portion for sort in sorts], return_inverse=True)
        self.models = sorted({sort.models for sort in sorts})
        self.model = np.array([self.models.index(sort.models) for sort in sorts], dtype=np.int64)


@lru_cache(maxsize=8)
def _expected(workload: tuple[TypicalWorkload, ...]) -> _Expected:
    return _Expected(workload)


class FragmentationTable(msgspec.Struct, frozen=True):
    """Nodes as the expected pods see them, one row a node: what is ``free`` on all devices, ``cpu`` in millicores; how many devices have room for each
    portion (``fitting``) and what is free on the others (``small``); which sets of models it is of (``of_model``)."""

    sorts: _Expected
    devices: np.ndarray
    cpu: np.ndarray
    free: np.ndarray
    fitting: np.ndarray
    small: np.ndarray
    of_model: np.ndarray

    @classmethod
    def of(cls, nodes: NodesView, workload: Sequence[TypicalWorkload]) -> FragmentationTable:
        return cls.made(nodes.devices, nodes.idle_cpu, nodes.label(GPU_PRODUCT), workload)

    @classmethod
    def made(
        cls, devices: np.ndarray, cpu: np.ndarray, models: np.ndarray, workload: Sequence[TypicalWorkload]
    ) -> FragmentationTable:
        sorts = _expected(tuple(workload))
        fits = devices[:, :, None] >= sorts.portions
        of_model = np.ones((len(devices), len(sorts.models)), dtype=bool)
        for column, wanted in enumerate(sorts.models):
            if wanted:
                of_model[:, column] = np.isin(models, wanted)
        small = np.where(fits, 0, devices[:, :, None]).sum(axis=1)
        return cls(sorts, devices, cpu, devices.sum(axis=1), fits.sum(axis=1), small, of_model)

    def lost(self) -> np.ndarray:
        """The expected fragmentation of each node, in milli-GPU."""
        return self._sum(self.free, self.cpu, self.fitting, self.small, self.of_model) / _UNIT

    def grows(self, task: Task, rows: np.ndarray, room: np.ndarray) -> np.ndarray:
        """By how many milli-GPU it grows once the task is on the node of each row, a share on a device with so much room. Where it does not fit the number
        means nothing."""
        gpu, sorts = task.shape.gpu, self.sorts
        cpu, portions = self.cpu[rows] - task.shape.cpu, sorts.portions
        fitting, small, free = self.fitting[rows], self.small[rows], self.free[rows] - gpu.devices * gpu.portion
        if gpu.shared:
            before, after = room[:, None], np.maximum(room - gpu.portion, 0)[:, None]
            fitting = fitting - (before >= portions) + (after >= portions)
            small = small - np.where(before >= portions, 0, before) + np.where(after >= portions, 0, after)
        else:
            fitting = fitting - gpu.devices  # whole devices have room for all
        with_it = self._sum(free, cpu, fitting, small, self.of_model[rows])
        before_it = self._sum(self.free, self.cpu, self.fitting, self.small, self.of_model)
        grows: np.ndarray = (with_it - before_it[rows]) / _UNIT
        return grows

    def _sum(
        self, free: np.ndarray, cpu: np.ndarray, fitting: np.ndarray, small: np.ndarray, of_model: np.ndarray
    ) -> np.ndarray:
        """To a pod that a node could take the devices with less room than its share are fragments; to any other, and to a pod without GPUs, all that is
        free."""
        sorts = self.sorts
        usable = fitting[:, sorts.portion] >= sorts.count
        usable &= cpu[:, None] >= sorts.cpu
        usable &= of_model[:, sorts.model]
        lost = np.where(usable, small[:, sorts.portion], free[:, None])
        found: np.ndarray = lost @ sorts.part + free * sorts.without
        return found


def fragments(
    devices: np.ndarray, cpu: np.ndarray, models: np.ndarray, workload: Sequence[TypicalWorkload]
) -> np.ndarray:
    """The expected fragmentation of each node, in milli-GPU. ``devices``: one row a node, what is free on each of its GPUs; ``cpu``: millicores free; ``models``: of GPUs, as text."""
    return FragmentationTable.made(devices, cpu, models, workload).lost()


def typical(
    pods: Sequence[tuple[int, int, int, tuple[str, ...]]], popular: float = 0.95
) -> tuple[TypicalWorkload, ...]:
    """The sorts of pods (cpu, devices, portion, models) that are most often seen, until they are this part of all, each with its part of these. Of sorts
    seen as often the larger come first, as in the simulator."""
    counts: dict[tuple[int, int, int, tuple[str, ...]], int] = {}
    for pod in pods:
        counts[pod] = counts.get(pod, 0) + 1
    chosen: list[tuple[tuple[int, int, int, tuple[str, ...]], int]] = []
    seen = 0
    for pod, count in sorted(counts.items(), key=lambda one: (one[1], _size(one[0])), reverse=True):
        if seen >= popular * len(pods):
            break
        chosen.append((pod, count))
        seen += count
    return tuple(TypicalWorkload(*pod, part=count / seen) for pod, count in chosen)


def _size(pod: tuple[int, int, int, tuple[str, ...]]) -> tuple[int, int, int, str]:
    cpu, devices, portion, models = pod
    return cpu, portion, devices, "|".join(models)
