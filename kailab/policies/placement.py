"""Node scores with which FGD was compared.

Source: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent",
USENIX ATC 2023, section 6.1, and its simulator. As there, scores are whole numbers from 0 to 100 (here in hundredths),
so many nodes are equal and the first by name is taken, which packs by itself. Under the two scores that consider only
GPUs, work without GPUs goes to the first node by name. Shares go to the fullest device of their node that can take
them, as with KAI's ``gpupack``; ``Random`` takes any device.
"""

from __future__ import annotations

from typing import Annotated, ClassVar
from zlib import crc32

import msgspec
import numpy as np

from kailab.engine.policies.contract import NodeScore
from kailab.engine.policies.views import NodesView
from kailab.engine.snapshot.records import GPU, Task

HAIR = 1e-9
"""Added before rounding down, so that float noise does not change a whole number."""


def hundredths(score: np.ndarray) -> np.ndarray:
    """Numbers from 0 to 1 in whole hundredths, rounded down as in the simulator."""
    return np.clip(np.floor(score * 100 + HAIR), 0, 100) / 100


class Random(NodeScore, frozen=True):
    """Any node, and for a share any device. The choice follows from ``seed`` and the pod alone, so runs can be
    repeated.
    """

    seed: Annotated[int, msgspec.Meta(ge=0)] = 0

    def score(self, task: Task, nodes: NodesView) -> np.ndarray:
        return np.random.default_rng([self.seed, crc32(task.uid.encode())]).random(len(nodes.records))

    def devices(self, task: Task, node: NodesView, room: np.ndarray) -> np.ndarray:
        scores = np.random.default_rng([self.seed, crc32(task.uid.encode()), 1]).random(len(room))
        if room[-1] == GPU:
            # One entry stands for all whole devices, each of which is as likely as a shared one: the maximum of as many
            # random numbers.
            scores[-1] **= 1 / max(1, int((node.devices == GPU).sum()))
        return scores


class BestFit(NodeScore, frozen=True):
    """The least leftover: the sum of free CPU and free GPUs afterwards, each relative to the largest node's."""

    local: ClassVar[bool] = True

    def score(self, task: Task, nodes: NodesView) -> np.ndarray:
        cpu, gpu = _wanted(task)
        most_cpu, most_gpu = nodes.largest_cpu, nodes.largest_gpu
        left = (nodes.idle_cpu - cpu) / most_cpu + (nodes.free_gpu - gpu) / most_gpu
        return hundredths(1 - left / 2)


class DotProduct(NodeScore, frozen=True):
    """The smallest product of free and wanted resources (CPU and GPUs, each relative to the largest node's)."""

    local: ClassVar[bool] = True

    def score(self, task: Task, nodes: NodesView) -> np.ndarray:
        cpu, gpu = _wanted(task)
        most_cpu, most_gpu = nodes.largest_cpu, nodes.largest_gpu
        product = nodes.idle_cpu / most_cpu * (cpu / most_cpu) + nodes.free_gpu / most_gpu * (gpu / most_gpu)
        return hundredths(1 - product / 2)


class GpuPacking(NodeScore, frozen=True):
    """Shared GPUs before free GPUs of a node in use, those before untouched nodes. Among the first, the fullest device;
    among the others, the fewest free GPUs.
    """

    local: ClassVar[bool] = True

    def score(self, task: Task, nodes: NodesView) -> np.ndarray:
        wanted = task.shape.gpu
        if not wanted.devices:
            return np.zeros(len(nodes.records))
        devices = nodes.devices
        whole = (devices == GPU).sum(axis=1)
        untouched = whole * GPU == nodes.all_gpu
        room = np.where(devices >= wanted.portion, devices, 2 * GPU)
        # The devices with the least room that can still take it.
        taken = np.sort(room, axis=1)[:, : wanted.devices]
        fresh = (taken == GPU).sum(axis=1)
        shared = 100 - np.minimum(taken, GPU).sum(axis=1) * 100 // GPU // 10
        on_used = np.maximum(50 - fresh, 33)
        on_free = np.maximum(33 - whole, whole)
        score = np.where(untouched, on_free, np.where(fresh > 0, on_used, np.maximum(shared, 50)))
        return np.clip(score, 0, 100) / 100


class GpuClustering(NodeScore, frozen=True):
    """Pods with the same kind of GPU request together: nodes with only such pods first, then those with such and
    others, then empty ones, then those with only others; within each group the fuller first. Source: as above, after
    Weng et al., "MLaaS in the Wild", NSDI 2022.
    """

    local: ClassVar[bool] = True

    def score(self, task: Task, nodes: NodesView) -> np.ndarray:
        wanted = task.shape.gpu
        if not wanted.devices:
            return np.zeros(len(nodes.records))
        kind = request_kind(wanted.devices, wanted.portion)
        fullness = hundredths((1 - nodes.free_gpu / nodes.largest_gpu) / 4)
        base = np.array([_clustering(kind, held) for held in nodes.gpu_requests])
        return hundredths(base + fullness)


def request_kind(devices: int, portion: int) -> int:
    """0 for a share of a GPU, else the number of GPUs."""
    return 0 if portion < GPU else devices


def _clustering(kind: int, held: frozenset[int]) -> float:
    if kind in held:
        return 3 / 4 if len(held) == 1 else 2 / 4
    return 0.0 if held else 1 / 4


def _wanted(task: Task) -> tuple[int, int]:
    return task.shape.cpu, task.shape.gpu.most_gpus
