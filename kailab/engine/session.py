"""The state of a running cycle, its decisions so far, and a journal to undo it.

Every change of a task goes through ``_move`` and appends an entry to the journal, so that an undo costs as much as the
changes did. A *statement* is a stretch of the journal: ``mark`` it, then ``undo`` back to the mark or ``commit`` it as
decided. ``close`` undoes everything at the end of the cycle.

Source: KAI's framework Session and Statement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from msgspec import structs

from kailab.engine.cancellation import cancellation
from kailab.engine.config import EngineConfig
from kailab.engine.decisions import Action, EvictionGround, QueueShare, TaskAmounts
from kailab.engine.faults import (
    CLAIM_PER_POD,
    COPY_LEFT,
    DEVICE_PASSED_ON,
    GPU_LOST,
    LACKING_GPUS,
    MULTIPLE_OF_MEMORY,
    PROMISE_KEPT,
    PROMISES_FORGOTTEN,
    KaiFault,
    imitated_faults,
)
from kailab.engine.ledger import Ledger, queue_share, queue_state
from kailab.engine.policies import queue_shares, ranking
from kailab.engine.policies.budget import ActionBudget
from kailab.engine.policies.constraint_removal import remove_constraints, restore_constraints
from kailab.engine.policies.eviction_limits import EvictionLimits
from kailab.engine.policies.switches import switches
from kailab.engine.policies.taken_ratio import TakenRatioLimit
from kailab.engine.queueing.accounts import open_accounts
from kailab.engine.queueing.jobqueue import QueuePrecedence
from kailab.engine.queueing.order import tasks_to_allocate
from kailab.engine.snapshot.records import ACTIVE, Shape, Status
from kailab.engine.working.maporder import MapOrder
from kailab.engine.working.nodes import NodeTable
from kailab.engine.working.queues import Amounts, QueueTree, WQueue
from kailab.engine.working.state import Job, JournalEntry, Situation, TaskPlace, Uids, WTask, Zones
from kailab.engine.working.stepwise_nodes import StepwiseNodeTable
from kailab.engine.working.workingset import WorkingSet
from kailab.errors import PolicyError


class Session:
    """One running cycle. ``journal`` holds the changes that can be undone, ``ledger`` the decisions and their reasons."""

    def __init__(
        self, working: WorkingSet, config: EngineConfig, now: float, only: Uids | None = None, until: Uids | None = None,
        once: bool = False, reasons: bool = True,
    ):  # fmt: skip
        self.reasons = reasons  # whether the cycle says why jobs wait
        self.check_cancelled = cancellation()  # raises if the caller has stopped waiting
        self.imitated = imitated_faults(config)
        if self.imitates(PROMISES_FORGOTTEN):
            config = structs.replace(config, promised=())
        # If KAI's faults are imitated, a search evicts in the order of a Go map, as in KAI. The order starts the same in
        # every cycle, so that equal cycles decide alike.
        self.map_order = MapOrder(0) if self.imitates(GPU_LOST) or self.imitates(COPY_LEFT) else None
        self.working, self.config, self.now = working, config, now
        self.only, self.until, self.once = only, until, once  # which jobs are tried, see ``run_cycle``
        if self.imitated:
            working.renew_table(self._imitating_table)
        self.table = working.table
        self.table.multiples_fit = self.imitates(MULTIPLE_OF_MEMORY)
        self.table.lacking_gpus_refuse = self.imitates(LACKING_GPUS)
        self.table.claims.begin()
        self.tree: QueueTree = working.tree
        self.jobs = working.jobs
        working.settle_indexes()  # first, because the indexes say which jobs wait and which may be victims
        self.waiting, self.victims = working.waiting, working.victims
        working.order_read = False
        self.journal: list[JournalEntry] = []
        self.changes = 0  # grows with every change of a node; key of caches
        self.commits = 0  # grows with every statement that is decided
        self.ledger = Ledger(working.jobs, now)
        # What searches have found out about jobs and queues; it holds until a statement is decided.
        self.until_commit: dict[str, dict[Any, Any]] = {}
        self._wanted: dict[str, tuple[int, Amounts]] = {}
        # With KAI's faults imitated: by job, how far KAI's count of its active tasks is off.
        self._miscounted: Counter[str] = Counter()
        self._requested: dict[
            int, TaskAmounts
        ] = {}  # keyed by the id of a ShapeInfo; these live as long as the session
        self._largest: np.ndarray | None = None
        self.switches = switches(config.plugins)
        self._removed_constraints = (
            [] if self.switches.topology else remove_constraints(self.jobs.values())
        )  # put back by close
        self.limits = EvictionLimits(config)
        self.taking = TakenRatioLimit(config.max_taken_ratio)
        self.budget = ActionBudget(config.search_budget)
        self.held_back = False  # the last search was refused because of kept nodes
        try:
            # Before the ranking, which reads what queues hold.
            self.divided_queues = open_accounts(
                working, config, self.accepted, lambda: queue_shares.queues_for_division(self)
            )
            # Before any action: decisions and policies refer to queue balances at the start of the cycle.
            self.initial_states = {name: queue_state(queue) for name, queue in sorted(self.tree.queues.items())}
            self.ranking = ranking.attach(self)  # None: KAI's order
        except PolicyError:
            restore_constraints(self._removed_constraints)
            self._drop_stepwise_table()
            raise

    def imitates(self, fault: KaiFault) -> bool:
        """True if this cycle imitates the given fault of KAI."""
        return fault in self.imitated

    def _imitating_table(self, *given: Any) -> NodeTable:
        """The node table with the imitated faults. ``given``: the arguments of ``NodeTable``."""
        loses_gpus, keeps_copies = self.imitates(GPU_LOST), self.imitates(COPY_LEFT)
        passes_devices = self.imitates(DEVICE_PASSED_ON)
        table = (
            StepwiseNodeTable(*given, loses_gpus=loses_gpus, keeps_copies=keeps_copies, passes_devices=passes_devices)
            if loses_gpus or keeps_copies or passes_devices
            else NodeTable(*given)
        )
        table.claims.per_pod = self.imitates(CLAIM_PER_POD)
        table.devices_by_age = True
        return table

    # Queues

    def has_turn(self, job: Job) -> bool:
        """True if the cycle tries this job at all."""
        return self.only is None or job.uid in self.only

    def queue_of(self, job: Job) -> WQueue | None:
        return self.tree.queues.get(job.record.queue)

    @property
    def precedence(self) -> QueuePrecedence | None:
        """A configured order that comes before KAI's order of queues, or None."""
        return self.ranking if self.ranking is not None and self.ranking.between_queues else None

    def accepted(self, task: WTask) -> Amounts:
        """The amounts that a task adds to its queue's account on its present node."""
        return self._accepted(task, task.node)

    def accepted_in_all(self, tasks: Iterable[WTask]) -> Amounts:
        cpu = memory = gpus = 0
        for task in tasks:
            amounts = self.accepted(task)
            cpu, memory, gpus = cpu + amounts[0], memory + amounts[1], gpus + amounts[2]
        return cpu, memory, gpus

    def _accepted(self, task: WTask, node: str) -> Amounts:
        cpu, memory, gpus = task.info.quota
        given = task.record.accepted
        if given is not None and node == task.record.node and given.devices and not given.by_memory:
            return cpu, memory, given.most_gpus
        if task.info.shape.gpu.by_memory:
            gpus = self.table.accepted_gpus(task.info, node)
        return cpu, memory, gpus

    def held_amounts(self, task: WTask, node: str) -> TaskAmounts:
        """The amounts of every resource that a task adds to its queue's account on a node."""
        return _in_all(task.info.shape, self._accepted(task, node))

    def requested_amounts(self, task: WTask) -> TaskAmounts:
        """The amounts of every resource that a waiting task requests. Equal shapes share one result."""
        amounts_in_all = self._requested.get(id(task.info))
        if amounts_in_all is None:
            wanted = self.wants([task], self.table.min_gpu_memory)
            amounts_in_all = self._requested[id(task.info)] = _in_all(task.info.shape, wanted)
        return amounts_in_all

    def wanted(self, job: Job) -> Amounts:
        """What the job's next tasks want, as queues count it: GPU memory counts by the smallest device in the cluster."""
        cached = self._wanted.get(job.uid)
        if cached is not None and cached[0] == job.version:
            return cached[1]
        # The cached list may have tasks that have been evicted for good since, which count for nothing (KAI:
        # GetTasksToAllocateInitResourceVector).
        waiting = [
            task
            for task in tasks_to_allocate(job)
            if task.status == Status.PENDING or (task.virtual and task.status == Status.RELEASING)
        ]
        amounts = self.wants(waiting, self.table.min_gpu_memory)
        self._wanted[job.uid] = (job.version, amounts)
        return amounts

    @staticmethod
    def wants(tasks: list[WTask], device: int) -> Amounts:
        """The sum of the tasks' requests. GPU memory counts in devices of ``device`` MiB."""
        cpu = memory = gpus = 0
        for task in tasks:
            info = task.info
            cpu += info.quota[0]
            memory += info.quota[1]
            gpus += info.quota[2]
            if info.shape.gpu.by_memory:
                gpus += info.shape.gpu.memory_gpus(device)
        return cpu, memory, gpus

    def gpus_needed(self, tasks: Iterable[WTask]) -> list[int]:
        """The milli-GPU that must be free for each task if the tasks start in this order. Devices that several tasks
        share through one resource claim count once.
        """
        tasks = list(tasks)
        twice = self.table.claims.counted_twice(tasks)
        return [task.info.quota[2] - less for task, less in zip(tasks, twice, strict=True)]

    # Changes

    def _move(
        self,
        task: WTask,
        status: Status,
        node: str,
        groups: tuple[str, ...],
        vacated: tuple[TaskPlace, ...],
        virtual: bool,
        zones: Zones = (),
    ) -> None:
        table, job = self.table, task.job
        assert job is not None
        queue = self.tree.queues.get(job.record.queue)
        self.changes += 1
        plain = task.info.plain and not table.numa
        if plain:
            table.move(task, status, node, vacated)  # the usual case: only the difference is written
        else:
            table.leave(task)
        if ACTIVE[task.status] and queue is not None:
            self._charge(queue, task, job, -1)  # at its old place, because GPU memory counts by the node's devices
        job.move(task, task.status, status)
        task.status, task.node, task.groups, task.vacated, task.virtual = status, node, groups, vacated, virtual
        task.zones = zones
        if ACTIVE[status] and queue is not None:
            self._charge(queue, task, job, 1)
        if not plain:
            table.enter(task)

    @staticmethod
    def _mark_binding(task: WTask, job: Job) -> None:
        """Mark an allocated task as binding. Neither nodes nor queues count it differently."""
        job.move(task, task.status, Status.BINDING)
        task.status, task.virtual = Status.BINDING, False

    @staticmethod
    def _unmark_binding(task: WTask, before: Situation) -> None:
        """Undo ``_mark_binding``."""
        job = task.job
        assert job is not None
        job.move(task, Status.BINDING, before[0])
        task.status, task.virtual, task.zones = before[0], before[4], before[5]

    def _charge(self, queue: WQueue, task: WTask, job: Job, sign: int) -> None:
        cpu, memory, gpus = self.accepted(task)
        non_preemptible = not job.record.preemptible
        for level in queue.path:
            held = level.allocated
            held[0] += sign * cpu
            held[1] += sign * memory
            held[2] += sign * gpus
            if non_preemptible:
                held = level.non_preemptible
                held[0] += sign * cpu
                held[1] += sign * memory
                held[2] += sign * gpus

    def _charge_again(self, task: WTask, sign: int) -> None:
        assert task.job is not None
        queue = self.tree.queues.get(task.job.record.queue)
        if queue is not None:
            self._charge(queue, task, task.job, sign)

    def _log(self, task: WTask) -> None:
        self.journal.append(
            JournalEntry(task, (task.status, task.node, task.groups, task.vacated, task.virtual, task.zones))
        )

    def evict(self, task: WTask) -> None:
        """Evict a task, provisionally until ``commit``: it is releasing, and its place becomes free later.

        As in KAI, a task that a set of victims names twice is subtracted twice from its queue's account.
        """
        self._log(task)
        if task.status == Status.RELEASING:
            first = next(
                entry.before for entry in reversed(self.journal[:-1]) if entry.task is task and not entry.again
            )
            self.journal[-1] = JournalEntry(task, first, again=True)
            self._charge_again(task, -1)
            self.table.renew(task, Status.RELEASING)
            # KAI (deleteTaskIndex) subtracts its outdated copy of the task if some task of the job has the copy's status.
            assert task.job is not None
            if any(other.status == first[0] for other in task.job):
                self._miscounted[task.job.uid] -= 1
            return
        self._move(task, Status.RELEASING, task.node, task.groups, task.vacated, True, task.zones)

    def allocate(self, task: WTask, node: str, groups: tuple[str, ...] = (), zones: Zones = ()) -> None:
        self._log(task)
        self._move(task, Status.ALLOCATED, node, groups, (), True, zones)

    def pipeline(self, task: WTask, node: str, groups: tuple[str, ...], keep_in_place: bool, zones: Zones = ()) -> None:
        """Promise a place. With ``keep_in_place``, if the task was evicted from this place, its eviction is undone: it
        gets back this place, or the promise of another place that it held when it was evicted.
        """
        vacated = task.vacated
        if task.status == Status.RELEASING:
            if keep_in_place and self._already_there(task, node, groups, zones) and self._put_back(task, node):
                return
            vacated = (*vacated, (task.node, task.groups))
        self._log(task)
        self._move(task, Status.PIPELINED, node, groups, vacated, True, zones)

    @staticmethod
    def _already_there(task: WTask, node: str, groups: tuple[str, ...], zones: Zones) -> bool:
        """True if a releasing task has left, or leaves, this very place (the node, and its GPUs and zones if given)."""
        # As in KAI (Statement.Pipeline), a node knows one place of a task, the last.
        if task.node == node:
            return (not groups or groups == task.groups) and (not zones or zones == task.zones)
        last = next((there for name, there in reversed(task.vacated) if name == node), None)
        return last is not None and not zones and (not groups or groups == last)

    def _put_back(self, task: WTask, node: str) -> bool:
        """Undo the eviction of a task that is on ``node`` already. Return False and change nothing if another task has
        taken the room that was promised to this one on another node.
        """
        mark = self.mark()
        self.unevict(task)
        # KAI does not look whether there is still room for the promise, so two tasks may hold one promise, and only one
        # gets the place.
        if task.node == node or self.imitates(PROMISE_KEPT) or self.table.keeps(task):
            return True
        self.undo(mark)
        return False

    def withdraw(self, task: WTask) -> None:
        """Take a place of this statement back; the task waits again."""
        self._log(task)
        self._move(task, Status.PENDING, "", (), (), False)

    def active_tasks(self, job: Job) -> int:
        """How many tasks of a job have a place or a promise, as KAI counts them (GetActiveAllocatedTasksCount): tasks
        that are evicted twice are subtracted twice.
        """
        return job.active + self._miscounted.get(job.uid, 0)

    def unevict(self, task: WTask) -> None:
        """Restore the state that the task had before this statement evicted it."""
        for entry in reversed(self.journal):
            if entry.task is task and entry.before[0] != Status.RELEASING:
                self._log(task)
                self._move(task, *entry.before)
                return

    def mark(self) -> int:
        return len(self.journal)

    def undo(self, mark: int) -> None:
        journal = self.journal
        while len(journal) > mark:
            entry = journal.pop()
            task, before = entry.task, entry.before
            if entry.again:
                self._charge_again(task, 1)
                self.table.renew(task, before[0])
                assert task.job is not None
                self._miscounted[task.job.uid] += 1
            elif task.status == Status.BINDING and before[:4] == (
                Status.ALLOCATED,
                task.node,
                task.groups,
                task.vacated,
            ):
                self._unmark_binding(task, before)
            else:
                self._move(task, *before)

    # Deciding

    def commit(
        self,
        mark: int,
        action: Action,
        beneficiary: Job | None = None,
        ground: Callable[[Job], EvictionGround] | None = None,
    ) -> None:
        """Turn the changes since ``mark`` into decisions, in the order in which they were made. ``ground`` says why a
        job's tasks may be evicted.
        """
        self.commits += 1
        first: dict[str, JournalEntry] = {}
        for entry in self.journal[mark:]:
            # the state before the statement; intermediate states decide nothing
            first.setdefault(entry.task.uid, entry)
        shares = self._shares_around(first) if beneficiary is not None else {}
        touched: dict[str, Job] = {}
        for entry in first.values():
            task, before = entry.task, entry.before
            job = task.job
            assert job is not None
            touched[job.uid] = job
            if (task.status, task.node, task.groups, task.vacated) == before[:4]:
                continue  # evicted provisionally and put back
            evicted = ACTIVE[before[0]] and (bool(task.vacated) or task.status == Status.RELEASING)
            if evicted:
                lost = task.status == Status.RELEASING
                why = (
                    ground(job) if ground is not None and lost else EvictionGround(rule="move", queue=job.record.queue)
                )
                self.ledger.evict(
                    task, job, before[1], action, beneficiary, shares, self.held_amounts(task, before[1]), why
                )
            if task.status == Status.ALLOCATED:
                self._log(task)
                self._mark_binding(task, job)
                self.ledger.bind(task, job, action, self.held_amounts(task, task.node))
            elif task.status == Status.PIPELINED:
                self.ledger.promise(task, job, action, self.held_amounts(task, task.node))
            elif task.status == Status.RELEASING:
                task.virtual = False  # as in KAI, the job's cached next tasks stay
        self._reorder(touched.values())

    def keep(self, mark: int) -> None:
        """Let the changes since ``mark`` stand until the cycle ends, and decide nothing by them."""
        self._reorder({entry.task.job.uid: entry.task.job for entry in self.journal[mark:] if entry.task.job}.values())

    def _reorder(self, jobs: Iterable[Job]) -> None:
        """Give changed jobs their positions in the orders of waiting jobs and of victims."""
        self.until_commit.clear()
        for job in jobs:
            self.working.touched(job)
            self.waiting.refresh(job)
            self.victims.refresh(job)

    def _shares_around(self, first: dict[str, JournalEntry]) -> dict[str, tuple[QueueShare, QueueShare]]:
        """GPU balance of each queue involved, before and after the statement."""
        gained: dict[str, int] = {}
        for entry in first.values():
            task = entry.task
            assert task.job is not None
            queue = task.job.record.queue
            gpus = self.accepted(task)[2]
            change = gpus * (int(ACTIVE[task.status]) - int(ACTIVE[entry.before[0]]))
            gained[queue] = gained.get(queue, 0) + change
        result = {}
        for name, change in gained.items():
            queue_now = self.tree.queues.get(name)
            if queue_now is not None:
                after = queue_share(queue_now, 2)
                result[name] = (structs.replace(after, allocated=after.allocated - change), after)
        return result

    def close(self) -> None:
        """Undo everything."""
        touched = {entry.task.job.uid: entry.task.job for entry in self.journal if entry.task.job is not None}
        self.undo(0)
        if self.ranking is not None:
            ranking.detach(self)
            # The ranking refers to this session, so that both would live until the next collection of cyclic garbage.
            self.ranking = None
        restore_constraints(self._removed_constraints)
        self._drop_stepwise_table()
        for job in touched.values():
            job.last_evicted = job.record.last_evicted  # the ledger moved it on
            job.last_start = job.record.last_start
            self.working.touched(job)

    def _drop_stepwise_table(self) -> None:
        # Its counts may have drifted, and the next cycle may not imitate faults.
        if self.imitated:
            self.working.renew_table(NodeTable)

    def largest_node(self) -> np.ndarray:
        """Per resource row, the largest amount that any node has."""
        if self._largest is None:
            pool = self.table.allocatable
            self._largest = pool.max(axis=1) if pool.shape[1] else np.zeros(len(pool), dtype=np.int64)
        return self._largest


def _in_all(shape: Shape, amounts: Amounts) -> TaskAmounts:
    return TaskAmounts(
        cpu=amounts[0], memory=amounts[1], gpu=amounts[2], extended=(*shape.extended, *shape.gpu.profiles)
    )
