"""Scenarios that can't work because of the order in which places are given: every victim has its turn before the job, and takes a place as good as
the one that it left.

In a full cluster this is what most searches end with: the job's queue comes after the victims' queue, as its best job (often another one, which has to
wait) asks for more than the victims do. Simulating such a scenario places all its victims again, and finds no room for the job. Here two things are shown
instead, without a change to any node:

* *turns*: with any of its victims still to be placed, a victims' queue is served before the job's. Queues are compared by measures that only grow with what
  they hold and want, so it is enough to measure the most that they can come to.
* *places*: once all victims have had their turns, there is no more room than before. That is certain where victims and job are pods of one shape, as each takes
  exactly one of the places that there are for it, or where all victims are of one node and fit on no other.

Where either can't be told by counting (gangs, shares, claims, what pods think of each other), there is no opinion and the scenario is simulated.
"""

from __future__ import annotations

from bisect import bisect_right
from copy import copy
from itertools import accumulate

import numpy as np

from kailab.engine.placing import room
from kailab.engine.queueing.order import NOTHING, Measure, measure
from kailab.engine.search.goal import Goal
from kailab.engine.session import Session
from kailab.engine.snapshot.statuses import ALLOCATED
from kailab.engine.working.queues import Amounts, WQueue
from kailab.engine.working.state import Job, ShapeInfo, WTask


class Comeback:
    """For one search, of which every scenario begins in the state that nodes and queues are in now."""

    def __init__(self, session: Session, job: Job) -> None:
        self._session = session
        self._job = job
        self._queue = session.queue_of(job)
        self._on = (
            self._queue is not None
            # An order of one's own between queues, and what decides beside amounts, would have to be asked.
            and session.precedence is None
            and not session.config.imitate_faults
            and not session.working.topologies
            and not session.working.has_anti_affinity
            and not session.table.numa
        )
        self._room: dict[ShapeInfo, np.ndarray] = {}
        self._waiting: dict[WQueue, tuple[list[tuple[object, ...]], list[Amounts]]] = {}
        self._before: dict[tuple[WQueue, Amounts, Amounts], Measure] = {}
        self._mine: dict[Amounts, Measure] = {}

    def proves_hopeless(self, goal: Goal, victims: list[WTask]) -> bool:
        if not self._on or not all(map(_alone, victims)) or not all(_simple(task.info) for task in goal.tasks):
            return False
        return self._no_more_room(goal, victims) and self._before_job(goal, victims)

    def rules_out(self, tasks: list[WTask], victims: list[WTask]) -> bool:
        """Whether no scenario for these tasks of the job can work, whichever of the victims go: what holds for all of them holds for each part."""
        if not victims or any(task.info is not tasks[0].info for task in victims):
            return False
        return self.proves_hopeless(Goal(self._job, tasks, self._session.table.all), victims)

    # Places

    def _no_more_room(self, goal: Goal, victims: list[WTask]) -> bool:
        info = goal.tasks[0].info
        if any(task.info is not info for task in goal.tasks):
            return False
        nodes = goal.nodes
        if not all(task.info is info for task in victims):
            i = self._only_node(victims)
            if i is None:
                return False
            elsewhere = goal.nodes.copy()
            elsewhere[i] = False
            if any(self._places(each)[elsewhere].any() for each in {task.info for task in victims}):
                return False
            nodes = goal.nodes.copy()
            nodes[i] = True
        return int(self._places(info)[nodes].sum()) < len(goal.tasks)

    def _only_node(self, victims: list[WTask]) -> int | None:
        """The node of all victims, where each surely finds its place again."""
        names = {task.node for task in victims}
        table = self._session.table
        i = table.index.get(next(iter(names))) if len(names) == 1 else None
        if i is None or (table.free[:, i] < 0).any():
            return None
        return i if all(room.allowed(self._session, info)[i] for info in {task.info for task in victims}) else None

    def _places(self, info: ShapeInfo) -> np.ndarray:
        """How many of the shape each node has room for with nobody gone."""
        found = self._room.get(info)
        if found is None:
            found = self._room[info] = room.counts(self._session, info, self._session.table.free)
        return found

    # Turns

    def _before_job(self, goal: Goal, victims: list[WTask]) -> bool:
        session, mine = self._session, self._queue
        assert mine is not None
        by_queue: dict[WQueue, list[WTask]] = {}
        for task in victims:
            assert task.job is not None
            queue = session.queue_of(task.job)
            # Only siblings are compared with each other by their own measures.
            if queue is None or queue is mine or queue.parent is not mine.parent or not queue.leaf:
                return False
            by_queue.setdefault(queue, []).append(task)
        first = self._measure_of_job(goal)
        for queue, tasks in by_queue.items():
            held = {session.accepted(task) for task in tasks}
            most = self._most_wanted(queue, tasks)
            # A victim that its queue would refuse by now leaves its place to others.
            if any(_over_limit(queue, amounts) for amounts in held):
                return False
            # While one of them has no place its queue holds no more than now without it.
            if not all(self._measure_without(queue, amounts, most) < first for amounts in held):
                return False
        return True

    def _measure_of_job(self, goal: Goal) -> Measure:
        """By what the job's queue is compared until the first of its jobs has its turn."""
        session, queue = self._session, self._queue
        assert queue is not None
        wanted = session.wants(goal.tasks, session.table.min_gpu_memory)
        key = self._job.order_key()
        for other_key, other in session.waiting.lists.get(queue.name, ()):
            if other is self._job:
                continue
            if other_key < key:
                wanted = session.wanted(other)
            break
        found = self._mine.get(wanted)
        if found is None:
            found = self._mine[wanted] = measure(queue, wanted, NOTHING, session.tree.totals)
        return found

    def _most_wanted(self, queue: WQueue, tasks: list[WTask]) -> Amounts:
        """The most, resource by resource, that jobs ask for which may be the next of the queue before its last victim is."""
        session = self._session
        known = self._waiting.get(queue)
        if known is None:
            entries = session.waiting.lists.get(queue.name, [])
            wants = accumulate((session.wanted(job) for _, job in entries), _larger)
            known = self._waiting[queue] = ([key for key, _ in entries], list(wants))
        keys, most = known
        # An order of one's own may say anything of a job that is gone: then each of those that wait may come first.
        before = len(keys)
        if session.ranking is None:
            before = bisect_right(keys, max(_key_once_gone(task) for task in tasks))
        found = most[before - 1] if before else NOTHING
        device = session.table.min_gpu_memory
        for task in tasks:
            found = _larger(found, session.wants([task], device))
        return found

    def _measure_without(self, queue: WQueue, amounts: Amounts, wanted: Amounts) -> Measure:
        key = queue, amounts, wanted
        found = self._before.get(key)
        if found is None:
            without = copy(queue)
            without.allocated = [held - amount for held, amount in zip(queue.allocated, amounts, strict=True)]
            found = self._before[key] = measure(without, wanted, NOTHING, self._session.tree.totals)
        return found


def _over_limit(queue: WQueue, amounts: Amounts) -> bool:
    """Whether the queue, or one above it, holds more than its limit of what the amounts are of."""
    return any(amounts[r] and level.allocated[r] > level.limit[r] for level in queue.path for r in range(len(amounts)))


def _larger(one: Amounts, other: Amounts) -> Amounts:
    return max(one[0], other[0]), max(one[1], other[1]), max(one[2], other[2])


def _key_once_gone(task: WTask) -> tuple[object, ...]:
    """The order key of a job of one pod (``Job.order_key``) once that pod is evicted."""
    assert task.job is not None
    assert task.podset is not None
    return task.job.kai_key(0 if task.podset.minimum > 0 else 1)


def _simple(info: ShapeInfo) -> bool:
    """Whether amounts, and which nodes the shape may go to, are all that decides on its place."""
    shape = info.shape
    return (
        bool(info.needs)
        and info.plain
        and not (info.requires_pods or info.prefers_pods or shape.ports or shape.gpu.mig)
    )


def _alone(task: WTask) -> bool:
    """Whether the victim is all of its job, and holds a place (not the promise of one): it is placed again as a whole, or not at all."""
    job, podset = task.job, task.podset
    return (
        job is not None
        and podset is not None
        and len(job.tasks) == 1
        and len(job.podsets) == 1
        and podset.minimum <= 1
        and job.record.preemptible
        and task.left is None
        and ALLOCATED[task.status]
        and _simple(task.info)
    )
