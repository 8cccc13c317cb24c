"""How much is free where a group may run, beside what it wants."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kailab.engine.working.layout import GPUS, PODS
from kailab.engine.working.state import WTask
from kailab.lab.explain.cause import Cause, Code
from kailab.lab.explain.causes.node_ground import Ground
from kailab.lab.explain.causes.node_words import amount, best_node, figure, node_refs, row_wanted, wants, who
from kailab.lab.wording import capitalized, count


def gpu_row(ground: Ground) -> tuple[int, int]:
    """The devices that the group wants (a row of nodes), and how much of them its next pods want together."""
    table, tasks = ground.table, ground.next
    row = GPUS
    for task in tasks:
        names = [name for name, _ in (*task.info.shape.gpu.mig, *task.info.shape.extended)]
        if names and not row_wanted(task, GPUS, int(table.min_gpu_memory)):
            row = table.layout.rows[names[0]]
    return row, sum(row_wanted(task, row, int(table.min_gpu_memory)) for task in tasks)


def free_gpus(ground: Ground, row: int) -> np.ndarray:
    """Of each node that the group may use: what nobody holds; parts of shared GPUs for a group that wants parts."""
    table = ground.table
    usable = ground.usable(ground.next)
    free = np.maximum(table.idle[row], 0)
    if row == GPUS and any(task.info.shape.gpu.shared for task in ground.next):
        free = np.array([max(0, table.unheld_gpus(i)) for i in range(len(table))], dtype=np.int64)
    found: np.ndarray = np.where(usable, free, 0)
    return found


def too_few_gpus(ground: Ground, code: Code, also: Sequence[str], whole: Sequence[WTask] = ()) -> Cause:
    """``also``: what there is too little of beside GPUs. ``whole``: all pods of the workload, told of where no going of others makes
    room for all of them."""
    table, tasks = ground.table, ground.next
    row, wanted = gpu_row(ground)
    name = table.layout.names[row]
    usable = ground.usable(tasks)
    free = free_gpus(ground, row)
    best = best_node(free, usable)
    assert best is not None  # it would start on empty nodes
    node, most, capacity = table.nodes[best].name, int(free[best]), int(table.allocatable[row, best])
    wanting = _wanting(ground, tasks, row, wanted)
    total = int(free.sum())
    of = f"{figure(name, most)} of {figure(name, capacity)}"
    if code == Code.FRAGMENTED:
        places = f"the {count(int((free > 0).sum()), 'node')} with room that it may use"
        text = f"{wanting}{' on one node' if len(tasks) == 1 else ''}; {figure(name, total)} are free in sum on {places}, at most "
        text += f"{figure(name, most)} on one ({node})"
        text += "" if len(tasks) == 1 else f", and room for {_placed(ground)} of these pods"
    elif len(tasks) == 1:
        few = "the only node that it may use," if int(usable.sum()) == 1 else "of the nodes that it may use"
        text = f"{wanting}; {few} {node}{',' if int(usable.sum()) == 1 else ''} has "
        text += f"{of} free" if int(usable.sum()) == 1 else f"the most free: {of}"
    else:
        text = f"{wanting}; {figure(name, total)} are free on the nodes that they may use, the most on {node} ({of})"
    text += f"; {' and '.join(also)} would not suffice either" if also else ""
    in_all = sum(row_wanted(task, row, int(table.min_gpu_memory)) for task in whole)
    there = int(table.allocatable[row][usable].sum())
    if in_all > there:
        text += f". Its {len(whole)} pods want {amount(name, in_all)}, and the nodes that they may use have {figure(name, there)} in all"
    return Cause(
        code,
        f"{text}.",
        node_refs(table, [best]),
        {"resource": name, "wanted": wanted, "free": total, "node": node, "most": most, "also": list(also)},
    )


def shortage(ground: Ground, code: Code, row: int) -> Cause:
    """Of CPU, memory or pod slots, where all else would suffice."""
    table, tasks = ground.table, ground.next
    task = tasks[0]
    name = table.layout.names[row]
    among = ground.usable([task])
    for other, value in task.info.rows.items():
        if other != row and value:
            among = among & (table.idle[other] >= value)
    if not among.any():
        among = ground.usable([task])
    free = np.maximum(table.idle[row], 0)
    best = best_node(free, among)
    assert best is not None
    node, most, capacity = table.nodes[best].name, int(free[best]), int(table.allocatable[row, best])
    where = "where GPUs are free" if task.info.request or task.info.shape.gpu.shared else "where it may run"
    only = int(among.sum()) == 1
    if row == PODS:
        full = f"{node} has {capacity - most} of {capacity}"
        text = f"The nodes {where} have as many pods as they take ({full})"
        if task.info.shape.gpu.shared:
            text = f"A share of a GPU needs 2 free pod slots, one for the pod that reserves the GPU; of the nodes {where} none has them ({full})"
        if len(tasks) > 1:
            text += f"; its {len(tasks)} pods must start together, and there is room for {_placed(ground)} of them"
    else:
        wanting = _wanting(ground, tasks, row, sum(one.info.rows.get(row, 0) for one in tasks))
        of = f"{figure(name, most)} of {figure(name, capacity)}"
        has = f"{node}, {where}, has {of} free" if only else f"of the nodes {where} {node} has the most free: {of}"
        text = f"{wanting}; {has}"
        if len(tasks) > 1:
            text += f", and there is room for {_placed(ground)} of these pods"
    return Cause(
        code,
        f"{text}.",
        node_refs(table, [best]),
        {"resource": name, "wanted": task.info.rows.get(row, 0), "node": node, "most": most, "capacity": capacity},
    )


def _wanting(ground: Ground, tasks: Sequence[WTask], row: int, wanted: int) -> str:
    table = ground.table
    if len(tasks) == 1:
        waiting = sum(not task.node for task in ground.job)
        subject = "Its next pod wants" if waiting > 1 else "It wants"
        return f"{subject} {wants(tasks[0].info, row, table)}"
    each = wants(tasks[0].info, row, table)
    return capitalized(f"{who(tasks)} {amount(table.layout.names[row], wanted)} ({each} each)")


def _placed(ground: Ground) -> int:
    """For how many of the pods that are placed together there is room now."""
    return next((one.numbers["placed"] for one in ground.trials().pending if "placed" in one.numbers), 0)
