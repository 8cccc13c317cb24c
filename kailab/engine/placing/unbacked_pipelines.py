"""Promises for which no task leaves.

A search for victims may find that a job fits once they are gone, and then that all of them may stay, because it counted
the place of one of them twice. In a cycle that changes nothing such a promise would be repeated forever. It is
withdrawn, and the job waits for what it lacks.

Or the victims were placed in this same cycle and would have moved elsewhere with the job, for example because both use
one resource claim. Then no task has to leave first, and all of them start there at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from kailab.engine.decisions import Action
from kailab.engine.faults import UNBACKED_PROMISE
from kailab.engine.session import Session
from kailab.engine.snapshot.records import Status
from kailab.engine.working.state import Job, WTask

Start: TypeAlias = Callable[[Job, np.ndarray, Action], bool]
"""Gives a job its next places on some of these nodes, if they are free now."""


def resolve_unbacked_pipelines(session: Session, start: Start) -> None:
    """Set the heirs of the next cycle. If this cycle changes nothing, withdraw promises for which no task leaves, or
    start these jobs at once. If a job's room was given to another job, ask for the cycle to be repeated with the
    heirs first.
    """
    ledger, before = session.ledger, session.config.promised
    made = ledger.made_room_for()
    ledger.heirs = made
    # Once something changes, the next cycle sees another cluster, so a promise cannot be repeated forever.
    if ledger.changes or not ledger.pipelines or session.imitates(UNBACKED_PROMISE):
        return
    # Only with new heirs: the same heirs a second time would change nothing.
    if ledger.robbed and not set(made) <= set(before):
        ledger.again, ledger.heirs = True, tuple(dict.fromkeys((*made, *before)))
        return
    promised: dict[str, list[WTask]] = {}
    for uid, pipeline in ledger.pipelines.items():
        promised.setdefault(pipeline.podgroup, []).append(session.jobs[pipeline.podgroup].tasks[uid])
    unbacked = {uid: tasks for uid, tasks in promised.items() if not _waits_for_leaving(session, tasks)}
    # No room was made for these jobs, so they do not go first.
    ledger.heirs = tuple(uid for uid in ledger.heirs if uid not in unbacked)
    given = {uid: (_nodes(session, tasks), ledger.pipelines[tasks[0].uid].action) for uid, tasks in unbacked.items()}
    # Committed, so that the jobs count as waiting when reasons are reported.
    mark = session.mark()
    for tasks in unbacked.values():
        for task in tasks:
            del ledger.pipelines[task.uid]
            session.withdraw(task)
    session.commit(mark, "allocate")
    # All are withdrawn first, so that the promises do not block each other.
    moved = {*ledger.robbed, *ledger.robbed.values()}
    for uid, (nodes, action) in given.items():
        job = session.jobs[uid]
        if uid in moved and start(job, nodes, action):
            ledger.robbed.pop(uid, None)
        else:
            ledger.note(job, action, "those who would go can all stay where they are: it makes no room")


def _nodes(session: Session, tasks: list[WTask]) -> np.ndarray:
    mask = np.zeros(len(session.table), dtype=bool)
    mask[[session.table.index[task.node] for task in tasks]] = True
    return mask


def _waits_for_leaving(session: Session, tasks: list[WTask]) -> bool:
    """True if, in the cluster, a task leaves one of the promised nodes, or waits there already."""
    table = session.table
    nodes = {table.index[task.node] for task in tasks}
    going = (Status.RELEASING, Status.PIPELINED)
    return any(task.record.status in going for i in nodes for task in table.tasks[i].values())
