"""What a policy sees: values made of the engine's records and of the state of the cycle."""

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
    """A PodGroup, its pods, and its state at this moment of the cycle.

    ``tasks``: all its pods. ``wants``: what would be placed next: the missing pods of its gang, or one pod above its
    minimum. ``holds``: what its placed pods hold. ``minimum``: whether its placed pods are below, at or above its
    minimum. ``waiting_since``: when its wait to start began, in seconds since the epoch; None while its gang runs.
    ``queue``: its queue's balance at the beginning of the cycle; None without such a queue, and while shares are
    divided (``QueueView``). ``now``: the time of the cycle.
    """

    group: PodGroup
    tasks: tuple[Task, ...]
    wants: Resources
    holds: Resources
    minimum: Literal["below", "at", "above"]
    waiting_since: float | None
    queue: QueueState | None
    now: float


class QueueView(msgspec.Struct, frozen=True, kw_only=True):
    """A queue during the division of fair shares, with all queues below it. ``requested`` includes what it holds.
    ``beside``: how many queues of the same parent ask for something, this one included. ``total``: the cluster's
    resources. ``now``: the time of the cycle.
    """

    queue: Queue
    holds: Resources
    requested: Resources
    beside: int
    total: Resources
    now: float
    look_at_jobs: Callable[[], tuple[JobView, ...]]

    @property
    def jobs(self) -> tuple[JobView, ...]:
        """The jobs of the queue and all below it that hold or want something. Computed on request."""
        return self.look_at_jobs()


class NodesView(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes by name with their free resources: one number a node, in the order of ``records``.

    The nodes are all nodes, or those in question (``NodeScore.local``). Units as in ``Resources``; the arrays are
    read-only. ``all``: the node's capacity. ``idle``: free now. ``leaving``: held by leaving pods, so free later. GPUs
    are whole devices here: a shared device is not idle. ``largest``: ``largest_cpu`` and ``largest_gpu`` if nodes
    outside of the view count too.
    """

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
        """Milli-GPU free on each GPU: one row a node, as many columns as the largest node has GPUs, in no order; 0 for
        absent GPUs and for those taken whole. Computed on request.
        """
        return self.look_at_devices()

    @property
    def free_gpu(self) -> np.ndarray:
        """Milli-GPU free on all GPUs of each node, shared ones included."""
        free: np.ndarray = self.devices.sum(axis=1)
        return free

    @property
    def gpu_requests(self) -> tuple[frozenset[int], ...]:
        """The kinds of requests among the pods on each node: 0 for a share of a GPU, else the number of GPUs."""
        return self.look_at_requests()

    def label(self, key: str) -> np.ndarray:
        """The value of a label of each node, as text; empty without the label."""
        return self.look_at_label(key)

    @property
    def largest_cpu(self) -> int:
        """The largest CPU capacity of a node of the cluster; at least 1."""
        return max(1, int(self.all_cpu.max(initial=0))) if self.largest is None else self.largest[0]

    @property
    def largest_gpu(self) -> int:
        """The largest GPU capacity of a node of the cluster, in milli-GPU; at least 1."""
        return max(1, int(self.all_gpu.max(initial=0))) if self.largest is None else self.largest[1]
