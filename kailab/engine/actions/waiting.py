"""The waiting jobs in the order in which an action tries them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from kailab.engine.decisions import Action
from kailab.engine.queueing.jobqueue import JobQueue
from kailab.engine.session import Session
from kailab.engine.working.queues import WQueue
from kailab.engine.working.state import Job


class WaitingOrder(JobQueue[Job]):
    """The order of one action. If the session serves only certain jobs (``until``), the order ends after the last of
    them.
    """

    def __init__(self, session: Session) -> None:
        super().__init__(session.tree, wanted=session.wanted, precedence=session.precedence)
        self._session = session
        self._bounded = session.until is not None
        self._until = session.until or frozenset()
        self._first_of = (session.until or session.only or frozenset()) if session.once else frozenset()
        self._to_come = {uid for uid in self._until if uid in session.jobs and session.jobs[uid].pending}

    @property
    def over(self) -> bool:
        """True if no job is left that has to be tried."""
        return self.empty or (self._bounded and not self._to_come) or self._first_place_found

    @property
    def _first_place_found(self) -> bool:
        """True if a first place is enough (``once``) and one of the jobs has got it."""
        ledger = self._session.ledger
        # A promise in a cycle that changes nothing may still be withdrawn.
        if not self._first_of or not ledger.changes:
            return False
        return any(bind.podgroup in self._first_of for bind in ledger.binds.values()) or any(
            promise.podgroup in self._first_of and not promise.moved for promise in ledger.pipelines.values()
        )

    def pop(self) -> Job:
        job = super().pop()
        self._to_come.discard(job.uid)
        return job

    def refuse(self) -> None:
        """No effect: here every job has its turn."""

    def refuse_classes(self, must_fail: Callable[[WQueue, Job], bool]) -> None:
        """No effect either."""

    def again(self, queue: WQueue, job: Job) -> None:
        """Queue a job once more after it was served."""
        self.push(queue, job.order_key(), job)
        if job.uid in self._until:
            self._to_come.add(job.uid)


def chooses(session: Session, pick: Callable[[Job], bool] | None = None) -> Callable[[Job], bool]:
    """Whether a waiting job can run in its queue, is tried at all, and is picked."""

    def chosen(job: Job) -> bool:
        return job.root.ready and session.has_turn(job) and (pick is None or pick(job))

    return chosen


def waiting_jobs(session: Session, action: Action, pick: Callable[[Job], bool] | None = None) -> WaitingOrder:
    """The waiting jobs that can run in their queue, have as many pods as their minimum, and are picked. Of each queue,
    as many as the action tries (``queue_depth``).
    """
    order = WaitingOrder(session)
    depth = session.config.queue_depth.get(action, -1)
    chosen = chooses(session, pick)
    for queue in session.tree.leaves:
        entries = session.waiting.lists.get(queue.name)
        if entries:
            # The depth counts jobs that are tried, not those that are left out.
            first = entries if depth < 0 else islice((entry for entry in entries if chosen(entry[1])), depth)
            # A copy, because every commit moves entries of the index while this order is in use.
            order.load(queue, list(first), chosen)
    return order
