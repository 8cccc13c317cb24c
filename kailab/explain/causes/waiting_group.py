"""The waiting pods of one PodGroup with all that a finder of causes reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from kailab.cluster.protocol import Object
from kailab.engine.relaxing.relaxed_cycles import RelaxedCycles
from kailab.engine.relaxing.rules import Relaxation
from kailab.engine.snapshot.records import PodGroup, Status, Task
from kailab.evidence.entries import PendingReason, PodRow
from kailab.explain.causes.node_facts import NodeFacts
from kailab.explain.subject import PodsAtMoment, SubjectRef, present_pods, waiting_pods
from kailab.grouping.pod_grouping import preview_grouping
from kailab.grouping.records import Grouping, GroupingError
from kailab.lab.lab import Lab
from kailab.lab.picture import Picture, group_of
from kailab.model import labels
from kailab.model.objects import spec_of, uid_of
from kailab.scheduler.scheduling_state import CycleInput


@dataclass(frozen=True)
class WaitingPodGroup:
    """The waiting pods of a subject that share a PodGroup.

    ``name``: ``namespace/name`` of the PodGroup; empty for pods without one. ``pods``: empty if the subject has no pods.
    ``lifted``: rules that its relaxed cycles leave out.
    """

    state: PodsAtMoment
    name: str
    pods: tuple[PodRow, ...]
    lifted: tuple[Relaxation, ...] = ()

    @property
    def lab(self) -> Lab:
        return self.state.lab

    @property
    def picture(self) -> Picture:
        return self.state.picture

    @property
    def subject(self) -> SubjectRef:
        return self.state.subject

    @property
    def moment(self) -> CycleInput:
        """The input of the next cycle: snapshot, configuration and time."""
        return self.state.moment

    @property
    def entry(self) -> PendingReason | None:
        """The reason of the last cycle; None if it gave none."""
        return self.picture.pending.get(self.name) if self.name else None

    @property
    def podgroup(self) -> Object | None:
        """Its object; None if it does not exist."""
        namespace, _, name = self.name.partition("/")
        return self.picture.podgroups.get((namespace, name))

    @cached_property
    def record(self) -> PodGroup | None:
        """Its engine record; None if the engine does not know it, as of a node pool that is not served."""
        podgroup = self.podgroup
        return None if podgroup is None else self.state.records.get(podgroup["metadata"]["uid"])

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """The engine records of all its pods."""
        return () if self.record is None else tuple(self.state.tasks.get(self.record.uid, ()))

    @cached_property
    def relaxed_cycles(self) -> RelaxedCycles | None:
        """Relaxed cycles about the group. None where the engine decides nothing: it does not know the group, no pod of it is to be
        placed, or its queue has child queues."""
        queues = {queue.parent: queue.name for queue in self.moment.snapshot.queues} if self.pending_tasks else {}
        if self.record is None or not self.pending_tasks or self.record.queue in queues:
            return None
        cycles = self.state.relaxed_cycles.about(self.record.uid)
        return cycles.after(*self.lifted) if self.lifted else cycles

    @cached_property
    def node_facts(self) -> NodeFacts | None:
        """What the nodes offer the group; None where ``relaxed_cycles`` is."""
        return (
            None
            if self.relaxed_cycles is None or self.record is None
            else NodeFacts(self.relaxed_cycles, self.record.uid)
        )

    @property
    def pending_tasks(self) -> tuple[Task, ...]:
        """Those of its tasks that are to be placed."""
        return tuple(task for task in self.tasks if task.status == Status.PENDING)

    @cached_property
    def workload_podgroups(self) -> frozenset[str]:
        """The PodGroups (UIDs) of the workload that it is part of, which are no other work. They are the same whether a pod, the workload or
        the queue is asked about."""
        own = () if self.podgroup is None else (uid_of(self.podgroup),)
        return self.state.podgroups_of(self._workload_pods).union(own)

    @property
    def has_placed_pods(self) -> bool:
        """Whether pods of its workload have a node, beside those that leave theirs."""
        return any(row.node for row in present_pods(self._workload_pods))

    @property
    def _workload_pods(self) -> Sequence[PodRow]:
        return self.state.workload_pods(self.pods[0]) if self.pods else self.state.pods

    @property
    def queue(self) -> str:
        """The queue of its PodGroup, or the queue that the grouping will give it; empty if it names none."""
        if self.podgroup is not None:
            return str(spec_of(self.podgroup).get("queue") or "")
        if self.grouping is not None:
            return self.grouping.queue
        return self.pods[0].queue if self.pods else ""

    @property
    def scheduler_name(self) -> str:
        """The scheduler that its pods name; empty if it has no pods."""
        name = self.pod(self.pods[0])["spec"].get("schedulerName") if self.pods else ""
        return str(name or labels.DEFAULT_SCHEDULER_NAME) if self.pods else ""

    @property
    def is_ours(self) -> bool:
        """Whether the scheduler under test places its pods."""
        return self.scheduler_name in self.lab.under_test.scheduler_names(self.lab.adopt_default_scheduler)

    @property
    def is_nobodys(self) -> bool:
        """Whether its pods name a scheduler that is not in the lab. In a cluster that is not the lab's own this is never known."""
        is_default = self.lab.under_test.has_default and self.scheduler_name == labels.DEFAULT_SCHEDULER_NAME
        return bool(self.pods) and not self.is_ours and not is_default and self.lab.venue.exclusive

    @property
    def has_owner(self) -> bool:
        """Whether its pods have an owner, which decides their grouping whatever their annotation says."""
        return bool(self.pods) and bool(self.pod(self.pods[0])["metadata"].get("ownerReferences"))

    @property
    def is_grouping_known(self) -> bool:
        """Whether ``grouping`` applies: the scheduler places its pods, and they have no PodGroup yet."""
        return bool(self.pods) and self.podgroup is None and self.is_ours

    @property
    def grouping(self) -> Grouping | None:
        """The grouping that its pods will get; None if they have a PodGroup or get none."""
        return self._previewed[0]

    @property
    def grouping_error(self) -> str:
        """Why its pods can't be grouped; empty if they can."""
        return self._previewed[1]

    @cached_property
    def _previewed(self) -> tuple[Grouping | None, str]:
        if not self.is_grouping_known:
            return None, ""
        try:
            return preview_grouping(self.lab.cluster, self.pod(self.pods[0])), ""
        except GroupingError as error:
            return None, str(error)

    def pod(self, row: PodRow) -> Object:
        namespace, _, name = row.name.partition("/")
        return self.lab.cluster.get("Pod", name, namespace)


def waiting_podgroups(state: PodsAtMoment) -> list[WaitingPodGroup]:
    """The PodGroups of a subject's waiting pods in the serving order, then those without a turn by name."""
    return _in_order(state, state.waiting)


def waiting_siblings(group: WaitingPodGroup) -> list[WaitingPodGroup]:
    """The PodGroups of all waiting pods of its workload, which the subject may be a part of, in the same order."""
    return _in_order(group.state, waiting_pods(group.state.workload_pods(group.pods[0])))


def _in_order(state: PodsAtMoment, rows: Iterable[PodRow]) -> list[WaitingPodGroup]:
    groups: dict[str, list[PodRow]] = {}
    for row in rows:
        groups.setdefault(group_of(row) if row.podgroup else "", []).append(row)
    turns = state.picture.turns
    order = sorted(groups, key=lambda group: (turns[group].place if group in turns else len(turns) + 1, group))
    podgroups: list[WaitingPodGroup] = []
    for group in order:
        # Pods without a PodGroup share nothing, so each is a group of its own.
        podgroups += (
            [WaitingPodGroup(state, group, tuple(groups[group]))]
            if group
            else [WaitingPodGroup(state, "", (row,)) for row in groups[group]]
        )
    return podgroups
