"""Sets of victims that must fail because victims are served before the job and take places as good as those that they left.

In a full cluster most searches end like this: the job's queue comes after the victims' queue, because its best job
(often another waiting one) asks for more than the victims do. The simulation places all victims again and finds no room
for the job. Two conditions prove that without changing a node:

- *turns*: as long as one of its victims is not placed, a victims' queue is served before the job's. Queues are compared
  by measures that only grow with what they hold and want, so measuring the largest possible values is enough.
- *places*: after all victims have been served, there is too little room for the job. That is certain if there is no
  more room than before: if victims and job are pods of one shape (each takes exactly one place), if all victims are of
  one node and fit on no other, or if packing them leaves no gaps (``Repacking``).

Where these do not hold and only GPUs decide, the victims are served in their order on counts of GPUs
(``CountedNodes``), until the job has its turn or its room is gone.

If counting cannot decide (victims that share devices, claims, rules between pods), the set of victims is simulated.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from heapq import merge
from itertools import accumulate, takewhile
from operator import attrgetter, itemgetter
from typing import NamedTuple

import numpy as np

from kailab.engine.placing import node_capacity
from kailab.engine.placing.allocation import confined
from kailab.engine.queueing.jobqueue import OrderKey
from kailab.engine.queueing.order import NOTHING, Measure, measure
from kailab.engine.search.repacking import CountedNodes, Repacking
from kailab.engine.search.search_goal import SearchGoal
from kailab.engine.session import Session
from kailab.engine.snapshot.records import ALLOCATED, GPU
from kailab.engine.working.layout import GPUS
from kailab.engine.working.queues import Amounts, WQueue
from kailab.engine.working.state import Job, ShapeInfo, WTask


class _WholeJob(NamedTuple):
    """A job that is evicted as a whole. ``key``: its order key (``Job.order_key``) in KAI's order once all its pods are
    evicted. ``pods``: the milli-GPU of each, in the order in which they are placed again.
    """

    job: Job
    queue: WQueue
    held: Amounts
    wanted: Amounts
    key: OrderKey
    pods: list[int]


@dataclass
class _QueueTurns:
    """A queue with evicted jobs. ``next``: its waiting or evicted job that has its turn next; ``later``: those after it.
    ``evicted``: how many of them are evicted ones. ``allocated``: what it holds now.
    """

    queue: WQueue
    next: Job
    later: Iterator[Job]
    evicted: int
    allocated: Amounts
    measure: Measure


class VictimsFirstBound:
    """The proof for one search, in which every set of victims begins in the present state of nodes and queues."""

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
        self._measures: dict[tuple[WQueue, Amounts, Amounts], Measure] = {}
        self._turn_keys: dict[Job, OrderKey] = {}
        self._mine: dict[Amounts, Measure] = {}
        self._ahead: set[Amounts] | None = None  # what the jobs before it in its queue want

    def proves_failure(self, goal: SearchGoal, victims: list[WTask]) -> bool:
        jobs = self._jobs_by_amounts(goal, victims)
        return jobs is not None and (
            (self._before_job(goal, jobs) and self._take_as_much(goal, victims, jobs))
            or self._too_little_left(goal, victims, jobs)
        )

    def rules_out(self, tasks: list[WTask], victims: list[WTask]) -> bool:
        """True if no set of victims for these tasks can work, whichever of the victims go: a proof for all of them holds for
        each part.
        """
        if not victims or any(task.info is not tasks[0].info for task in victims):
            return False
        goal = SearchGoal(self._job, tasks, self._session.table.all)
        jobs = self._jobs_by_amounts(goal, victims)
        # If some victims are served after the job, it may get room where fewer go.
        return (
            jobs is not None
            and self._before_job(goal, jobs)
            and (self._take_as_much(goal, victims, jobs) or self._too_little_left(goal, victims, jobs))
        )

    def leaves_too_little(self, tasks: list[WTask], victims: list[WTask]) -> bool:
        """As ``rules_out``, for victims of unlike shapes and tasks of one: whichever of the victims go and come back before the job, in
        whatever order, they leave it too few places.
        """
        if not victims or any(task.info is not tasks[0].info for task in tasks):
            return False
        goal = SearchGoal(self._job, tasks, self._session.table.all)
        jobs = self._jobs_by_amounts(goal, victims)
        return (
            jobs is not None
            and tasks[0].info.plain
            and self._repacking.leaves_too_little(tasks, victims, [job.pods for job in jobs])
            and self._before_job(goal, jobs)
        )

    def _jobs_by_amounts(self, goal: SearchGoal, victims: list[WTask]) -> list[_WholeJob] | None:
        """The victims' jobs; None if more than amounts and measures decides when and where they and the job are placed."""
        if not self._on or not all(_by_amounts(task.info) for task in goal.tasks):
            return None
        jobs = self._whole_jobs(victims)
        mine = self._queue
        assert mine is not None
        if jobs is None or any(
            # Only siblings are compared with each other by their own measures.
            queue is mine or queue.parent is not mine.parent or not queue.leaf
            # A victim that its queue would refuse now leaves its place to others.
            or _over_limit(queue, held)
            for queue, held in {(job.queue, job.held) for job in jobs}
        ):  # fmt: skip
            return None
        return jobs

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
        minimum = job.podsets[0].minimum if len(job.podsets) == 1 else -1
        if (
            queue is None
            or not (minimum == len(job.tasks) or (minimum == 0 and len(job.tasks) == 1))
            or not job.record.preemptible
            or confined(job.root)
            or not all(not task.vacated and ALLOCATED[task.status] and self._returns(task) for task in job)
        ):
            return None
        session = self._session
        return _WholeJob(
            job=job,
            queue=queue,
            held=session.accepted_in_all(job),
            wanted=session.wants(list(job), session.table.min_gpu_memory),
            key=job.kai_key(0 if minimum else 1),
            pods=[task.info.rows[GPUS] for task in sorted(job, key=lambda task: task.key)],
        )

    def _returns(self, task: WTask) -> bool:
        """True if amounts and node filters alone decide whether the task finds a place again, and its queue counts the
        same amounts there.
        """
        shape = task.info.shape
        return (
            _by_amounts(task.info)
            and task.info.plain
            and not (shape.blocked and self._session.config.predicates)
            # Devices that were accepted count for the queue on the present node only.
            and not (task.record.accepted is not None and task.record.accepted.devices)
        )

    # Places

    def _take_as_much(self, goal: SearchGoal, victims: list[WTask], jobs: list[_WholeJob]) -> bool:
        """True if victims that are all served before the job leave it no more room than there was."""
        return (len(jobs) == len(victims) and self._no_more_room(goal, victims)) or self._none_left_out(goal, victims)

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

    def _too_little_left(self, goal: SearchGoal, victims: list[WTask], jobs: list[_WholeJob]) -> bool:
        """True if the job does not fit once those victims have been served that come before it."""
        wanted = Counter(task.info for task in goal.tasks)
        # A score may read what other jobs and queues hold, which changes while victims are served.
        if not all(info.plain for info in wanted) or self._session.config.weighted_order is not None:
            return False
        nodes = self._repacking.without(goal.nodes_after(self._session.table, victims), victims, set(wanted))
        return nodes is not None and self._served_in_turn(goal, jobs, nodes, wanted)

    def _served_in_turn(
        self, goal: SearchGoal, jobs: list[_WholeJob], nodes: CountedNodes, wanted: Counter[ShapeInfo]
    ) -> bool:
        """Place the evicted jobs on ``nodes``, as far as they fit, in their order. True if there is too little room for
        ``wanted`` before the job has its turn; False if there is enough, or the order is not certain.
        """
        evicted = {whole.job: whole for whole in jobs}
        # Its queue holds the same until the job is served, so one comparison stands for all its turns up to there.
        mine = self._measure_of_job(goal)
        queues = self._evicted_by_queue(jobs, evicted)
        while queues:
            first = min(queues, key=attrgetter("measure"))
            # Other things decide between queues of one measure.
            if first.measure >= mine or any(each.measure == first.measure for each in queues if each is not first):
                return False
            whole_job = evicted.get(first.next)
            if whole_job is not None:
                if nodes.place(whole_job.pods):
                    # Room only shrinks from here on.
                    if _too_few(nodes, wanted):
                        return True
                    first.allocated = _more(first.allocated, whole_job.held)
                first.evicted -= 1
                if not first.evicted:
                    queues.remove(first)
                    continue
            first.next = next(first.later)
            first.measure = self._measure(first.queue, first.allocated, self._wanted(first.next, evicted))
        return _too_few(nodes, wanted)

    def _evicted_by_queue(self, jobs: list[_WholeJob], evicted: dict[Job, _WholeJob]) -> list[_QueueTurns]:
        by_queue: dict[WQueue, list[tuple[OrderKey, Job]]] = {}
        for whole in jobs:
            by_queue.setdefault(whole.queue, []).append((self._turn_key(whole), whole.job))
        queues = []
        for queue, mine in by_queue.items():
            waiting = (entry for entry in self._session.waiting.lists.get(queue.name, ()) if entry[1] not in evicted)
            # Those that wait are not placed, but decide by what they want when the queue has its turn. Most have none
            # before the last evicted job.
            turns = (job for _, job in merge(waiting, sorted(mine, key=itemgetter(0)), key=itemgetter(0)))
            allocated = _less(queue.allocated, *(evicted[job].held for _, job in mine))
            first = next(turns)
            measured = self._measure(queue, allocated, self._wanted(first, evicted))
            queues.append(_QueueTurns(queue, first, turns, len(mine), allocated, measured))
        return queues

    def _turn_key(self, whole: _WholeJob) -> OrderKey:
        """The order key of a job once all its pods are evicted."""
        if self._session.ranking is None:
            return whole.key
        key = self._turn_keys.get(whole.job)
        if key is None:
            session = self._session
            mark = session.mark()
            for task in whole.job:
                session.evict(task)
            key = self._turn_keys[whole.job] = whole.job.order_key()
            session.undo(mark)
        return key

    def _wanted(self, job: Job, evicted: dict[Job, _WholeJob]) -> Amounts:
        return evicted[job].wanted if job in evicted else self._session.wanted(job)

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
        by_queue: dict[WQueue, list[_WholeJob]] = {}
        for job in jobs:
            by_queue.setdefault(job.queue, []).append(job)
        first = self._measure_of_job(goal)
        for queue, members in by_queue.items():
            held = {job.held for job in members}
            most = self._most_wanted(queue, members)
            # While one of them has no place, its queue holds at most what it holds now without that one.
            if not all(self._measure(queue, _less(queue.allocated, amounts), most) < first for amounts in held):
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

    def _measure(self, queue: WQueue, allocated: Amounts, wanted: Amounts) -> Measure:
        key = queue, allocated, wanted
        result = self._measures.get(key)
        if result is None:
            as_if = copy(queue)
            as_if.allocated = list(allocated)
            result = self._measures[key] = measure(as_if, wanted, NOTHING, self._session.tree.totals)
        return result


def _too_few(nodes: CountedNodes, wanted: Counter[ShapeInfo]) -> bool:
    return any(nodes.places(info.rows[GPUS]) < number for info, number in wanted.items())


def _over_limit(queue: WQueue, amounts: Amounts) -> bool:
    """True if the queue or an ancestor holds more than its limit of a resource in ``amounts``."""
    return any(amounts[r] and level.allocated[r] > level.limit[r] for level in queue.path for r in range(len(amounts)))


def _less(held: Sequence[int], *amounts: Amounts) -> Amounts:
    cpu, memory, gpus = held
    for less in amounts:
        cpu, memory, gpus = cpu - less[0], memory - less[1], gpus - less[2]
    return cpu, memory, gpus


def _more(held: Amounts, amounts: Amounts) -> Amounts:
    return held[0] + amounts[0], held[1] + amounts[1], held[2] + amounts[2]


def _larger(left: Amounts, right: Amounts) -> Amounts:
    return max(left[0], right[0]), max(left[1], right[1]), max(left[2], right[2])


def _by_amounts(info: ShapeInfo) -> bool:
    """True if only amounts and node filters decide on the shape's place. It may share devices."""
    shape = info.shape
    return bool(info.needs) and not (
        info.requires_pods or info.prefers_pods or shape.ports or shape.claims or shape.gpu.by_profile
    )
