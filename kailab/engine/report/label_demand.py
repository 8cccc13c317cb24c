"""Which values of a node label the work of each queue can use, and how many GPUs it holds or wants: the demand by GPU model.

Only what no other work changes counts: selectors, affinity, taints and the kind of GPU. Nodes that are cordoned or not ready count too,
because work that waits for them takes their GPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from kailab.engine.decisions import LabelDemand
from kailab.engine.placing import fit
from kailab.engine.report.barriers import LIFECYCLE_TAINTS
from kailab.engine.session import Session
from kailab.engine.snapshot.records import ALLOCATED, Status, Taint
from kailab.engine.working.layout import GPUS
from kailab.engine.working.nodes import NodeTable
from kailab.engine.working.state import Job, ShapeInfo, WTask

_WAITING = (Status.PENDING, Status.GATED)


def label_demands(session: Session, value_of: Callable[[Mapping[str, str]], str]) -> tuple[LabelDemand, ...]:
    """The demand of each waiting PodGroup, and of all running work of a queue together, in order of queues and PodGroups.

    ``value_of``: the value of a node by its labels; nodes with the value "" are left out. Work without GPUs is left out, and work that
    asks for MIG profiles, which are no GPUs.
    """
    values = _NodeValues(session.table, value_of)
    running: dict[tuple[str, tuple[str, ...]], int] = {}
    result: list[LabelDemand] = []
    for job in session.jobs.values():
        queue = job.record.queue
        for task in job:
            if ALLOCATED[task.status] and _counts(task):
                key = queue, values.usable(task.info, task.node)
                running[key] = running.get(key, 0) + _amount(session, [task])
        waiting = [task for task in job if task.status in _WAITING and _counts(task)]
        if waiting:
            result.append(_waiting_demand(session, values, job, waiting))
    result += [LabelDemand(queue=queue, values=usable, gpus=gpus) for (queue, usable), gpus in running.items()]
    return tuple(sorted(result, key=lambda demand: (demand.queue, demand.podgroup, demand.values)))


def _waiting_demand(session: Session, values: _NodeValues, job: Job, waiting: list[WTask]) -> LabelDemand:
    usable: set[str] = set()
    for info in {id(task.info): task.info for task in waiting}.values():
        usable.update(values.usable(info))
    return LabelDemand(
        queue=job.record.queue,
        podgroup=job.uid,
        values=tuple(sorted(usable)),
        gpus=_amount(session, waiting),
        next=session.wanted(job)[2],
    )


def _counts(task: WTask) -> bool:
    gpu = task.info.shape.gpu
    return not gpu.by_profile and (task.info.quota[2] > 0 or gpu.by_memory)


def _amount(session: Session, tasks: list[WTask]) -> int:
    return session.wants(tasks, session.table.min_gpu_memory)[2]


class _NodeValues:
    """The values of nodes with GPUs, and those that a shape can use."""

    def __init__(self, table: NodeTable, value_of: Callable[[Mapping[str, str]], str]) -> None:
        self._table = table
        self._of_node = [value_of(dict(node.labels)) for node in table.nodes]
        self._names = sorted(set(self._of_node) - {""})
        codes = {name: code for code, name in enumerate(self._names)}
        self._codes = np.array([codes.get(value, -1) for value in self._of_node], dtype=np.int64)
        self._known = (self._codes >= 0) & (table.allocatable[GPUS] > 0)
        # Nodes of a pool have equal taints, so they are compared once for each kind.
        kinds: dict[tuple[Taint, ...], int] = {}
        self._taints = np.array(
            [kinds.setdefault(_lasting(node.taints), len(kinds)) for node in table.nodes], dtype=np.int64
        )
        self._kinds = list(kinds)
        self._usable: dict[int, tuple[str, ...]] = {}

    def usable(self, info: ShapeInfo, node: str = "") -> tuple[str, ...]:
        """``node``: where the pod runs, which it can use whatever its selectors say by now."""
        usable = self._usable.get(id(info))
        if usable is None:
            usable = self._usable[id(info)] = self._compute(info)
        own = self._of_node[self._table.index[node]] if node in self._table.index else ""
        return usable if not own or own in usable else tuple(sorted((*usable, own)))

    def _compute(self, info: ShapeInfo) -> tuple[str, ...]:
        table = self._table
        mask = self._known & fit.affinity_mask(table, info.shape) & fit.gpu_kind_mask(table, info)
        tolerated = np.array([fit.untolerated(info.shape, taints) is None for taints in self._kinds], dtype=bool)
        if len(tolerated):
            mask &= tolerated[self._taints]
        return tuple(self._names[int(code)] for code in np.unique(self._codes[mask]))


def _lasting(taints: Iterable[Taint]) -> tuple[Taint, ...]:
    return tuple(taint for taint in taints if taint.key not in LIFECYCLE_TAINTS)
