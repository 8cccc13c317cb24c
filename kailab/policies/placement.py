"""Scores of nodes that FGD was compared with.

Source: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent", USENIX ATC 2023, section 6.1, and its
simulator. Scores there go from 0 to 100, here from 0 to 1. Work without GPUs goes to the first node by name under the two that look at GPUs only."""

from __future__ import annotations

from zlib import crc32

import numpy as np

from kailab.engine.policies.contract import NodeScore
from kailab.engine.policies.views import NodesView
from kailab.engine.snapshot.records import GPU, Task


class Random(NodeScore, frozen=True):
    """Any node. Which one follows from ``seed`` and the pod alone, so that a run can be repeated."""

    seed: int = 0

    def score(self, task: Task, nodes: NodesView) -> np.ndarray:
        return np.random.default_rng([self.seed, crc32(task.uid.encode())]).random(len(nodes.records))


class BestFit(NodeScore, frozen=True):
    """The least that is left: the sum of what stays free of CPU and of GPUs, each as a part of the largest node's."""

    def score(self, task: Task, nodes: NodesView) -> np.ndarray:
        cpu, gpu = _wanted(task)
        most_cpu, most_gpu = nodes.largest_cpu, nodes.largest_gpu
        left = (nodes.idle_cpu - cpu) / most_cpu + (nodes.free_gpu - gpu) / most_gpu
        return np.clip(1 - left / 2, 0, 1)


class DotProduct(NodeScore, frozen=True):
    """The smallest product of what is free with what is wanted (CPU and GPUs, each as a part of the largest node's)."""

    def score(self, task: Task, nodes: NodesView) -> np.ndarray:
        cpu, gpu = _wanted(task)
        most_cpu, most_gpu = nodes.largest_cpu, nodes.largest_gpu
        product = nodes.idle_cpu / most_cpu * (cpu / most_cpu) + nodes.free_gpu / most_gpu * (gpu / most_gpu)
        return np.clip(1 - product / 2, 0, 1)


class GpuPacking(NodeScore, frozen=True):
    """GPUs that are shared already before free GPUs of a node in use, those before a node of which no GPU is in use; among the first the fullest
    device, among the others the fewest free GPUs."""

    def score(self, task: Task, nodes: NodesView) -> np.ndarray:
        wanted = task.shape.gpu
        if not wanted.devices:
            return np.zeros(len(nodes.records))
        devices = nodes.devices
        whole = (devices == GPU).sum(axis=1)
        untouched = whole * GPU == nodes.all_gpu
        room = np.where(devices >= wanted.portion, devices, 2 * GPU)
        # The fullest devices that can take it are taken: those with the least room.
        taken = np.sort(room, axis=1)[:, : wanted.devices]
        fresh = (taken == GPU).sum(axis=1)
        shared = 1 - np.minimum(taken, GPU).sum(axis=1) / GPU / 10
        on_used = np.maximum(1 / 2 - fresh / 100, 1 / 3)
        on_free = np.maximum(1 / 3 - whole / 100, whole / 100)
        score = np.where(untouched, on_free, np.where(fresh > 0, on_used, np.maximum(shared, 1 / 2)))
        return np.clip(score, 0, 1)


class GpuClustering(NodeScore, frozen=True):
    """Pods of one size of GPU request together: nodes that hold only such, then those that hold such too, then those that hold none, then those that hold
    others; within each the fuller first. Source: as above, after Weng et al., "MLaaS in the Wild", NSDI 2022."""

    def score(self, task: Task, nodes: NodesView) -> np.ndarray:
        wanted = task.shape.gpu
        if not wanted.devices:
            return np.zeros(len(nodes.records))
        kind = request_kind(wanted.devices, wanted.portion)
        fullness = (1 - nodes.free_gpu / nodes.largest_gpu) / 4
        base = np.array([_together(kind, held) for held in nodes.gpu_requests])
        return np.clip(base + fullness, 0, 1)


def request_kind(devices: int, portion: int) -> int:
    """0 for a share of a GPU, else how many."""
    return 0 if portion < GPU else devices


def _together(kind: int, held: frozenset[int]) -> float:
    if kind in held:
        return 3 / 4 if len(held) == 1 else 2 / 4
    return 0.0 if held else 1 / 4


def _wanted(task: Task) -> tuple[int, int]:
    gpu = task.shape.gpu
    return task.shape.cpu, gpu.devices * gpu.portion
