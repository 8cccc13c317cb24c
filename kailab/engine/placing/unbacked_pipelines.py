"""Promises that nobody stands behind.

A search for victims may find that a job fits once they are gone, and then that all of them may stay: it has counted the place
of one of them twice. In a cycle that changes nothing such a promise would be made again for ever; it is none, and the job
waits for what it lacks.
"""

from __future__ import annotations

from kailab.engine.session import Session
from kailab.engine.snapshot.records import Status
from kailab.engine.working.state import WTask


def settle(session: Session) -> None:
    """Say who goes first in the next cycle. Where this one changes nothing, withdraw the promises to jobs for which nobody
    leaves, unless what they wait for was given and taken again: then it is to be decided anew, with them first."""
    ledger, before = session.ledger, session.config.promised
    made = ledger.made_room_for()
    ledger.heirs = made
    # Once something changes the next cycle sees another cluster, and no promise can go on for ever by itself.
    if ledger.changes or not ledger.pipelines or session.config.imitate_faults:
        return
    # Asked only where somebody new was made room for: the same heirs a second time would change nothing.
    if ledger.robbed and not set(made) <= set(before):
        ledger.again, ledger.heirs = True, tuple(dict.fromkeys((*made, *before)))
        return
    promised: dict[str, list[WTask]] = {}
    for uid, pipeline in ledger.pipelines.items():
        promised.setdefault(pipeline.podgroup, []).append(session.jobs[pipeline.podgroup].tasks[uid])
    # Committed below: the job is then among those that wait when reasons are told.
    mark = session.mark()
    for job_uid, tasks in promised.items():
        if _awaited(session, tasks):
            continue
        job = session.jobs[job_uid]
        # Room was made for nobody here, so that nobody goes first either.
        ledger.heirs = tuple(uid for uid in ledger.heirs if uid != job_uid)
        for task in tasks:
            action = ledger.pipelines.pop(task.uid).action
            session.withdraw(task)
        ledger.note(job, action, "those who would go can all stay where they are: it makes no room")
    session.commit(mark, "allocate")


def _awaited(session: Session, tasks: list[WTask]) -> bool:
    """Somebody leaves one of the nodes that these were promised, or waits there already, as the cluster has it."""
    table = session.table
    nodes = {table.index[task.node] for task in tasks}
    going = (Status.RELEASING, Status.PIPELINED)
    return any(task.record.status in going for i in nodes for task in table.tasks[i].values())
