"""The queues' accounts at the start of a cycle: what they hold, ask for and are due. Later the session updates them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kailab.engine.config import EngineConfig
from kailab.engine.queueing.fairshare import tree_shares
from kailab.engine.snapshot.records import Queue, Status
from kailab.engine.working.queues import RESOURCES, Amounts, QueueTree
from kailab.engine.working.state import WTask
from kailab.engine.working.workingset import WorkingSet


def open_accounts(
    working: WorkingSet,
    config: EngineConfig,
    accepted: Callable[[WTask], Amounts],
    dividing: Callable[[], Sequence[Queue]],
) -> Sequence[Queue]:
    """Fill in all accounts and fair shares.

    ``accepted``: what a task counts for in its queue on its node. ``dividing``: the queues that take part in the
    division, asked once their amounts are known; they are returned. Raises PolicyError.
    """
    table, tree = working.table, working.tree
    for queue in tree.queues.values():
        queue.allocated = [0, 0, 0]
        queue.non_preemptible = [0, 0, 0]
        queue.request = [0, 0, 0]
    for name, sums in working.held.items():
        _add(tree, name, sums, allocated=1, request=1)
    for name, sums in working.held_non_preemptible.items():
        _add(tree, name, sums, non_preemptible=1)
    for name, sums in working.asked.items():
        _add(tree, name, sums, request=1)
    # The sums above do not fully contain GPU memory, which depends on the device.
    for task in working.memory_tasks.values():
        assert task.job is not None
        gpu = task.info.shape.gpu
        name = task.job.record.queue
        if task.status == Status.PENDING:
            amount = gpu.memory_gpus(table.min_gpu_memory)
            _add(tree, name, [0, 0, amount], request=1)
        else:
            held = [0, 0, accepted(task)[2] - task.info.quota[2]]  # ``held`` above contains the rest
            _add(tree, name, held, allocated=1, request=1, non_preemptible=0 if task.job.record.preemptible else 1)
    totals = table.total()
    for task in working.foreign.values():  # what is held outside of all queues is not divided among them
        i = table.index.get(task.node)
        if i is not None and table.available[i]:
            for r in RESOURCES:
                totals[r] -= task.info.quota[r]
    tree.totals = [float(total) for total in totals]
    requests = {name: tuple(queue.request) for name, queue in tree.queues.items()}
    queues = dividing()
    shares = tree_shares(queues, totals, requests, k_value=config.k_value, usage=config.usage)
    for name, queue in tree.queues.items():
        queue.set_fair_share(shares[name])
    return queues


def _add(
    tree: QueueTree, name: str, sums: list[int], *, allocated: int = 0, request: int = 0, non_preemptible: int = 0
) -> None:
    queue = tree.queues.get(name)
    if queue is None:
        return
    for level in queue.path:
        for r in RESOURCES:
            amount = sums[r]
            level.allocated[r] += allocated * amount
            level.request[r] += request * amount
            level.non_preemptible[r] += non_preemptible * amount
