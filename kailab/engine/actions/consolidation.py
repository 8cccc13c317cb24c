"""consolidation: move preemptible pods, without losing any of them, so that a waiting preemptible job fits.

Source: KAI's consolidation action.
"""

from __future__ import annotations

from kailab.engine.actions.evicting import (
    SearchSkip,
    candidates,
    everyone_moved,
    impossible,
    search,
    someone_stays_without,
)
from kailab.engine.faults import COUNTED_TWICE, FLOAT_SUMS
from kailab.engine.placing.allocation import Allocator
from kailab.engine.queueing.capacity import over_limit
from kailab.engine.queueing.order import tasks_to_allocate
from kailab.engine.session import Session
from kailab.engine.snapshot.records import GPU
from kailab.engine.working.float_sums import sum_in_turn
from kailab.engine.working.jobindex import Entry
from kailab.engine.working.queues import WQueue
from kailab.engine.working.state import Job


def execute(session: Session, allocator: Allocator) -> None:
    most = session.config.max_consolidation_victims
    if most == 0:
        return
    # One scope for all queues: pods of any queue may be moved, so a failure counts for jobs of every queue.
    skip = SearchSkip(session)

    def failed_before(queue: WQueue, job: Job) -> bool:
        return skip.no_easier(job, "")

    for job in candidates(session, allocator, "consolidation", failed_before, preemptible_only=True):
        # As in KAI, a job that can be placed nowhere is not remembered as failed: there was no search.
        if skip.no_easier(job, "") or impossible(session, allocator, job):
            continue
        if (
            # The cheap checks come first. Each of them only predicts what a search would find by simulation.
            _over_limit(session, job) or not _enough_gpus(session, job) or not _moves(session, allocator, job, most)
        ):
            skip.failed(job, "")


def _over_limit(session: Session, job: Job) -> bool:
    """True if a queue would pass its limit. All moved pods stay, so every queue then holds what it holds now and the
    job on top.
    """
    if session.imitates(COUNTED_TWICE):  # a victim that is evicted twice lowers what its queue seems to hold
        return False
    queue = session.queue_of(job)
    assert queue is not None
    refusal = over_limit(queue, session.wants(tasks_to_allocate(job), session.table.max_gpu_memory))
    if refusal is not None:
        session.ledger.note(job, "consolidation", f"moving others does not lift the limit of queue {refusal.queue}")
    return refusal is not None


def _moves(session: Session, allocator: Allocator, job: Job, most: int) -> bool:
    lists = None if most < 0 else _last_in_order(session, job, most)
    allowed = None if lists is None else {victim.uid for entries in lists.values() for _, victim in entries}

    def pick(victim: Job) -> bool:
        return victim is not job and (allowed is None or victim.uid in allowed) and session.active_tasks(victim) != 0

    queues = session.tree.leaves
    return search(
        session, allocator, job, "consolidation", pick, queues, everyone_moved, lists=lists, all_stay=True,
        surely_invalid=someone_stays_without, refuses_loss=lambda _, lost: bool(lost),
    )  # fmt: skip


def _last_in_order(session: Session, job: Job, most: int) -> dict[str, list[Entry]]:
    """The victims of each queue that may be moved, at most ``most`` in all. The job itself may be among them."""
    number = 0
    lists: dict[str, list[Entry]] = {}
    for queue in session.tree.leaves:
        if number > most:
            break
        entries = session.victims.lists.get(queue.name, [])
        first = len(entries)
        # KAI takes the jobs in map order. Here the last in serving order come first, queue by queue. "<=": one job more
        # than the bound, as in KAI (buildPreemptibleFilterFunc).
        while first and number <= most:
            first -= 1
            if entries[first][1] is not job:
                number += 1
        lists[queue.name] = entries[first:]
    if number > most:
        session.working.order_read = True
    return lists


def _enough_gpus(session: Session, job: Job) -> bool:
    """True if as much GPU is free in all as the job wants. Moving pods frees no more. As in KAI
    (IsEnoughGPUsAllocatableForJob), of GPU memory each pod counts for one device, however many it wants.
    """
    table = session.table
    tasks = tasks_to_allocate(job)
    gpus, memory = sum(session.gpus_needed(tasks)), 0
    for task in tasks:
        memory += task.info.shape.gpu.memory_mib
    # Leaving pods count as gone, because the job would only be promised its place anyway.
    free = table.free_gpu_vector()[table.available]
    if session.imitates(FLOAT_SUMS):
        # Added one after the other as in KAI (getSumOfAvailableGPUs), where a sum may be too small by a hair.
        enough = sum_in_turn(table.free_gpu_floats()[table.available].tolist()) >= gpus / GPU
    else:
        enough = int(free.sum()) >= gpus
    if not enough:
        return False
    return memory == 0 or int((free * table.gpu_memory[table.available] // GPU).sum()) >= memory
