"""Promises that nobody stands behind.

A search for victims may find that a job fits once they are gone, and then that all of them may stay: it has counted the place
of one of them twice. In a cycle that changes nothing such a promise would be made again for ever; it is none, and the job
waits for what it lacks.

Or the victims were work that had got its place in this very cycle, and was to go to another one with the job, as where both use
one resource claim. Then nobody has to leave first, and all of them start there at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from kailab.engine.decisions import Action
from kailab.engine.session import Session
from kailab.engine.snapshot.records import Status
from kailab.engine.working.state import Job, WTask

Start: TypeAlias = Callable[[Job, np.ndarray, Action], bool]
"""Gives a job its next places, on some of these nodes, if nobody has to leave them."""


def resolve_unbacked_pipelines(session: Session, start: Start) -> None:
    """Say who goes first in the next cycle. Where this one changes nothing, keep or withdraw the promises to jobs for which nobody
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
    unbacked = {uid: tasks for uid, tasks in promised.items() if not _awaited(session, tasks)}
    # Room was made for nobody here, so that nobody goes first either.
    ledger.heirs = tuple(uid for uid in ledger.heirs if uid not in unbacked)
    given = {uid: (_nodes(session, tasks), ledger.pipelines[tasks[0].uid].action) for uid, tasks in unbacked.items()}
    # Committed: the jobs are then among those that wait when reasons are told.
    mark = session.mark()
    for tasks in unbacked.values():
        for task in tasks:
            del ledger.pipelines[task.uid]
            session.withdraw(task)
    session.commit(mark, "allocate")
    # All are withdrawn first: what one was promised must not stand in the way of the other.
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


def _awaited(session: Session, tasks: list[WTask]) -> bool:
    """Somebody leaves one of the nodes that these were promised, or waits there already, as the cluster has it."""
    table = session.table
    nodes = {table.index[task.node] for task in tasks}
    going = (Status.RELEASING, Status.PIPELINED)
    return any(task.record.status in going for i in nodes for task in table.tasks[i].values())
