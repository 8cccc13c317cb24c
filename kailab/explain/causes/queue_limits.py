"""Rules of queues that refuse work however much room there is: limits, and quotas for non-preemptible work, at each level of the tree.

They are found one behind the other: a rule that refuses is lifted, and the engine is asked again."""

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
from kailab.explain.answer import Cause, CauseCode, ObjectRef
from kailab.explain.causes.waiting_group import WaitingGroup
from kailab.lab.owners import work_title
from kailab.lab.wording import amount_text, capitalized, some
from kailab.model.times import format_time

NAMES: Mapping[str, str] = {"gpu": "GPUs", "cpu": "CPU", "memory": "memory"}
"""Of resources, by the fields of queues and amounts."""


def quota_words(resource: str, quota: float) -> str:
    """``a quota of 4 GPUs``, ``an unlimited quota``."""
    return "an unlimited quota" if quota == UNLIMITED else f"a quota of {amount_text(resource, quota)}"


def queue_title(group: WaitingGroup, name: str) -> str:
    """``queue science, above its queue biology``."""
    return f"queue {name}" if name == group.queue else f"queue {name}, above its queue {group.queue},"


def queue_ref(name: str) -> ObjectRef:
    return ObjectRef("Queue", "", name)


def queue_share(decisions: Decisions, queue: str, resource: str) -> QueueShare:
    """Where a queue stands in one resource as a trial begins."""
    found: QueueShare = getattr(_state(decisions, queue), resource)
    return found


def _state(decisions: Decisions, queue: str) -> QueueState:
    return next(state for state in decisions.queues if state.name == queue)


def podgroup_ref(group: WaitingGroup, podgroup: str) -> ObjectRef:
    """By UID."""
    record = group.state.records[podgroup]
    return ObjectRef("PodGroup", record.namespace, record.name)


def demand_text(group: WaitingGroup, wanted: str) -> str:
    """``its 4 pods, which start together, want 8 GPUs``; ``its next pod wants 1 GPU``; ``it wants 1 GPU``."""
    together = _together(group)
    if together > 1:
        return f"its {together} pods, which start together, want {wanted}"
    return f"its next pod wants {wanted}" if len(group.pending_tasks) > 1 else f"it wants {wanted}"


def _together(group: WaitingGroup) -> int:
    """How many of its waiting pods have to be placed at once; 1 where each goes by itself."""
    record = group.record
    if record is None or record.root.groups or len(record.root.podsets) != 1:
        return len(group.pending_tasks)
    return record.root.podsets[0].min_available - sum(ALLOCATED[task.status] for task in group.tasks)


def workload_title(group: WaitingGroup, podgroup: str) -> str:
    """What a PodGroup (by UID) is of: ``Deployment api``."""
    record = group.state.records.get(podgroup)
    if record is None:
        return "pods of another scheduler"
    return work_title(group.picture, f"{record.namespace}/{record.name}")


def workload_titles(group: WaitingGroup, podgroups: Iterable[str]) -> str:
    """The first few of them, each once."""
    return some(list(dict.fromkeys(workload_title(group, uid) for uid in podgroups)))


def until_text(group: WaitingGroup, until: float) -> str:
    """``until 12:00:00 (for another 90 s)``."""
    rest = max(0.0, until - group.moment.now)
    return f"until {format_time(until)} (for another {rest:.4g} s)"


MOST_RULES = 12
"""Rules told of one PodGroup."""


class RefusingRule(NamedTuple):
    """A rule that refuses: ``held`` counts against ``bound`` (of a quota: what non-preemptible work holds). Engine units."""

    reason: Reason
    queue: str
    resource: QueueField
    wanted: int
    held: int
    bound: int

    def lifted(self) -> Relaxation:
        """The rule gone."""
        return _lifted(self.reason, self.queue, self.resource)


def refusing_rules(trials: RelaxedCycles) -> list[RefusingRule]:
    """All that refuse the subject as things stand, in the order in which the engine comes upon them."""
    found: list[RefusingRule] = []
    # The delay would refuse it before any of these rules is looked at.
    lifted: list[Relaxation] = [DelayGone()]
    while len(found) < MOST_RULES:
        pending = trials(*lifted).pending
        if not pending or pending[0].code not in (Reason.OVER_LIMIT, Reason.NON_PREEMPTIBLE_OVER_QUOTA):
            return found + _tight_on_nodes(trials, lifted)
        numbers = pending[0].numbers
        resource = cast(QueueField, numbers["resource"].lower())
        tight = RefusingRule(
            pending[0].code, pending[0].queue_context, resource, numbers["requested"], numbers["allocated"],
            int(numbers["bound"]),
        )  # fmt: skip
        # Lifted and met again: something else refuses with the same words, and would for ever.
        if tight in found:
            break
        found.append(tight)
        lifted.append(tight.lifted())
    return found


def _tight_on_nodes(trials: RelaxedCycles, lifted: Sequence[Relaxation]) -> list[RefusingRule]:
    """What GPU memory counts for is known where it goes: the rules are asked once more for each node, and where none has room, as if
    they had. ``lifted``: those that refuse it wherever it goes."""
    jobs = [job for uid in trials.subject if (job := trials.working.jobs.get(uid)) is not None]
    if not any(task.info.shape.gpu.memory_mib for job in jobs for task in job):
        return []
    rules = [
        (reason, queue) for reason in (Reason.OVER_LIMIT, Reason.NON_PREEMPTIBLE_OVER_QUOTA) for queue in _ways(trials)
    ]
    given = (*lifted, Actions(("allocate",)))  # with a larger quota it could have others evicted
    for free in (given, (*given, RoomGiven())):
        if trials(*free).further:
            return []
        if trials(*free, *(_lifted(*rule, "gpu") for rule in rules)).further:
            break
    else:
        return []
    for rule in tuple(rules):
        fewer = [one for one in rules if one != rule]
        if trials(*free, *(_lifted(*one, "gpu") for one in fewer)).further:
            rules = fewer
    outcome = trials(*free, *(_lifted(*rule, "gpu") for rule in rules))
    placed: list[Bind | Pipeline] = [*outcome.binds, *outcome.promises]
    wanted = sum(one.amounts.gpu for one in placed)
    return [_tight(trials, reason, queue, wanted) for reason, queue in rules]


def _ways(trials: RelaxedCycles) -> list[str]:
    """The subject's queues and those above, from below."""
    draft = trials.draft()
    return list(dict.fromkeys(queue.name for group in draft.podgroups() for queue in draft.way(group.queue)))


def _tight(trials: RelaxedCycles, reason: Reason, queue: str, wanted: int) -> RefusingRule:
    state = queue_share(trials().decisions, queue, "gpu")
    held, bound = state.allocated, state.limit
    if reason == Reason.NON_PREEMPTIBLE_OVER_QUOTA:
        held, bound = state.non_preemptible, state.quota
    return RefusingRule(reason, queue, "gpu", wanted, held, bound)


def _lifted(reason: Reason, queue: str, resource: QueueField) -> Relaxation:
    kind = LimitsLifted if reason == Reason.OVER_LIMIT else QuotasRaised
    return kind((queue,), (resource,))


def find_missing_queue_resources(group: WaitingGroup) -> Iterable[Cause]:
    """A queue that has no resources block, or none for what the work wants."""
    if group.trials is None:
        return
    lacking: dict[str, list[RefusingRule]] = {}
    for tight in refusing_rules(group.trials):
        if (
            tight.reason == Reason.OVER_LIMIT
            and tight.bound == 0
            and tight.resource not in _resources(group, tight.queue)
        ):
            lacking.setdefault(tight.queue, []).append(tight)
    for queue, rules in lacking.items():
        names = [NAMES[tight.resource] for tight in rules]
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
            {"queue": queue, "resources": [tight.resource for tight in rules]},
        )


def find_exceeded_limits(group: WaitingGroup) -> Iterable[Cause]:
    """A queue, or one above, would hold more than its limit."""
    for tight in _tight_of(group, Reason.OVER_LIMIT):
        if tight.bound == 0 and tight.resource not in _resources(group, tight.queue):
            continue
        bound, held = amount_text(tight.resource, tight.bound), amount_text(tight.resource, tight.held)
        wanted = demand_text(group, amount_text(tight.resource, tight.wanted))
        title = queue_title(group, tight.queue)
        if tight.wanted > tight.bound:
            text = f"{title} can't hold more than its limit of {bound}, and {wanted}"
        else:
            text = f"{title} holds {held} of its limit of {bound}; {wanted} more"
        yield Cause(CauseCode.OVER_LIMIT, capitalized(f"{text}."), (queue_ref(tight.queue),), _facts(tight, "limit"))


def find_exceeded_quotas(group: WaitingGroup) -> Iterable[Cause]:
    """Non-preemptible work beyond the quota of its queue, or of one above."""
    for tight in _tight_of(group, Reason.NON_PREEMPTIBLE_OVER_QUOTA):
        bound, held = amount_text(tight.resource, tight.bound), amount_text(tight.resource, tight.held)
        yield Cause(
            CauseCode.NON_PREEMPTIBLE_OVER_QUOTA,
            f"It is non-preemptible, so it has to stay within quotas: {queue_title(group, tight.queue)} has a quota of {bound}, such "
            f"work holds {held} of it, and {demand_text(group, amount_text(tight.resource, tight.wanted))} more.",
            (queue_ref(tight.queue),),
            _facts(tight, "quota"),
        )


def _tight_of(group: WaitingGroup, reason: Reason) -> list[RefusingRule]:
    """Each is told with its numbers, which must bear it out."""
    rules = () if group.trials is None else refusing_rules(group.trials)
    return [one for one in rules if one.reason == reason and one.held + one.wanted > one.bound]


def _resources(group: WaitingGroup, queue: str) -> frozenset[str]:
    """For which its object has a block."""
    spec = group.lab.cluster.get("Queue", queue).get("spec") or {}
    return frozenset(name for name, block in (spec.get("resources") or {}).items() if block)


def _facts(tight: RefusingRule, rule: str) -> dict[str, object]:
    return {
        "queue": tight.queue, "resource": tight.resource, rule: tight.bound, "held": tight.held, "wanted": tight.wanted,
    }  # fmt: skip
