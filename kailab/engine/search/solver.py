"""The search for victims: for how many of the job's tasks can room be made, and by evicting which tasks?

A gang is tried with 1, 2, 4 ... of its tasks, then by halving, then whole; the victims of the largest success are the
start of the next try. Each set of victims is simulated: its victims leave, then the job and the victims themselves are placed
again. Victims that find another place are moved, not lost. Source: KAI's JobSolver and byPodSolver.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from kailab.engine.faults import NOT_DISCARDED, SURPLUS_LEFT
from kailab.engine.placing.allocation import Allocator
from kailab.engine.policies.budget import BudgetSpent
from kailab.engine.policies.victim_order import LowestNewest
from kailab.engine.queueing.jobqueue import JobQueue, OrderKey
from kailab.engine.queueing.order import tasks_anew, tasks_to_allocate
from kailab.engine.queueing.victims import Victim, held_by
from kailab.engine.search.bounds import SearchBounds
from kailab.engine.search.search_goal import SearchGoal, VictimBatch
from kailab.engine.search.shortfall import RemainingRoom, Shortfall
from kailab.engine.search.victim_sets import GatheredVictims, VictimSet, VictimUnits, multi_node, node_local
from kailab.engine.search.victims_first import VictimsFirstBound
from kailab.engine.session import Session
from kailab.engine.snapshot.records import ACTIVE, Status
from kailab.engine.working.queues import Amounts, WQueue
from kailab.engine.working.state import Job, WTask

Generator = Callable[[GatheredVictims], Iterator[VictimSet]]
# Plugin -> KAI's name of the generator in budgets, and the generator.
GENERATORS: dict[str, tuple[str, Generator]] = {
    "sg-nodelocalgreedy": ("NodeLocalGreedy", node_local),
    "sg-multinodegang": ("MultiNodeGang", multi_node),
}

# The effort of a search: 1 per victim considered, SIMULATION per set of victims simulated. At PATIENCE the bounds are checked
# once.
SIMULATION = 8
PATIENCE = 64


class _BoundBroken(Exception):
    """Ends a search that must fail, because a bound is broken; not an error."""


class Solution(NamedTuple):
    """A set of victims that worked: the victim units that really go or move, whether these are all units of the set, and
    whether all of them simply go.
    """

    victims: list[VictimBatch]
    all_needed: bool
    all_gone: bool


class Solver:
    """One search. ``pick`` selects the jobs that may be victims; ``valid`` is the final check of a solution. ``surely_invalid``: True for a set of victims that
    ``valid`` would refuse wherever its victims find other places. ``refuses_loss``: True if ``valid`` would refuse it once exactly these jobs have lost
    their pods, and all others of its victims have places.
    """

    def __init__(
        self,
        session: Session,
        allocator: Allocator,
        job: Job,
        pick: Callable[[Job], bool],
        queues: list[WQueue],
        valid: Callable[[VictimSet], bool],
        bounds: SearchBounds,
        surely_invalid: Callable[[VictimSet], bool] | None = None,
        refuses_loss: Callable[[VictimSet, list[Job]], bool] | None = None,
    ) -> None:
        self.session = session
        self.allocator = allocator
        self.job = job
        self._pick = pick
        self._queues = queues
        self._valid = valid
        self._surely_invalid = surely_invalid
        self._refuses_loss = refuses_loss
        self._failed: set[tuple[int, tuple[str, ...], tuple[str, ...]]] = set()
        self._orders: dict[frozenset[str], VictimUnits] = {}  # by the uids of the recorded victims
        self._nodes = self._feasible_nodes()
        self._shortfall: Shortfall | None = None  # set after the first failed simulation
        self._victims_first: VictimsFirstBound | None = None  # set at the same time
        self._plain: dict[str, bool] = {}  # uid of a job -> none of its tasks takes a part of a device, or a claim
        self._bounds = bounds
        self._tasks: list[WTask] = []
        self._accumulation: GatheredVictims | None = None  # of the latest try
        self._counts = False  # sets may be skipped by counting
        # A simulation may leave counts changed when KAI's faults are imitated, so none of them is left out.
        self._every_step = bool(session.imitated)
        self._effort = 0
        self.budget = session.budget.job()
        self.simulated = 0
        self.found = False  # some set of victims worked for a part of the job, or for all of it
        self.broken_bound = ""
        self.leaks = False  # a solution that is none stays in the journal, see ``_solve_with``

    def solve(self) -> bool:
        """Search for a solution. On success it is in the session's journal, uncommitted. On failure ``broken_bound`` names
        the bound, if a bound ended the search.
        """
        tasks = tasks_to_allocate(self.job)
        self.session.taking.begin(self.session.wants(tasks, self.session.table.min_gpu_memory))
        if not tasks or not self._queues:
            return False
        self._tasks = tasks
        self.session.working.order_read = True
        # The cached list may be out of date. Simulations use it, so counting would count other tasks.
        self._counts = tasks == tasks_anew(self.job)
        mark = self.session.mark()
        try:
            # The next generator is tried only if this one finds no solution.
            return self._first_solution(tasks)
        except _BoundBroken as reason:
            self.session.undo(mark)
            self.broken_bound = str(reason)
            return False
        except BudgetSpent:
            self.session.undo(mark)
            return False
        finally:
            # It calls back, so it and the search would hold each other.
            self._accumulation = None
            self._orders.clear()

    def _first_solution(self, tasks: list[WTask]) -> bool:
        for plugin in self.session.switches.generators:
            if self._within_budget(*GENERATORS[plugin], tasks):
                return True
            if self.leaks:
                return False
        return False

    def _within_budget(self, name: str, generator: Generator, tasks: list[WTask]) -> bool:
        mark = self.session.mark()
        self.budget.begin(name)
        try:
            return self._solve_with(generator, tasks)
        except BudgetSpent as spent:
            if not spent.generator_only:
                raise
            self.session.undo(mark)
            return False

    def _spend(self, effort: int) -> None:
        """Add to the effort. Most searches end quickly; after some effort, checking the bounds pays."""
        before, self._effort = self._effort, self._effort + effort
        if self._every_step:
            return
        if before < PATIENCE <= self._effort:
            reason = self._bounds.broken(self._tasks)
            if reason is not None:
                raise _BoundBroken(reason)

    def _solve_with(self, generator: Generator, tasks: list[WTask]) -> bool:
        session, count = self.session, len(tasks)
        recorded: list[VictimBatch] = []
        mark = session.mark()
        used = self.job.used
        stands = False
        failed_with: list[VictimBatch] | None = None  # the victims recorded when all tasks were tried in vain

        def possible(k: int) -> bool:
            nonlocal recorded, stands, failed_with
            solution = self._probe(generator, tasks[:k], recorded)
            # If every victim unit is needed, the try of the whole job would only repeat this one.
            stands = False
            if k == count and solution is not None and not self._every_step:
                stands = (solution.all_gone or self._repeats(solution)) and self._passes_alone(mark)
            # Every try begins in the same state; only the victims of a success are kept for the next.
            if not stands:
                session.undo(mark)
            if solution is not None:
                recorded = solution.victims
                self.found = True
            elif k == count:
                failed_with = recorded
            return solution is not None

        if _largest(count, possible) == 0:
            return False
        # One more try would propose the same sets once more, and leave out all of them.
        if failed_with is recorded and self._effort >= PATIENCE and not self._every_step:
            return False
        if not stands and self._probe(generator, tasks, recorded) is None:
            session.undo(mark)
            return False
        # KAI's final check of a solution (SolveWithResult): a whole gang, and more of it than before.
        if not self.job.gang_satisfied or self.job.used <= used:
            # As in KAI, the statement of a solution that fails this check is neither committed nor discarded.
            self.leaks = self.session.imitates(NOT_DISCARDED)
            if not self.leaks:
                session.undo(mark)
            return False
        return True

    def _passes_alone(self, mark: int) -> bool:
        """True if the victims of the solution since ``mark`` pass the checks that come before a simulation. The try that
        found them also counted victims that it gathered and left alone; with these victims recorded, the next does not.
        """
        assert self._accumulation is not None
        session, nodes = self.session, dict[WTask, str]()
        for task, before, _ in session.journal[mark:]:
            if ACTIVE[before[0]]:
                nodes.setdefault(task, before[1])
        return self._accumulation.valid_with(
            (node, session.held_amounts(task, node).gpu) for task, node in nodes.items() if task.job is not self.job
        )

    def _repeats(self, solution: Solution) -> bool:
        """True if a second try with the same victims must give the same result, although some victims were promised other
        places in the first. The second try then counts as made.
        """
        session = self.session
        # An undone try leaves changes that could affect the next: names of shared devices. Where groups are confined to
        # domains, some second tries end otherwise, as in KAI.
        if (
            not solution.all_needed
            or session.working.topologies
            or session.precedence is not None
            or session.table.numa
        ):
            return False
        victims = (task for batch in solution.victims for task in batch.tasks)
        if not all(task.info.plain for task in (*self._tasks, *victims)):
            return False
        self.budget.use()
        self.simulated += 1
        return True

    def _feasible_nodes(self) -> np.ndarray:
        table = self.session.table
        # A node without a free GPU has no room for a GPU task; each set of victims adds the nodes of its victims. As in KAI
        # (FeasibleNodesForJob), one pod of the job without a GPU, running or not, opens all nodes.
        if any(task.info.cpu_only for task in self.job):
            return table.all
        return table.some_gpu_free()

    def _probe(self, generator: Generator, tasks: list[WTask], recorded: list[VictimBatch]) -> Solution | None:
        """The first set of victims that works, which is then in the journal, or None."""
        goal = SearchGoal(self.job, tasks, self._nodes)
        uids = frozenset(task.uid for batch in recorded for task in batch.tasks)
        # With KAI's faults imitated, a simulation may leave a state in which another order would be found.
        order = None if self._every_step else self._orders.get(uids)
        if order is None:
            order = self._orders[uids] = VictimUnits(self.session, self._victim_queue(), uids)
        accumulation = GatheredVictims(self.session, goal, recorded, order, lambda: self._spend(1))
        self._accumulation = accumulation
        for victim_set in generator(accumulation):
            # Both generators, and tries of equally many tasks, propose the same victims; repeating a simulation would
            # cost as much.
            fingerprint = (len(tasks), *victim_set.fingerprint())
            if fingerprint in self._failed:
                continue
            solution = self._simulate(goal, victim_set)
            if solution is not None:
                return solution
            self._failed.add(fingerprint)
        return None

    def _victim_queue(self) -> JobQueue[Job | Victim]:
        config = self.session.config
        over_all = config.victim_order == "priority" or config.victim_order_policy is not None
        order = LowestNewest(self.session, self.job) if over_all else None
        queue: JobQueue[Job | Victim] = JobQueue(self.session.tree, held=_held, precedence=order)
        for leaf in self._queues:
            queue.load(leaf, self._bounds.in_order(leaf), self._pick)  # type: ignore[arg-type]
        return queue

    def _simulate(self, goal: SearchGoal, victim_set: VictimSet) -> Solution | None:
        session = self.session
        victims = victim_set.tasks()
        if not victims:
            return None
        self.budget.use()
        self.simulated += 1
        self._spend(SIMULATION)
        if self._must_fail(victim_set, victims):
            for task in victims:
                assert task.job is not None
                task.job.version += 1  # as if evicted and restored, so that cached values are computed again
            return None
        mark = session.mark()
        # The victims' nodes become feasible only for this set of victims.
        nodes = goal.nodes_after(session.table, victims)
        # Before any eviction: only gangs that are complete now can be broken.
        whole = [job for job, _ in victim_set.by_job().values() if job.root.satisfied]
        for task in victim_set.evictions():
            # All victims before any placement: they compete with the job for what they leave, as in KAI.
            session.evict(task)
        if (
            not self._place_all(goal, victims, nodes)
            or not self._valid(victim_set)
            or self._breaks_gang(whole)
            or not session.taking.allows(session, mark)
        ):
            session.undo(mark)
            if self._shortfall is None and self._counts:
                # After the undo, so that it counts in the state in which every set of victims begins. Not before the first
                # failure: most searches end with their first set.
                self._shortfall = Shortfall(session, self._nodes, self._bounds.all_stay)
                self._victims_first = VictimsFirstBound(session, self.job)
            return None
        batches = [*victim_set.recorded, *victim_set.extra]
        needed = representatives(batches, victim_set.evictions())
        # Without duplicates; a victim that is evicted twice here may be evicted once in the next try.
        repeatable = len(needed) == len(batches) and len(victims) == len(victim_set.evictions())
        all_gone = repeatable and all(task.status == Status.RELEASING for task in victims)
        return Solution(needed, repeatable, all_gone)

    def _must_fail(self, victim_set: VictimSet, victims: list[WTask]) -> bool:
        if self._shortfall is None or self._victims_first is None or self._every_step:
            return False
        goal = victim_set.goal
        refuses = None if self._refuses_loss is None else partial(self._refuses_loss, victim_set)
        return (
            self._shortfall.proves_failure(goal, victims)
            or self._victims_first.proves_failure(goal, victims, refuses)
            or (self._surely_invalid is not None and self._surely_invalid(victim_set) and self._traceless(victim_set))
        )

    def _traceless(self, victim_set: VictimSet) -> bool:
        """False if a simulation gives names to shared devices: their numbers go on after it is undone."""
        jobs = {victim_set.goal.job, *(batch.job for batch in (*victim_set.recorded, *victim_set.extra))}
        for job in jobs:
            plain = self._plain.get(job.uid)
            if plain is None:
                plain = self._plain[job.uid] = all(task.info.plain for task in job)
            if not plain:
                return False
        return True

    def _breaks_gang(self, jobs: list[Job]) -> bool:
        """True if one of these jobs, whose gang was complete, would keep running incomplete."""
        if self.session.imitates(SURPLUS_LEFT):
            return False
        return any(job.active > 0 and not job.root.satisfied for job in jobs)

    def _place_all(self, goal: SearchGoal, victims: list[WTask], nodes: np.ndarray) -> bool:
        """Place the job and, as far as there is room, its victims, in queue order. False if the job finds no room."""
        jobs = {task.job.uid: task.job for task in victims if task.job is not None}
        jobs[goal.job.uid] = goal.job
        jobs_left = JobsLeftByQueue(self.session, jobs)
        queue = self._placing_order(goal, jobs, jobs_left)
        placed = False
        room_left = RemainingRoom(self.session, goal, victims, nodes)
        while jobs_left.total and not queue.empty:
            job = queue.pop()
            # It is only in the order for comparisons, see ``_placing_order``.
            if job.uid not in jobs:
                continue
            # Each job of the simulation is tried once, whether it finds a place or not.
            jobs_left.done(job, queue)
            if job is goal.job:
                if not self.allocator.place(job, nodes, True, goal.tasks):
                    return False
                placed = True
                continue
            mark = self.session.mark()
            if not self._fits(job, nodes) or not self.allocator.place(job, nodes, True):
                self.session.undo(mark)
                tasks_to_allocate(job)  # KAI caches the next tasks here until a task of the job changes again
            elif not placed and room_left.too_little(job):
                return False
        return placed

    def _fits(self, job: Job, nodes: np.ndarray) -> bool:
        """False if a job that is served again has certainly no room."""
        if self._every_step or self.allocator.may_fit(job, nodes):
            return True
        if self.allocator.first_fits(job, nodes):
            job.version += 1  # as if its first task had been placed and taken back
        return False

    def _placing_order(self, goal: SearchGoal, jobs: dict[str, Job], jobs_left: JobsLeftByQueue) -> JobQueue[Job]:
        """The order of all waiting jobs, although only those of the simulation are placed: the others decide, by what
        they want, when their queue comes.
        """
        session = self.session
        goal_wants = session.wants(goal.tasks, session.table.min_gpu_memory)

        def wanted(job: Job) -> Amounts:
            return goal_wants if job is goal.job else session.wanted(job)

        order: JobQueue[Job] = JobQueue(session.tree, wanted=wanted, precedence=session.precedence)
        concerned_jobs: dict[str, list[tuple[OrderKey, Job]]] = {}
        for job in jobs.values():
            concerned_jobs.setdefault(job.record.queue, []).append((job.order_key(), job))
        for queue in session.tree.leaves:
            entries = session.waiting.lists.get(queue.name, [])
            mine = concerned_jobs.get(queue.name, ())
            if mine or (entries and jobs_left.matters(queue)):
                # Jobs of the simulation come from ``mine``: the index has them, if at all, in the state before the
                # simulation.
                order.load(queue, entries, lambda job: job.uid not in jobs, mine)
        return order


def representatives(batches: list[VictimBatch], evictions: list[WTask]) -> list[VictimBatch]:
    """The units of a solution that the next try starts with: those with a victim that goes, or moves. ``evictions``: the
    victims in the order in which they were evicted.

    With KAI's faults imitated, a recorded victim can be in two units. The first unit that contains a displaced victim
    stands for it, unless a unit that was chosen before contains it too. Victims that go come first (KAI:
    extractJobsFromTasks). Each further eviction of a victim is made on a copy of it, and what happens to the victim
    afterwards happens to the last copy if it moves, and to the first if it is put back; the other copies seem to go.
    """
    uids = [{task.uid for task in batch.tasks} for batch in batches]
    chosen: set[int] = set()
    represented: set[str] = set()
    for task in (*_gone(evictions), *(task for task in evictions if task.status == Status.PIPELINED)):
        if task.uid not in represented:
            number = next(number for number, unit in enumerate(uids) if task.uid in unit)
            chosen.add(number)
            represented |= uids[number]
    return [
        VictimBatch(batches[number].job, list({task.uid: task for task in batches[number].tasks}.values()))
        for number in sorted(chosen)
    ]


def _gone(evictions: list[WTask]) -> Iterator[WTask]:
    """The evictions after which nothing seems to have happened to the victim, in order."""
    times = Counter(task.uid for task in evictions)
    seen: Counter[str] = Counter()
    for task in evictions:
        seen[task.uid] += 1
        if (
            task.status == Status.RELEASING
            or (task.status == Status.PIPELINED and seen[task.uid] < times[task.uid])
            or (task.status != Status.PIPELINED and seen[task.uid] > 1)
        ):
            yield task


class JobsLeftByQueue:
    """How many of the jobs to place are left below each queue. Queues without any are dropped from the order, unless
    that would change a comparison between other queues.
    """

    def __init__(self, session: Session, jobs: dict[str, Job]) -> None:
        self._below: dict[str, int] = {}
        self._paths = {}
        self.total = 0
        for job in jobs.values():
            queue = session.queue_of(job)
            if queue is None or not queue.leaf:
                continue
            self.total += 1
            self._paths[job.uid] = queue.path
            for level in queue.path:
                self._below[level.name] = self._below.get(level.name, 0) + 1

    def matters(self, queue: WQueue) -> bool:
        """True if jobs of a leaf can influence the order of those that are placed."""
        return self._idle(queue.path) is None

    def done(self, job: Job, order: JobQueue[Job]) -> None:
        path = self._paths[job.uid]
        self.total -= 1
        for level in path:
            self._below[level.name] -= 1
        idle = self._idle(path)
        if idle is not None:
            order.forget(idle)

    def _idle(self, path: list[WQueue]) -> WQueue | None:
        """The highest queue of the path without jobs to place, if it is a root or its parent has all jobs to place
        below it.
        """
        idle = None
        for level in path:
            # The first level from the leaf with jobs to place: all below it on this path is idle.
            if self._below.get(level.name):
                break
            idle = level
        if idle is None:
            return None
        parent = idle.parent
        return idle if parent is None or self._below.get(parent.name, 0) == self.total else None


def _held(item: Job | Victim) -> Amounts:
    return item.held() if isinstance(item, Victim) else held_by(item)


def _largest(count: int, possible: Callable[[int], bool]) -> int:
    """The largest k up to ``count`` for which ``possible`` holds, by doubling and halving; 0 if not even 1."""
    # From below: a small try is cheap, and its victims are the start of the next.
    low, k = 0, 1
    while True:
        if not possible(k):
            high = k
            break
        low = k
        if k == count:
            return count
        k = min(2 * k, count)
    while high - low > 1:
        middle = (low + high) // 2
        if possible(middle):
            low = middle
        else:
            high = middle
    return low
