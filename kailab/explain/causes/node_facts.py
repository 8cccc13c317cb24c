"""What the nodes offer a waiting PodGroup, in the present cluster and in one without other work; and words for nodes and amounts.

``NodeFacts.missing_room`` finds the resource or rule that the group lacks by relaxing it in the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np

from kailab.engine.placing import fit
from kailab.engine.queueing.order import tasks_to_allocate
from kailab.engine.relaxing.relaxed_cycles import RelaxedCycleOutcome, RelaxedCycles
from kailab.engine.relaxing.rules import (
    Actions,
    AntiAffinityGone,
    ClaimsGone,
    DelayGone,
    LimitsLifted,
    OthersGone,
    PodAffinityGone,
    PortsGone,
    QuotasRaised,
    RefusalsForgotten,
    Relaxation,
    RoomGiven,
    TopologyGone,
    Unplaced,
    ZonesIgnored,
)
from kailab.engine.report.node_answers import NodeAnswer, node_answers
from kailab.engine.report.node_filter import NAMES
from kailab.engine.session import Session
from kailab.engine.snapshot.amounts import format_thousandths, resource_text
from kailab.engine.snapshot.records import ALLOCATED, Constraint, PodSet, Requirement, Status, SubGroup
from kailab.engine.working.layout import CPU, GPUS, MEMORY, PODS
from kailab.engine.working.nodes import NodeTable
from kailab.engine.working.state import Job, ShapeInfo, WTask
from kailab.engine.working.workingset import WorkingSet
from kailab.evidence.wording import count, gpus, some
from kailab.lab.answer import ObjectRef


class NodeFacts:
    """``relaxed_cycles``: about the PodGroup with this UID. Positions and masks are over ``table.nodes``, which are the same in both clusters."""

    def __init__(self, relaxed_cycles: RelaxedCycles, uid: str) -> None:
        self.relaxed_cycles = relaxed_cycles
        self.uid = uid

    @property
    def working_set(self) -> WorkingSet:
        """The present cluster."""
        return self.relaxed_cycles.working

    @property
    def _alone(self) -> RelaxedCycles:
        """Relaxed cycles of a cluster in which only the pods of the group exist, all of them unplaced."""
        # In two steps, because the verdict needs the first as well.
        return self.relaxed_cycles.after(OthersGone()).after(Unplaced())

    @cached_property
    def empty_working_set(self) -> WorkingSet:
        """The cluster with no pods but those of the group. Relaxed cycles do not change it."""
        return WorkingSet.of(self._alone.snapshot)

    @property
    def table(self) -> NodeTable:
        return self.working_set.table

    @property
    def job(self) -> Job:
        return self.working_set.jobs[self.uid]

    @property
    def next_tasks(self) -> list[WTask]:
        """The pods that are placed next, all at once. Not cached, because relaxed cycles replace them by equal ones."""
        return tasks_to_allocate(self.job)

    @property
    def starting_tasks(self) -> list[WTask]:
        """The pods that must be placed together for the group to start, as tasks of the present cluster: the rows of their requests are
        those of its table. Not cached, like ``next_tasks``."""
        starting = tasks_to_allocate(self.empty_working_set.jobs[self.uid])
        return [self.working_set.tasks[task.uid] for task in starting]

    @cached_property
    def no_queue_rules(self) -> tuple[Relaxation, ...]:
        """Relaxations after which no queue rule refuses the group."""
        draft = self.relaxed_cycles.draft()
        path = tuple(queue.name for queue in draft.way(self.job.record.queue))
        return LimitsLifted(path), QuotasRaised(path), DelayGone(), RefusalsForgotten(), Actions()

    def waiting_alone(self) -> list[WTask]:
        """Its waiting pods, as tasks of the empty cluster."""
        return [self.empty_working_set.tasks[task.uid] for task in self.job if task.status == Status.PENDING]

    def to_place(self, uids: Iterable[str]) -> list[WTask]:
        """Pods of these PodGroups that are placed or pending, without those that have ended."""
        jobs = [self.working_set.jobs[uid] for uid in uids if uid in self.working_set.jobs]
        return [task for job in jobs for task in job if task.status == Status.PENDING or ALLOCATED[task.status]]

    @property
    def ready(self) -> bool:
        """Whether the engine tries to place the group: enough of its pods exist, and its queue can run work."""
        queue = self.working_set.tree.queues.get(self.job.record.queue)
        return self.job.root.ready and queue is not None and queue.leaf and not queue.orphan

    @property
    def topologies_known(self) -> bool:
        """Whether the topologies and levels that it names exist."""
        topologies = self.working_set.topologies
        return all(
            constraint.topology in topologies
            and {constraint.required, constraint.preferred} - {""} <= set(topologies[constraint.topology].levels)
            for constraint in constraints(self.job.record.root)
        )

    @property
    def topology_missing(self) -> bool:
        """Whether all of its pods have to be in a topology that does not exist."""
        constraint = self.job.record.root.constraint
        return (
            constraint is not None
            and bool(constraint.topology)
            and constraint.topology not in self.working_set.topologies
        )

    def starts_alone(self, *relaxations: Relaxation) -> RelaxedCycleOutcome:
        """The result of a cycle without other work, queue rules and required pod affinity."""
        return self._alone(PodAffinityGone(), *self.no_queue_rules, *relaxations)

    @cached_property
    def fits_nowhere(self) -> bool:
        """Whether it has no place yet and could not start on empty nodes either."""
        tried = self.ready and self.topologies_known and not any(task.node for task in self.job)
        return tried and not self.starts_alone().further

    def needed_alone(self, relaxations: Sequence[Relaxation]) -> tuple[Relaxation, ...]:
        """The fewest of these relaxations that let the group start on empty nodes; empty if all together do not."""
        return self._alone.fewest(relaxations, given=(PodAffinityGone(), *self.no_queue_rules))

    def usable_nodes(self, tasks: list[WTask]) -> np.ndarray:
        """The nodes (a mask) that all of these pods may use, apart from free room and other pods."""
        mask: np.ndarray = self.table.all.copy()
        for info in {id(task.info): task.info for task in tasks}.values():
            mask &= self.open_nodes(info)
        return mask

    def open_nodes(self, info: ShapeInfo) -> np.ndarray:
        """The nodes (a mask) that a shape may use."""
        return fit.static_mask(self.table, self._present(info), self.working_set.table_version)

    def _present(self, info: ShapeInfo) -> ShapeInfo:
        """The equal shape of the present working set, because masks belong to one table."""
        return next((task.info for task in self.job if task.info.shape == info.shape), info)

    @cached_property
    def answers(self) -> tuple[NodeAnswer, ...]:
        """What the nodes answer to the first of the next pods."""
        session = Session(self.working_set, self.relaxed_cycles.config, self.relaxed_cycles.now)
        try:
            return node_answers(session, self.next_tasks[0])
        finally:
            session.close()

    @cached_property
    def needs_domain(self) -> bool:
        """Whether it requires a domain of a topology."""
        return any(constraint.required for constraint in constraints(self.job.record.root))

    @cached_property
    def missing_room(self) -> tuple[Relaxation, ...]:
        """The fewest relaxations of what its own pods lack that let the group run now; one that says least only if no other helps. Empty
        if it would run at its turn, if a queue rule refuses it, and if it could not start on empty nodes."""
        if (
            not self.ready
            or not self.topologies_known
            or self.relaxed_cycles().further
            or not self.starts_alone().further
        ):
            return ()
        # What evictions bring is not lacking. It is left out only here: with evictions, room may also help by what it lets other pods move
        # to, which its own pods do not lack.
        own = self.missing_without_evictions
        return tuple(reversed(self.relaxed_cycles.fewest(own))) if own else ()

    @cached_property
    def missing_without_evictions(self) -> tuple[Relaxation, ...]:
        """The fewest relaxations of what its own pods lack that let the group run now if nothing may be evicted for it."""
        return self.relaxed_cycles.fewest(self._applicable_relaxations(), given=(Actions(("allocate",)),))

    def _is_scarce(self, row: int) -> bool:
        """Whether some node that its next pods may use could not take all of them, as far as this row decides."""
        tasks = self.next_tasks
        wanted = sum(task.info.rows.get(row, 0) for task in tasks)
        # A pod with a share of a GPU may come with a second one, which reserves the GPU.
        least = 2 * wanted if any(task.info.shape.gpu.shared for task in tasks) else wanted
        usable = self.usable_nodes(tasks)
        return bool((self.table.idle[row][usable] < least).any())

    def _applicable_relaxations(self) -> list[Relaxation]:
        """Relaxations that apply to it, those that say least first."""
        shapes = [task.info.shape for task in self.next_tasks]
        wanted = {row for task in self.next_tasks for row, value in task.info.rows.items() if value}
        scarce = {row for row in (PODS, MEMORY, CPU) if row in wanted and self._is_scarce(row)}
        candidates: list[tuple[Relaxation, bool]] = [
            (ClaimsGone(), any(shape.claims for shape in shapes)),
            (RoomGiven(("extended",)), any(shape.gpu.profiles or shape.extended for shape in shapes)),
            (RoomGiven(("gpu",)), GPUS in wanted or any(shape.gpu.shared for shape in shapes)),
            (RoomGiven(("pods",)), PODS in scarce),
            (RoomGiven(("memory",)), MEMORY in scarce),
            (RoomGiven(("cpu",)), CPU in scarce),
            (ZonesIgnored(), bool(self.table.numa)),
            (TopologyGone(), any(constraints(self.job.record.root))),
            (PortsGone(), any(shape.ports for shape in shapes)),
            (PodAffinityGone(), any(not term.weight for shape in shapes for term in shape.affinity)),
            (AntiAffinityGone(), self.working_set.has_anti_affinity),
        ]
        return [relaxation for relaxation, applies in candidates if applies]


def constraints(group: SubGroup) -> Iterator[Constraint]:
    """The topology constraints of a group and of all groups below it."""
    members: tuple[SubGroup | PodSet, ...] = (group, *group.podsets)
    for member in members:
        if member.constraint is not None and member.constraint.topology:
            yield member.constraint
    for below in group.groups:
        yield from constraints(below)


def counted_resource(name: str, value: int) -> str:
    """An amount of a resource, by the name that nodes report: ``2 GPUs``, ``4 CPU``, ``20Gi memory``, ``1 nvidia.com/mig-7g.80gb``."""
    if name == "nvidia.com/gpu":
        return gpus(value)
    return f"{resource_text(name, value)} {NAMES.get(name, name)}"


def amount_figure(name: str, value: int) -> str:
    """The amount without the resource."""
    return format_thousandths(value / 1000) if name == "nvidia.com/gpu" else resource_text(name, value)


def node_refs(table: NodeTable, nodes: Iterable[int]) -> tuple[ObjectRef, ...]:
    return tuple(ObjectRef("Node", "", table.nodes[int(i)].name) for i in nodes)


def node_names(table: NodeTable, nodes: Sequence[int] | np.ndarray) -> str:
    return some([table.nodes[int(i)].name for i in nodes], 4)


def nodes_that(nodes: Sequence[int] | np.ndarray, table: NodeTable, rest: str) -> str:
    """``the node that it could use, a100-0,``; ``the 3 nodes that it could use (a, b, c)``."""
    if len(nodes) == 1:
        return f"the node {rest}, {table.nodes[int(nodes[0])].name},"
    return f"the {len(nodes)} nodes {rest} ({node_names(table, nodes)})"


def row_wanted(task: WTask, row: int, device: int) -> int:
    """What a pod requests of a row of nodes. A share of a GPU counts as a part of it."""
    if row == GPUS and task.info.shape.gpu.shared:
        return task.info.shape.gpu.wanted_gpus(device)
    return task.info.rows.get(row, 0)


def rows_of(tasks: Iterable[WTask]) -> list[int]:
    """The rows that pods request, devices first."""
    rows = {row for task in tasks for row, value in task.info.rows.items() if value}
    if any(task.info.shape.gpu.shared for task in tasks):
        rows.add(GPUS)
    first = [GPUS, *sorted(row for row in rows if row > PODS), CPU, MEMORY, PODS]
    return [row for row in first if row in rows]


def request_text(info: ShapeInfo, row: int, table: NodeTable) -> str:
    """What one pod requests of a row: ``2 GPUs``, ``0.5 of a GPU``, ``4 CPU``."""
    if row == GPUS and info.shape.gpu.shared:
        return info.shape.gpu.text()
    return counted_resource(table.layout.names[row], info.rows.get(row, 0))


def node_with_most(values: np.ndarray, among: np.ndarray) -> int | None:
    """The node with the largest value; of equal ones the first by name."""
    positions = np.flatnonzero(among)
    return int(positions[np.argmax(values[positions])]) if len(positions) else None


def requirement_text(requirement: Requirement) -> str:
    """``gpu.product=H100``, ``zone in (a, b)``."""
    values = requirement.values
    if requirement.operator == "In" and len(values) == 1:
        return f"{requirement.key}={values[0]}"
    words = {"In": "in", "NotIn": "not in", "Exists": "exists", "DoesNotExist": "is absent", "Gt": ">", "Lt": "<"}
    text = f" ({', '.join(values)})" if len(values) > 1 else f" {values[0]}" if values else ""
    return f"{requirement.key} {words[requirement.operator]}{text}"


def by_value(positions: Iterable[int], value: Callable[[int], str]) -> str:
    """``L40S (2 nodes), A100 (1 node)``: the values that nodes have, the most frequent first."""
    counts: dict[str, int] = {}
    for i in positions:
        text = value(int(i))
        counts[text] = counts.get(text, 0) + 1
    order = sorted(counts, key=lambda text: (-counts[text], text))
    return some([f"{text} ({count(counts[text], 'node')})" for text in order], 5)
