"""Changes of a simulated cluster between cycles: jobs end or are deleted, nodes go and come, queues get other amounts."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import structs

from checks.case_input import ACTIVE, LEAVING, NOW
from checks.simulated_cluster import SimulatedCluster
from kailab.engine.snapshot.records import Node, Queue, Status, Task


class ClusterChange(msgspec.Struct, frozen=True, kw_only=True):
    """What changes at one moment, in this order. ``ended`` and ``deleted``: jobs by UID; the pods of an ended job are
    gone, and those of a deleted one leave if they run. ``gone``: nodes by name, whose pods wait again. ``back``: nodes
    that come. ``queues``: queues with other amounts. Names that the cluster does not have change nothing.
    """

    ended: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    back: tuple[Node, ...] = ()
    queues: tuple[Queue, ...] = ()

    def make(self, table: SimulatedCluster) -> None:
        """Make this change."""
        remove_jobs(table, self.ended)
        delete_jobs(table, self.deleted)
        for name in self.gone:
            _remove_node(table, name)
        if self.gone or self.back:
            set_nodes(table, (*(node for node in table.case_input.nodes if node.name not in self.gone), *self.back))
        others = {queue.name: queue for queue in self.queues}
        _set(table, queues=tuple(others.get(queue.name, queue) for queue in table.case_input.queues))


def forget_deleted(table: SimulatedCluster) -> None:
    """Remove the jobs that are deleted, whose pods have left."""
    remove_jobs(table, table.case_input.deleted_for_good)


def remove_jobs(table: SimulatedCluster, uids: Iterable[str]) -> None:
    """Jobs are gone, with their pods."""
    removed = frozenset(uids)
    _set(table, podgroups=tuple(group for group in table.case_input.podgroups if group.uid not in removed))
    for task in list(table.tasks.values()):
        if task.podgroup in removed:
            del table.tasks[task.uid]


def delete_jobs(table: SimulatedCluster, uids: Iterable[str]) -> None:
    """Jobs are deleted: pods that hold a place leave it, and the others are gone at once."""
    deleted = frozenset(uids)
    for task in list(table.tasks.values()):
        if task.podgroup not in deleted:
            continue
        if task.status in ACTIVE:
            table.tasks[task.uid] = structs.replace(task, status=Status.RELEASING)
        elif task.status not in LEAVING:
            del table.tasks[task.uid]
    left = {task.podgroup for task in table.tasks.values()}
    remove_jobs(table, deleted - left)
    _set(table, deleted_for_good=table.case_input.deleted_for_good | (deleted & left))


def set_nodes(table: SimulatedCluster, nodes: Iterable[Node]) -> None:
    """The cluster has these nodes."""
    _set(table, nodes=tuple(nodes))
    table.nodes = {node.name: node for node in table.case_input.nodes}


def waiting(task: Task) -> Task:
    """The pod that replaces this one: it waits, and is new."""
    return structs.replace(
        task, status=Status.PENDING, node="", gpu_groups=(), accepted=None, numa_zones=(), created=NOW
    )


def _remove_node(table: SimulatedCluster, name: str) -> None:
    for task in list(table.tasks.values()):
        if task.node != name:
            continue
        if task.podgroup in table.case_input.deleted_for_good or task.status == Status.STUCK_RELEASING:
            del table.tasks[task.uid]
        else:
            table.tasks[task.uid] = waiting(task)


def _set(table: SimulatedCluster, **fields: object) -> None:
    table.case_input = structs.replace(table.case_input, **fields)
