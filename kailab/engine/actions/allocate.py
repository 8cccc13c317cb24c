"""allocate: give free capacity to waiting jobs, queue by queue, the queue furthest below its fair share first.

A job that fits only once leaving tasks are gone is promised its places (pipelined), a gang as a whole. Source: KAI's
allocate action.
"""

from __future__ import annotations

from collections.abc import Iterable

from kailab.engine.actions.classedorder import ClassedOrder, OpenOrder, classed_order, classes_count
from kailab.engine.actions.waiting import WaitingOrder, chooses, waiting_jobs
from kailab.engine.decisions import Action
from kailab.engine.placing.allocation import Allocator
from kailab.engine.placing.placement import NodeMask
from kailab.engine.session import Session
from kailab.engine.snapshot.records import Status
from kailab.engine.working.state import Job


def execute(session: Session, allocator: Allocator) -> None:
    _serve_promised(session, allocator)
    order = _order(session, allocator)
    node_reservations = allocator.node_reservations
    refuses_classes = node_reservations is None
    while not order.over:
        job = order.pop()
        if node_reservations is not None:
            node_reservations.turn(job)
        mark = session.mark()
        # As in KAI, the last start is set only if nothing of the job was allocated before: adding surplus pods is not a
        # start.
        started = job.allocated == 0
        if not allocator.place(job, None, False):
            session.undo(mark)
            if node_reservations is not None:
                node_reservations.consider(job)
                # Before they are full, nodes may be kept for any job that found no room.
                if node_reservations.full and not refuses_classes:
                    refuses_classes = True
                    order.refuse_classes(allocator.surely_refused)
            # This action takes room and frees none, so no job of its class will be placed.
            if refuses_classes:
                order.refuse()
            continue
        if node_reservations is not None and not node_reservations.admit(job, mark):
            node_reservations.consider(job)
            continue
        pipelined = _must_wait(job)
        if pipelined:
            _wait_as_a_whole(session, mark, job)
        _commit(session, mark, job, started and not pipelined)
        # Above its minimum, a job gets one pod each time it is served, because that changes its place and its queue's
        # place in the order. A job that found no room is not pushed back, because this action frees none.
        if job.pending:
            queue = session.queue_of(job)
            assert queue is not None
            order.again(queue, job)


def _order(session: Session, allocator: Allocator) -> WaitingOrder | ClassedOrder | OpenOrder:
    if not classes_count(session, allocator, "allocate"):
        return waiting_jobs(session, "allocate")
    order = classed_order(session, chooses(session))
    if allocator.node_reservations is None:
        order.refuse_classes(allocator.surely_refused)
    order.begin()
    return order


def promised_jobs(session: Session, promised: Iterable[str] | None = None) -> list[Job]:
    """The waiting jobs that go before all others, in this order. ``promised`` replaces the configuration's list."""
    uids = session.config.promised if promised is None else promised
    jobs = (session.jobs[uid] for uid in uids if uid in session.jobs)
    return [
        job
        for job in jobs
        if job.pending
        and job.root.ready
        and session.has_turn(job)
        and (queue := session.queue_of(job)) is not None
        and queue.leaf
    ]


def _serve_promised(session: Session, allocator: Allocator) -> None:
    """Start the jobs that have a promise: others were evicted for them, or had to be until room came by itself. In
    their ordinary turn they might lose the room again, in every cycle.
    """
    for job in promised_jobs(session):
        # A job that cannot start in full waits for its ordinary turn instead of getting another promise.
        start_in_full(session, allocator, job)


def start_in_full(
    session: Session, allocator: Allocator, job: Job, nodes: NodeMask = None, action: Action = "allocate"
) -> bool:
    """Give all next tasks of a job places that are free now. Changes nothing and returns False if that is impossible."""
    mark = session.mark()
    started = job.allocated == 0
    if not allocator.place(job, nodes, False) or any(task.status == Status.PIPELINED for task in job):
        session.undo(mark)
        return False
    _commit(session, mark, job, started, action)
    return True


def _commit(session: Session, mark: int, job: Job, started: bool, action: Action = "allocate") -> None:
    session.commit(mark, action)
    if started:
        job.last_start = session.now
        session.ledger.started.append(job.uid)


def _must_wait(job: Job) -> bool:
    """True if some pod set has promised places and fewer real ones than its minimum."""
    for podset in job.podsets:
        # Promised tasks count as active, so a pod set without active tasks has none.
        promised = sum(1 for task in podset.tasks.values() if task.status == Status.PIPELINED) if podset.active else 0
        if promised and podset.active - promised < podset.minimum:
            return True
    return False


def _wait_as_a_whole(session: Session, mark: int, job: Job) -> None:
    tasks = {entry.task.uid: entry.task for entry in session.journal[mark:]}
    for task in tasks.values():
        # KAI: ConvertAllAllocatedToPipelined. Places taken now would stay idle until the rest of the gang can start.
        if task.job is job and task.status == Status.ALLOCATED:
            node, groups, zones = task.node, task.groups, task.zones
            session.withdraw(task)
            session.pipeline(task, node, groups, keep_in_place=False, zones=zones)
