"""Fragmentation, and the policy that keeps it low. A free GPU is a fragment to a pod that cannot use it.

Source: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent",
USENIX ATC 2023, section 4, and its simulator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar, Literal

import msgspec
import numpy as np

from kailab.engine.policies.contract import NodeScore
from kailab.engine.policies.views import NodesView
from kailab.engine.snapshot.records import GPU, Task
from kailab.model.labels import GPU_PRODUCT
from kailab.policies.placement import HAIR, hundredths

_UNIT = 10**9
"""Parts of all pods are counted in this unit, so that sums are whole numbers and do not depend on the order of
addition.
"""


class TypicalWorkload(msgspec.Struct, frozen=True, array_like=True):
    """An expected kind of pod: ``cpu`` in millicores, ``devices`` times ``portion`` milli-GPU, on one of ``models``
    (empty: any). ``part``: its part of all pods.
    """

    cpu: int
    devices: int
    portion: int
    models: tuple[str, ...]
    part: float


class Fgd(NodeScore, frozen=True):
    """The node, and for a share the device, where this pod increases the expected fragmentation least. ``workload``:
    the expected kinds of pods; their parts add up to 1.

    As in the simulator, the score is a whole number from 0 to 100 (here in hundredths), so nodes with about the same
    increase are equal, and the first by name is taken. ``adding``: whole numbers, with which equal nodes are equal; or
    floating-point numbers in the order of the published simulator, whose last bit decides where the fragmentation stays
    the same, to repeat its runs.
    """

    workload: tuple[TypicalWorkload, ...]
    adding: Literal["whole", "as-simulated"] = "whole"
    local: ClassVar[bool] = True

    def score(self, task: Task, nodes: NodesView) -> np.ndarray:
        table = FragmentationTable.of(nodes, self.workload)
        rows, room = choices(task, nodes.devices)
        scores = np.zeros(len(nodes.records))
        np.maximum.at(scores, rows, self._shrinking(table, task, rows, room))
        return scores

    def devices(self, task: Task, node: NodesView, room: np.ndarray) -> np.ndarray:
        table = FragmentationTable.of(node, self.workload)
        return self._shrinking(table, task, np.zeros(len(room), dtype=np.int64), room)

    def _shrinking(self, table: FragmentationTable, task: Task, rows: np.ndarray, room: np.ndarray) -> np.ndarray:
        if self.adding == "whole":
            return shrinking(table.grows(task, rows, room))
        return np.floor(100 * logistic(table.grows(task, rows, room, as_simulated=True))) / 100


class FgdPacked(Fgd, frozen=True):
    """FGD that breaks ties by packing: a node in use before an untouched one, the device on which the least is left,
    and for work without GPUs the node with the fewest free GPUs.

    kailab's own. In FGD the first by name of many equal nodes is taken. Here a node in use adds 0.9 hundredths and a
    device on which nothing is left adds 2, less in proportion to what is left. Work without GPUs increases the
    fragmentation so little that most nodes are equal in whole hundredths; for it the score is not cut, and a node
    without free GPUs adds 1.3 hundredths: 1 shrinks with the part of its GPUs that is free, 0.3 with their number
    relative to the largest node's.
    """

    def __post_init__(self) -> None:
        if self.adding != "whole":
            raise ValueError("adding applies to fgd only; expected none")

    def score(self, task: Task, nodes: NodesView) -> np.ndarray:
        table = FragmentationTable.of(nodes, self.workload)
        used = (nodes.idle_cpu < nodes.all_cpu) | (table.free < nodes.all_gpu)
        rows, room = choices(task, nodes.devices)
        grows = table.grows(task, rows, room)
        scores = np.zeros(len(nodes.records))
        if task.shape.gpu.devices:
            np.maximum.at(scores, rows, _with_gpus(task, grows, room, used[rows]))
            return scores
        part = table.free / np.maximum(nodes.all_gpu, 1)
        taken = (1 - part) + 0.3 * (1 - table.free / nodes.largest_gpu)
        return _counted(100 * logistic(grows) + taken, used)

    def devices(self, task: Task, node: NodesView, room: np.ndarray) -> np.ndarray:
        table = FragmentationTable.of(node, self.workload)
        grows = table.grows(task, np.zeros(len(room), dtype=np.int64), room)
        return _with_gpus(task, grows, room, np.zeros(len(room), dtype=bool))


def _with_gpus(task: Task, grows: np.ndarray, room: np.ndarray, used: np.ndarray) -> np.ndarray:
    gpu = task.shape.gpu
    left = np.maximum(room - gpu.portion, 0) / GPU if gpu.shared else np.zeros(len(room))
    return _counted(100 * shrinking(grows) + 2 * (1 - left), used)


def _counted(score: np.ndarray, used: np.ndarray) -> np.ndarray:
    """Combine a score in hundredths (at most 102) with the bonus of nodes in use, as a number from 0 to 1, in whole
    thousandths of a hundredth so that equal scores are exactly equal.
    """
    counted: np.ndarray = np.floor(score * 1000 + 1000 * HAIR) + np.where(used, 900, 0)
    return counted / 102_900


def logistic(grows: np.ndarray) -> np.ndarray:
    """0.5 if the fragmentation stays the same; towards 1 the more milli-GPU it shrinks by."""
    return 1 / (1 + np.exp(np.clip(grows / GPU, -60, 60)))


def shrinking(grows: np.ndarray) -> np.ndarray:
    """``logistic`` in whole hundredths, rounded down."""
    return hundredths(logistic(grows))


def choices(task: Task, devices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where a node could take the task on its devices: pairs of node number and milli-GPU free on the device of a
    share, each amount once per node. For whole devices (and none) one pair per node, with a meaningless amount.
    """
    gpu = task.shape.gpu
    if not gpu.shared:
        return np.arange(len(devices)), np.full(len(devices), GPU)
    sorted_ = np.sort(devices, axis=1)
    first = np.ones(sorted_.shape, dtype=bool)
    first[:, 1:] = sorted_[:, 1:] != sorted_[:, :-1]
    rows, columns = np.nonzero(first & (sorted_ >= gpu.portion))
    return rows, sorted_[rows, columns]


class _Expected:
    """The expected kinds of pods as arrays: ``part`` in ``_UNIT`` of each kind with GPUs, and the sum of those
    ``without``; the distinct ``portions`` and sets of ``models``, and the index of each kind's own.
    """

    def __init__(self, workload: Sequence[TypicalWorkload]) -> None:
        sorts = [sort for sort in workload if sort.devices]
        self.all = tuple(workload)
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
    """Nodes as the expected pods see them, one row a node: milli-GPU ``free`` on all devices; ``cpu`` in millicores;
    per portion, the devices with room for it (``fitting``) and the milli-GPU free on the others (``small``); the
    sets of models that it belongs to (``of_model``).
    """

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

    def grows(self, task: Task, rows: np.ndarray, room: np.ndarray, *, as_simulated: bool = False) -> np.ndarray:
        """The increase of a node's fragmentation by the task, in milli-GPU, for each pair of ``rows`` (node numbers)
        and ``room`` (milli-GPU free on the device of a share; unused for whole devices). Meaningless where the task
        does not fit. ``as_simulated``: see ``Fgd.adding``.
        """
        gpu, sorts = task.shape.gpu, self.sorts
        cpu, portions = self.cpu[rows] - task.shape.cpu, sorts.portions
        fitting, small, free = self.fitting[rows], self.small[rows], self.free[rows] - gpu.most_gpus
        if gpu.shared:
            before, after = room[:, None], np.maximum(room - gpu.portion, 0)[:, None]
            fitting = fitting - (before >= portions) + (after >= portions)
            small = small - np.where(before >= portions, 0, before) + np.where(after >= portions, 0, after)
        else:
            fitting = fitting - gpu.devices  # whole devices have room for all
        if as_simulated:
            after = self._sum_as_simulated(free, cpu, fitting, small, self.of_model[rows])
            now = self._sum_as_simulated(self.free, self.cpu, self.fitting, self.small, self.of_model)
            return after - now[rows]
        with_it = self._sum(free, cpu, fitting, small, self.of_model[rows])
        before_it = self._sum(self.free, self.cpu, self.fitting, self.small, self.of_model)
        return (with_it - before_it[rows]) / _UNIT

    def _sum(
        self, free: np.ndarray, cpu: np.ndarray, fitting: np.ndarray, small: np.ndarray, of_model: np.ndarray
    ) -> np.ndarray:
        """The expected fragmentation. To a pod that a node can take, the devices with less room than its share are
        fragments; to any other pod, and to a pod without GPUs, everything free is.
        """
        sorts = self.sorts
        usable = fitting[:, sorts.portion] >= sorts.count
        usable &= cpu[:, None] >= sorts.cpu
        usable &= of_model[:, sorts.model]
        lost = np.where(usable, small[:, sorts.portion], free[:, None])
        return lost @ sorts.part + free * sorts.without

    def _sum_as_simulated(
        self, free: np.ndarray, cpu: np.ndarray, fitting: np.ndarray, small: np.ndarray, of_model: np.ndarray
    ) -> np.ndarray:
        """``_sum`` in milli-GPU, with the additions of the simulator: of floating-point numbers, kind of pod by kind of
        pod, for each reason why a pod does not fit, and then over the reasons. Source: NodeGpuShareFragAmount and
        FragAmountSumExceptQ3 in pkg/utils/frag.go.
        """
        lacks_both, lacks_gpu, lacks_cpu, without, without_cpu, elsewhere = np.zeros((6, len(free)))
        number = 0
        for sort in self.sorts.all:
            enough = cpu >= sort.cpu
            all_of_it = sort.part * free
            if not sort.devices:
                without += np.where(enough, all_of_it, 0.0)
                without_cpu += np.where(enough, 0.0, all_of_it)
                continue
            portion, model = self.sorts.portion[number], self.sorts.model[number]
            number += 1
            allowed, fits = of_model[:, model], fitting[:, portion] >= sort.devices
            elsewhere += np.where(allowed, 0.0, all_of_it)
            lacks_gpu += np.where(allowed & enough, np.where(fits, sort.part * small[:, portion], all_of_it), 0.0)
            lacks_cpu += np.where(allowed & ~enough & fits, all_of_it, 0.0)
            lacks_both += np.where(allowed & ~enough & ~fits, all_of_it, 0.0)
        return lacks_both + lacks_gpu + lacks_cpu + without + without_cpu + elsewhere


def fragments(
    devices: np.ndarray, cpu: np.ndarray, models: np.ndarray, workload: Sequence[TypicalWorkload]
) -> np.ndarray:
    """The expected fragmentation of each node, in milli-GPU. ``devices``: one row a node with the milli-GPU free on
    each GPU; ``cpu``: free millicores; ``models``: GPU models, as text.
    """
    return FragmentationTable.made(devices, cpu, models, workload).lost()


def typical(
    pods: Sequence[tuple[int, int, int, tuple[str, ...]]], popular: float = 0.95
) -> tuple[TypicalWorkload, ...]:
    """The most frequent kinds of pods (cpu, devices, portion, models), until they are ``popular`` of all, each with its
    part of these. As in the simulator, the larger of equally frequent kinds comes first.
    """
    counts = Counter(pods)
    chosen: list[tuple[tuple[int, int, int, tuple[str, ...]], int]] = []
    seen = 0
    for pod, count in sorted(counts.items(), key=lambda item: (item[1], _size(item[0])), reverse=True):
        if seen >= popular * len(pods):
            break
        chosen.append((pod, count))
        seen += count
    # Divided as in the simulator, so that the last bit is the same.
    every = len(pods)
    cut = every / every if len(chosen) == len(counts) else seen / every
    return tuple(TypicalWorkload(*pod, part=count / every / cut) for pod, count in chosen)


def _size(pod: tuple[int, int, int, tuple[str, ...]]) -> tuple[int, int, int, str]:
    cpu, devices, portion, models = pod
    return cpu, portion, devices, "|".join(models)
