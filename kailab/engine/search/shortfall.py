"""Scenarios that can't work, found out by counting: do as many pods of each shape fit on the nodes as are to be placed?

Asked with all victims gone (``Shortfall``): where not, simulating the scenario would fail, and need not be done. And asked after each victim
that is placed again before the job has its turn (``RoomLeft``): where not, the rest of the simulation need not be done. The count is generous (it
sees resources, not what pods think of each other), so it changes no decision. Where devices are shared or claimed it has no opinion.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from kailab.engine.placing import node_capacity
from kailab.engine.search.goal import SearchGoal
from kailab.engine.session import Session
from kailab.engine.working.state import Job, ShapeInfo, WTask


class Shortfall:
    """For one search, of which every scenario begins in the state that the nodes are in now."""

    def __init__(self, session: Session, nodes: np.ndarray, all_stay: bool) -> None:
        """``nodes``: where the job may go without victims. ``all_stay``: every victim has to find another place."""
        self._session = session
        self._nodes = nodes
        self._all_stay = all_stay
        self._pool = session.table.free.copy()
        self._room: dict[ShapeInfo, tuple[np.ndarray, int]] = {}  # per node, and on ``nodes`` in all

    def proves_hopeless(self, goal: SearchGoal, victims: list[WTask]) -> bool:
        table = self._session.table
        # Each shape is counted as if it were alone, so the count can only be too high.
        wanted = Counter(task.info for task in goal.tasks)
        if not _amounts_decide(self._session, wanted):
            return False
        freed: dict[int, Counter[ShapeInfo]] = {}
        for task in victims:
            # What its devices free is not in ``needs``.
            if task.info.shape.claims:
                return False
            i = table.index.get(task.node)
            if i is not None:
                freed.setdefault(i, Counter())[task.info] += 1
        staying = [task.info for task in victims] if self._all_stay else []
        return any(
            self._fitting(info, freed) < number + node_capacity.capacity_taken(self._session, info, staying)
            for info, number in wanted.items()
        )

    def _fitting(self, info: ShapeInfo, freed: dict[int, Counter[ShapeInfo]]) -> int:
        """How many pods of a shape fit at the most."""
        counts, total = self._room_of(info)
        allowed = node_capacity.allowed_nodes(self._session, info)
        for i, numbers in freed.items():
            if not allowed[i]:
                continue
            more = {row: 0 for row, _ in info.needs}
            for leaving, number in numbers.items():
                for row, amount in leaving.needs:
                    if row in more:
                        more[row] += number * amount
            here = min((int(self._pool[row, i]) + more[row]) // amount for row, amount in info.needs)
            # What the node had without its victims is in ``total`` already.
            total += max(here, 0) - (int(counts[i]) if self._nodes[i] else 0)
        return total

    def _room_of(self, info: ShapeInfo) -> tuple[np.ndarray, int]:
        found = self._room.get(info)
        if found is None:
            counts = node_capacity.pods_per_node(self._session, info, self._pool)
            found = self._room[info] = (counts, int(counts[self._nodes].sum()))
        return found


class RoomLeft:
    """Of one simulation whose victims are gone: what is left for the tasks of the job, as victims take places again. It only grows less."""

    def __init__(self, session: Session, goal: SearchGoal, victims: list[WTask], nodes: np.ndarray) -> None:
        """``nodes``: where the job may go."""
        self._session = session
        self._nodes = nodes
        wanted = Counter(task.info for task in goal.tasks)
        self._wanted: Counter[ShapeInfo] = wanted
        self._on = not (
            session.table.numa
            # What a simulation leaves behind there when it is undone may change the next one.
            or session.working.topologies
            or not all(task.info.plain for task in victims)
            or not _amounts_decide(session, wanted)
        )
        self._counts: dict[ShapeInfo, list[int]] = {}
        self._totals: dict[ShapeInfo, int] = {}

    def too_little(self, placed: Job) -> bool:
        """``placed``: the job that took places last."""
        if not self._on:
            return False
        if not self._totals:
            for info in self._wanted:
                counts = node_capacity.pods_per_node(self._session, info, self._session.table.free)
                counts[~self._nodes] = 0
                self._counts[info], self._totals[info] = counts.tolist(), int(counts.sum())
        else:
            self._look_at({task.node for task in placed})
        return any(self._totals[info] < number for info, number in self._wanted.items())

    def _look_at(self, names: set[str]) -> None:
        table = self._session.table
        for name in names:
            i = table.index.get(name)
            if i is None:
                continue
            for info, counts in self._counts.items():
                # None where the shape may not go.
                if counts[i]:
                    free = [(int(table.idle[row, i] + table.releasing[row, i]), amount) for row, amount in info.needs]
                    here = min(max(left, 0) // amount for left, amount in free)
                    self._totals[info] += here - counts[i]
                    counts[i] = here


def _amounts_decide(session: Session, wanted: Iterable[ShapeInfo]) -> bool:
    """Whether room for these can be counted. A shared device is freed only with the last of those on it, which no sum of their amounts
    shows."""
    return not session.table.shared and all(info.needs and info.plain for info in wanted)
