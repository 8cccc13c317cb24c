"""Fragmentation, and the policy that lets it grow the least: GPUs are a fragment to a pod that can't use them.

Source: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent", USENIX ATC 2023, section 4, and its simulator."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from kailab.engine.policies.contract import NodeScore
from kailab.engine.policies.views import NodesView
from kailab.engine.snapshot.records import GPU, Task
from kailab.model.labels import GPU_PRODUCT


class Typical(msgspec.Struct, frozen=True, array_like=True):
    """A sort of pod that is to be expected: ``cpu`` in millicores, ``devices`` times ``portion`` thousandths of a GPU, on one of ``models`` (any where
    empty), and which part of all pods are such."""

    cpu: int
    devices: int
    portion: int
    models: tuple[str, ...]
    part: float


class Fgd(NodeScore, frozen=True):
    """The node on which this pod lets the expected fragmentation grow least (or shrink most). ``workload``: the sorts of pods to be expected; their
    parts add up to 1.

    Which of a node's shared devices it gets is the engine's choice, the fullest that can take it; the score is that of this device."""

    workload: tuple[Typical, ...]

    def score(self, task: Task, nodes: NodesView) -> np.ndarray:
        devices, models = nodes.devices, nodes.label(GPU_PRODUCT)
        before = fragments(devices, nodes.idle_cpu, models, self.workload)
        after = fragments(placed(task, devices), nodes.idle_cpu - task.shape.cpu, models, self.workload)
        grows = np.clip((after - before) / GPU, -60, 60)
        result: np.ndarray = 1 / (1 + np.exp(grows))
        return result


def fragments(devices: np.ndarray, cpu: np.ndarray, models: np.ndarray, workload: Sequence[Typical]) -> np.ndarray:
    """The expected fragmentation of each node, in milli-GPU. ``devices``: one row a node, what is free on each of its GPUs; ``cpu``: millicores free; ``models``: of GPUs, as text.

    To a pod that a node could take the devices with less room than its share are fragments; to any other, and to a pod without GPUs, all that is free."""
    free = devices.sum(axis=1)
    found = np.zeros(len(devices))
    by_portion: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    for sort in workload:
        if not sort.devices:
            found += sort.part * free
            continue
        if sort.portion not in by_portion:
            fitting = devices >= sort.portion
            by_portion[sort.portion] = fitting.sum(axis=1), np.where(fitting, 0, devices).sum(axis=1)
        count, small = by_portion[sort.portion]
        usable = (count >= sort.devices) & (cpu >= sort.cpu)
        if sort.models:
            usable &= np.isin(models, sort.models)
        found += sort.part * np.where(usable, small, free)
    return found


def placed(task: Task, devices: np.ndarray) -> np.ndarray:
    """What is free on each device once the task is there: on the fullest that can take it. Where it does not fit the row means nothing."""
    wanted = task.shape.gpu
    if not wanted.devices:
        return devices
    room = np.where(devices >= wanted.portion, devices, 2 * GPU)
    order = np.argsort(room, axis=1, kind="stable")[:, : wanted.devices]
    after = devices.copy()
    rows = np.arange(len(devices))[:, None]
    after[rows, order] -= wanted.portion
    return np.maximum(after, 0)


def typical(pods: Sequence[tuple[int, int, int, tuple[str, ...]]], popular: float = 0.95) -> tuple[Typical, ...]:
    """The sorts of pods (cpu, devices, portion, models) that are most often seen, until they are this part of all, each with its part of these."""
    counts: dict[tuple[int, int, int, tuple[str, ...]], int] = {}
    for pod in pods:
        counts[pod] = counts.get(pod, 0) + 1
    chosen: list[tuple[tuple[int, int, int, tuple[str, ...]], int]] = []
    seen = 0
    for pod, count in sorted(counts.items(), key=lambda one: (-one[1], one[0])):
        if seen >= popular * len(pods):
            break
        chosen.append((pod, count))
        seen += count
    return tuple(Typical(*pod, part=count / seen) for pod, count in chosen)
