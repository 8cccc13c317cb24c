"""What a policy is shown: values made of the engine's records and of where things stand in the cycle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from kailab.engine.decisions import QueueState
from kailab.engine.snapshot.records import Node, PodGroup, Queue, Task


class Resources(NamedTuple):
    """CPU in millicores, memory in bytes, GPU in milli-GPU (1000: one device)."""

    cpu: int
    memory: int
    gpu: int


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """A PodGroup, its pods, and how it stands at this moment of the cycle.

    ``tasks``: all its pods as the scheduler reads them. ``wants``: what would be placed next: the missing pods of its gang, or one
    pod above its minimum. ``holds``: what its placed pods hold. ``minimum``: whether its placed pods are below, at or above its
    minimum. ``waiting_since``: when its wait to start began, in seconds since the epoch; None while its gang runs. ``queue``: where
    its queue stood when the cycle began, None if there is no such queue, and while shares are divided (``QueueView``). ``now``: the cycle's moment."""

    group: PodGroup
    tasks: tuple[Task, ...]
    wants: Resources
    holds: Resources
    minimum: Literal["below", "at", "above"]
    waiting_since: float | None
    queue: QueueState | None
    now: float


class QueueView(msgspec.Struct, frozen=True, kw_only=True):
    """A queue as fair shares are divided: what it and all below it hold and ask for (held included). ``beside``: how many queues of its parent ask for something, with it. ``total``:
    what there is in the cluster. ``now``: the cycle's moment."""

    queue: Queue
    holds: Resources
    requested: Resources
    beside: int
    total: Resources
    now: float
    look_at_jobs: Callable[[], tuple[JobView, ...]]

    @property
    def jobs(self) -> tuple[JobView, ...]:
        """Those of it and of all below it that hold or want something. Worked out when asked for."""
        return self.look_at_jobs()


class NodesView(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes by name, and what is free on each: one number a node, in the order of ``records``. They are all nodes, or those that are asked
    about (``NodeScore.local``). Units as in ``Resources``; the arrays can't be written. ``all``: what the node has. ``idle``: free now. ``leaving``: held by pods that are leaving, so free later. GPUs are whole devices
    here: a device that pods share is not idle. ``largest``: ``largest_cpu`` and ``largest_gpu``, where other nodes may have more."""

    records: tuple[Node, ...]
    idle_cpu: np.ndarray
    idle_memory: np.ndarray
    idle_gpu: np.ndarray
    leaving_cpu: np.ndarray
    leaving_memory: np.ndarray
    leaving_gpu: np.ndarray
    all_cpu: np.ndarray
    all_gpu: np.ndarray
    look_at_devices: Callable[[], np.ndarray]
    look_at_requests: Callable[[], tuple[frozenset[int], ...]]
    look_at_label: Callable[[str], np.ndarray]
    largest: tuple[int, int] | None = None

    @property
    def devices(self) -> np.ndarray:
        """What is free on each GPU, in milli-GPU: one row a node, as many columns as the largest node has GPUs, in no order; 0 where it has fewer, and
        for a GPU that is taken whole. Worked out when asked for."""
        return self.look_at_devices()

    @property
    def free_gpu(self) -> np.ndarray:
        """What is free of all GPUs of each node, shared ones included, in milli-GPU."""
        free: np.ndarray = self.devices.sum(axis=1)
        return free

    @property
    def gpu_requests(self) -> tuple[frozenset[int], ...]:
        """Of the pods on each node, which sorts of requests there are: 0 for a share of a GPU, else the number of GPUs."""
        return self.look_at_requests()

    def label(self, key: str) -> np.ndarray:
        """The value of a label of each node, as text; empty where it has none."""
        return self.look_at_label(key)

    @property
    def largest_cpu(self) -> int:
        """CPU of the node of the cluster that has most; 1 where none has any."""
        return max(1, int(self.all_cpu.max(initial=0))) if self.largest is None else self.largest[0]

    @property
    def largest_gpu(self) -> int:
        """GPUs of the node of the cluster that has most, in milli-GPU; 1 where none has any."""
        return max(1, int(self.all_gpu.max(initial=0))) if self.largest is None else self.largest[1]
