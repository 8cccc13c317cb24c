"""stalegangeviction: a gang that has run below its minimum for longer than its grace goes as a whole.

Source: KAI's stalegangeviction action.
"""

from __future__ import annotations

from kailab.engine.decisions import EvictionGround
from kailab.engine.session import Session
from kailab.engine.snapshot.records import ACTIVE
from kailab.engine.working.state import Job


def execute(session: Session) -> list[str]:
    """Evict; returns the UIDs of all jobs that are stale now, within their grace or beyond."""
    stale: list[str] = []
    # The index is as of the beginning of the cycle; whoever an action touched since may be stale now, or no longer.
    found = {job.uid: job for job in session.working.stale.values()}
    found |= {entry.task.job.uid: entry.task.job for entry in session.journal if entry.task.job is not None}
    for job in sorted((job for job in found.values() if job.stale), key=lambda job: (job.record.created, job.uid)):
        # Within its grace, too: ``stale_since`` is kept for all that are told here.
        stale.append(job.uid)
        grace = job.record.staleness_grace
        if grace is None:
            grace = session.config.staleness_grace
        if grace < 0:
            continue
        since = job.record.stale_since
        # A gang that became stale in this cycle begins its grace now.
        until = (session.now if since is None else since) + grace
        if session.now < until:
            session.ledger.wake(until)
            continue
        mark = session.mark()
        for task in sorted(job, key=lambda task: task.key):
            # Whoever is leaving already goes anyway.
            if ACTIVE[task.status]:
                session.evict(task)
        session.commit(mark, "stalegangeviction", ground=_gang)
    return stale


def _gang(job: Job) -> EvictionGround:
    return EvictionGround(rule="gang", queue=job.record.queue)
