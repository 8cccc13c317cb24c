"""Sets of victims that must fail because victims are served before the job and take places as good as those that they left.

In a full cluster most searches end like this: the job's queue comes after the victims' queue, because its best job
(often another waiting one) asks for more than the victims do. The simulation places all victims again and finds no room
for the job. Two conditions prove that without changing a node:

- *turns*: as long as one of its victims is not placed, a victims' queue is served before the job's. Queues are compared
  by measures that only grow with what they hold and want, so measuring the largest possible values is enough.
- *places*: after all victims have been served, there is too little room for the job. That is certain if there is no
  more room than before: if victims and job are pods of one shape (each takes exactly one place), if all victims are of
  one node and fit on no other, or if packing them leaves no gaps (``Repacking``).

Where only GPUs decide, the job and the victims are served in their order on counts of GPUs (``CountedNodes``). That shows
whether the job finds room, and which victims find none: the action may refuse to lose them.

If counting cannot decide (victims that share devices, claims, rules between pods), the set of victims is simulated.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from kailab.engine.placing import node_capacity
from kailab.engine.placing.allocation import confined
from kailab.engine.queueing.capacity import over_limit
from kailab.engine.queueing.jobqueue import OrderKey
from kailab.engine.queueing.order import NOTHING, Measure, measure
from kailab.engine.search.repacking import CountedNodes, Repacking
from kailab.engine.search.search_goal import SearchGoal
from kailab.engine.search.shortfall import numbers_by_shape
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


class _Served(NamedTuple):
    """What a simulation would end with. ``placed``: whether the job finds room; ``lost``: its victims that find none, if it does."""

    placed: bool
    lost: list[Job]


class _Line(NamedTuple):
    """The waiting jobs of a queue in their order, without the one that is searched for: their keys, and what they want. ``partly``: those that
    hold something, with their versions: what they want may change when a pod of theirs is evicted and put back. ``between``: see ``_wanted_between``.
    """

    keys: list[OrderKey]
    wanted: list[Amounts]
    partly: list[tuple[Job, int]]
    between: dict[tuple[int, int], frozenset[Amounts]]

    @property
    def holds(self) -> bool:
        """True if all jobs still want the same."""
        return all(job.version == version for job, version in self.partly)


class _Turn(NamedTuple):
    """A job to place. ``wanted``: what it and the waiting jobs between it and the one before it want, each once."""

    whole: _WholeJob
    wanted: frozenset[Amounts]


@dataclass
class _QueueTurns:
    """A queue with jobs to place. ``turns``: the next one is last. ``allocated``: what the queue holds now. ``measure``: the largest of the next job and of
    the waiting jobs before it. They change nothing when they have their turns, so the next job has its own once no queue's measure is smaller.
    """

    queue: WQueue
    turns: list[_Turn]
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
        # They stay the same for all searches until a statement is decided.
        self._jobs: dict[Job, _WholeJob | None] = session.until_commit.setdefault("whole jobs", {})
        self._room: dict[ShapeInfo, np.ndarray] = {}
        self._lines: dict[WQueue, _Line] = session.until_commit.setdefault("lines", {})
        self._own_line: dict[WQueue, _Line] = {}
        self._measures: dict[tuple[WQueue, Amounts, Amounts], Measure] = {}
        self._turn_keys: dict[Job, OrderKey] = session.until_commit.setdefault("turn keys", {})
        self._order_key: OrderKey | None = None

    def proves_failure(
        self, goal: SearchGoal, victims: list[WTask], refuses: Callable[[list[Job]], bool] | None = None
    ) -> bool:
        """True if a simulation with these victims surely fails. ``refuses``: whether the action would refuse to lose these of the victims' jobs."""
        jobs = self._jobs_by_amounts(goal, victims)
        if jobs is None:
            return False
        served = self._served(goal, victims, jobs)
        if served is not None:
            return not served.placed or (refuses is not None and refuses(served.lost))
        return self._before_job(goal, jobs) and self._take_as_much(goal, victims, jobs)

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
            queue.parent is not mine.parent or not queue.leaf
            # A victim that its queue would refuse now leaves its place to others.
            or _over_limit(queue, held)
            for queue, held in {(job.queue, job.held) for job in jobs}
        ):  # fmt: skip
            return None
        return jobs

    def _whole_jobs(self, victims: list[WTask]) -> list[_WholeJob] | None:
        """The victims' jobs; None if one of them is not evicted as a whole, or is placed by more than amounts."""
        numbers: dict[Job, int] = {}
        for task in victims:
            assert task.job is not None
            numbers[task.job] = numbers.get(task.job, 0) + 1
        known, whole_jobs = self._jobs, []
        for job, number in numbers.items():
            if job not in known:
                known[job] = self._as_whole_job(job)
            whole = known[job]
            if whole is None or number != len(whole.pods):
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
        served = self._served(goal, victims, jobs)
        return served is not None and not served.placed

    def _served(self, goal: SearchGoal, victims: list[WTask], jobs: list[_WholeJob]) -> _Served | None:
        """Serve the job and the evicted jobs in their order on counts of GPUs; None if the order or a place is not certain."""
        wanted = numbers_by_shape(goal.tasks)
        # A score may read what other jobs and queues hold, which changes while victims are served.
        if not all(info.plain for info in wanted) or self._session.config.weighted_order is not None:
            return None
        nodes = self._repacking.without(goal.nodes, victims, set(wanted))
        return None if nodes is None else self._served_in_turn(goal, jobs, nodes, wanted)

    def _served_in_turn(
        self, goal: SearchGoal, jobs: list[_WholeJob], nodes: CountedNodes, wanted: dict[ShapeInfo, int]
    ) -> _Served | None:
        queues = self._turns_by_queue([*jobs, self._as_placed(goal)])
        placed, lost = False, list[Job]()
        while queues:
            first, tied = queues[0], False
            for each in queues[1:]:
                if each.measure < first.measure:
                    first, tied = each, False
                elif each.measure == first.measure:
                    tied = True
            # Other things decide between queues of one measure.
            if tied:
                return None
            whole = first.turns.pop().whole
            if nodes.place(whole.pods):
                first.allocated = _more(first.allocated, whole.held)
                if whole.job is goal.job:
                    if not self._certain_after(goal):
                        return None
                    placed = True
                # Room only shrinks from here on.
                elif not placed and _too_few(nodes, wanted):
                    return _Served(False, [])
            elif whole.job is goal.job:
                return _Served(False, [])
            else:
                lost.append(whole.job)
            if first.turns:
                first.measure = self._measure_on_way(first.queue, first.allocated, first.turns[-1])
            else:
                queues.remove(first)
        return _Served(placed, lost)

    def _as_placed(self, goal: SearchGoal) -> _WholeJob:
        """The job with the tasks that are tried."""
        session, queue = self._session, self._queue
        assert queue is not None
        if self._order_key is None:
            self._order_key = goal.job.order_key()
        wanted = session.wants(goal.tasks, session.table.min_gpu_memory)
        pods = [task.info.rows[GPUS] for task in goal.tasks]
        return _WholeJob(goal.job, queue, held=wanted, wanted=wanted, key=self._order_key, pods=pods)

    def _certain_after(self, goal: SearchGoal) -> bool:
        """True if it is certain where the job was placed, and no limit that it counts for refuses a victim from then on."""
        job, queue = goal.job, self._queue
        assert queue is not None
        wanted = self._session.wants(goal.tasks, self._session.table.max_gpu_memory)
        return (
            len(job.podsets) == 1
            and not confined(job.root)
            and not any(task.record.nominated_node or task.vacated for task in goal.tasks)
            and over_limit(queue, wanted) is None
        )

    def _turns_by_queue(self, to_place: list[_WholeJob]) -> list[_QueueTurns]:
        by_queue: dict[WQueue, list[tuple[OrderKey, _WholeJob]]] = {}
        for whole in to_place:
            by_queue.setdefault(whole.queue, []).append((self._turn_key(whole), whole))
        queues = []
        for queue, mine in by_queue.items():
            mine.sort(key=itemgetter(0))
            line, turns, passed = self._line(queue), [], 0
            keys = line.keys
            for key, whole in mine:
                # Most have no waiting job before them.
                place = bisect_left(keys, key, passed) if passed < len(keys) and keys[passed] < key else passed
                turns.append(_Turn(whole, _wanted_between(line, passed, place) | {whole.wanted}))
                passed = place
            turns.reverse()
            allocated = _less(queue.allocated, *(whole.held for _, whole in mine if whole.job is not self._job))
            queues.append(_QueueTurns(queue, turns, allocated, self._measure_on_way(queue, allocated, turns[-1])))
        return queues

    def _measure_on_way(self, queue: WQueue, allocated: Amounts, turn: _Turn) -> Measure:
        return max([self._measure(queue, allocated, wanted) for wanted in turn.wanted])

    def _turn_key(self, whole: _WholeJob) -> OrderKey:
        """The order key of a job once all its pods are evicted, and of the job for which they are, as it is."""
        if self._session.ranking is None or whole.job is self._job:
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
        """True if all victims are of other queues, and surely served before the job."""
        by_queue: dict[WQueue, list[_WholeJob]] = {}
        for job in jobs:
            by_queue.setdefault(job.queue, []).append(job)
        first = self._measure_of_job(goal)
        for queue, members in by_queue.items():
            # It is compared by its own measure here.
            if queue is self._queue:
                return False
            held = {job.held for job in members}
            most = self._most_wanted(queue, members)
            # While one of them has no place, its queue holds at most what it holds now without that one.
            if not all(self._measure(queue, _less(queue.allocated, amounts), most) < first for amounts in held):
                return False
        return True

    def _measure_of_job(self, goal: SearchGoal) -> Measure:
        """The largest measure of the job's queue until the job is served: each job before it is served first."""
        queue = self._queue
        assert queue is not None
        whole, line = self._as_placed(goal), self._line(queue)
        ahead = _wanted_between(line, 0, bisect_left(line.keys, whole.key))
        return self._measure_on_way(queue, _less(queue.allocated), _Turn(whole, ahead | {whole.wanted}))

    def _most_wanted(self, queue: WQueue, jobs: list[_WholeJob]) -> Amounts:
        """The largest amounts, resource by resource, of jobs that may be the queue's next before its last victim is."""
        keys, waiting, *_ = self._line(queue)
        # A configured order may rank an evicted job anywhere, so each waiting job may come first.
        before = len(keys)
        if self._session.ranking is None:
            before = bisect_right(keys, max(job.key for job in jobs))
        largest = NOTHING
        for wanted in set(waiting[:before]):
            largest = _larger(largest, wanted)
        for wanted in {job.wanted for job in jobs}:
            largest = _larger(largest, wanted)
        return largest

    def _line(self, queue: WQueue) -> _Line:
        # Lines of other queues are the same for all searches too.
        lines = self._own_line if queue is self._queue else self._lines
        line = lines.get(queue)
        if line is None or not line.holds:
            session = self._session
            entries = [entry for entry in session.waiting.lists.get(queue.name, ()) if entry[1] is not self._job]
            line = lines[queue] = _Line(
                [key for key, _ in entries],
                [session.wanted(job) for _, job in entries],
                [(job, job.version) for _, job in entries if job.used],
                {},
            )
        return line

    def _measure(self, queue: WQueue, allocated: Amounts, wanted: Amounts) -> Measure:
        key = queue, allocated, wanted
        result = self._measures.get(key)
        if result is None:
            as_if = copy(queue)
            as_if.allocated = list(allocated)
            result = self._measures[key] = measure(as_if, wanted, NOTHING, self._session.tree.totals)
        return result


def _wanted_between(line: _Line, begin: int, end: int) -> frozenset[Amounts]:
    """What the waiting jobs at these places want, each once."""
    if begin == end:
        return frozenset()
    wanted = line.between.get((begin, end))
    if wanted is None:
        wanted = line.between[begin, end] = frozenset(line.wanted[begin:end])
    return wanted


def _too_few(nodes: CountedNodes, wanted: dict[ShapeInfo, int]) -> bool:
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
