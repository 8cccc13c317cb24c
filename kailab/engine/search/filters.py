"""Cheap checks that avoid simulations: with these victims gone, is there enough GPU on few enough nodes, in one domain
of a required level, and on some node that the job's node affinity allows?

They only exclude sets that cannot work. Source: KAI's accumulated scenario filters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy

import numpy as np

from kailab.engine.faults import COUNTED_TWICE, FLOAT_SUMS
from kailab.engine.placing.fit import affinity_mask
from kailab.engine.search.search_goal import SearchGoal, VictimBatch
from kailab.engine.session import Session
from kailab.engine.snapshot.records import ACTIVE, GPU
from kailab.engine.working.state import WSubGroup, WTask


class Filters:
    """The checks for one goal. ``add`` each new victim, then call ``passes``."""

    def __init__(self, session: Session, goal: SearchGoal, recorded: list[VictimBatch]) -> None:
        self.session = session
        table = session.table
        self._at_first = table.free_gpu_vector().copy()
        self.free = self._at_first.copy()
        self.wanted = sorted((gpus for gpus in session.gpus_needed(goal.tasks) if gpus > 0), reverse=True)
        # For equal requests, counting how many of them fit on all nodes is enough.
        self._unit = self.wanted[0] if self.wanted and self.wanted[0] == self.wanted[-1] else 0
        self._takes = self._all_takes()
        self._nodes = goal.nodes
        self.reachable = goal.nodes.copy()
        self._affinities = self._affinity_masks(goal)
        self._levels = self._required_levels(goal)
        self._seen: set[str] = set()
        # KAI's check of idle GPUs fails if a recorded victim is in two units, and then passes all sets of victims
        # (assertRecordedVictimsState). Units share victims only when KAI's faults are imitated.
        self._checks_gpus = True
        if session.imitates(COUNTED_TWICE):
            uids = [task.uid for batch in recorded for task in batch.tasks]
            self._checks_gpus = len(set(uids)) == len(uids)
        # With KAI's sums imitated: GPUs free on each node, to which each victim adds its own in turn.
        self._floats_at_first = table.free_gpu_floats() if session.imitates(FLOAT_SUMS) else None
        self._floats = None if self._floats_at_first is None else self._floats_at_first.copy()
        for batch in recorded:
            self.add(batch.tasks)

    def add(self, tasks: list[WTask]) -> None:
        index = self.session.table.index
        for task in tasks:
            i = index.get(task.node)
            # A recorded victim may come up again, but frees its place only once.
            if i is not None and task.uid not in self._seen:
                self._seen.add(task.uid)
                before = int(self.free[i])
                now = before + self.session.accepted(task)[2]
                self.free[i] = now
                if self._unit:
                    self._takes += max(now // self._unit, 0) - max(before // self._unit, 0)
                self.reachable[i] = True
                if self._floats is not None:
                    self._floats[i] += self.session.accepted(task)[2] / GPU

    def passes_with(self, victims: Iterable[tuple[str, int]]) -> bool:
        """``passes`` with these victims alone, whatever was added. ``victims``: the node of each, and its milli-GPU."""
        alone = copy(self)
        alone.free, alone.reachable = self._at_first.copy(), self._nodes.copy()
        if self._floats_at_first is not None:
            alone._floats = self._floats_at_first.copy()
        for node, gpus in victims:
            i = self.session.table.index.get(node)
            if i is not None:
                alone.free[i] += gpus
                if alone._floats is not None:
                    alone._floats[i] += gpus / GPU
                alone.reachable[i] = True
        alone._takes = alone._all_takes()
        return alone.passes()

    def _all_takes(self) -> int:
        return int(np.maximum(self.free // self._unit, 0).sum()) if self._unit else 0

    def passes(self) -> bool:
        return (
            all((mask & self.reachable).any() for mask in self._affinities)
            and all(self._level_fits(column, amounts) for column, amounts in self._levels)
            and self._gpus_fit()
        )

    def _gpus_fit(self) -> bool:
        """Largest requests first, each onto the node with most GPU free; equal requests by counting."""
        if not self.wanted or not self._checks_gpus:
            return True
        if self._floats is not None:
            return _greedy([amount / GPU for amount in self.wanted], self._most_free(self._floats))
        if self._unit:
            return self._takes >= len(self.wanted)
        return _greedy(self.wanted, self._most_free(self.free))

    def _most_free(self, free: np.ndarray) -> np.ndarray:
        """What is free on as many nodes as there are requests, those with most, which alone can be used (KAI:
        maxFreeGpuNodesSorted).
        """
        count = min(len(self.wanted), len(free))
        return np.sort(np.partition(free, len(free) - count)[-count:])[::-1]

    def _level_fits(self, column: np.ndarray, amounts: list[int]) -> bool:
        known = column >= 0
        # A level that no node has leaves no domain for a GPU request.
        if not known.any():
            return not any(amounts)
        capacity = np.bincount(column[known], weights=self.free[known])
        return _greedy(sorted(amounts, reverse=True), np.sort(capacity)[::-1].copy())

    def _affinity_masks(self, goal: SearchGoal) -> list[np.ndarray]:
        if not self.session.config.predicates:
            return []
        infos = {id(task.info): task.info for task in goal.tasks if task.info.shape.selector or task.info.shape.terms}
        return [affinity_mask(self.session.table, info.shape) for info in infos.values()]

    def _required_levels(self, goal: SearchGoal) -> list[tuple[np.ndarray, list[int]]]:
        """Per required level: the node column, and the GPUs that each group wants there as a whole."""
        wanted: dict[str, list[int]] = {}
        tried = {task.uid for task in goal.tasks}
        for group in goal.job.root.tree():
            if isinstance(group, WSubGroup) and group.constraint is not None and group.constraint.required:
                counted = [
                    task
                    for podset in group.podsets
                    for task in podset.tasks.values()
                    # As in KAI (sumGpuRequirements), including running pods, although what they hold is not free.
                    if task.uid in tried or ACTIVE[task.status]
                ]
                amount = sum(self.session.gpus_needed(counted))
                wanted.setdefault(group.constraint.required, []).append(amount)
        return [(self.session.table.column(level)[0], amounts) for level, amounts in wanted.items()]


def _greedy(wanted: Sequence[float], capacity: np.ndarray) -> bool:
    """First fit of descending requests onto descending capacities."""
    taken = np.zeros_like(capacity)
    for amount in wanted:
        # Requests are in descending order, so all others are 0 too.
        if amount == 0:
            return True
        # As KAI compares, which matters for floats: what is taken is summed up first.
        room = np.flatnonzero(capacity - taken >= amount)
        if not len(room):
            return False
        taken[room[0]] += amount
    return True
