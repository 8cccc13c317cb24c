"""What a policy is shown: values made of the engine's records and of where things stand in the cycle."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec
import numpy as np

from kailab.engine.decisions import QueueState
from kailab.engine.snapshot.records import Node, PodGroup, Task


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
    its queue stood when the cycle began, None if there is no such queue. ``now``: the cycle's moment."""

    group: PodGroup
    tasks: tuple[Task, ...]
    wants: Resources
    holds: Resources
    minimum: Literal["below", "at", "above"]
    waiting_since: float | None
    queue: QueueState | None
    now: float


class NodesView(msgspec.Struct, frozen=True, kw_only=True):
    """All nodes by name, and what is free on each: one number a node, in the order of ``records``. Units as in ``Resources``; the
    arrays can't be written. ``idle``: free now. ``leaving``: held by pods that are leaving, so free later. GPUs are whole devices
    here: a device that pods share is not idle."""

    records: tuple[Node, ...]
    idle_cpu: np.ndarray
    idle_memory: np.ndarray
    idle_gpu: np.ndarray
    leaving_cpu: np.ndarray
    leaving_memory: np.ndarray
    leaving_gpu: np.ndarray
