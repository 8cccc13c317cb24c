"""How much is free where a group may run, beside what it wants."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kailab.engine.relaxing.rules import RoomGiven
from kailab.engine.snapshot.records import GPU
from kailab.engine.working.layout import GPUS, MIG_PREFIX, PODS
from kailab.engine.working.state import WTask
from kailab.explain.cause import Cause, Code
from kailab.explain.causes.node_ground import Ground
from kailab.explain.causes.node_words import amount, best_node, figure, node_refs, row_wanted, wants, who
from kailab.lab.wording import capitalized, count


def device_row(ground: Ground) -> tuple[int, int]:
    """The devices of which there are too few for the group (a row of nodes), and how much of them its next pods want together: GPUs
    where they are lacking, else the resource of which least is left beside what a pod wants."""
    table, tasks = ground.table, ground.next
    device = int(table.min_gpu_memory)
    others = {
        table.layout.rows[name] for task in tasks for name, _ in (*task.info.shape.gpu.mig, *task.info.shape.extended)
    }
    wants_gpus = any(row_wanted(task, GPUS, device) for task in tasks)
    given = ground.lacking
    row = GPUS
    if others and (not wants_gpus or (RoomGiven(("extended",)) in given and RoomGiven(("gpu",)) not in given)):
        row = min(sorted(others), key=lambda one: _left(ground, one))
    return row, sum(row_wanted(task, row, device) for task in tasks)


def is_gpus(ground: Ground, row: int) -> bool:
    """Whether a row of nodes is of GPUs or parts of them."""
    return row == GPUS or ground.table.layout.names[row].startswith(MIG_PREFIX)


def _left(ground: Ground, row: int) -> int:
    """Of the node with the most, beside what the pod wants that wants the most."""
    return int(free_devices(ground, row).max(initial=0)) - max(task.info.rows.get(row, 0) for task in ground.next)


def free_devices(ground: Ground, row: int) -> np.ndarray:
    """Of each node that the group may use: what nobody holds; parts of shared GPUs for a group that wants parts."""
    table = ground.table
    usable = ground.usable(ground.next)
    free = np.maximum(table.idle[row], 0)
    if row == GPUS and _wants_parts(ground):
        free = np.array([max(0, table.unheld_gpus(i)) for i in range(len(table))], dtype=np.int64)
    found: np.ndarray = np.where(usable, free, 0)
    return found


def _wants_parts(ground: Ground) -> bool:
    return any(task.info.shape.gpu.shared for task in ground.next)


def _on_one_device(ground: Ground, usable: np.ndarray) -> tuple[int, int]:
    """The node that has the device with the most that nobody holds, and how much that is, in milli-GPU."""
    table = ground.table
    left = table.shares.left(int(table.allocatable[GPUS].max(initial=GPU)) // GPU).max(axis=1, initial=0)
    most = np.where(table.idle[GPUS] >= GPU, GPU, left)
    node = best_node(most, usable)
    assert node is not None
    return node, int(most[node])


def too_few_devices(ground: Ground, code: Code, also: Sequence[str], whole: Sequence[WTask] = ()) -> Cause:
    """``also``: what there is too little of beside them. ``whole``: all pods of the workload, told of where no going of others makes
    room for all of them."""
    table, tasks = ground.table, ground.next
    row, wanted = device_row(ground)
    name = table.layout.names[row]
    usable = ground.usable(tasks)
    free = free_devices(ground, row)
    best = best_node(free, usable)
    assert best is not None  # it would start on empty nodes
    node, most, capacity = table.nodes[best].name, int(free[best]), int(table.allocatable[row, best])
    wanting = _wanting(ground, tasks, row, wanted)
    total = int(free.sum())
    of = f"{figure(name, most)} of {figure(name, capacity)}"
    if code == Code.FRAGMENTED:
        places = f"the {count(int((free > 0).sum()), 'node')} with room that it may use"
        # A share of a GPU has to be on one device: what a node has free in sum is no room for it.
        parts = row == GPUS and _wants_parts(ground)
        if parts:
            best, most = _on_one_device(ground, usable)
            node = table.nodes[best].name
        one = "device" if parts else "node"
        text = f"{wanting}{f' on one {one}' if len(tasks) == 1 else ''}; {figure(name, total)} are free in sum on {places}, at most "
        text += f"{figure(name, most)} on one {f'device (of {node})' if parts else f'({node})'}"
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
