"""The waiting jobs of an action in its order, without those that are surely refused.

``WaitingOrder`` gives every job its turn. Most of thousands of waiting jobs are of a class (``working.jobclass``) of
which one was refused already, and as long as nothing changes, their turns do nothing but pass. ``ClassedOrder`` skips
these turns and gives the same sequence of all others.

The queues of an order are siblings here, so the next job is always that of the queue whose best job has the smallest
measure (``queueing.order``), and the measure of a queue changes only when it is served. A queue is then served as far as
its next job that is not refused before another queue is, exactly if the largest measure on its way there is smaller than
the largest measure on the other's way. So one comparison for each queue stands for all turns that pass.

In a tree of several levels a queue's place also depends on turns below its siblings. ``OpenOrder`` gives the order job by
job there, and ends as soon as every job that is left is surely refused.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from kailab.engine.decisions import Action
from kailab.engine.placing.allocation import Allocator
from kailab.engine.policies.settings import SearchBudget
from kailab.engine.queueing.jobqueue import JobQueue
from kailab.engine.queueing.order import NOTHING, Measure, measure
from kailab.engine.search.bounds import JobFilter
from kailab.engine.session import Session
from kailab.engine.working.jobclass import JobClass
from kailab.engine.working.jobindex import Entry
from kailab.engine.working.queues import Amounts, WQueue
from kailab.engine.working.state import Job

JobTest = Callable[[WQueue, Job], bool]
_MANY = 32
"""Jobs that are passed before it is asked once more which classes are refused."""
_NO_BUDGET = SearchBudget()


def classes_count(session: Session, allocator: Allocator, action: Action) -> bool:
    """True if jobs of one class may be skipped in an action.

    False wherever more than the state of nodes and queues decides on a job, or its turn leaves a trace: reasons are
    recorded, only some jobs are tried, KAI's faults are imitated, nodes are kept free for any number of jobs, other pods
    or NUMA zones count, a number of jobs or of searches is limited, or a configured order compares jobs of several queues.
    """
    config = session.config
    return not (
        session.reasons
        or session.only is not None
        or session.until is not None
        or session.imitated
        or session.precedence is not None
        or config.refused
        or config.queue_depth.get(action, -1) >= 0
        or (
            action == "allocate" and allocator.node_reservations is not None and not allocator.node_reservations.bounded
        )
        or session.working.has_anti_affinity
        or session.table.numa
        or (
            action != "allocate"
            and (not config.use_signatures or config.search_budget != _NO_BUDGET or config.max_taken_ratio is not None)
        )
    )


def ranks(queues: list[WQueue]) -> dict[str, int] | None:
    """The order of queues with equal measures (``queueing.order.smaller``); None if they are no siblings, or if some of
    them are smaller in one resource and larger in another, because the order is then not transitive.
    """
    if any(queue.parent is not queues[0].parent for queue in queues):
        return None
    first = sorted(queues, key=lambda queue: (queue.allocatable, queue.record.created, queue.record.uid, queue.name))
    for smaller, larger in pairwise(first):
        if any(mine > theirs for mine, theirs in zip(smaller.allocatable, larger.allocatable, strict=True)):
            return None
    return {queue.name: rank for rank, queue in enumerate(first)}


class _Next(NamedTuple):
    """The next job of a queue that is not surely refused. ``largest``: of the measures on the way to it, itself included."""

    largest: Measure
    rank: int
    entry: Entry
    of_class: JobClass | None


class _Leaf:
    """The jobs of one queue. ``others``: the jobs without a class, and those that are served once more, in order."""

    def __init__(
        self, session: Session, queue: WQueue, rank: int, classes: dict[JobClass | None, list[Entry]],
        others: list[Entry],
    ) -> None:  # fmt: skip
        self.queue, self.others = queue, others
        self._session, self._rank, self._classes = session, rank, classes
        self._wanted: dict[JobClass, Amounts] = {}
        self._passed: tuple[Any, ...] = ()  # greater than the key of the last job of a class that had its turn
        self.open = {of_class for of_class in classes if of_class is not None}
        self._all = tuple(self.open)
        self.next: _Next | None = None

    def first(self, of_class: JobClass) -> Entry | None:
        """The class's next job."""
        entries = self._classes.get(of_class)
        if not entries:
            return None
        # Entries that were served have left the list.
        passed: Any = (self._passed,)
        at = bisect_left(entries, passed) if self._passed else 0
        return entries[at] if at < len(entries) else None

    def find_next(self) -> None:
        """Set ``next``."""
        self.next = None
        best: Entry | None = self.others[0] if self.others else None
        best_class: JobClass | None = None
        for of_class in list(self.open):
            entry = self.first(of_class)
            if entry is None:
                self.open.discard(of_class)
            elif best is None or entry[0] < best[0]:
                best, best_class = entry, of_class
        if best is None:
            return
        largest = self._measure(self.wants(best[1], best_class))
        for of_class in self._all:
            if of_class not in self.open:
                entry = self.first(of_class)
                if entry is not None and entry[0] < best[0]:
                    largest = max(largest, self._measure(self.wants(entry[1], of_class)))
        self.next = _Next(largest, self._rank, best, best_class)

    def wants(self, job: Job, of_class: JobClass | None) -> Amounts:
        if of_class is None:
            return self._session.wanted(job)
        known = self._wanted.get(of_class)
        if known is None:
            known = self._wanted[of_class] = self._session.wanted(job)
        return known

    def _measure(self, wanted: Amounts) -> Measure:
        return measure(self.queue, wanted, NOTHING, self._session.tree.totals)

    def pop(self) -> Job:
        assert self.next is not None
        _, _, entry, of_class = self.next
        if of_class is None:
            self.others.pop(0)
            # A job that is served once more may come before jobs that had their turn.
            self._passed = max(self._passed, (*entry[0], 0))
        else:
            self._passed = (*entry[0], 0)
        return entry[1]


class ClassedOrder:
    """The order of one action. ``pick``: which of the jobs without a class are in it; ``preemptible_only``: which of the
    classes.
    """

    def __init__(self, session: Session, rank: dict[str, int], pick: JobFilter, preemptible_only: bool = False) -> None:
        self._session, self._pick, self._preemptible_only = session, pick, preemptible_only
        self._leaves: dict[str, _Leaf] = {}
        self._popped: _Leaf | None = None
        for queue in session.tree.leaves:
            classes = session.waiting.classes.get(queue.name)
            if not classes:
                continue
            # A copy, because every commit moves entries of the index while this order is in use.
            others = [entry for entry in classes.get(None, ()) if pick(entry[1])]
            if preemptible_only:
                classes = {of_class: e for of_class, e in classes.items() if of_class is None or of_class.preemptible}
            if others or any(of_class is not None for of_class in classes):
                self._leaves[queue.name] = _Leaf(session, queue, rank[queue.name], classes, others)

    def refuse_classes(self, must_fail: JobTest) -> None:
        """Leave out the classes for which ``must_fail`` holds, before any other class is left out. It gets a queue and the
        queue's first job of a class.
        """
        for leaf in self._leaves.values():
            for of_class in list(leaf.open):
                entry = leaf.first(of_class)
                if entry is not None and must_fail(leaf.queue, entry[1]):
                    leaf.open.discard(of_class)
        for leaf in list(self._leaves.values()):
            if leaf is not self._popped and leaf.next is not None and leaf.next.of_class not in (None, *leaf.open):
                self._update(leaf)

    def begin(self) -> None:
        for leaf in list(self._leaves.values()):
            self._update(leaf)

    @property
    def over(self) -> bool:
        """True if no job is left that has to be tried."""
        self._settle()
        return not self._leaves

    @property
    def wants(self) -> Amounts:
        """What the job wants that was popped last."""
        leaf = self._popped
        assert leaf is not None
        assert leaf.next is not None
        return leaf.wants(leaf.next.entry[1], leaf.next.of_class)

    def pop(self) -> Job:
        self._settle()
        leaf = min(self._leaves.values(), key=_turn)
        self._popped = leaf
        return leaf.pop()

    def refuse(self) -> None:
        """The job that was popped last is refused, and so is every job of its class."""
        leaf = self._popped
        assert leaf is not None
        assert leaf.next is not None
        if leaf.next.of_class is not None:
            leaf.open.discard(leaf.next.of_class)

    def again(self, queue: WQueue, job: Job) -> None:
        """Queue a job once more after it was served."""
        assert self._popped is not None
        assert self._popped.queue is queue
        insort(self._popped.others, (job.order_key(), job))

    def _settle(self) -> None:
        # Only now, because the job that was popped may have been placed since, refused, or queued once more.
        leaf, self._popped = self._popped, None
        if leaf is not None:
            self._update(leaf)

    def _update(self, leaf: _Leaf) -> None:
        leaf.find_next()
        if leaf.next is None:
            del self._leaves[leaf.queue.name]


class OpenOrder(JobQueue[Job]):
    """The order of one action in any tree of queues, without the jobs of refused classes. It ends when no other job is left.

    ``pick`` and ``preemptible_only``: see ``ClassedOrder``.
    """

    def __init__(self, session: Session, pick: JobFilter, preemptible_only: bool = False) -> None:
        super().__init__(session.tree, wanted=session.wanted)
        self._waiting = session.waiting
        self._session, self._pick, self._preemptible_only = session, pick, preemptible_only
        # How many jobs of each queue and class had no turn yet, and how many of them are not refused.
        self._left: Counter[tuple[str, JobClass | None]] = Counter()
        self._open = 0
        self._refused: set[tuple[str, JobClass]] = set()
        self._loaded = False
        self._coming: Job | None = None
        self._key: tuple[str, JobClass | None] = ("", None)  # of the job that was popped last
        self._job: Job | None = None
        self._failure_tests: list[JobTest] = []
        self._news = False  # a job was refused since they were asked
        for queue in session.tree.leaves:
            for of_class, entries in session.waiting.classes.get(queue.name, {}).items():
                if of_class is None:
                    number = sum(1 for _, job in entries if pick(job))
                else:
                    number = len(entries) if of_class.preemptible or not preemptible_only else 0
                if number:
                    self._left[queue.name, of_class] = number
                    self._open += number

    def refuse_classes(self, must_fail: JobTest) -> None:
        """See ``ClassedOrder``. ``must_fail`` is asked again when many jobs have been passed."""
        self._failure_tests.append(must_fail)
        self._refuse_all(must_fail)

    def ask_later(self, must_fail: JobTest) -> None:
        """Leave out classes when many jobs have been passed. What must fail once must stay so for the rest of the order."""
        self._failure_tests.append(must_fail)

    def _refuse_all(self, must_fail: JobTest) -> None:
        for (name, of_class), left in self._left.items():
            if left and of_class is not None and (name, of_class) not in self._refused:
                # Any job of the class stands for all.
                entries = self._waiting.classes.get(name, {}).get(of_class)
                if entries and must_fail(self._session.tree.queues[name], entries[-1][1]):
                    self._refuse(name, of_class)

    def begin(self) -> None:
        """No effect: the order is made when it is first asked for a job."""

    @property
    def over(self) -> bool:
        """True if no job is left that has to be tried."""
        if self._coming is None and self._open:
            self._advance()
        return self._coming is None

    @property
    def wants(self) -> Amounts:
        """What the job wants that was popped last."""
        assert self._job is not None
        return self._session.wanted(self._job)

    def pop(self) -> Job:
        if self._coming is None:
            self._advance()
        assert self._coming is not None
        self._job, self._coming = self._coming, None
        return self._job

    def _advance(self) -> None:
        """Find the next job that is not refused."""
        if not self._loaded:
            self._load()
        passed = 0
        while self._open:
            job = super().pop()
            key = job.record.queue, self._waiting.of_class(job)
            self._left[key] -= 1
            if key not in self._refused:
                self._open -= 1
                self._key, self._coming = key, job
                return
            passed += 1
            # Perhaps what is left is refused as well, so that nothing needs to be passed for it.
            if passed >= _MANY and self._news:
                self._news = False
                for must_fail in self._failure_tests:
                    self._refuse_all(must_fail)

    def _load(self) -> None:
        self._loaded = True
        for queue in self._session.tree.leaves:
            entries = self._waiting.lists.get(queue.name)
            if entries:
                # A copy, because every commit moves entries of the index while this order is in use.
                self.load(queue, list(entries), self._picks)

    def _picks(self, job: Job) -> bool:
        return self._pick(job) and (job.record.preemptible or not self._preemptible_only)

    def refuse(self) -> None:
        """The job that was popped last is refused, and so is every job of its class."""
        self._news = True
        queue, of_class = self._key
        if of_class is not None:
            self._refuse(queue, of_class)

    def _refuse(self, queue: str, of_class: JobClass) -> None:
        if (queue, of_class) not in self._refused:
            self._refused.add((queue, of_class))
            self._open -= self._left[queue, of_class]

    def after(self, served: Job, wants: Amounts) -> Iterator[Job]:
        """The jobs that come after ``served``, the one that was popped last, each of them."""
        while not self.empty:
            yield super().pop()

    def again(self, queue: WQueue, job: Job) -> None:
        """Queue a job once more after it was served."""
        self._left[queue.name, None] += 1
        self._open += 1
        self.push(queue, job.order_key(), job)


def _turn(leaf: _Leaf) -> tuple[Measure, int]:
    assert leaf.next is not None
    return leaf.next.largest, leaf.next.rank


def classed_order(session: Session, pick: JobFilter, preemptible_only: bool = False) -> ClassedOrder | OpenOrder:
    """The order of an action in which jobs of one class may be skipped."""
    rank = ranks([queue for queue in session.tree.leaves if queue.name in session.waiting.classes])
    if rank is None:
        return OpenOrder(session, pick, preemptible_only)
    return ClassedOrder(session, rank, pick, preemptible_only)


class RepeatedTurns:
    """The order of an action that evicts, for the turns after a search has succeeded.

    An eviction changes what queues hold without moving them in the order, which KAI does when they come up. So the
    turns up to the success are made once more, each job by job, on what queues and jobs had before.
    """

    def __init__(self, session: Session, chosen: JobFilter, preemptible_only: bool) -> None:
        self._session, self._chosen, self._preemptible_only = session, chosen, preemptible_only
        waiting = session.waiting
        self._lists = [(queue, list(waiting.lists.get(queue.name, ()))) for queue in session.tree.leaves]
        self._held = [(queue, list(queue.allocated)) for queue in session.tree.queues.values()]
        others = [job for classes in waiting.classes.values() for _, job in classes.get(None, ())]
        # Evictions may change these; jobs of a class hold nothing.
        self._others = {job.uid: (chosen(job), session.wanted(job)) for job in others}

    def after(self, served: Job, wants: Amounts) -> Iterator[Job]:
        """The jobs that come after ``served``, which wanted so much."""
        session, passing = self._session, True

        def wanted(job: Job) -> Amounts:
            if not passing:
                return session.wanted(job)
            if job is served:
                return wants
            known = self._others.get(job.uid)
            return session.wanted(job) if known is None else known[1]

        def chosen(job: Job) -> bool:
            if not passing:
                return self._chosen(job)
            known = self._others.get(job.uid)
            if known is not None:
                return known[0]
            return job.record.preemptible or not self._preemptible_only

        order: JobQueue[Job] = JobQueue(session.tree, wanted=wanted)
        held = [(queue, list(queue.allocated)) for queue, _ in self._held]
        _hold(self._held)
        for queue, entries in self._lists:
            if entries:
                order.load(queue, entries, chosen)
        while order.pop() is not served:
            pass
        _hold(held)
        passing = False
        while not order.empty:
            yield order.pop()


def _hold(held: list[tuple[WQueue, list[int]]]) -> None:
    for queue, amounts in held:
        queue.allocated[:] = amounts
