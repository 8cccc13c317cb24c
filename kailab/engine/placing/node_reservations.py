"""Nodes kept free for jobs without room, and the jobs that may start beside them.

Nodes are found by provisionally evicting running tasks in the order of their expected ends, until the job fits. A job
behind it in the serving order may start if it ends before that moment, or if it leaves enough on those nodes, or if the
job, placed again, still fits at that moment. Source: EASY backfilling (see ``kailab.policies.reservations``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from typing import NamedTuple

import numpy as np

from kailab.engine.decisions import PendingCode, ReservedPlace
from kailab.engine.ledger import FailedAttempt
from kailab.engine.placing.allocation import Allocator
from kailab.engine.policies.job_reservations import ChosenReservation
from kailab.engine.policies.settings import PolicyChoice
from kailab.engine.queueing.order import tasks_to_allocate
from kailab.engine.session import Session
from kailab.engine.snapshot.amounts import moment_text
from kailab.engine.snapshot.records import ALLOCATED, Status
from kailab.engine.working.state import Job, Member, WTask, Zones


class ReservedNodes(NamedTuple):
    """Nodes kept for ``job`` from ``at`` on. ``spots``: the place of each of its tasks. ``nodes``: the numbers of these
    nodes, each once. ``room``: what other jobs may still hold on these nodes at that moment, one row a resource and one
    column a node.
    """

    job: Job
    at: float
    spots: tuple[tuple[WTask, str, tuple[str, ...], Zones], ...]
    nodes: np.ndarray
    room: np.ndarray


class NodeReservations:
    """The nodes kept in one cycle, in serving order; none from an earlier moment than the one before it."""

    def __init__(self, session: Session, allocator: Allocator, choice: PolicyChoice) -> None:
        self._session, self._allocator = session, allocator
        self._policy = ChosenReservation(session, choice)
        self._kept: list[ReservedNodes] = []
        self._turns: dict[str, int] = {}
        self._rejected: set[tuple[object, ...]] = set()

    @property
    def bounded(self) -> bool:
        """True if nodes are kept for a number of jobs at most."""
        return self._policy.at_most is not None

    @property
    def full(self) -> bool:
        """True if nodes are kept for as many jobs as they ever are. In allocate it stays so."""
        return self._policy.at_most is not None and len(self._kept) >= self._policy.at_most

    # In the allocate action

    def turn(self, job: Job) -> None:
        """Note that the job is tried now: jobs tried earlier are not held back for it."""
        self._turns.setdefault(job.uid, len(self._turns))

    def consider(self, job: Job) -> None:
        """Keep nodes for a job that found no room, or was held back, if the policy wants that and nodes can be found."""
        failure = self._session.ledger.failures.get(job.uid)
        if failure is None or failure.code not in (
            PendingCode.POD_SCHEDULING_ERRORS,
            PendingCode.UNSCHEDULABLE,
            PendingCode.RESERVED,
        ):
            return  # a rule of its queue stops it, not a lack of room
        if job.elastic_state() > 0 or any(reserved.job is job for reserved in self._kept):
            return
        if any(self._allocator.placer.blocked(task) for task in tasks_to_allocate(job)):
            return
        if self._policy.reserves(job, len(self._kept)):
            reserved = self._earliest(job)
            if reserved is not None:
                self._kept.append(reserved)
                self._rejected.clear()
                self._report()

    def admit(self, job: Job, mark: int) -> bool:
        """True if a job that was placed since ``mark`` may keep its place, or gets another one here. Otherwise its
        placement is undone.
        """
        if self._leaves_room(job, mark):
            return True
        session = self._session
        # Before the undo, because a job that waits for a promised place outlasts more reservations.
        late = self._outlasted(job)
        session.undo(mark)
        alike = (len(late), *_job_key(job))
        if alike not in self._rejected:
            with self._room_held(job, late) as elsewhere:
                placed = self._allocator.place(job, elsewhere, False)
            if placed and self._leaves_room(job, mark):
                return True
            session.undo(mark)
            if self._allocator.place(job, None, False) and self._replanned(None):
                return True
            session.undo(mark)
            self._rejected.add(alike)
        # The failures of these attempts are no reason, because there was room.
        session.ledger.failures[job.uid] = self._held_back(job, late[-1])
        return False

    # In evicting actions

    def refusal(self, job: Job) -> str | None:
        """Why the evictions made for a job may not be decided; None if they may. The job's own reservation ends, and so
        does any later one that conflicts.
        """
        before = self._turns.get(job.uid, inf)
        self._kept = [reserved for reserved in self._kept if reserved.job is not job]
        if not self._kept or self._replanned(before):
            self._report()
            return None
        first = next(reserved for reserved in self._kept if self._turns[reserved.job.uid] < before)
        return f"it would take what {_kept_for(first, self._session.now)}"

    def _replanned(self, before: float | None) -> bool:
        """Find all reservations again at their times. Returns False if one fails whose job was tried before ``before``;
        the others are dropped.
        """
        replanned: list[ReservedNodes] = []
        leaving = self._expected_ends()
        for reserved in self._kept:
            again = self._find_at(reserved.job, reserved.at, leaving, replanned)
            if again is not None:
                replanned.append(again)
            elif before is None or self._turns[reserved.job.uid] < before:
                return False
        self._kept = replanned
        self._report()
        return True

    # Times

    def _end(self, task: WTask) -> float:
        """The expected end of a task that has a place."""
        job = task.job
        if job is None or not ALLOCATED[task.status]:
            return inf  # the start of a promised task is unknown
        if task.record.node != task.node:
            return self._session.now + self._policy.expects(job)
        return max(self._session.now, self._policy.expected_end(task))

    def _outlasted(self, job: Job) -> list[ReservedNodes]:
        """The reservations that begin before the job ends. A job that waits for a promised place outlasts all."""
        promised = any(task.status == Status.PIPELINED for task in job)
        end = inf if promised else self._session.now + self._policy.expects(job)
        return [reserved for reserved in self._kept if reserved.at < end]

    def _reservation_end(self, reserved: ReservedNodes) -> float:
        return reserved.at + self._policy.expects(reserved.job)

    def _expected_ends(self) -> list[tuple[float, list[WTask]]]:
        """The tasks that are expected to end, by time."""
        own = {reserved.job.uid for reserved in self._kept}
        ends: dict[float, list[WTask]] = {}
        now, made_by = self._session.now, self._policy.answers
        for tasks in self._session.table.tasks:
            for task in tasks.values():
                job, known = task.job, task.expected_end
                if job is None:
                    continue
                # Most tasks run where they ran before, and this loop goes over all of them.
                if (
                    known is not None
                    and known[0] is made_by
                    and known[1] == job.record_version
                    and ALLOCATED[task.status]
                    and task.node == task.record.node
                ):
                    end = known[2] if known[2] > now else now
                else:
                    end = self._end(task)
                if end < inf and job.uid not in own:
                    ends.setdefault(end, []).append(task)
        return sorted(ends.items())

    # Places

    def _earliest(self, job: Job) -> ReservedNodes | None:
        session = self._session
        not_before = self._kept[-1].at if self._kept else session.now
        mark = session.mark()
        try:
            leaving = self._expected_ends()
            leaving += [(end, []) for reserved in self._kept if (end := self._reservation_end(reserved)) < inf]
            for end, tasks in sorted(leaving, key=lambda item: item[0]):
                for task in tasks:
                    if task.job is not job:
                        session.evict(task)
                # The cheap check first, because most moments are too early.
                if end >= not_before and self._allocator.placer.may_fit(tasks_to_allocate(job), None):
                    reserved = self._place_at(job, end, self._kept)
                    if reserved is not None:
                        return reserved
            return None
        finally:
            session.undo(mark)

    def _find_at(
        self, job: Job, moment: float, leaving: list[tuple[float, list[WTask]]], earlier: list[ReservedNodes]
    ) -> ReservedNodes | None:
        session = self._session
        mark = session.mark()
        try:
            for end, tasks in leaving:
                if end > moment:
                    break
                for task in tasks:
                    session.evict(task)
            return self._place_at(job, moment, earlier)
        finally:
            session.undo(mark)

    def _place_at(self, job: Job, moment: float, earlier: list[ReservedNodes]) -> ReservedNodes | None:
        """The job's reservation beside earlier ones, with the jobs that end by then already gone."""
        session, table = self._session, self._session.table
        mark = session.mark()
        for reservation in earlier:
            if self._reservation_end(reservation) <= moment:
                continue
            for task, node, groups, zones in reservation.spots:
                session.pipeline(task, node, groups, keep_in_place=False, zones=zones)
        tasks = list(tasks_to_allocate(job))
        reserved: ReservedNodes | None = None
        if self._allocator.place(job, None, True, tasks):
            spots = tuple((task, task.node, task.groups, task.zones) for task in tasks)
            nodes = np.array(sorted({table.index[task.node] for task in tasks}))
            reserved = ReservedNodes(job, moment, spots, nodes, table.free[:, nodes].copy())
        session.undo(mark)
        return reserved

    # Beside them

    def _leaves_room(self, job: Job, mark: int) -> bool:
        """True if the placements since ``mark`` leave the reserved capacity intact on every reserved node where the job
        would still run when the reservation starts. The capacity is then reduced accordingly.
        """
        late = self._outlasted(job)
        if not late:
            return True
        table = self._session.table
        given = {entry.task.uid: entry.task for entry in self._session.journal[mark:] if entry.task.job is job}
        held: dict[int, np.ndarray] = {}
        reserved_nodes = set(np.concatenate([reserved.nodes for reserved in late]).tolist())
        for task in given.values():
            i = table.index[task.node]
            if i not in reserved_nodes:
                continue
            if not task.info.plain or table.numa:
                return False  # sums of amounts do not cover shared devices, claimed devices and zones
            amounts = held.setdefault(i, np.zeros(len(table.idle), dtype=np.int64))
            for row, amount in task.info.needs:
                amounts[row] += amount
        takes = [(reserved, [held.get(int(i)) for i in reserved.nodes]) for reserved in late]
        if any(
            took is not None and (took > reserved.room[:, n]).any()
            for reserved, all_ in takes
            for n, took in enumerate(all_)
        ):
            return False
        for reserved, all_ in takes:
            for n, took in enumerate(all_):
                if took is not None:
                    reserved.room[:, n] -= took
        return True

    @contextmanager
    def _room_held(self, job: Job, late: list[ReservedNodes]) -> Iterator[np.ndarray | None]:
        """Temporarily reduce the free resources of nodes to what a job that outlasts these reservations may take.
        Yields the nodes to which it may go (None: all).
        """
        session, table = self._session, self._session.table
        if table.numa or not all(task.info.plain for task in tasks_to_allocate(job)):
            open_ = np.ones(len(table), dtype=bool)
            for reserved in late:
                open_[reserved.nodes] = False
            yield open_
            return
        most: dict[int, np.ndarray] = {}
        for reserved in late:
            for n, i in enumerate(reserved.nodes.tolist()):
                most[i] = np.minimum(most[i], reserved.room[:, n]) if i in most else reserved.room[:, n]
        nodes = np.array(sorted(most))
        bound = np.stack([most[i] for i in nodes.tolist()], axis=1)
        idle, free = table.idle[:, nodes], table.free[:, nodes]
        less = idle - np.minimum(idle, bound)
        later = free - np.minimum(free, bound) - less
        table.shift(nodes, -less, -later)
        session.changes += 1
        try:
            yield None
        finally:
            table.shift(nodes, less, later)
            session.changes += 1

    # Reports

    def _report(self) -> None:
        self._session.ledger.kept = tuple(
            ReservedPlace(
                podgroup=reserved.job.uid,
                queue=reserved.job.record.queue,
                at=reserved.at,
                nodes=tuple(node for _, node, _, _ in reserved.spots),
                gpu=self._session.wants([task for task, *_ in reserved.spots], self._session.table.min_gpu_memory)[2],
            )
            for reserved in self._kept
        )

    def _held_back(self, job: Job, reserved: ReservedNodes) -> FailedAttempt:
        now, end = self._session.now, self._session.now + self._policy.expects(job)
        if end <= reserved.at:
            lasts = "would first wait for others to leave"
        else:
            lasts = f"would run until {moment_text(end)}" if end < inf else "does not tell how long it runs"
        return FailedAttempt(
            PendingCode.RESERVED,
            f"there is room, and it is kept free: it {lasts}, and take what {_kept_for(reserved, now)}",
            numbers={"kept_for": reserved.job.uid, "kept_from": reserved.at},
        )


def _kept_for(reserved: ReservedNodes, now: float) -> str:
    """The end of a message about a reservation. Without a time if running jobs are overdue, because that time would
    differ in every cycle.
    """
    record = reserved.job.record
    since = (
        f"from {moment_text(reserved.at)} on"
        if reserved.at > now
        else "as soon as those that run beyond their time are gone"
    )
    nodes = sorted({node for _, node, _, _ in reserved.spots})
    where = ", ".join(nodes[:3]) + (f" and {len(nodes) - 3} more" if len(nodes) > 3 else "")
    return f"{record.namespace}/{record.name} of queue {record.queue} is to have {since} (nodes {where})"


def _job_key(job: Job) -> tuple[object, ...]:
    """Jobs with equal keys fit beside the same reservations. Room only shrinks while jobs are tried."""
    wanted = frozenset(
        Counter(
            (task.podset, task.info) if len(job.podsets) > 1 else task.info for task in tasks_to_allocate(job)
        ).items()
    )
    confined: list[object] = []
    for podset in job.podsets:
        member: Member | None = podset
        while member is not None:
            confined.append(member.constraint)
            member = member.parent
    return wanted, tuple(confined), job.record.queue, job.record.preemptible
