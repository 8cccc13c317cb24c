"""stalegangeviction: a gang that has run below its minimum for longer than its grace period is evicted as a whole.

Source: KAI's stalegangeviction action.
"""

from __future__ import annotations

from kailab.engine.decisions import EvictionGround
from kailab.engine.session import Session
from kailab.engine.snapshot.records import ACTIVE


def execute(session: Session) -> list[str]:
    """Evict stale gangs. Returns the UIDs of all jobs that are stale now, also of those within their grace period."""
    stale: list[str] = []
    # The index is from the beginning of the cycle. Jobs that an action has touched since may have become stale, or no
    # longer be.
    jobs = {job.uid: job for job in session.working.stale.values()}
    jobs |= {entry.task.job.uid: entry.task.job for entry in session.journal if entry.task.job is not None}
    for job in sorted((job for job in jobs.values() if job.stale), key=lambda job: (job.record.created, job.uid)):
        # Also within the grace period: ``stale_since`` is kept for all returned jobs.
        stale.append(job.uid)
        grace = job.record.staleness_grace
        if grace is None:
            grace = session.config.staleness_grace
        if grace < 0:
            continue
        since = job.record.stale_since
        # The grace period of a gang that became stale in this cycle begins now.
        until = (session.now if since is None else since) + grace
        if session.now < until:
            session.ledger.wake(until)
            continue
        mark = session.mark()
        for task in sorted(job, key=lambda task: task.key):
            # Leaving tasks need no eviction.
            if ACTIVE[task.status]:
                session.evict(task)
        session.commit(
            mark, "stalegangeviction", ground=lambda job: EvictionGround(rule="gang", queue=job.record.queue)
        )
    return stale
