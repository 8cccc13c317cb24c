"""Sets of victims that must fail, proved by counting whether enough pods of each shape fit on the nodes.

``Shortfall`` counts with all victims gone; if too few fit, the set of victims is not simulated. ``RemainingRoom`` counts after
each victim that is placed again before the job; if too few fit, the simulation ends. The count is an upper bound (it
ignores rules between pods), so it changes no decision. It does not apply to shared or claimed devices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from kailab.engine.placing import node_capacity
from kailab.engine.search.search_goal import SearchGoal
from kailab.engine.session import Session
from kailab.engine.working.state import Job, ShapeInfo, WTask


class Shortfall:
    """The count for one search, in which every set of victims begins in the present state of the nodes."""

    def __init__(self, session: Session, nodes: np.ndarray, all_stay: bool) -> None:
        """``nodes``: where the job may go without victims. ``all_stay``: every victim has to find another place."""
        self._session = session
        self._nodes = nodes
        self._all_stay = all_stay
        self._pool = session.table.free.copy()
        self._room: dict[ShapeInfo, tuple[np.ndarray, int]] = {}  # per node, and the sum over ``nodes``

    def proves_failure(self, goal: SearchGoal, victims: list[WTask]) -> bool:
        table = self._session.table
        # Each shape is counted alone, so the count can only be too high.
        wanted = Counter(task.info for task in goal.tasks)
        if not _amounts_decide(self._session, wanted):
            return False
        freed: dict[int, Counter[ShapeInfo]] = {}
        for task in victims:
            # ``needs`` does not contain what its claimed devices free.
            if task.info.shape.claims:
                return False
            i = table.index.get(task.node)
            if i is not None:
                freed.setdefault(i, Counter())[task.info] += 1
        if any(self._fitting(info, freed) < number for info, number in wanted.items()):
            return True
        return self._all_stay and self._stay_in_the_way(wanted, freed, [task.info for task in victims])

    def _stay_in_the_way(
        self, wanted: Counter[ShapeInfo], freed: dict[int, Counter[ShapeInfo]], staying: list[ShapeInfo]
    ) -> bool:
        """True if the victims, which all have to be placed again, leave too little."""
        pool = np.where(self._nodes, self._pool, 0)
        for i, numbers in freed.items():
            pool[:, i] = self._pool[:, i]
            for leaving, number in numbers.items():
                for row, amount in leaving.needs:
                    pool[row, i] += number * amount
        return any(
            node_capacity.places_beside(self._session, info, pool, staying) < number for info, number in wanted.items()
        )

    def _fitting(self, info: ShapeInfo, freed: dict[int, Counter[ShapeInfo]]) -> int:
        """The most pods of a shape that fit."""
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
            on_node = min((int(self._pool[row, i]) + more[row]) // amount for row, amount in info.needs)
            # ``total`` already contains what fits without the node's victims.
            total += max(on_node, 0) - (int(counts[i]) if self._nodes[i] else 0)
        return total

    def _room_of(self, info: ShapeInfo) -> tuple[np.ndarray, int]:
        cached = self._room.get(info)
        if cached is None:
            counts = node_capacity.pods_per_node(self._session, info, self._pool)
            cached = self._room[info] = (counts, int(counts[self._nodes].sum()))
        return cached


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


def _amounts_decide(session: Session, wanted: Iterable[ShapeInfo]) -> bool:
    """True if counting amounts is valid for these shapes. A shared device is freed only with its last task, which sums
    do not show.
    """
    return all(info.needs and info.plain for info in wanted) and not node_capacity.shares_devices(session, wanted)
