"""Why a queue has the fair share that it has, in words: the division itself is the engine's (kailab.engine.queueing.division)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kailab.engine.queueing.division import Division, DivisionPart, DivisionRound, Entitled
from kailab.engine.snapshot.amounts import number
from kailab.engine.working.queues import QueueResource
from kailab.lab.wording import amount_text, count, some


def divided(divisions: Iterable[Division], line: Sequence[str], resource: QueueResource) -> list[Division]:
    """Those that a queue took part in, from the root down. ``line``: the queue and its ancestors, from itself up."""
    # A queue takes part in the division of its parent; the root's parent has no name.
    parents = ["", *reversed(line[1:])]
    found = {one.parent: one for one in divisions if one.resource == resource and one.parent in parents}
    return [found[parent] for parent in parents if parent in found]


def share_lines(divisions: Sequence[Division], line: Sequence[str]) -> Iterable[str]:
    """The arithmetic of one resource, level by level from the root, each level told from the queue (of ``line``) that took part."""
    for division, name in zip(divisions, reversed(line), strict=False):
        own = next((one for one in division.queues if one.queue == name), None)
        if own is not None:
            yield from _level(division, own)


def _level(division: Division, own: Entitled) -> Iterable[str]:
    def told(amount: float) -> str:
        return amount_text(division.resource, amount)

    # The queue itself comes first, and those with it that got most.
    others = sorted((one for one in division.queues if one is not own), key=lambda one: (-one.fair_share, one.queue))
    whose = f"the fair share of {division.parent}" if division.parent else "all there is"
    yield f"{division.resource} share of {own.queue}: {told(division.total)} ({whose}), divided among {count(len(division.queues), 'queue')}."
    quotas = [f"{one.queue} {told(one.by_quota)} {_why_quota(division, one)}" for one in (own, *others)]
    yield f"  Quota first: {some(quotas)}; {_left_of(division)}."
    for one in division.rounds:
        yield f"  Priority {one.priority}, {told(one.amount)} by weight: {_round(division, one, own.queue)}."
    if division.remainders:
        each = [f"{one.queue} {told(one.given)}" for one in division.remainders]
        yield f"  What rounding to whole units left, one each: {some(each)}."
    if not own.weight and own.requested > own.by_quota:
        yield f"  {own.queue} has weight 0: it gets nothing beyond its quota."
    left = f"; {told(division.left)} nobody gets" if division.left else ""
    yield f"  So {own.queue} is due {told(own.fair_share)}{left}."


def _why_quota(division: Division, one: Entitled) -> str:
    def told(amount: float) -> str:
        return amount_text(division.resource, amount)

    if one.limit >= 0 and one.by_quota == one.limit and one.limit < one.requested:
        return f"(limit {told(one.limit)})"
    if one.quota >= 0 and one.by_quota == one.quota and one.quota < one.requested:
        return f"(quota {told(one.quota)}, asks for {told(one.requested)})"
    return f"(asks for {told(one.requested)}, quota {told(one.quota)})"


def _left_of(division: Division) -> str:
    if division.over_quota < 0:
        return f"that is {amount_text(division.resource, -division.over_quota)} more than there is"
    if not division.over_quota:
        return "nothing is left"
    return f"{amount_text(division.resource, division.over_quota)} left"


def _round(division: Division, one: DivisionRound, name: str) -> str:
    parts = sorted(one.parts, key=lambda part: (part.queue != name, -part.given, part.queue))
    return some([_part(division, one, part) for part in parts])


def _part(division: Division, one: DivisionRound, part: DivisionPart) -> str:
    entitled = next(queue for queue in division.queues if queue.queue == part.queue)
    weight = f"weight {number(entitled.weight)}"
    if entitled.usage and division.k_value:
        weight += f", past usage {number(entitled.usage)}, k {number(division.k_value)}"
    ratio = f"{100 * part.weight / one.weights:.4g} %" if one.weights else "nothing"
    wanted = ", all it wants" if part.given == part.wanted else ""
    return f"{part.queue} {amount_text(division.resource, part.given)} ({weight}: {ratio}{wanted})"
