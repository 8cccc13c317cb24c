"""Rules of queues that refuse work whatever room there is: limits, and quotas for non-preemptible work, at each level of the tree.

They are found one after the other: each refusing rule is lifted, and the engine is asked again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, cast

from kailab.engine.decisions import Bind, Decisions, Pipeline, QueueShare, QueueState
from kailab.engine.decisions import PendingCode as Reason
from kailab.engine.relaxing.relaxed_cycles import RelaxedCycles
from kailab.engine.relaxing.rules import (
    Actions,
    DelayGone,
    LimitsLifted,
    QueueField,
    QuotasRaised,
    Relaxation,
    RoomGiven,
)
from kailab.engine.snapshot.records import ALLOCATED, UNLIMITED
from kailab.explain.causes.waiting_group import WaitingPodGroup
from kailab.lab.answer import Cause, CauseCode, ObjectRef
from kailab.lab.owners import work_title
from kailab.lab.wording import amount_text, capitalized, some
from kailab.model.times import format_time

NAMES: Mapping[str, str] = {"gpu": "GPUs", "cpu": "CPU", "memory": "memory"}
"""Names of resources, by the fields of queues and amounts."""


def quota_words(resource: str, quota: float) -> str:
    """``a quota of 4 GPUs``, ``an unlimited quota``."""
    return "an unlimited quota" if quota == UNLIMITED else f"a quota of {amount_text(resource, quota)}"


def queue_title(group: WaitingPodGroup, name: str) -> str:
    """``queue science, above its queue biology``."""
    return f"queue {name}" if name == group.queue else f"queue {name}, above its queue {group.queue},"


def queue_ref(name: str) -> ObjectRef:
    return ObjectRef("Queue", "", name)


def queue_share(decisions: Decisions, queue: str, resource: str) -> QueueShare:
    """What a queue has of one resource at the beginning of a trial."""
    share: QueueShare = getattr(_state(decisions, queue), resource)
    return share


def _state(decisions: Decisions, queue: str) -> QueueState:
    return next(state for state in decisions.queues if state.name == queue)


def podgroup_ref(group: WaitingPodGroup, podgroup: str) -> ObjectRef:
    """``podgroup``: a UID."""
    record = group.state.records[podgroup]
    return ObjectRef("PodGroup", record.namespace, record.name)


def demand_text(group: WaitingPodGroup, wanted: str) -> str:
    """``its 4 pods, which start together, want 8 GPUs``; ``its next pod wants 1 GPU``; ``it wants 1 GPU``."""
    together = _together(group)
    if together > 1:
        return f"its {together} pods, which start together, want {wanted}"
    return f"its next pod wants {wanted}" if len(group.pending_tasks) > 1 else f"it wants {wanted}"


def _together(group: WaitingPodGroup) -> int:
    """How many of its waiting pods must be placed at once; 1 or less if each is placed by itself."""
    record = group.record
    if record is None or record.root.groups or len(record.root.podsets) != 1:
        return len(group.pending_tasks)
    return record.root.podsets[0].min_available - sum(ALLOCATED[task.status] for task in group.tasks)


def workload_title(group: WaitingPodGroup, podgroup: str) -> str:
    """The workload of a PodGroup (UID): ``Deployment api``."""
    record = group.state.records.get(podgroup)
    if record is None:
        return "pods of another scheduler"
    return work_title(group.picture, f"{record.namespace}/{record.name}")


def workload_titles(group: WaitingPodGroup, podgroups: Iterable[str]) -> str:
    """The workloads of PodGroups (UIDs), the first few of them, each once."""
    return some(list(dict.fromkeys(workload_title(group, uid) for uid in podgroups)))


def until_text(group: WaitingPodGroup, until: float) -> str:
    """``until 12:00:00 (for another 90 s)``."""
    seconds = max(0.0, until - group.moment.now)
    return f"until {format_time(until)} (for another {seconds:.4g} s)"


MOST_RULES = 12
"""Rules that are found for one PodGroup at most."""


class RefusingRule(NamedTuple):
    """A rule that refuses work: ``held`` and ``wanted`` together exceed ``bound``. Of a quota ``held`` is what non-preemptible work holds.
    Engine units."""

    reason: Reason
    queue: str
    resource: QueueField
    wanted: int
    held: int
    bound: int

    def lifted(self) -> Relaxation:
        """The relaxation that removes the rule."""
        return _lifted(self.reason, self.queue, self.resource)


def refusing_rules(trials: RelaxedCycles) -> list[RefusingRule]:
    """All rules that refuse the subject now, in the order in which the engine meets them."""
    rules: list[RefusingRule] = []
    # The engine checks the preemption delay before these rules.
    lifted: list[Relaxation] = [DelayGone()]
    while len(rules) < MOST_RULES:
        pending = trials(*lifted).pending
        if not pending or pending[0].code not in (Reason.OVER_LIMIT, Reason.NON_PREEMPTIBLE_OVER_QUOTA):
            return rules + _rules_on_nodes(trials, lifted)
        numbers = pending[0].numbers
        resource = cast(QueueField, numbers["resource"].lower())
        refusing = RefusingRule(
            pending[0].code, pending[0].queue_context, resource, numbers["requested"], numbers["allocated"],
            int(numbers["bound"]),
        )  # fmt: skip
        # Lifted and still met: something else refuses with the same numbers.
        if refusing in rules:
            break
        rules.append(refusing)
        lifted.append(refusing.lifted())
    return rules


def _rules_on_nodes(trials: RelaxedCycles, lifted: Sequence[Relaxation]) -> list[RefusingRule]:
    """Rules that refuse a request for GPU memory on each node. How much of a quota it takes depends on the node, so the rules are asked
    again with a place, and if no node has room, as if one had. ``lifted``: rules that refuse it on every node."""
    jobs = [job for uid in trials.subject if (job := trials.working.jobs.get(uid)) is not None]
    if not any(task.info.shape.gpu.by_memory for job in jobs for task in job):
        return []
    rules = [
        (reason, queue)
        for reason in (Reason.OVER_LIMIT, Reason.NON_PREEMPTIBLE_OVER_QUOTA)
        for queue in _queue_path(trials)
    ]
    given = (*lifted, Actions(("allocate",)))  # a larger quota would also let it evict others
    for free in (given, (*given, RoomGiven())):
        if trials(*free).further:
            return []
        if trials(*free, *(_lifted(*rule, "gpu") for rule in rules)).further:
            break
    else:
        return []
    for rule in tuple(rules):
        fewer = [other for other in rules if other != rule]
        if trials(*free, *(_lifted(*other, "gpu") for other in fewer)).further:
            rules = fewer
    outcome = trials(*free, *(_lifted(*rule, "gpu") for rule in rules))
    placed: list[Bind | Pipeline] = [*outcome.binds, *outcome.promises]
    wanted = sum(placement.amounts.gpu for placement in placed)
    return [_refusing_rule(trials, reason, queue, wanted) for reason, queue in rules]


def _queue_path(trials: RelaxedCycles) -> list[str]:
    """The subject's queues and those above them, from below."""
    draft = trials.draft()
    return list(dict.fromkeys(queue.name for group in draft.podgroups() for queue in draft.way(group.queue)))


def _refusing_rule(trials: RelaxedCycles, reason: Reason, queue: str, wanted: int) -> RefusingRule:
    state = queue_share(trials().decisions, queue, "gpu")
    held, bound = state.allocated, state.limit
    if reason == Reason.NON_PREEMPTIBLE_OVER_QUOTA:
        held, bound = state.non_preemptible, state.quota
    return RefusingRule(reason, queue, "gpu", wanted, held, bound)


def _lifted(reason: Reason, queue: str, resource: QueueField) -> Relaxation:
    kind = LimitsLifted if reason == Reason.OVER_LIMIT else QuotasRaised
    return kind((queue,), (resource,))


def find_missing_queue_resources(group: WaitingPodGroup) -> Iterable[Cause]:
    """A queue has no resources block, or none for a resource that the work requests."""
    if group.trials is None:
        return
    lacking: dict[str, list[RefusingRule]] = {}
    for refusing in refusing_rules(group.trials):
        if (
            refusing.reason == Reason.OVER_LIMIT
            and refusing.bound == 0
            and refusing.resource not in _resources(group, refusing.queue)
        ):
            lacking.setdefault(refusing.queue, []).append(refusing)
    for queue, rules in lacking.items():
        names = [NAMES[refusing.resource] for refusing in rules]
        if _resources(group, queue):
            text = (
                f"{queue_title(group, queue)} has no {some(names)} in its resources, so its limit of that is 0, and "
                f"{demand_text(group, amount_text(rules[0].resource, rules[0].wanted))}."
            )
        else:
            text = (
                f"{queue_title(group, queue)} has no resources block, so all its limits are 0: nothing runs in it, and "
                f"{demand_text(group, amount_text(rules[0].resource, rules[0].wanted))}."
            )
        yield Cause(
            CauseCode.QUEUE_HAS_NO_RESOURCES,
            capitalized(text),
            (queue_ref(queue),),
            {"queue": queue, "resources": [refusing.resource for refusing in rules]},
        )


def find_exceeded_limits(group: WaitingPodGroup) -> Iterable[Cause]:
    """The queue, or one above it, would hold more than its limit."""
    for refusing in _rules_of(group, Reason.OVER_LIMIT):
        if refusing.bound == 0 and refusing.resource not in _resources(group, refusing.queue):
            continue
        bound, held = amount_text(refusing.resource, refusing.bound), amount_text(refusing.resource, refusing.held)
        wanted = demand_text(group, amount_text(refusing.resource, refusing.wanted))
        title = queue_title(group, refusing.queue)
        if refusing.wanted > refusing.bound:
            text = f"{title} can't hold more than its limit of {bound}, and {wanted}"
        else:
            text = f"{title} holds {held} of its limit of {bound}; {wanted} more"
        yield Cause(
            CauseCode.OVER_LIMIT, capitalized(f"{text}."), (queue_ref(refusing.queue),), _facts(refusing, "limit")
        )


def find_exceeded_quotas(group: WaitingPodGroup) -> Iterable[Cause]:
    """Non-preemptible work would exceed the quota of its queue, or of one above it."""
    for refusing in _rules_of(group, Reason.NON_PREEMPTIBLE_OVER_QUOTA):
        bound, held = amount_text(refusing.resource, refusing.bound), amount_text(refusing.resource, refusing.held)
        yield Cause(
            CauseCode.NON_PREEMPTIBLE_OVER_QUOTA,
            f"It is non-preemptible, so it has to stay within quotas: {queue_title(group, refusing.queue)} has a quota of {bound}, such "
            f"work holds {held} of it, and {demand_text(group, amount_text(refusing.resource, refusing.wanted))} more.",
            (queue_ref(refusing.queue),),
            _facts(refusing, "quota"),
        )


def _rules_of(group: WaitingPodGroup, reason: Reason) -> list[RefusingRule]:
    """The refusing rules of one kind, as far as their numbers show that they refuse."""
    rules = () if group.trials is None else refusing_rules(group.trials)
    return [rule for rule in rules if rule.reason == reason and rule.held + rule.wanted > rule.bound]


def _resources(group: WaitingPodGroup, queue: str) -> frozenset[str]:
    """The resources for which a queue's object has a block."""
    spec = group.lab.cluster.get("Queue", queue).get("spec") or {}
    return frozenset(name for name, block in (spec.get("resources") or {}).items() if block)


def _facts(refusing: RefusingRule, rule: str) -> dict[str, object]:
    return {
        "queue": refusing.queue, "resource": refusing.resource, rule: refusing.bound, "held": refusing.held, "wanted": refusing.wanted,
    }  # fmt: skip
