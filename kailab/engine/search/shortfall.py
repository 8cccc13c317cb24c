"""Sets of victims that must fail, proved by counting whether enough pods of each shape fit on the nodes.

``Shortfall`` counts with all victims gone; if too few fit, the set of victims is not simulated. ``RemainingRoom`` counts after
each victim that is placed again before the job; if too few fit, the simulation ends. The count is an upper bound (it
ignores rules between pods), so it changes no decision. It does not apply to shared or claimed devices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from kailab.engine.placing import node_capacity
from kailab.engine.search.search_goal import SearchGoal
from kailab.engine.session import Session
from kailab.engine.working.nodes import NodeTable
from kailab.engine.working.state import Job, ShapeInfo, WTask


class Shortfall:
    """The count for one search, in which every set of victims begins in the present state of the nodes."""

    def __init__(self, session: Session, nodes: np.ndarray, all_stay: bool) -> None:
        """``nodes``: where the job may go without victims. ``all_stay``: every victim has to find another place."""
        self._session = session
        self._nodes = nodes
        self._all_stay = all_stay
        self._pool = session.table.free.copy()
        self._room: dict[ShapeInfo, _ShapeRoom] = {}

    def proves_failure(self, goal: SearchGoal, victims: list[WTask]) -> bool:
        # Each shape is counted alone, so the count can only be too high.
        wanted = numbers_by_shape(goal.tasks)
        if not _amounts_decide(self._session, wanted):
            return False
        # ``needs`` does not contain what its claimed devices free.
        if any(task.info.shape.claims for task in victims):
            return False
        freed = freed_by_node(self._session.table, victims)
        for info, number in wanted.items():
            if self._room_of(info).with_freed(freed) < number:
                return True
        return self._all_stay and self._stay_in_the_way(wanted, freed, [task.info for task in victims])

    def _stay_in_the_way(
        self, wanted: dict[ShapeInfo, int], freed: dict[int, dict[int, int]], staying: list[ShapeInfo]
    ) -> bool:
        """True if the victims, which all have to be placed again, leave too little."""
        pool = np.where(self._nodes, self._pool, 0)
        for i, on_node in freed.items():
            pool[:, i] = self._pool[:, i]
            for row, amount in on_node.items():
                pool[row, i] += amount
        return any(
            node_capacity.places_beside(self._session, info, pool, staying) < number for info, number in wanted.items()
        )

    def _room_of(self, info: ShapeInfo) -> _ShapeRoom:
        room = self._room.get(info)
        if room is None:
            counts = node_capacity.pods_per_node(self._session, info, self._pool)
            counts[~self._nodes] = 0
            allowed = node_capacity.allowed_nodes(self._session, info)
            rows = [(row, amount, self._pool[row].tolist()) for row, amount in info.needs]
            room = self._room[info] = _ShapeRoom(int(counts.sum()), counts.tolist(), allowed.tolist(), rows)
        return room


class _ShapeRoom(NamedTuple):
    """How many pods of a shape fit without victims: in all, and on each node where the job may go. ``allowed``: the nodes to which the shape may go;
    ``rows``: of each resource, the amount for a pod, and what is free on each node.
    """

    total: int
    counts: list[int]
    allowed: list[bool]
    rows: list[tuple[int, int, list[int]]]

    def with_freed(self, freed: dict[int, dict[int, int]]) -> int:
        """The most pods that fit once these amounts are freed, by node and resource."""
        total = self.total
        for i, on_node in freed.items():
            if self.allowed[i]:
                fitting = min([(free[i] + on_node.get(row, 0)) // amount for row, amount, free in self.rows])
                # ``total`` already contains what fits without the node's victims.
                total += (fitting if fitting > 0 else 0) - self.counts[i]
        return total


class RemainingRoom:
    """What one simulation, with its victims gone, has left for the job's tasks while victims are placed again. It only
    shrinks.
    """

    def __init__(self, session: Session, goal: SearchGoal, victims: list[WTask], nodes: np.ndarray) -> None:
        """``nodes``: where the job may go."""
        self._session = session
        self._nodes = nodes
        wanted = Counter(task.info for task in goal.tasks)
        self._wanted: Counter[ShapeInfo] = wanted
        self._on = not (
            session.table.numa or not all(task.info.plain for task in victims) or not _amounts_decide(session, wanted)
        )
        self._counts: dict[ShapeInfo, list[int]] = {}
        self._totals: dict[ShapeInfo, int] = {}

    def too_little(self, placed: Job) -> bool:
        """True if the job's tasks cannot fit any more. ``placed``: the job that was placed last."""
        if not self._on:
            return False
        if not self._totals:
            for info in self._wanted:
                counts = node_capacity.pods_per_node(self._session, info, self._session.table.free)
                counts[~self._nodes] = 0
                self._counts[info], self._totals[info] = counts.tolist(), int(counts.sum())
        else:
            self._update({task.node for task in placed})
        return any(self._totals[info] < number for info, number in self._wanted.items())

    def _update(self, names: set[str]) -> None:
        table = self._session.table
        for name in names:
            i = table.index.get(name)
            if i is None:
                continue
            for info, counts in self._counts.items():
                # 0 where the shape may not go.
                if counts[i]:
                    free = [(int(table.idle[row, i] + table.releasing[row, i]), amount) for row, amount in info.needs]
                    on_node = min(max(left, 0) // amount for left, amount in free)
                    self._totals[info] += on_node - counts[i]
                    counts[i] = on_node


def numbers_by_shape(tasks: Iterable[WTask]) -> dict[ShapeInfo, int]:
    """How many tasks there are of each shape."""
    numbers: dict[ShapeInfo, int] = {}
    for task in tasks:
        numbers[task.info] = numbers.get(task.info, 0) + 1
    return numbers


def freed_by_node(table: NodeTable, victims: Iterable[WTask]) -> dict[int, dict[int, int]]:
    """What victims free of each resource (by row) on each node (by its place in the table). Victims on nodes that are not there free nothing."""
    freed: dict[int, dict[int, int]] = {}
    for task in victims:
        i = table.index.get(task.node)
        if i is not None:
            on_node = freed.get(i)
            if on_node is None:
                on_node = freed[i] = {}
            for row, amount in task.info.needs:
                on_node[row] = on_node.get(row, 0) + amount
    return freed


def _amounts_decide(session: Session, wanted: Iterable[ShapeInfo]) -> bool:
    """True if counting amounts is valid for these shapes. A shared device is freed only with its last task, which sums
    do not show.
    """
    return all(info.needs and info.plain for info in wanted) and not node_capacity.shares_devices(session, wanted)
