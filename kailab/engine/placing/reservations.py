"""Places that are kept free for jobs that find no room, and who may start beside them.

A place is found by letting those that run leave in thought, in the order in which they are expected to end, until the job fits. Who comes behind it in the
order of turns may start if it ends by then; or leaves, on the nodes of that place, as much as the job is to have there; or if the job, placed
anew, still fits at that moment. Source: EASY backfilling (see ``kailab.policies.reservations``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from typing import NamedTuple

import numpy as np

from kailab.engine.decisions import KeptPlace, PendingCode
from kailab.engine.ledger import FailedAttempt
from kailab.engine.placing.allocation import Allocator
from kailab.engine.policies.reserving import ChosenReservation
from kailab.engine.policies.settings import PolicyChoice
from kailab.engine.queueing.order import tasks_to_allocate
from kailab.engine.session import Session, Zones
from kailab.engine.snapshot.amounts import moment_text
from kailab.engine.snapshot.records import Status
from kailab.engine.working.state import Job, Member, WTask

_RUNS = (Status.ALLOCATED, Status.BINDING, Status.BOUND, Status.RUNNING)


class KeptNodes(NamedTuple):
    """Kept for ``job`` from ``at`` on. ``spots``: where each of its tasks then goes; ``nodes``: their numbers, each once; ``room``: what of each resource
    others may still hold on these nodes at that moment, one column a node."""

    job: Job
    at: float
    spots: tuple[tuple[WTask, str, tuple[str, ...], Zones], ...]
    nodes: np.ndarray
    room: np.ndarray


class Reservations:
    """The places kept in one cycle, in the order of turns, no one earlier than the one before it."""

    def __init__(self, session: Session, allocator: Allocator, choice: PolicyChoice) -> None:
        self._session, self._allocator = session, allocator
        self._policy = ChosenReservation(session, choice)
        self._kept: list[KeptNodes] = []
        self._turns: dict[str, int] = {}
        self._in_vain: set[tuple[object, ...]] = set()
        self._ends: dict[WTask, tuple[Status, str, float]] = {}  # as of this status and node

    # In allocate

    def turn(self, job: Job) -> None:
        """It is its turn now: whoever had one before is not held back for it."""
        self._turns.setdefault(job.uid, len(self._turns))

    def consider(self, job: Job) -> None:
        """Keep a place for a job that has just found none, or was held back from one, if it is to have one and there is any."""
        failure = self._session.ledger.failures.get(job.uid)
        if failure is None or failure.code not in (
            PendingCode.POD_SCHEDULING_ERRORS,
            PendingCode.UNSCHEDULABLE,
            PendingCode.RESERVED,
        ):
            return  # a rule of its queue stops it, not the want of room
        if job.elastic_state() > 0 or any(place.job is job for place in self._kept):
            return
        if any(self._allocator.placer.blocked(task) for task in tasks_to_allocate(job)):
            return
        if self._policy.reserves(job, len(self._kept)):
            place = self._earliest(job)
            if place is not None:
                self._kept.append(place)
                self._in_vain.clear()
                self._tell()

    def admit(self, job: Job, mark: int) -> bool:
        """Whether a job that was placed since ``mark`` may keep its place, or another that it is given here. If not, nothing of it is left."""
        if self._leaves_room(job, mark):
            return True
        session = self._session
        # Before it is taken back: where it was to wait for its place it outlasts more.
        late = self._outlasted(job)
        session.undo(mark)
        alike = (len(late), *_sort(job))
        if alike not in self._in_vain:
            with self._room_held(job, late) as elsewhere:
                found = self._allocator.place(job, elsewhere, False)
            if found and self._leaves_room(job, mark):
                return True
            session.undo(mark)
            if self._allocator.place(job, None, False) and self._replanned(None):
                return True
            session.undo(mark)
            self._in_vain.add(alike)
        # What the tries here ran into is no reason: there was room.
        session.ledger.failures[job.uid] = self._held_back(job, late[-1])
        return False

    # In the actions that evict

    def refuse(self, job: Job) -> str | None:
        """Why what has been done for a job by evictions may not be decided; None if it may. What was kept for the job itself is kept no longer, and so is
        what one that goes before takes."""
        before = self._turns.get(job.uid, inf)
        self._kept = [place for place in self._kept if place.job is not job]
        if not self._kept or self._replanned(before):
            self._tell()
            return None
        first = next(place for place in self._kept if self._turns[place.job.uid] < before)
        return f"it would take what {_kept_for(first, self._session.now)}"

    def _replanned(self, before: float | None) -> bool:
        """Find all places anew at their times, as things stand. Those of jobs whose turn came after ``before`` may be lost by it."""
        found: list[KeptNodes] = []
        leaving = self._leaving()
        for place in self._kept:
            again = self._at(place.job, place.at, leaving, found)
            if again is not None:
                found.append(again)
            elif before is None or self._turns[place.job.uid] < before:
                return False
        self._kept = found
        self._tell()
        return True

    # Times

    def _end(self, task: WTask) -> float:
        """When a task that has a place is expected to leave it."""
        job = task.job
        if job is None or task.status not in _RUNS:
            return inf  # whoever waits for a promised place starts nobody knows when
        now = self._session.now
        if task.record.node != task.node:
            return now + self._policy.expects(job)
        # Its own start is not known. It can't be before it was made, nor before its job began.
        start = now if job.record.last_start is None else max(job.record.last_start, task.record.created)
        return max(now, start + self._policy.expects(job))

    def _outlasted(self, job: Job) -> list[KeptNodes]:
        """The places that a job still runs into, if it has all that it wants now, and in any case if it must wait for it."""
        promised = any(task.status == Status.PIPELINED for task in job)
        end = inf if promised else self._session.now + self._policy.expects(job)
        return [place for place in self._kept if place.at < end]

    def _leaves(self, place: KeptNodes) -> float:
        return place.at + self._policy.expects(place.job)

    def _leaving(self) -> list[tuple[float, list[WTask]]]:
        """Who is expected to end, moment by moment."""
        own = {place.job.uid for place in self._kept}
        ends: dict[float, list[WTask]] = {}
        known = self._ends
        for tasks in self._session.table.tasks:
            for task in tasks.values():
                found = known.get(task)
                # Of a task that did not move the end of the last look holds.
                if found is None or found[0] is not task.status or found[1] != task.node:
                    found = known[task] = (task.status, task.node, self._end(task))
                end = found[2]
                if end < inf and task.job is not None and task.job.uid not in own:
                    ends.setdefault(end, []).append(task)
        return sorted(ends.items())

    # Places

    def _earliest(self, job: Job) -> KeptNodes | None:
        session = self._session
        not_before = self._kept[-1].at if self._kept else session.now
        mark = session.mark()
        try:
            leaving = self._leaving()
            leaving += [(end, []) for place in self._kept if (end := self._leaves(place)) < inf]
            for end, tasks in sorted(leaving, key=lambda one: one[0]):
                for task in tasks:
                    if task.job is not job:
                        session.evict(task)
                # The cheap look first: most moments are too early.
                if end >= not_before and self._allocator.placer.may_hold(tasks_to_allocate(job), None):
                    place = self._placed(job, end, self._kept)
                    if place is not None:
                        return place
            return None
        finally:
            session.undo(mark)

    def _at(
        self, job: Job, moment: float, leaving: list[tuple[float, list[WTask]]], earlier: list[KeptNodes]
    ) -> KeptNodes | None:
        session = self._session
        mark = session.mark()
        try:
            for end, tasks in leaving:
                if end > moment:
                    break
                for task in tasks:
                    session.evict(task)
            return self._placed(job, moment, earlier)
        finally:
            session.undo(mark)

    def _placed(self, job: Job, moment: float, earlier: list[KeptNodes]) -> KeptNodes | None:
        """Its place beside earlier ones, with those that end by then gone already."""
        session, table = self._session, self._session.table
        mark = session.mark()
        for one in earlier:
            if self._leaves(one) <= moment:
                continue
            for task, node, groups, zones in one.spots:
                session.pipeline(task, node, groups, keep_in_place=False, zones=zones)
        tasks = list(tasks_to_allocate(job))
        place: KeptNodes | None = None
        if self._allocator.place(job, None, True, tasks):
            spots = tuple((task, task.node, task.groups, task.zones) for task in tasks)
            nodes = np.array(sorted({table.index[task.node] for task in tasks}))
            place = KeptNodes(job, moment, spots, nodes, table.free[:, nodes].copy())
        session.undo(mark)
        return place

    # Beside them

    def _leaves_room(self, job: Job, mark: int) -> bool:
        """Whether what a job was given since ``mark`` leaves on the nodes of places that it outlasts as much as is kept there; it then counts there."""
        late = self._outlasted(job)
        if not late:
            return True
        table = self._session.table
        given = {entry.task.uid: entry.task for entry in self._session.journal[mark:] if entry.task.job is job}
        held: dict[int, np.ndarray] = {}
        kept = set(np.concatenate([place.nodes for place in late]).tolist())
        for task in given.values():
            i = table.index[task.node]
            if i not in kept:
                continue
            if not task.info.plain or table.numa:
                return False  # no sum of amounts shows what is left of shared devices, of claimed ones and in zones
            amounts = held.setdefault(i, np.zeros(len(table.idle), dtype=np.int64))
            for row, amount in task.info.needs:
                amounts[row] += amount
        takes = [(place, [held.get(int(i)) for i in place.nodes]) for place in late]
        if any(
            took is not None and (took > place.room[:, n]).any() for place, all_ in takes for n, took in enumerate(all_)
        ):
            return False
        for place, all_ in takes:
            for n, took in enumerate(all_):
                if took is not None:
                    place.room[:, n] -= took
        return True

    @contextmanager
    def _room_held(self, job: Job, late: list[KeptNodes]) -> Iterator[np.ndarray | None]:
        """For the time being, nodes have free only what a job that outlasts these places may take. Given: the nodes that it may go to (None: all)."""
        session, table = self._session, self._session.table
        if table.numa or not all(task.info.plain for task in tasks_to_allocate(job)):
            open_ = np.ones(len(table), dtype=bool)
            for place in late:
                open_[place.nodes] = False
            yield open_
            return
        most: dict[int, np.ndarray] = {}
        for place in late:
            for n, i in enumerate(place.nodes.tolist()):
                most[i] = np.minimum(most[i], place.room[:, n]) if i in most else place.room[:, n]
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

    # Telling

    def _tell(self) -> None:
        self._session.ledger.kept = tuple(
            KeptPlace(
                podgroup=place.job.uid,
                queue=place.job.record.queue,
                at=place.at,
                nodes=tuple(node for _, node, _, _ in place.spots),
                gpu=self._session.wants([task for task, *_ in place.spots], self._session.table.min_gpu_memory)[2],
            )
            for place in self._kept
        )

    def _held_back(self, job: Job, place: KeptNodes) -> FailedAttempt:
        now, end = self._session.now, self._session.now + self._policy.expects(job)
        if end <= place.at:
            lasts = "would first wait for others to leave"
        else:
            lasts = f"would run until {moment_text(end)}" if end < inf else "does not tell how long it runs"
        return FailedAttempt(
            PendingCode.RESERVED,
            f"there is room, and it is kept free: it {lasts}, and take what {_kept_for(place, now)}",
            numbers={"kept_for": place.job.uid, "kept_from": place.at},
        )


def _kept_for(place: KeptNodes, now: float) -> str:
    """... of a place, for messages: without a time where those that hold it are to have ended, as it would be another in every cycle."""
    record = place.job.record
    since = (
        f"from {moment_text(place.at)} on" if place.at > now else "as soon as those that run beyond their time are gone"
    )
    nodes = sorted({node for _, node, _, _ in place.spots})
    where = ", ".join(nodes[:3]) + (f" and {len(nodes) - 3} more" if len(nodes) > 3 else "")
    return f"{record.namespace}/{record.name} of queue {record.queue} is to have {since} (nodes {where})"


def _sort(job: Job) -> tuple[object, ...]:
    """By what jobs are known that fit beside the same places: room only gets less while turns are given."""
    wanted = frozenset(
        Counter(
            (task.podset, task.info) if len(job.podsets) > 1 else task.info for task in tasks_to_allocate(job)
        ).items()
    )
    confined: list[object] = []
    for podset in job.podsets.values():
        member: Member | None = podset
        while member is not None:
            confined.append(member.constraint)
            member = member.parent
    return wanted, tuple(confined), job.record.queue, job.record.preemptible
