"""Placement of a job: all its next tasks or none, group by group of its subgroup tree, each within its topology.

Source: KAI's AllocateJob.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

from kailab.engine.decisions import Numbers, PendingCode
from kailab.engine.ledger import FailedAttempt
from kailab.engine.placing.placement import NodeMask, Placer
from kailab.engine.placing.topology import TopologyError, TopologyPlan
from kailab.engine.queueing.capacity import refuses
from kailab.engine.queueing.order import member_key, tasks_to_allocate
from kailab.engine.session import Session
from kailab.engine.working.queues import WQueue
from kailab.engine.working.state import Job, Member, WPodSet, WSubGroup, WTask


class NodeReserver(Protocol):
    """Nodes kept free for jobs without room. Implemented by ``kailab.engine.placing.node_reservations``."""

    @property
    def bounded(self) -> bool:
        """True if nodes are kept for a number of jobs at most."""

    @property
    def full(self) -> bool:
        """True if nodes are kept for as many jobs as they ever are."""

    def turn(self, job: Job) -> None:
        """Note that the job is tried now."""

    def consider(self, job: Job) -> None:
        """Keep nodes for a job that found no room, or was held back."""

    def admit(self, job: Job, mark: int) -> bool:
        """True if a job that was placed since ``mark`` may keep its place, or gets another one. Otherwise its placement
        is undone.
        """

    def refusal(self, job: Job) -> str | None:
        """Why the evictions made for a job may not be decided; None if they may."""


class Allocator:
    """Places jobs of one session. With ``pipeline_only``, places are only promised (for evicting actions).
    ``node_reservations``: nodes that are kept free, if configured.
    """

    node_reservations: NodeReserver | None = None

    def __init__(self, session: Session) -> None:
        self.session = session
        self.placer = Placer(session)
        self.topology = TopologyPlan(session)

    def place(self, job: Job, nodes: NodeMask, pipeline_only: bool, tasks: list[WTask] | None = None) -> bool:
        """Place the job's next tasks, or ``tasks``. On failure nothing is undone: the caller holds the mark."""
        session = self.session
        session.check_cancelled()
        # Without this, a pod set would use the topology scores of the previous job (KAI: PreJobAllocation).
        self.topology.forget_scores()
        if tasks is None:
            tasks = tasks_to_allocate(job)
        if not tasks:
            return False
        queue = session.queue_of(job)
        if queue is None:
            return False
        # As in KAI (getRequiredQuota), GPU memory counts by the largest device here, so that only a certain excess is
        # refused. The amount on the chosen node is checked against the same bounds later.
        wanted = session.wants(tasks, session.table.max_gpu_memory)
        refusal = refuses(queue, wanted, job.record.preemptible)
        if refusal is not None:
            if not pipeline_only:
                # In a simulation the refusal depends on that set of victims, so it is no reason for the job.
                session.ledger.fail(job, FailedAttempt(refusal.code, refusal.message, refusal.queue, refusal.numbers))
            return False
        self.placer.together = session.table.claims.together(tasks)
        try:
            return self._group(job, job.root, tasks, nodes, pipeline_only)
        except TopologyError as error:
            if not pipeline_only:
                session.ledger.fail(job, FailedAttempt(PendingCode.UNSCHEDULABLE, str(error)))
            return False
        finally:
            self.placer.together = {}

    def surely_refused(self, queue: WQueue, job: Job) -> bool:
        """True if ``place`` would surely fail on all nodes, by amounts alone: a rule of the queue, or no room."""
        tasks = tasks_to_allocate(job)
        if not tasks or any(self.placer.blocked(task) for task in tasks):
            return True
        wanted = self.session.wants(tasks, self.session.table.max_gpu_memory)
        return refuses(queue, wanted, job.record.preemptible) is not None or not self.placer.may_fit(tasks, None)

    def may_fit(self, job: Job, nodes: NodeMask) -> bool:
        """False if ``place`` would surely fail, because there is not enough room for all next tasks of the job."""
        tasks = tasks_to_allocate(job)
        # Placing one task is as cheap as counting. Within a topology the domains are counted before any task is placed.
        return len(tasks) < 2 or confined(job.root) or self.placer.may_fit(tasks, nodes)

    def first_fits(self, job: Job, nodes: NodeMask) -> bool:
        """True if there is room for the first of the job's next tasks, by amounts alone."""
        return self.placer.may_fit(tasks_to_allocate(job)[:1], nodes)

    def _group(self, job: Job, group: WSubGroup, tasks: list[WTask], nodes: NodeMask, pipeline_only: bool) -> bool:
        if not tasks:
            return True
        if group.constraint is None:
            return self._members(job, group, tasks, nodes, pipeline_only)
        session = self.session
        podsets = [podset for podset in group.podsets if any(task.podset is podset for task in tasks)]
        # One domain after the other, each from the same state.
        for subset in self.topology.subsets(job, group, podsets, tasks, nodes, quiet=pipeline_only):
            mark = session.mark()
            if self._members(job, group, tasks, subset, pipeline_only):
                return True
            session.undo(mark)
        return False

    def _members(self, job: Job, group: WSubGroup, tasks: list[WTask], nodes: NodeMask, pipeline_only: bool) -> bool:
        members: Sequence[Member] = group.members
        if len(members) > 1:
            by_name = job.by_name
            # Sorted at each visit, because earlier placements change the order.
            members = sorted(members, key=lambda member: member_key(member, None, by_name))
        for member in members:
            inside = set(member.podsets)
            # A member without tasks is skipped: ``tasks`` has only those of the next step.
            mine = tasks if len(members) == 1 else [task for task in tasks if task.podset in inside]
            if isinstance(member, WPodSet):
                if not self._podset(job, member, mine, nodes, pipeline_only):
                    return False
            elif not self._group(job, member, mine, nodes, pipeline_only):
                return False
        return True

    def _podset(self, job: Job, podset: WPodSet, tasks: list[WTask], nodes: NodeMask, pipeline_only: bool) -> bool:
        if not tasks:
            return True
        if podset.constraint is None:
            return self._tasks(job, podset, tasks, nodes, pipeline_only)
        session = self.session
        for subset in self.topology.subsets(job, podset, [podset], tasks, nodes, quiet=pipeline_only):
            mark = session.mark()
            if self._tasks(job, podset, tasks, subset, pipeline_only):
                return True
            session.undo(mark)
        return False

    def _tasks(self, job: Job, podset: WPodSet, tasks: list[WTask], nodes: NodeMask, pipeline_only: bool) -> bool:
        placer = self.placer
        # Only now, because the constraints of this group and of those above it have set their scores.
        placer.preferred = self.topology.scores_for(podset)
        # All or none: ``tasks`` must start together, or are one surplus task.
        for count, task in enumerate(tasks):
            if not placer.place(task, nodes, pipeline_only):
                if not pipeline_only:
                    self._explain(job, podset, task, count)
                return False
        return True

    def _explain(self, job: Job, podset: WPodSet, task: WTask, placed: int) -> None:
        gang = any(other.minimum > 1 for other in job.podsets)
        pod = f"{task.record.namespace}/{task.record.name}"
        # KAI's three texts, by the same rule (handleFailedTaskAllocation). ``used`` includes the tasks placed just now.
        if not gang or podset.used >= podset.minimum:
            message = f"no node has room for pod {pod}"
        elif len(job.podsets) == 1:
            message = f"there is room for {placed} of the {podset.minimum} pods that must start together"
        else:
            message = (
                f"there is room for {placed} pods; subgroup {podset.name} needs {podset.minimum} that start together"
            )
        self.session.ledger.fail(
            job, FailedAttempt(PendingCode.POD_SCHEDULING_ERRORS, message, task=task.uid, numbers=_numbers(placed))
        )


# Thousands of waiting jobs have equal ones.
@lru_cache(maxsize=256)
def _numbers(placed: int) -> Numbers:
    return {"placed": placed}


def confined(group: WSubGroup) -> bool:
    """True if the group or any member has a topology constraint."""
    return any(member.constraint is not None for member in group.tree())
