"""All causes: one ``CauseKind`` for each code, and the finders of causes in the order in which they are asked.

Every cause takes, in this order:

- ``kailab.lab.answer``: its ``CauseCode``.
- ``causes/NAME.py``: its finder, a function from a waiting group to refusals. A cause without amounts yields a ``PlainRefusal``. A cause
  that compares amounts has a subclass of ``Refusal``: its numbers, its sentence, and ``lifted``, the ``engine.relaxing.rules.Relaxation``
  that switches the rule off.
- this module: the ``CauseKind`` in ``CAUSE_KINDS``, and the finder's place in ``FINDERS``, in the order of what has to be changed first; in
  ``EMPTY_CLUSTER_FINDERS`` if the cause keeps work off an empty cluster, in ``FALLBACK_FINDERS`` if it is named only where no other is.
- docs/explain.md: its code in the list under "The cause".

Some causes take more:

- a change of objects takes it away: its ``CauseKind`` names step functions of ``steps``; a new kind of change is a new function there.
- it depends on a fact that no other cause does: ``cause_groups.likeness``, because PodGroups of equal likeness share their causes.
- it keeps pods from being created: ``_REFUSED`` or ``TO_BE_CREATED`` of ``verdict``.
- it is a cause of work that runs or was evicted: ``evictions`` instead of a finder.
- ``checks.explaining``, which tests answers: how the cause is removed (``removal``), unless the way of another cause does; the objects that it
  must name (``naming``); that it ends with other work (``judging``); the reason under which a table shows it, if that is the scheduler's
  (``screens``).

No other module lists the causes. ``docs/runbooks.md`` picks some.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

from kailab.evidence.wording import capitalized
from kailab.explain import evictions
from kailab.explain.causes import node_capacity, node_restrictions, objects, queue_limits, queue_order, queue_shares
from kailab.explain.causes.refusal import Refusal
from kailab.explain.causes.waiting_group import WaitingPodGroup
from kailab.explain.steps import node_steps, pod_steps, queue_steps, work_steps
from kailab.explain.steps.proposals import ProposalFamily
from kailab.explain.steps.question_context import QuestionContext
from kailab.lab.answer import Cause, CauseCode

Finder: TypeAlias = Callable[[WaitingPodGroup], Iterable[Refusal]]
StepFunction: TypeAlias = Callable[[QuestionContext], Iterable[ProposalFamily]]


class Ending(Enum):
    """Whether a cause ends without a change of objects."""

    ENGINE = auto()
    """The engine decides: it runs the work alone on the cluster, once now and once with the clock a day ahead."""
    PASSES = auto()
    """It ends with other work or with time, so it is not the first cause of work that can never run."""
    OWN_PODS = auto()
    """It may be due to the work's own running pods, and ends with them."""
    RETRIED = auto()
    """The scheduler tries again by itself: the work runs later."""
    PERMANENT = auto()
    """Neither other work ending nor time ends it: the work never runs."""
    UNKNOWN = auto()
    """Somebody outside of the lab decides it: there is no verdict."""


@dataclass(frozen=True)
class CauseKind:
    """What is true of every cause with one code.

    ``refusals``: the classes that can yield this cause. Each has the compared numbers, checks that they show a refusal (``holds``), makes
    the sentence, and names the relaxation that switches the rule off (``lifted``). A cause without one is a ``PlainRefusal`` about objects. ``is_general``: a general cause, which
    comes after every more specific one. ``steps``: the step functions that may remove it, the least
    disturbing first.
    """

    code: CauseCode
    refusals: tuple[type[Refusal], ...] = ()
    ending: Ending = Ending.ENGINE
    is_general: bool = False
    steps: tuple[StepFunction, ...] = ()


_ROOM: tuple[StepFunction, ...] = (work_steps.wait, node_steps.add_nodes, work_steps.make_room)
_RIGHTS: tuple[StepFunction, ...] = (
    queue_steps.raise_quota_for_claim,
    queue_steps.raise_weight,
    queue_steps.raise_priority,
)
_TOPOLOGY: tuple[StepFunction, ...] = (
    node_steps.widen_topology_level,
    node_steps.prefer_topology_level,
    node_steps.remove_topology,
)

CAUSE_KINDS: Mapping[CauseCode, CauseKind] = {
    kind.code: kind
    for kind in (
        CauseKind(CauseCode.OTHER_SCHEDULER, ending=Ending.UNKNOWN, steps=(queue_steps.name_scheduler,)),
        CauseKind(CauseCode.GROUPING_FAILED),
        CauseKind(CauseCode.POD_GROUP_MISSING),
        CauseKind(CauseCode.QUEUE_LABEL_MISSING, steps=(queue_steps.change_queue, queue_steps.make_queue)),
        CauseKind(CauseCode.QUEUE_MISSING, steps=(queue_steps.change_queue, queue_steps.make_queue)),
        CauseKind(CauseCode.QUEUE_NOT_LEAF, steps=(queue_steps.change_queue,)),
        CauseKind(CauseCode.QUEUE_PARENT_MISSING, steps=(queue_steps.fix_queue_parent, queue_steps.change_queue)),
        CauseKind(
            CauseCode.QUEUE_HAS_NO_RESOURCES, (queue_limits.QueueResourcesMissing,), steps=(queue_steps.give_resources,)
        ),
        CauseKind(
            CauseCode.OVER_LIMIT,
            (queue_limits.LimitExceeded,),
            ending=Ending.OWN_PODS,
            is_general=True,
            steps=(queue_steps.raise_limits, work_steps.wait, work_steps.make_room),
        ),
        CauseKind(
            CauseCode.NON_PREEMPTIBLE_OVER_QUOTA,
            (queue_limits.QuotaExceeded,),
            ending=Ending.OWN_PODS,
            steps=(queue_steps.make_preemptible, queue_steps.raise_quotas, work_steps.wait, work_steps.make_room),
        ),
        CauseKind(
            CauseCode.GANG_INCOMPLETE,
            (objects.GangIncomplete,),
            # Where the whole gang would have no room either, a smaller one is the only step.
            steps=(
                work_steps.raise_resource_quota,
                node_steps.make_ready_for_pods_that_leave,
                pod_steps.add_missing_pods,
                pod_steps.grow_to_minimum,
                pod_steps.lower_minimum,
                pod_steps.shrink_gang,
            ),
        ),
        CauseKind(CauseCode.SCHEDULING_GATED, steps=(work_steps.open_gates,)),
        CauseKind(CauseCode.SUSPENDED, ending=Ending.PERMANENT, steps=(work_steps.resume_suspended,)),
        CauseKind(CauseCode.FAILED),
        CauseKind(CauseCode.NO_CONTROLLER, ending=Ending.UNKNOWN),
        CauseKind(
            CauseCode.PODS_NOT_CREATED,
            is_general=True,
            steps=(
                pod_steps.scale_up_from_zero,
                work_steps.resume_suspended,
                work_steps.make_priority_class,
                work_steps.raise_resource_quota,
                node_steps.make_ready_for_pods_that_leave,
                work_steps.wait,
            ),
        ),
        CauseKind(
            CauseCode.SELECTOR_MATCHES_NO_NODE,
            steps=(node_steps.change_node_selector, node_steps.change_node_affinity, node_steps.label_nodes),
        ),
        CauseKind(
            CauseCode.TAINT_NOT_TOLERATED,
            steps=(node_steps.tolerate_taints, node_steps.change_node_selector, node_steps.remove_taints),
        ),
        CauseKind(
            CauseCode.NODES_CORDONED,
            steps=(node_steps.uncordon, node_steps.make_ready, node_steps.change_node_selector, node_steps.add_nodes),
        ),
        CauseKind(
            CauseCode.NOT_ENOUGH_GPUS,
            (node_capacity.DevicesLacking,),
            ending=Ending.PASSES,
            is_general=True,
            steps=(node_steps.change_node_selector, *_RIGHTS, node_steps.uncordon, *_ROOM, pod_steps.lower_gpus),
        ),
        CauseKind(
            CauseCode.NOT_ENOUGH_RESOURCES,
            (node_capacity.DevicesLacking,),
            ending=Ending.PASSES,
            is_general=True,
            steps=(node_steps.change_node_selector, *_RIGHTS, node_steps.uncordon, *_ROOM),
        ),
        CauseKind(
            CauseCode.NOT_ENOUGH_CPU,
            (node_capacity.ResourceLacking,),
            ending=Ending.PASSES,
            steps=(pod_steps.lower_cpu, node_steps.change_node_selector, *_RIGHTS, *_ROOM),
        ),
        CauseKind(
            CauseCode.NOT_ENOUGH_MEMORY,
            (node_capacity.ResourceLacking,),
            ending=Ending.PASSES,
            steps=(pod_steps.lower_memory, node_steps.change_node_selector, *_RIGHTS, *_ROOM),
        ),
        CauseKind(
            CauseCode.NO_POD_SLOTS,
            (node_capacity.PodSlotsLacking,),
            ending=Ending.PASSES,
            steps=(node_steps.change_node_selector, *_RIGHTS, *_ROOM),
        ),
        CauseKind(
            CauseCode.FRAGMENTED,
            (node_capacity.DevicesFragmented, node_capacity.FleetFragmented),
            ending=Ending.PASSES,
            steps=(
                node_steps.change_node_selector,
                *_TOPOLOGY,
                *_RIGHTS,
                node_steps.uncordon,
                *_ROOM,
                pod_steps.lower_gpus,
            ),
        ),
        CauseKind(
            CauseCode.LARGER_THAN_ANY_NODE,
            (node_restrictions.LargerThanNodes,),
            steps=(
                node_steps.change_node_selector,
                pod_steps.lower_gpus,
                pod_steps.lower_cpu,
                pod_steps.lower_memory,
                pod_steps.lower_extended,
            ),
        ),
        CauseKind(
            CauseCode.LARGER_THAN_THE_FLEET,
            (node_capacity.FleetTooSmall,),
            steps=(node_steps.change_node_selector, pod_steps.shrink_gang, node_steps.uncordon, node_steps.add_nodes),
        ),
        CauseKind(
            CauseCode.GPU_SHARE_TOO_LARGE,
            (node_restrictions.GPUShareTooLarge,),
            steps=(node_steps.change_node_selector, pod_steps.lower_gpu_share),
        ),
        CauseKind(
            CauseCode.GPU_MEMORY_UNKNOWN,
            steps=(pod_steps.request_gpu_fraction, node_steps.label_gpu_memory, node_steps.change_node_selector),
        ),
        CauseKind(CauseCode.MIG_PROFILE_ABSENT, steps=(pod_steps.change_mig_profile,)),
        CauseKind(CauseCode.VOLUME_MISSING, steps=(work_steps.make_references,)),
        CauseKind(CauseCode.CLAIM_REFUSED, steps=(work_steps.label_claims,)),
        CauseKind(CauseCode.TOPOLOGY_UNKNOWN, steps=(node_steps.name_existing_topology, node_steps.remove_topology)),
        CauseKind(
            CauseCode.LARGER_THAN_ANY_DOMAIN, (node_capacity.DomainLacking,), steps=(*_TOPOLOGY, pod_steps.shrink_gang)
        ),
        CauseKind(
            CauseCode.NO_DOMAIN_FREE,
            (node_capacity.DomainLacking,),
            ending=Ending.PASSES,
            steps=(*_TOPOLOGY, *_RIGHTS, *_ROOM, pod_steps.shrink_gang),
        ),
        CauseKind(
            CauseCode.FAIR_SHARE_REACHED,
            (queue_shares.FairShareReached,),
            ending=Ending.PASSES,
            steps=(*_RIGHTS, *_ROOM),
        ),
        CauseKind(
            CauseCode.NO_WEIGHT,
            (queue_shares.NoWeight,),
            ending=Ending.PASSES,
            steps=(queue_steps.raise_weight, queue_steps.raise_quota_for_claim, *_ROOM),
        ),
        CauseKind(
            CauseCode.VICTIMS_PROTECTED,
            (queue_order.VictimsProtected,),
            ending=Ending.PASSES,
            steps=(work_steps.wait, queue_steps.end_min_runtimes, node_steps.add_nodes, work_steps.make_room),
        ),
        CauseKind(
            CauseCode.VICTIMS_WITHIN_QUOTA,
            (queue_shares.VictimsWithinQuota,),
            ending=Ending.PASSES,
            steps=(*_RIGHTS, queue_steps.lower_quotas_beside, *_ROOM),
        ),
        CauseKind(
            CauseCode.VICTIMS_NON_PREEMPTIBLE,
            (queue_order.VictimsNonPreemptible,),
            ending=Ending.PASSES,
            steps=(*_RIGHTS, *_ROOM),
        ),
        CauseKind(
            CauseCode.PREEMPTION_DELAY,
            (queue_order.OwnDelay,),
            ending=Ending.PASSES,
            steps=(queue_steps.remove_preemption_delay, work_steps.wait, node_steps.add_nodes, work_steps.make_room),
        ),
        CauseKind(CauseCode.BIND_REFUSED, ending=Ending.PERMANENT),
        CauseKind(CauseCode.BIND_RETRIED, ending=Ending.RETRIED, steps=(work_steps.wait,)),
        CauseKind(
            CauseCode.STALE_GANG, (evictions.StaleGang,), steps=(pod_steps.add_missing_pods, pod_steps.grow_to_minimum)
        ),
        CauseKind(
            CauseCode.BEHIND_OTHERS,
            (queue_order.EarlierTurn, queue_order.WorkInFront),
            ending=Ending.PASSES,
            steps=(
                work_steps.withdraw_work_in_front,
                queue_steps.raise_priority,
                queue_steps.raise_queue_priority,
                work_steps.wait,
                node_steps.add_nodes,
                work_steps.withdraw_work_ahead,
                work_steps.make_room,
            ),
        ),
        CauseKind(CauseCode.NODE_POOL_NOT_SERVED, steps=(work_steps.leave_node_pool,)),
        CauseKind(CauseCode.PRIORITY_CLASS_MISSING, steps=(work_steps.make_priority_class,)),
        CauseKind(CauseCode.RUNTIME_CLASS_MISSING, steps=(work_steps.make_runtime_class,)),
        CauseKind(
            CauseCode.KEPT_APART,
            ending=Ending.OWN_PODS,
            steps=(node_steps.relax_pod_affinity, node_steps.uncordon, *_ROOM),
        ),
        CauseKind(
            CauseCode.EVICTED,
            (evictions.Evicted,),
            steps=(
                *_RIGHTS,
                queue_steps.raise_limits,
                work_steps.wait,
                node_steps.uncordon,
                node_steps.add_nodes,
                work_steps.make_room,
                work_steps.withdraw_work_ahead,
            ),
        ),
        CauseKind(CauseCode.BORROWING, (evictions.Borrowing,)),
    )
}

EMPTY_CLUSTER_FINDERS: tuple[Finder, ...] = (
    node_restrictions.find_foreign_node_pool,
    node_restrictions.find_missing_references,
    node_restrictions.find_refused_claim,
    node_restrictions.find_unknown_topology,
    node_capacity.find_fleet_limits,
)
"""What they find keeps work off an empty cluster too."""

FINDERS: tuple[Finder, ...] = (
    objects.find_suspension,
    objects.find_missing_priority_class,
    objects.find_missing_runtime_class,
    objects.find_scheduling_gates,
    objects.find_missing_podgroup,
    objects.find_unusable_queue,
    queue_limits.find_missing_queue_resources,
    objects.find_incomplete_gang,
    objects.find_failed_binding,
    objects.find_missing_pods,
    *EMPTY_CLUSTER_FINDERS,
    queue_shares.find_claims_behind_limits,
    queue_limits.find_exceeded_bounds,
    queue_order.find_earlier_turns,
    queue_order.find_work_in_front,
    queue_order.find_own_delay,
    queue_order.find_blocked_victims,
    node_capacity.find_lacking_room,
    queue_shares.find_share_limits,
)
"""In the order of what has to be changed first."""

FALLBACK_FINDERS: tuple[Finder, ...] = (
    node_capacity.find_closed_nodes,
    node_capacity.find_shortage,
)
"""Asked only where the others find nothing: what they find is true of most work that waits."""


def find_causes(group: WaitingPodGroup) -> tuple[Cause, ...]:
    """The causes of a waiting group, one of each code, the first cause first."""
    contradicted: list[Refusal] = []
    causes = _found(group, FINDERS, contradicted) or _found(group, FALLBACK_FINDERS, contradicted)
    return general_last(causes or [_as_scheduler_says(group, refusal) for refusal in contradicted[:1]])


def find_causes_on_empty_cluster(group: WaitingPodGroup) -> tuple[Cause, ...]:
    """The causes that would keep a waiting group off an empty cluster too, in the order of ``find_causes``."""
    return tuple(_found(group, EMPTY_CLUSTER_FINDERS, []))


def general_last(causes: Iterable[Cause]) -> tuple[Cause, ...]:
    """In the same order, but with the general causes at the end. The cause of a quota that follows the
    cause of a limit goes to the end with it, as in the reason of the scheduler."""
    first: list[Cause] = []
    last: list[Cause] = []
    for cause in causes:
        behind_limit = cause.code is CauseCode.NON_PREEMPTIBLE_OVER_QUOTA and any(
            earlier.code is CauseCode.OVER_LIMIT for earlier in last
        )
        (last if behind_limit or CAUSE_KINDS[cause.code].is_general else first).append(cause)
    return (*first, *last)


def _found(group: WaitingPodGroup, finders: Sequence[Finder], contradicted: list[Refusal]) -> list[Cause]:
    """What finders report. Refusals that their own numbers contradict are added to ``contradicted``."""
    causes: list[Cause] = []
    for finder in finders:
        known = {cause.code for cause in causes}
        for refusal in finder(group):
            if refusal.code in known:
                continue
            cause = refusal.cause()
            if cause is None:
                contradicted.append(refusal)
            else:
                causes.append(cause)
    return causes


def _as_scheduler_says(group: WaitingPodGroup, refusal: Refusal) -> Cause:
    """The cause of a refusal whose numbers are not known, in the words of the scheduler, if nothing else is found."""
    pending = () if group.relaxed_cycles is None else group.relaxed_cycles().pending
    said = next((capitalized(reason.message) for reason in pending), "The scheduler gave it no place")
    return Cause(refusal.code, f"{said}.", refusal.objects)
