"""Rules of queues that refuse work however much room there is: limits, and quotas for non-preemptible work, at each level of the tree.

They are found one behind the other: a rule that refuses is lifted, and the engine is asked again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast

from kailab.engine.decisions import Bind, Pipeline
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
from kailab.explain.cause import Cause, Code
from kailab.explain.causes.case import Case
from kailab.explain.causes.queue_words import NAMES, queue_ref, queue_title, share, wants
from kailab.lab.wording import amount_text, capitalized, some

MOST = 12
"""Rules told of one PodGroup."""


class Tight(NamedTuple):
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


def tight_rules(trials: RelaxedCycles) -> list[Tight]:
    """All that refuse the subject as things stand, in the order in which the engine comes upon them."""
    found: list[Tight] = []
    # The delay would refuse it before any of these rules is looked at.
    lifted: list[Relaxation] = [DelayGone()]
    while len(found) < MOST:
        pending = trials(*lifted).pending
        if not pending or pending[0].code not in (Reason.OVER_LIMIT, Reason.NON_PREEMPTIBLE_OVER_QUOTA):
            return found + _tight_on_nodes(trials, lifted)
        numbers = pending[0].numbers
        resource = cast(QueueField, numbers["resource"].lower())
        tight = Tight(
            pending[0].code, pending[0].queue_context, resource, numbers["requested"], numbers["allocated"],
            int(numbers["bound"]),
        )  # fmt: skip
        # Lifted and met again: something else refuses with the same words, and would for ever.
        if tight in found:
            break
        found.append(tight)
        lifted.append(tight.lifted())
    return found


def _tight_on_nodes(trials: RelaxedCycles, lifted: Sequence[Relaxation]) -> list[Tight]:
    """What GPU memory counts for is known where it goes: the rules are asked once more for each node, and where none has room, as if
    they had. ``lifted``: those that refuse it wherever it goes."""
    jobs = [job for uid in trials.subject if (job := trials.working.jobs.get(uid)) is not None]
    if not any(task.info.shape.gpu.memory_mib for job in jobs for task in job):
        return []
    rules = [
        (reason, queue) for reason in (Reason.OVER_LIMIT, Reason.NON_PREEMPTIBLE_OVER_QUOTA) for queue in _ways(trials)
    ]
    standing = (*lifted, Actions(("allocate",)))  # with a larger quota it could have others evicted
    for free in (standing, (*standing, RoomGiven())):
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


def _tight(trials: RelaxedCycles, reason: Reason, queue: str, wanted: int) -> Tight:
    state = share(trials().decisions, queue, "gpu")
    held, bound = state.allocated, state.limit
    if reason == Reason.NON_PREEMPTIBLE_OVER_QUOTA:
        held, bound = state.non_preemptible, state.quota
    return Tight(reason, queue, "gpu", wanted, held, bound)


def _lifted(reason: Reason, queue: str, resource: QueueField) -> Relaxation:
    kind = LimitsLifted if reason == Reason.OVER_LIMIT else QuotasRaised
    return kind((queue,), (resource,))


def no_resources(case: Case) -> Iterable[Cause]:
    """A queue that has no resources block, or none for what the work wants."""
    if case.trials is None:
        return
    lacking: dict[str, list[Tight]] = {}
    for tight in tight_rules(case.trials):
        if (
            tight.reason == Reason.OVER_LIMIT
            and tight.bound == 0
            and tight.resource not in _resources(case, tight.queue)
        ):
            lacking.setdefault(tight.queue, []).append(tight)
    for queue, rules in lacking.items():
        names = [NAMES[tight.resource] for tight in rules]
        if _resources(case, queue):
            text = (
                f"{queue_title(case, queue)} says nothing of {some(names)} in its resources, so its limit of that is 0, and "
                f"{wants(case, amount_text(rules[0].resource, rules[0].wanted))}."
            )
        else:
            text = (
                f"{queue_title(case, queue)} has no resources block, so all its limits are 0: nothing runs in it, and "
                f"{wants(case, amount_text(rules[0].resource, rules[0].wanted))}."
            )
        yield Cause(
            Code.QUEUE_HAS_NO_RESOURCES,
            capitalized(text),
            (queue_ref(queue),),
            {"queue": queue, "resources": [tight.resource for tight in rules]},
        )


def over_limit(case: Case) -> Iterable[Cause]:
    """A queue, or one above, would hold more than its limit."""
    for tight in _tight_of(case, Reason.OVER_LIMIT):
        if tight.bound == 0 and tight.resource not in _resources(case, tight.queue):
            continue
        bound, held = amount_text(tight.resource, tight.bound), amount_text(tight.resource, tight.held)
        wanted = wants(case, amount_text(tight.resource, tight.wanted))
        title = queue_title(case, tight.queue)
        if tight.wanted > tight.bound:
            text = f"{title} may never hold more than its limit of {bound}, and {wanted}"
        else:
            text = f"{title} may hold {bound}, its limit, and holds {held}; {wanted} more"
        yield Cause(Code.OVER_LIMIT, capitalized(f"{text}."), (queue_ref(tight.queue),), _facts(tight, "limit"))


def over_quota(case: Case) -> Iterable[Cause]:
    """Non-preemptible work beyond the quota of its queue, or of one above."""
    for tight in _tight_of(case, Reason.NON_PREEMPTIBLE_OVER_QUOTA):
        bound, held = amount_text(tight.resource, tight.bound), amount_text(tight.resource, tight.held)
        yield Cause(
            Code.NON_PREEMPTIBLE_OVER_QUOTA,
            f"It is non-preemptible, so it has to stay within quotas: {queue_title(case, tight.queue)} has a quota of {bound}, such "
            f"work holds {held} of it, and {wants(case, amount_text(tight.resource, tight.wanted))} more.",
            (queue_ref(tight.queue),),
            _facts(tight, "quota"),
        )


def _tight_of(case: Case, reason: Reason) -> list[Tight]:
    """Each is told with its numbers, which must bear it out."""
    rules = () if case.trials is None else tight_rules(case.trials)
    return [one for one in rules if one.reason == reason and one.held + one.wanted > one.bound]


def _resources(case: Case, queue: str) -> frozenset[str]:
    """For which its object has a block."""
    spec = case.lab.cluster.get("Queue", queue).get("spec") or {}
    return frozenset(name for name, block in (spec.get("resources") or {}).items() if block)


def _facts(tight: Tight, rule: str) -> dict[str, object]:
    return {
        "queue": tight.queue, "resource": tight.resource, rule: tight.bound, "held": tight.held, "wanted": tight.wanted,
    }  # fmt: skip
