"""Calls of a ``NodeScore``, and the views of nodes and devices that it gets.

The scores of a local policy are cached with the node table by shape, and updated only for nodes that changed since,
because a frozen policy would repeat them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from kailab.engine.policies.contract import NodeScore, make_policy
from kailab.engine.policies.job_orders import call_policy, quoted_answer, wrong_answer
from kailab.engine.policies.settings import PolicyChoice
from kailab.engine.policies.views import NodesView
from kailab.engine.snapshot.records import GPU
from kailab.engine.working.layout import CPU, GPUS, MEMORY
from kailab.engine.working.state import WTask

if TYPE_CHECKING:
    from kailab.engine.working.nodes import NodeTable

_MOST_CACHED = 1000
"""The most shapes with cached scores; beyond that the oldest is dropped."""


class ChosenScore:
    """Calls a ``NodeScore`` in one cycle."""

    def __init__(self, table: NodeTable, choice: PolicyChoice) -> None:
        self._policy = make_policy(choice, NodeScore)
        self._choice = choice
        self._table = table
        # The table is sorted by name and constant during a cycle, and so is the order of answers.
        self._records = tuple(table.nodes)
        self._chooses = type(self._policy).devices is not NodeScore.devices
        self._largest = (_most(table, CPU), _most(table, GPUS))
        self._cached: dict[object, tuple[np.ndarray, np.ndarray]] = {}
        if self._policy.local:
            if table.scored is None or table.scored[0] != choice:
                table.scored = (choice, self._cached)
            self._cached = table.scored[1]

    def of(self, task: WTask, candidates: np.ndarray) -> np.ndarray:
        """A score from 0 to 1 for each node; 0 for nodes that are no candidates."""
        if self._policy.local:
            scores = self._local(task)
        else:
            scores = self._ask(task, np.arange(len(self._records)))
        good = (scores >= 0) & (scores <= 1)  # false for NaN
        if not good[candidates].all():
            i = int(np.flatnonzero(candidates & ~good)[0])
            answer = f"{scores[i]:g} for node {self._records[i].name}"
            raise wrong_answer(self._choice, "score", _about(task), answer, "a number from 0 to 1")
        return np.where(candidates, scores, 0.0)

    def devices(self, task: WTask, i: int, room: list[int]) -> list[float] | None:
        """A score from 0 to 1 for each device of node ``i`` that can take the task's share; None if the policy leaves
        the choice to the engine.
        """
        if not self._chooses or not room:
            return None
        about = f"{_about(task)} on node {self._records[i].name}"
        free = _read_only(np.array(room, dtype=np.int64))
        view = self._view(np.array([i]))
        answer = call_policy(self._choice, "devices", about, lambda: self._policy.devices(task.record, view, free))
        if answer is None:
            return None
        scores = self._numbers(answer, "devices", about, len(room), "device")
        if not ((scores >= 0) & (scores <= 1)).all():
            raise wrong_answer(self._choice, "devices", about, f"{scores.tolist()}", "numbers from 0 to 1")
        device_scores: list[float] = scores.tolist()
        return device_scores

    def _local(self, task: WTask) -> np.ndarray:
        table, shape = self._table, task.record.shape
        cached = self._cached.get(shape)
        if cached is None:
            if len(self._cached) >= _MOST_CACHED:
                del self._cached[next(iter(self._cached))]
            scores = self._ask(task, np.arange(len(self._records)))
            self._cached[shape] = (scores, table.changes.copy())
            return scores
        scores, seen = cached
        changed = np.flatnonzero(table.changes != seen)
        if changed.size:
            scores[changed] = self._ask(task, changed)
            seen[changed] = table.changes[changed]
        return scores

    def _ask(self, task: WTask, nodes: np.ndarray) -> np.ndarray:
        """The policy's scores of the nodes with these numbers."""
        about = _about(task)
        answer = call_policy(self._choice, "score", about, lambda: self._policy.score(task.record, self._view(nodes)))
        return self._numbers(answer, "score", about, len(nodes), "node")

    def _numbers(self, answer: object, method: str, about: str, count: int, noun: str) -> np.ndarray:
        try:
            scores = np.array(answer, dtype=float)
        except (TypeError, ValueError, OverflowError):
            raise wrong_answer(
                self._choice, method, about, quoted_answer(answer), f"a number for each {noun}"
            ) from None
        if scores.shape != (count,):
            answer_text = f"{len(scores)} numbers" if scores.ndim == 1 else f"an array of shape {scores.shape}"
            raise wrong_answer(self._choice, method, about, answer_text, f"{count} numbers, one for each {noun}")
        return scores

    def _view(self, nodes: np.ndarray) -> NodesView:
        table = self._table
        idle, leaving = table.idle, table.releasing
        all_nodes = len(nodes) == len(self._records)
        return NodesView(
            records=self._records if all_nodes else tuple(self._records[i] for i in nodes),
            idle_cpu=_read_only(idle[CPU, nodes]),
            idle_memory=_read_only(idle[MEMORY, nodes]),
            idle_gpu=_read_only(idle[GPUS, nodes]),
            leaving_cpu=_read_only(leaving[CPU, nodes]),
            leaving_memory=_read_only(leaving[MEMORY, nodes]),
            leaving_gpu=_read_only(leaving[GPUS, nodes]),
            all_cpu=_read_only(table.allocatable[CPU, nodes]),
            all_gpu=_read_only(table.allocatable[GPUS, nodes]),
            look_at_devices=lambda: _read_only(device_room(table, nodes)),
            look_at_requests=lambda: tuple(_requests(table.tasks[i]) for i in nodes),
            look_at_label=_of_nodes(lambda key: label_texts(table, key), nodes),
            largest=self._largest,
        )


def label_texts(table: NodeTable, key: str) -> np.ndarray:
    """See ``NodesView.label``."""
    codes, values = table.column(key)
    texts: np.ndarray = np.array([*values, ""])[codes]  # -1 (absent) selects the last entry
    return texts


def device_room(table: NodeTable, nodes: np.ndarray | None = None) -> np.ndarray:
    """See ``NodesView.devices``; for all nodes, or those with these numbers. What is promised of a shared device counts
    as taken.
    """
    most = int(table.allocatable[GPUS].max(initial=0)) // GPU
    idle = table.idle[GPUS] if nodes is None else table.idle[GPUS, nodes]
    room = np.where(np.arange(most) < idle[:, None] // GPU, GPU, 0)
    if table.shares.nodes and most:
        free = table.shares.free_shares(most)
        # Devices in use are filled from the right, so that only promises can hide a whole device.
        room = np.where(free > 0, free, room) if nodes is None else np.where(free[nodes] > 0, free[nodes], room)
    return room


def _of_nodes(read: Callable[[str], np.ndarray], nodes: np.ndarray) -> Callable[[str], np.ndarray]:
    return lambda key: read(key)[nodes]


def _requests(tasks: dict[str, WTask]) -> frozenset[int]:
    wanted = (task.info.shape.gpu for task in tasks.values())
    return frozenset(0 if gpu.shared else gpu.devices for gpu in wanted if gpu.devices)


def _most(table: NodeTable, row: int) -> int:
    return max(1, int(table.allocatable[row].max(initial=0)))


def _about(task: WTask) -> str:
    return f"pod {task.record.namespace}/{task.record.name}"


def _read_only(row: np.ndarray) -> np.ndarray:
    """Make a copy read-only, so that a policy cannot write to it."""
    row.flags.writeable = False
    return row
