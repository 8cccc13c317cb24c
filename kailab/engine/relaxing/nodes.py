"""What keeps work off nodes, taken away one by one: of the nodes, or of what the subject's pods ask of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from msgspec import structs

from kailab.engine.relaxing.draft import Draft
from kailab.engine.relaxing.relaxation import Relaxation
from kailab.engine.report.barriers import LIFECYCLE_TAINTS
from kailab.engine.snapshot.records import GPU, Node, Shape, Status, SubGroup, Task, Toleration
from kailab.engine.snapshot.statuses import ON_NODE

Resource = Literal["cpu", "memory", "pods", "gpu", "extended"]
RESOURCES: tuple[Resource, ...] = ("cpu", "memory", "pods", "gpu", "extended")
"""Amounts that nodes have; MIG instances are extended ones."""

EVERYTHING = Toleration(operator="Exists")


@dataclass(frozen=True)
class NodesOpened(Relaxation):
    """No node is cordoned, and all are ready."""

    def change(self, draft: Draft) -> None:
        for node in draft.records("nodes"):
            # Kubernetes marks such nodes by a taint as well: with the taint left, opening them would change nothing.
            taints = tuple(taint for taint in node.taints if taint.key not in LIFECYCLE_TAINTS)
            if node.unavailable or taints != node.taints:
                draft.set("nodes", structs.replace(node, unavailable="", taints=taints))


@dataclass(frozen=True)
class NodesAdded(Relaxation):
    """These nodes are served too."""

    nodes: tuple[Node, ...]

    def change(self, draft: Draft) -> None:
        for node in self.nodes:
            draft.set("nodes", node)


@dataclass(frozen=True)
class RoomGiven(Relaxation):
    """Nodes that have any of these resources have room for all of the subject beside what they hold."""

    resources: tuple[Resource, ...] = RESOURCES

    def change(self, draft: Draft) -> None:
        shapes = [task.shape for task in draft.tasks()]
        cpu = sum(shape.cpu for shape in shapes)
        memory = sum(shape.memory for shape in shapes)
        # Generous: a share gets a whole device of its own.
        gpus = sum((shape.gpu.devices + sum(count for _, count in shape.gpu.dra)) * GPU for shape in shapes)
        more: dict[str, int] = {}
        for shape in shapes:
            for name, count in (*shape.extended, *shape.gpu.mig):
                more[name] = more.get(name, 0) + count
        given = set(self.resources)
        for node in draft.records("nodes"):
            extended = node.extended
            if "extended" in given and more:
                # Only more of what a node has already, here as with GPUs below: its kind stays.
                extended = tuple((name, count + more.get(name, 0)) for name, count in extended)
            changed = structs.replace(
                node,
                cpu=node.cpu + cpu if "cpu" in given else node.cpu,
                memory=node.memory + memory if "memory" in given else node.memory,
                # Two slots each: a share may need a second one, for the pod that reserves the device.
                pods=node.pods + 2 * len(shapes) if "pods" in given else node.pods,
                gpus=node.gpus + gpus if "gpu" in given and node.gpus else node.gpus,
                extended=extended,
            )
            if changed != node:
                draft.set("nodes", changed)


@dataclass(frozen=True)
class ZonesIgnored(Relaxation):
    """No kubelet aligns anything to NUMA zones."""

    def change(self, draft: Draft) -> None:
        for node in draft.records("nodes"):
            if node.numa is not None:
                draft.set("nodes", structs.replace(node, numa=None))


@dataclass(frozen=True)
class Unplaced(Relaxation):
    """Those of the subject's pods that have a place wait again, as if nothing of it ran yet."""

    def change(self, draft: Draft) -> None:
        for task in draft.tasks():
            if ON_NODE[task.status]:
                draft.set(
                    "tasks",
                    # What it was given belongs to the place that it loses.
                    structs.replace(task, status=Status.PENDING, node="", gpu_groups=(), accepted=None, numa_zones=()),
                )


@dataclass(frozen=True)
class _OfShapes(Relaxation):
    """What the subject's pods ask of nodes."""

    def change(self, draft: Draft) -> None:
        # Only the subject's own pods, whoever else has an equal shape.
        _reshape(draft, draft.tasks(), self.shaped)

    def shaped(self, shape: Shape) -> Shape:
        raise NotImplementedError


class NothingMissing(_OfShapes):
    """All that the pods name is there, and no binding of them was refused."""

    def shaped(self, shape: Shape) -> Shape:
        return structs.replace(shape, blocked=())


class AllTolerated(_OfShapes):
    """The pods tolerate every taint."""

    def shaped(self, shape: Shape) -> Shape:
        return structs.replace(shape, tolerations=(EVERYTHING,))


class SelectorGone(_OfShapes):
    """The pods have neither a node selector nor a required node affinity."""

    def shaped(self, shape: Shape) -> Shape:
        return structs.replace(shape, selector=(), terms=())


class CompanyNotNeeded(_OfShapes):
    """The pods need no other pods beside them."""

    def shaped(self, shape: Shape) -> Shape:
        return structs.replace(shape, affinity=tuple(term for term in shape.affinity if term.weight))


class PortsGone(_OfShapes):
    """The pods want no ports of their nodes."""

    def shaped(self, shape: Shape) -> Shape:
        return structs.replace(shape, ports=())


class ClaimsGone(_OfShapes):
    """The pods have no resource claims."""

    def shaped(self, shape: Shape) -> Shape:
        if not shape.claims:
            return shape
        return structs.replace(shape, claims=(), gpu=structs.replace(shape.gpu, dra=()))


@dataclass(frozen=True)
class AntiAffinityGone(Relaxation):
    """No pod has to keep away from others: neither the subject's from theirs, nor theirs from the subject's."""

    def change(self, draft: Draft) -> None:
        _reshape(
            draft,
            # All tasks, because the terms of others keep the subject off as its own do.
            [task for task in draft.records("tasks") if task.shape.anti_affinity],
            lambda shape: structs.replace(
                shape, anti_affinity=tuple(term for term in shape.anti_affinity if term.weight)
            ),
        )


@dataclass(frozen=True)
class TopologyGone(Relaxation):
    """The subject may be anywhere in its topologies."""

    def change(self, draft: Draft) -> None:
        for podgroup in draft.podgroups():
            draft.set("podgroups", structs.replace(podgroup, root=_unconstrained(podgroup.root)))


def _unconstrained(group: SubGroup) -> SubGroup:
    return structs.replace(
        group,
        constraint=None,
        groups=tuple(_unconstrained(one) for one in group.groups),
        podsets=tuple(structs.replace(podset, constraint=None) for podset in group.podsets),
    )


def _reshape(draft: Draft, tasks: list[Task], shaped: Callable[[Shape], Shape]) -> None:
    made: dict[int, Shape] = {}  # equal tasks go on sharing one shape
    for task in tasks:
        shape = made.get(id(task.shape))
        if shape is None:
            shape = made[id(task.shape)] = shaped(task.shape)
        if shape != task.shape:
            draft.set("tasks", structs.replace(task, shape=shape))
