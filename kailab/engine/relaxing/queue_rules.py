"""The rules of queues that refuse work whatever room there is: limits, and quotas of non-preemptible work, at each level of the tree.

They are found one after the other: each refusing rule is lifted, and the engine is asked again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

from kailab.engine.decisions import Bind, Pipeline
from kailab.engine.decisions import PendingCode as Reason
from kailab.engine.relaxing.relaxed_cycles import RelaxedCycles
from kailab.engine.relaxing.rules import (
    Actions,
    LimitsLifted,
    QueueField,
    QuotasRaised,
    Relaxation,
    RoomGiven,
)

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


def refusing_rules(cycles: RelaxedCycles) -> list[RefusingRule]:
    """All rules that refuse the subject now, in the order in which the engine meets them."""
    rules: list[RefusingRule] = []
    lifted: list[Relaxation] = []
    while len(rules) < MOST_RULES:
        outcome = cycles(*lifted)
        pending = outcome.pending
        if rules and outcome.further:
            # The first pods are placed now: what stops the later ones counts these as held.
            return rules
        if not pending or pending[0].code not in (Reason.OVER_LIMIT, Reason.NON_PREEMPTIBLE_OVER_QUOTA):
            return rules + _rules_on_nodes(cycles, lifted)
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


def _rules_on_nodes(cycles: RelaxedCycles, lifted: Sequence[Relaxation]) -> list[RefusingRule]:
    """Rules that refuse a request for GPU memory on each node. How much of a quota it takes depends on the node, so the rules are asked
    again with a place, and if no node has room, as if one had. ``lifted``: rules that refuse it on every node."""
    jobs = [job for uid in cycles.subject if (job := cycles.working.jobs.get(uid)) is not None]
    if not any(task.info.shape.gpu.by_memory for job in jobs for task in job):
        return []
    rules = {
        _lifted(reason, queue, "gpu"): (reason, queue)
        for reason in (Reason.OVER_LIMIT, Reason.NON_PREEMPTIBLE_OVER_QUOTA)
        for queue in cycles.queue_path
    }
    given = (*lifted, Actions(("allocate",)))  # a larger quota would also let it evict others
    for free in (given, (*given, RoomGiven())):
        if cycles(*free).further:
            return []
        if needed := cycles.fewest(tuple(rules), given=free):
            break
    else:
        return []
    outcome = cycles(*free, *needed)
    placed: list[Bind | Pipeline] = [*outcome.binds, *outcome.promises]
    wanted = sum(placement.amounts.gpu for placement in placed)
    return [_refusing_rule(cycles, *rules[relaxation], wanted) for relaxation in needed]


def _refusing_rule(cycles: RelaxedCycles, reason: Reason, queue: str, wanted: int) -> RefusingRule:
    share = cycles().share(queue, "gpu")
    if reason == Reason.NON_PREEMPTIBLE_OVER_QUOTA:
        return RefusingRule(reason, queue, "gpu", wanted, share.non_preemptible, share.quota)
    return RefusingRule(reason, queue, "gpu", wanted, share.allocated, share.limit)


def _lifted(reason: Reason, queue: str, resource: QueueField) -> Relaxation:
    kind = LimitsLifted if reason == Reason.OVER_LIMIT else QuotasRaised
    return kind((queue,), (resource,))
