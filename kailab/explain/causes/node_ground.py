"""The nodes as a PodGroup that waits sees them: as they are, and as they would be with all other work gone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

import numpy as np

from kailab.engine.placing import fit
from kailab.engine.queueing.order import tasks_to_allocate
from kailab.engine.relaxing.relaxed_cycles import RelaxedCycleOutcome, RelaxedCycles
from kailab.engine.relaxing.rules import (
    Actions,
    AntiAffinityGone,
    ClaimsGone,
    CompanyNotNeeded,
    DelayGone,
    LimitsLifted,
    OthersGone,
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
from kailab.engine.session import Session
from kailab.engine.snapshot.records import ALLOCATED, Constraint, PodSet, Status, SubGroup
from kailab.engine.working.layout import CPU, GPUS, MEMORY, PODS
from kailab.engine.working.nodes import NodeTable
from kailab.engine.working.state import Job, ShapeInfo, WTask
from kailab.engine.working.workingset import WorkingSet


class Ground:
    """``trials``: of the group (``uid``). Positions and masks are over ``table.nodes``; both worlds have the same nodes."""

    def __init__(self, trials: RelaxedCycles, uid: str) -> None:
        self.trials = trials
        self.uid = uid

    @property
    def present(self) -> WorkingSet:
        """Things as they are."""
        return self.trials.working

    @property
    def _alone(self) -> RelaxedCycles:
        """No pods but those of the group, and none of them has a place yet."""
        return self.trials.after(OthersGone(), Unplaced())

    @cached_property
    def empty(self) -> WorkingSet:
        """The same, as it is: no trial changes it."""
        return WorkingSet.of(self._alone.snapshot)

    @property
    def table(self) -> NodeTable:
        return self.present.table

    @property
    def job(self) -> Job:
        return self.present.jobs[self.uid]

    @property
    def next(self) -> list[WTask]:
        """The pods that are to be placed next, together or not at all. Not kept: trials put others, equal to them, in their place."""
        return tasks_to_allocate(self.job)

    @cached_property
    def together(self) -> list[WTask]:
        """The pods that have to be placed together for the group to start at all."""
        return tasks_to_allocate(self.empty.jobs[self.uid])

    @cached_property
    def lawless(self) -> tuple[Relaxation, ...]:
        """No queue rule stands against the group."""
        draft = self.trials.draft()
        way = tuple(queue.name for queue in draft.way(self.job.record.queue))
        return LimitsLifted(way), QuotasRaised(way), DelayGone(), RefusalsForgotten(), Actions()

    def waiting_alone(self) -> list[WTask]:
        """Its pods that wait now, as they would be in the empty world."""
        return [self.empty.tasks[task.uid] for task in self.job if task.status == Status.PENDING]

    def to_place(self, uids: Iterable[str]) -> list[WTask]:
        """Pods of these PodGroups that have a place or wait for one; those that have ended hold nothing."""
        jobs = [self.present.jobs[uid] for uid in uids if uid in self.present.jobs]
        return [task for job in jobs for task in job if task.status == Status.PENDING or ALLOCATED[task.status]]

    @property
    def ready(self) -> bool:
        """Whether the engine would try the group at all, were there room: enough of its pods exist, and its queue runs work."""
        queue = self.present.tree.queues.get(self.job.record.queue)
        return self.job.root.ready and queue is not None and queue.leaf and not queue.orphan

    @property
    def topologies_known(self) -> bool:
        """Whether the topologies that it names are there, with the levels that it names."""
        there = self.present.topologies
        return all(
            one.topology in there and {one.required, one.preferred} - {""} <= set(there[one.topology].levels)
            for one in constraints(self.job.record.root)
        )

    def starts_alone(self, *relaxations: Relaxation) -> RelaxedCycleOutcome:
        """Whether the group would start if there were nothing else, nor need of it."""
        return self._alone(CompanyNotNeeded(), *self.lawless, *relaxations)

    def usable(self, tasks: list[WTask]) -> np.ndarray:
        """The nodes that all of these pods may use: open to them but for room and other pods."""
        mask: np.ndarray = self.table.all.copy()
        for info in {id(task.info): task.info for task in tasks}.values():
            mask &= self.open(info)
        return mask

    def open(self, info: ShapeInfo) -> np.ndarray:
        """The nodes that a shape may use."""
        return fit.static_mask(self.table, self._present(info), self.present.table_version)

    def _present(self, info: ShapeInfo) -> ShapeInfo:
        """The same shape as the present working set keeps it: masks belong to one table."""
        return next((task.info for task in self.job if task.info.shape == info.shape), info)

    @cached_property
    def answers(self) -> tuple[NodeAnswer, ...]:
        """What the nodes say to the first of the pods that are to be placed next."""
        session = Session(self.present, self.trials.config, self.trials.now)
        try:
            return node_answers(session, self.next[0])
        finally:
            session.close()

    @cached_property
    def confined(self) -> bool:
        """Whether it has to be in domains of a topology."""
        return any(constraint.required for constraint in constraints(self.job.record.root))

    @cached_property
    def lacking(self) -> tuple[Relaxation, ...]:
        """What has to be given for the group to run now, as little as will do; a lack that says little is in it only where nothing
        else helps. Empty where it would run at its turn, where a queue rule refuses it, and where it could not start on empty nodes."""
        if not self.ready or not self.topologies_known or self.trials().further or not self.starts_alone().further:
            return ()
        left = self._gifts()
        if not self.trials(*left).further:
            return ()
        for one in tuple(left):
            fewer = [other for other in left if other != one]
            if fewer and self.trials(*fewer).further:
                left = fewer
        return tuple(reversed(left))

    def _gifts(self) -> list[Relaxation]:
        """What could be given to it, first what says least."""
        shapes = [task.info.shape for task in self.next]
        wanted = {row for task in self.next for row, value in task.info.rows.items() if value}
        found: list[tuple[Relaxation, bool]] = [
            (ClaimsGone(), any(shape.claims for shape in shapes)),
            (RoomGiven(("extended",)), any(shape.gpu.mig or shape.extended for shape in shapes)),
            (RoomGiven(("gpu",)), GPUS in wanted or any(shape.gpu.shared for shape in shapes)),
            (RoomGiven(("pods",)), PODS in wanted),
            (RoomGiven(("memory",)), MEMORY in wanted),
            (RoomGiven(("cpu",)), CPU in wanted),
            (ZonesIgnored(), bool(self.table.numa)),
            (TopologyGone(), any(constraints(self.job.record.root))),
            (PortsGone(), any(shape.ports for shape in shapes)),
            (CompanyNotNeeded(), any(not term.weight for shape in shapes for term in shape.affinity)),
            (AntiAffinityGone(), self.present.has_anti_affinity),
        ]
        return [relaxation for relaxation, applies in found if applies]


def constraints(group: SubGroup) -> Iterator[Constraint]:
    """Of a group and all below it."""
    members: tuple[SubGroup | PodSet, ...] = (group, *group.podsets)
    for member in members:
        if member.constraint is not None and member.constraint.topology:
            yield member.constraint
    for below in group.groups:
        yield from constraints(below)
