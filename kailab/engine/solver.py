"""The search for victims: for how many of the job's tasks can room be made, and by whose going?

A gang is tried with 1, 2, 4 ... of its tasks, then by halving, then whole; the victims of the largest success are where
the next try starts. Each scenario is simulated: its victims leave, the job and then the victims themselves are placed
again; victims that find another place are moved, not lost. Source: KAI's JobSolver and byPodSolver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from kailab.engine.allocation import Allocator
from kailab.engine.jobqueue import JobQueue
from kailab.engine.order import tasks_to_allocate
from kailab.engine.queues import Amounts, WQueue
from kailab.engine.records import Status
from kailab.engine.scenario import Accumulation, Batch, Goal, Scenario, multi_node, node_local
from kailab.engine.session import Session
from kailab.engine.state import Job, WTask
from kailab.engine.victims import Victim, held_by

Generator = Callable[[Accumulation], Iterator[Scenario]]
GENERATORS: tuple[Generator, ...] = (node_local, multi_node)


class Solver:
    """One search. ``victim_jobs(queue)`` picks who may be a victim; ``valid(scenario)`` has the last word on a solution."""

    def __init__(
        self,
        session: Session,
        allocator: Allocator,
        job: Job,
        pick: Callable[[Job], bool],
        queues: list[WQueue],
        valid: Callable[[Scenario], bool],
    ) -> None:
        self.session = session
        self.allocator = allocator
        self.job = job
        self._pick = pick
        self._queues = queues
        self._valid = valid
        self._failed: set[tuple[int, frozenset[str], frozenset[str]]] = set()
        self._nodes = self._feasible_nodes()
        self.simulated = 0

    def solve(self) -> bool:
        """On success the solution stands in the session's journal, uncommitted."""
        tasks = tasks_to_allocate(self.job)
        if not tasks or not self._queues:
            return False
        for generator in GENERATORS:
            solved = self._solve_with(generator, tasks)
            if solved:
                return True
        return False

    def _solve_with(self, generator: Generator, tasks: list[WTask]) -> bool:
        session, count = self.session, len(tasks)
        recorded: list[Batch] = []
        mark = session.mark()

        def possible(k: int) -> bool:
            nonlocal recorded
            solution = self._probe(generator, tasks[:k], recorded)
            session.undo(mark)
            if solution is not None:
                recorded = solution
            return solution is not None

        if _largest(count, possible) == 0:
            return False
        used = self.job.used
        if self._probe(generator, tasks, recorded) is None:
            session.undo(mark)
            return False
        if not self.job.gang_satisfied or self.job.used <= used:
            session.undo(mark)
            return False
        return True

    def _feasible_nodes(self) -> np.ndarray:
        table = self.session.table
        if any(task.info.cpu_only for task in self.job):
            return table.all
        return table.free_gpu_vector() > 0

    def _probe(self, generator: Generator, tasks: list[WTask], recorded: list[Batch]) -> list[Batch] | None:
        """The victims of the first scenario that works (the journal then holds it), or None."""
        goal = Goal(self.job, tasks, self._nodes)
        accumulation = Accumulation(self.session, goal, recorded, self._victim_queue())
        for scenario in generator(accumulation):
            fingerprint = (len(tasks), *scenario.fingerprint())
            if fingerprint in self._failed:
                continue
            victims = self._simulate(goal, scenario)
            if victims is not None:
                return victims
            self._failed.add(fingerprint)
        return None

    def _victim_queue(self) -> JobQueue[Job | Victim]:
        queue: JobQueue[Job | Victim] = JobQueue(self.session.tree, held=_held)
        lists = self.session.victims.lists
        for leaf in self._queues:
            queue.load(leaf, lists.get(leaf.name, []), self._pick)  # type: ignore[arg-type]
        return queue

    def _simulate(self, goal: Goal, scenario: Scenario) -> list[Batch] | None:
        session = self.session
        victims = scenario.tasks()
        if not victims:
            return None
        self.simulated += 1
        mark = session.mark()
        nodes = goal.nodes.copy()
        index = session.table.index
        for task in victims:
            i = index.get(task.node)
            if i is not None:
                nodes[i] = True
            session.evict(task)
        if not self._place_all(goal, victims, nodes) or not self._valid(scenario):
            session.undo(mark)
            return None
        gone = (Status.RELEASING, Status.PIPELINED)
        return [
            batch for batch in (*scenario.recorded, *scenario.extra) if any(task.status in gone for task in batch.tasks)
        ]

    def _place_all(self, goal: Goal, victims: list[WTask], nodes: np.ndarray) -> bool:
        """Place the job and, as far as there is room, its victims, in queue order. False if the job finds no room."""
        jobs = {task.job.uid: task.job for task in victims if task.job is not None}
        jobs[goal.job.uid] = goal.job
        queue = self._placing_order(goal, jobs)
        left = len(jobs)
        placed = False
        while left and not queue.empty:
            job = queue.pop()
            if job.uid not in jobs:
                continue
            left -= 1
            if job is goal.job:
                if not self.allocator.place(job, nodes, True, goal.tasks):
                    return False
                placed = True
                continue
            mark = self.session.mark()
            if not self.allocator.place(job, nodes, True):
                self.session.undo(mark)
        return placed

    def _placing_order(self, goal: Goal, jobs: dict[str, Job]) -> JobQueue[Job]:
        session = self.session
        goal_wants = session.wants(goal.tasks, session.table.min_gpu_memory)

        def wanted(job: Job) -> Amounts:
            return goal_wants if job is goal.job else session.wanted(job)

        order: JobQueue[Job] = JobQueue(session.tree, wanted=wanted)
        queues = {job.record.queue for job in jobs.values()}
        above = {level for name in queues for level in self._ancestors(name)}
        for queue in session.tree.leaves:
            entries = session.waiting.lists.get(queue.name)
            if entries and (queue.name in queues or any(level in above for level in queue.path[1:])):
                order.load(queue, entries, lambda job: job.uid not in jobs)
        for job in jobs.values():
            home = session.queue_of(job)
            if home is not None and home.leaf:
                order.push(home, job.order_key(), job)
        return order

    def _ancestors(self, name: str) -> list[WQueue]:
        queue = self.session.tree.queues.get(name)
        return queue.path[1:] if queue is not None else []


def _held(item: Job | Victim) -> Amounts:
    return item.held() if isinstance(item, Victim) else held_by(item)


def _largest(count: int, possible: Callable[[int], bool]) -> int:
    """The largest k up to ``count`` for which ``possible``, by doubling and halving; 0 if not even 1."""
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
