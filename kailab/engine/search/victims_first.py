"""Scenarios that must fail because every victim is served before the job and takes a place as good as the one that it
left.

In a full cluster most searches end like this: the job's queue comes after the victims' queue, because its best job
(often another waiting one) asks for more than the victims do. The simulation places all victims again and finds no room
for the job. Two conditions prove that without changing a node:

- *turns*: as long as one of its victims is not placed, a victims' queue is served before the job's. Queues are compared
  by measures that only grow with what they hold and want, so measuring the largest possible values is enough.
- *places*: after all victims have been served, there is no more room than before. That is certain if victims and job
  are pods of one shape (each takes exactly one place), if all victims are of one node and fit on no other, or if
  packing them leaves no gaps (``Repacking``).

If counting cannot decide (victims that share devices, claims, rules between pods), the scenario is simulated.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from copy import copy
from itertools import accumulate, takewhile
from typing import Any, NamedTuple

import numpy as np

from kailab.engine.placing import node_capacity
from kailab.engine.placing.allocation import confined
from kailab.engine.queueing.order import NOTHING, Measure, measure
from kailab.engine.search.repacking import Repacking
from kailab.engine.search.search_goal import SearchGoal
from kailab.engine.session import Session
from kailab.engine.snapshot.records import ALLOCATED, GPU
from kailab.engine.working.layout import GPUS
from kailab.engine.working.queues import Amounts, WQueue
from kailab.engine.working.state import Job, ShapeInfo, WTask


class _WholeJob(NamedTuple):
    """A job that is evicted as a whole. ``key``: its order key (``Job.order_key``) in KAI's order once all its pods are
    evicted.
    """

    queue: WQueue
    held: Amounts
    wanted: Amounts
    key: tuple[Any, ...]


class VictimsFirstBound:
    """The proof for one search, in which every scenario begins in the present state of nodes and queues."""

    def __init__(self, session: Session, job: Job) -> None:
        self._session = session
        self._job = job
        self._queue = session.queue_of(job)
        self._on = (
            self._queue is not None
            # A configured order between queues, and rules beside amounts, cannot be decided by counting.
            and session.precedence is None
            and not session.imitated
            and not session.working.has_anti_affinity
            and not session.table.numa
        )
        self._repacking = Repacking(session)
        self._jobs: dict[Job, _WholeJob | None] = {}
        self._room: dict[ShapeInfo, np.ndarray] = {}
        self._waiting: dict[WQueue, tuple[list[tuple[object, ...]], list[Amounts]]] = {}
        self._before: dict[tuple[WQueue, Amounts, Amounts], Measure] = {}
        self._mine: dict[Amounts, Measure] = {}
        self._ahead: set[Amounts] | None = None  # what the jobs before it in its queue want

    def proves_hopeless(self, goal: SearchGoal, victims: list[WTask]) -> bool:
        if not self._on or not all(_by_amounts(task.info) for task in goal.tasks):
            return False
        jobs = self._whole_jobs(victims)
        if jobs is None:
            return False
        counted = len(jobs) == len(victims) and self._no_more_room(goal, victims)
        return (counted or self._none_left_out(goal, victims)) and self._before_job(goal, jobs)

    def rules_out(self, tasks: list[WTask], victims: list[WTask]) -> bool:
        """True if no scenario for these tasks can work, whichever of the victims go: a proof for all of them holds for
        each part.
        """
        if not victims or any(task.info is not tasks[0].info for task in victims):
            return False
        return self.proves_hopeless(SearchGoal(self._job, tasks, self._session.table.all), victims)

    def _whole_jobs(self, victims: list[WTask]) -> list[_WholeJob] | None:
        """The victims' jobs; None if one of them is not evicted as a whole, or is placed by more than amounts."""
        numbers = Counter(task.job for task in victims)
        whole_jobs = []
        for job, number in numbers.items():
            assert job is not None
            if job not in self._jobs:
                self._jobs[job] = self._as_whole_job(job)
            whole = self._jobs[job]
            if whole is None or number != len(job.tasks):
                return None
            whole_jobs.append(whole)
        return whole_jobs

    def _as_whole_job(self, job: Job) -> _WholeJob | None:
        """The job, if all of it holds real places and is placed again together or not at all; else None."""
        queue = self._session.queue_of(job)
        minimum = next(iter(job.podsets.values())).minimum if len(job.podsets) == 1 else -1
        if (
            queue is None
            or not (minimum == len(job.tasks) or (minimum == 0 and len(job.tasks) == 1))
            or not job.record.preemptible
            or confined(job.root)
            or not all(not task.left and ALLOCATED[task.status] and _simple(task.info) for task in job)
        ):
            return None
        session = self._session
        return _WholeJob(
            queue=queue,
            held=session.accepted_in_all(job),
            wanted=session.wants(list(job), session.table.min_gpu_memory),
            key=job.kai_key(0 if minimum else 1),
        )

    # Places

    def _no_more_room(self, goal: SearchGoal, victims: list[WTask]) -> bool:
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

    def _none_left_out(self, goal: SearchGoal, victims: list[WTask]) -> bool:
        """True if all victims find places again, which leaves fewer GPUs free than the job wants."""
        table = self._session.table
        nodes = goal.nodes_after(table, victims)
        wanted = sum(task.info.rows[GPUS] for task in goal.tasks if task.info.plain)
        # Shares can all go to one device, but nobody shares one yet (``Repacking``), so that one has to be free.
        wanted += max((task.info.shape.gpu.devices * GPU for task in goal.tasks if not task.info.plain), default=0)
        return wanted > int(table.free_of(GPUS)[nodes].sum()) and self._repacking.all_return(nodes, victims)

    def _only_node(self, victims: list[WTask]) -> int | None:
        """The node of all victims if each surely finds its place there again, else None."""
        names = {task.node for task in victims}
        table = self._session.table
        i = table.index.get(next(iter(names))) if len(names) == 1 else None
        if i is None or (table.free[:, i] < 0).any():
            return None
        return (
            i
            if all(node_capacity.allowed_nodes(self._session, info)[i] for info in {task.info for task in victims})
            else None
        )

    def _places(self, info: ShapeInfo) -> np.ndarray:
        """How many pods of the shape fit on each node without evictions."""
        counts = self._room.get(info)
        if counts is None:
            counts = self._room[info] = node_capacity.pods_per_node(self._session, info, self._session.table.free)
        return counts

    # Turns

    def _before_job(self, goal: SearchGoal, jobs: list[_WholeJob]) -> bool:
        mine = self._queue
        assert mine is not None
        by_queue: dict[WQueue, list[_WholeJob]] = {}
        for job in jobs:
            by_queue.setdefault(job.queue, []).append(job)
        # Only siblings are compared with each other by their own measures.
        if any(queue is mine or queue.parent is not mine.parent or not queue.leaf for queue in by_queue):
            return False
        first = self._measure_of_job(goal)
        for queue, members in by_queue.items():
            held = {job.held for job in members}
            most = self._most_wanted(queue, members)
            # A victim that its queue would refuse now leaves its place to others.
            if any(_over_limit(queue, amounts) for amounts in held):
                return False
            # While one of them has no place, its queue holds at most what it holds now without that one.
            if not all(self._measure_without(queue, amounts, most) < first for amounts in held):
                return False
        return True

    def _measure_of_job(self, goal: SearchGoal) -> Measure:
        """The largest measure of the job's queue until the job is served: each job before it is served first."""
        session, queue = self._session, self._queue
        assert queue is not None
        if self._ahead is None:
            key = self._job.order_key()
            entries = session.waiting.lists.get(queue.name, ())
            before = (job for _, job in takewhile(lambda entry: entry[0] < key, entries) if job is not self._job)
            self._ahead = {session.wanted(job) for job in before}
        wanted = session.wants(goal.tasks, session.table.min_gpu_memory)
        largest = self._mine.get(wanted)
        if largest is None:
            totals = session.tree.totals
            largest = max(measure(queue, amounts, NOTHING, totals) for amounts in {wanted, *self._ahead})
            self._mine[wanted] = largest
        return largest

    def _most_wanted(self, queue: WQueue, jobs: list[_WholeJob]) -> Amounts:
        """The largest amounts, resource by resource, of jobs that may be the queue's next before its last victim is."""
        session = self._session
        known = self._waiting.get(queue)
        if known is None:
            entries = session.waiting.lists.get(queue.name, [])
            wants = accumulate((session.wanted(job) for _, job in entries), _larger)
            known = self._waiting[queue] = ([key for key, _ in entries], list(wants))
        keys, most = known
        # A configured order may rank an evicted job anywhere, so each waiting job may come first.
        before = len(keys)
        if session.ranking is None:
            before = bisect_right(keys, max(job.key for job in jobs))
        largest = most[before - 1] if before else NOTHING
        for wanted in {job.wanted for job in jobs}:
            largest = _larger(largest, wanted)
        return largest

    def _measure_without(self, queue: WQueue, amounts: Amounts, wanted: Amounts) -> Measure:
        key = queue, amounts, wanted
        result = self._before.get(key)
        if result is None:
            without = copy(queue)
            without.allocated = [held - amount for held, amount in zip(queue.allocated, amounts, strict=True)]
            result = self._before[key] = measure(without, wanted, NOTHING, self._session.tree.totals)
        return result


def _over_limit(queue: WQueue, amounts: Amounts) -> bool:
    """True if the queue or an ancestor holds more than its limit of a resource in ``amounts``."""
    return any(amounts[r] and level.allocated[r] > level.limit[r] for level in queue.path for r in range(len(amounts)))


def _larger(left: Amounts, right: Amounts) -> Amounts:
    return max(left[0], right[0]), max(left[1], right[1]), max(left[2], right[2])


def _simple(info: ShapeInfo) -> bool:
    """True if only amounts and node filters decide on the shape's place, and a place is its amounts."""
    return _by_amounts(info) and info.plain


def _by_amounts(info: ShapeInfo) -> bool:
    """The same, but the shape may share devices."""
    shape = info.shape
    return bool(info.needs) and not (
        info.requires_pods or info.prefers_pods or shape.ports or shape.claims or shape.gpu.by_profile
    )
