"""Why a queue holds what it holds: its share, what it borrows and lends, and which queues could reclaim it.

``explain_queue`` is the entry. The division of fair shares (``kailab.engine.queueing.division``) and the rules of reclaim
(``kailab.engine.report.reclaim_options``) are the engine's; this module puts them into words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from typing import Any, Literal

import msgspec
from msgspec import structs

from kailab.cluster.protocol import Object
from kailab.engine.decisions import Numbers
from kailab.engine.queueing.division import DividedQueue, Division, DivisionPart, DivisionRound
from kailab.engine.queueing.order_records import ReclaimOption
from kailab.engine.snapshot.amounts import format_thousandths
from kailab.engine.working.queues import QueueResource
from kailab.errors import NotFound
from kailab.evidence.shares import UNLIMITED, QueueAmounts, QueueTreeShares, queue_ancestry
from kailab.evidence.wording import amount_text, count, gpus, is_or_are, some
from kailab.explain.model_shortages import shortage_data, shortage_lines, shortages_of_queue
from kailab.lab.answer import Explanation
from kailab.lab.owners import work_title
from kailab.lab.picture import Picture
from kailab.model import labels
from kailab.model.times import format_time

SHOWN_CLAIMS = 3
"""Claims, and what prevents them, in the text; the data has all."""


def returns_from(picture: Picture, *names: str) -> dict[str, tuple[ReclaimOption, ...]]:
    """What others could reclaim from each of these queues or their ancestors, and what prevents it.

    The rules of queues decide; if the reclaiming queue has waiting work, the next cycle does too.
    """
    returns = picture.present.returns(*names)
    return {name: tuple(_with_unserved(picture, option) for option in options) for name, options in returns.items()}


def _with_unserved(picture: Picture, option: ReclaimOption) -> ReclaimOption:
    """With the first waiting work of the reclaiming queue that the next cycle does not serve, if any."""
    if not option.waiting or not option.allowed or not picture.scheduler.knows_queues:
        return option
    decisions, queues = picture.next_cycle, picture.queue_of_group
    mine, theirs = picture.below(option.taker.queue), picture.below(option.taker.beside)
    for eviction in decisions.evictions:
        if queues.get(eviction.beneficiary) in mine and queues.get(eviction.podgroup) in theirs:
            return option
    unserved = [pending.podgroup for pending in decisions.pending if pending.queue in mine]
    if not unserved:
        return option
    places = {turn.podgroup: turn.place for turn in picture.present.order}
    first = min(unserved, key=lambda uid: (places.get(uid, len(places) + 1), uid))
    return structs.replace(option, unserved=picture.present.podgroup(first))


def entitled_returns(returns: Sequence[ReclaimOption]) -> list[ReclaimOption]:
    """The returns to queues below their quota, or if there are none to queues that wait below their fair share."""
    owners = [option for option in returns if option.taker.rule == "quota"]
    return owners or list(returns)


def return_lines(picture: Picture, returns: Sequence[ReclaimOption]) -> Iterable[str]:
    """``returns``: from ``entitled_returns``."""
    if not returns:
        yield "Nobody could reclaim it: no other queue is below its quota."
        return
    if returns[0].taker.rule == "quota":
        yield f"Queues that could reclaim it by asking: {some([_owner(option) for option in returns])}."
    else:
        yield f"Queues that could reclaim it: {some([option.taker.queue for option in returns])}, below their fair share now."
    blockers: dict[str, list[str]] = {}
    for option in returns:
        for text in return_blockers(picture, option):
            blockers.setdefault(text, []).append(option.taker.queue)
    for text, queues in islice(blockers.items(), SHOWN_CLAIMS):
        whom = "" if len(queues) == len(returns) else f"{some(queues)}: "
        yield f"What prevents it: {whom}{text}."


def claims(picture: Picture, name: str) -> list[ReclaimOption]:
    """What a queue, or an ancestor of it, could reclaim from each queue beside them that holds more than it may keep."""
    line = picture.lines[name]
    levels = {picture.shares[member].parent for member in line}
    beside = sorted(
        queue.name for queue in picture.shares.queues.values() if queue.parent in levels and queue.name not in line
    )
    entitled = [option for options in returns_from(picture, *beside).values() for option in entitled_returns(options)]
    return list(
        dict.fromkeys(option for option in entitled if option.taker.queue in line and option.taker.beside in beside)
    )


def claim_lines(picture: Picture, returns: Sequence[ReclaimOption]) -> Iterable[str]:
    """``returns``: the claims of a queue with waiting work."""
    largest = sorted(returns, key=lambda option: (-option.beyond, option.taker.beside))
    if len(largest) > SHOWN_CLAIMS:
        yield f"It has claims on {len(largest)} queues; the largest:"
    for option in largest[:SHOWN_CLAIMS]:
        beyond, now = (amount_text(option.taker.resource, amount) for amount in (option.beyond, option.now))
        against = "; ".join(return_blockers(picture, option))
        tail = f", up to {now} of it now" if option.now else ", nothing of it now"
        what = (
            beyond
            if option.over == option.taker.resource
            else f"{beyond}, with {option.over} that it holds beyond its own,"
        )
        yield f"{option.taker.queue} may take {what} back from {option.taker.beside}{tail}{f': {against}' if against else ''}."


def return_blockers(picture: Picture, option: ReclaimOption) -> list[str]:
    """What keeps a queue from reclaiming what it has a claim on now; empty if no rule of queues does."""
    if not option.reclaims:
        return ["this scheduler does not reclaim (its actions leave it out)"]

    def words(amount: int) -> str:
        return amount_text(option.taker.resource, amount)

    blockers = []
    if option.young:
        until = _until(option.young_first, option.young_last)
        young = words(option.young)
        blockers.append(f"{young} of {option.taker.beside} {is_or_are(young)} protected by a minimum runtime {until}")
    if option.firm:
        blockers.append(
            f"{words(option.firm)} of {option.taker.beside} {is_or_are(words(option.firm))} held by non-preemptible work"
        )
    if option.delayed_until is not None:
        blockers.append(
            f"work of {option.taker.queue} for {words(option.delayed)} may not have others evicted before "
            f"{format_time(option.delayed_until)} (its preemption delay)"
        )
    # If all waiting work is delayed, the delay is the reason.
    if option.unserved and not (option.delayed_until is not None and option.delayed >= option.waiting):
        blockers.append(f"what waits in {option.taker.queue} gets none of it now ({_first_in_line(picture, option)})")
    return blockers


def return_data(picture: Picture, option: ReclaimOption) -> dict[str, Any]:
    """The engine's record, with what can be reclaimed ``now``, and ``stops``: what prevents it, in words."""
    data: dict[str, Any] = msgspec.to_builtins(option)
    return {**data.pop("taker"), **data, "now": option.now, "stops": return_blockers(picture, option)}


def _first_in_line(picture: Picture, option: ReclaimOption) -> str:
    rows = picture.by_group.get(option.unserved, ())
    wanted = sum(row.milli_gpus for row in rows if not row.node)
    size = f", which wants {gpus(wanted)}" if wanted else ""
    return f"first in its line: {work_title(picture, option.unserved)}{size}"


def _until(first: float | None, last: float | None) -> str:
    if first is None or last is None:
        return ""
    if first == last:
        return f"until {format_time(last)}"
    return f"from {format_time(first)} to {format_time(last)}, one after the other"


def _owner(option: ReclaimOption) -> str:
    amount = option.taker.amount
    most = f"up to {amount_text(option.taker.resource, min(amount, option.beyond))} of its quota"
    return f"{option.taker.queue} ({'its quota is unlimited' if amount < 0 else most})"


def divisions_on_path(divisions: Iterable[Division], line: Sequence[str], resource: QueueResource) -> list[Division]:
    """The divisions in which a queue and its ancestors took part, from the root down. ``line``: the queue and its ancestors, from itself
    up."""
    # A queue takes part in the division of its parent; the root's parent has no name.
    parents = ["", *reversed(line[1:])]
    by_parent = {
        division.parent: division
        for division in divisions
        if division.resource == resource and division.parent in parents
    }
    return [by_parent[parent] for parent in parents if parent in by_parent]


def division_lines(divisions: Sequence[Division], line: Sequence[str]) -> Iterable[str]:
    """The arithmetic of one resource, level by level from the root, as it concerns the queues of ``line``."""
    for division, name in zip(divisions, reversed(line), strict=False):
        own = next((entitled for entitled in division.queues if entitled.queue == name), None)
        if own is not None:
            yield from _level(division, own)


def _level(division: Division, own: DividedQueue) -> Iterable[str]:
    def words(amount: float) -> str:
        return amount_text(division.resource, amount)

    # The queue itself comes first, then those that got most.
    others = sorted(
        (entitled for entitled in division.queues if entitled is not own),
        key=lambda entitled: (-entitled.fair_share, entitled.queue),
    )
    whose = f"the fair share of {division.parent}" if division.parent else "all there is"
    yield f"{division.resource} share of {own.queue}: {words(division.total)} ({whose}), divided among {count(len(division.queues), 'queue')}."
    quotas = [
        f"{entitled.queue} {words(entitled.by_quota)} {_why_quota(division, entitled)}" for entitled in (own, *others)
    ]
    yield f"  Quota first: {some(quotas)}; {_left_of(division)}."
    for division_round in division.rounds:
        yield f"  Priority {division_round.priority}, {words(division_round.amount)} by weight: {_round(division, division_round, own.queue)}."
    if division.remainders:
        each = [f"{remainder.queue} {words(remainder.given)}" for remainder in division.remainders]
        yield f"  What rounding to whole units left, one each: {some(each)}."
    if not own.weight and own.requested > own.by_quota:
        yield f"  {own.queue} has weight 0: it gets nothing beyond its quota."
    left = f"; {words(division.left)} left undivided" if division.left else ""
    yield f"  So {own.queue} is due {words(own.fair_share)}{left}."


def _why_quota(division: Division, entitled: DividedQueue) -> str:
    def words(amount: float) -> str:
        return amount_text(division.resource, amount)

    if entitled.limit >= 0 and entitled.by_quota == entitled.limit and entitled.limit < entitled.requested:
        return f"(limit {words(entitled.limit)})"
    if entitled.quota >= 0 and entitled.by_quota == entitled.quota and entitled.quota < entitled.requested:
        return f"(quota {words(entitled.quota)}, asks for {words(entitled.requested)})"
    return f"(asks for {words(entitled.requested)}, quota {words(entitled.quota)})"


def _left_of(division: Division) -> str:
    if division.over_quota < 0:
        return f"that is {amount_text(division.resource, -division.over_quota)} more than there is"
    if not division.over_quota:
        return "nothing is left"
    return f"{amount_text(division.resource, division.over_quota)} left"


def _round(division: Division, division_round: DivisionRound, name: str) -> str:
    parts = sorted(division_round.parts, key=lambda part: (part.queue != name, -part.given, part.queue))
    return some([_part(division, division_round, part) for part in parts])


def _part(division: Division, division_round: DivisionRound, part: DivisionPart) -> str:
    entitled = next(queue for queue in division.queues if queue.queue == part.queue)
    weight = f"weight {format_thousandths(entitled.weight)}"
    if entitled.usage and division.k_value:
        weight += f", past usage {format_thousandths(entitled.usage)}, k {format_thousandths(division.k_value)}"
    ratio = f"{100 * part.weight / division_round.weights:.4g} %" if division_round.weights else "nothing"
    wanted = ", all it wants" if part.given == part.wanted else ""
    return f"{part.queue} {amount_text(division.resource, part.given)} ({weight}: {ratio}{wanted})"


RESOURCES: tuple[QueueResource, ...] = ("GPU", "CPU", "Memory")
_OTHERS: Mapping[QueueResource, Literal["cpu", "memory"]] = {"CPU": "cpu", "Memory": "memory"}


def explain_queue(picture: Picture, name: str) -> Explanation:
    """Explain a queue. ``more`` has the arithmetic of CPU and memory where these do not decide. Raises NotFound."""
    shares = picture.shares
    if name not in shares:
        raise NotFound(f'queues.scheduling.run.ai "{name}" not found')
    queue = shares[name]
    lines = [_head(queue), _holding(queue)]
    lines += borrowing_lines(picture, shares, queue)
    lines += _lending(picture, shares, queue)
    lines += _waiting(picture, shares, queue)
    decisive, more = _arithmetic(picture, queue)
    return Explanation("queue", name, (*lines, *decisive), _data(picture, shares, queue), tuple(more))


def _arithmetic(picture: Picture, queue: QueueAmounts) -> tuple[list[str], list[str]]:
    """The arithmetic of the fair share: lines for GPUs and the resources in which it keeps the queue short, and lines for the others."""
    decisive: list[str] = []
    more: list[str] = []
    if queue.fair_share is None:
        return decisive, more
    line = queue_ancestry(queue.name, {amounts.name: amounts.parent for amounts in picture.shares.queues.values()})
    for resource in RESOURCES:
        divisions = divisions_on_path(picture.present.divisions, line, resource)
        lines = [*_resource_line(picture, queue, resource), *division_lines(divisions, line)]
        own = [entitled for division in divisions for entitled in division.queues if entitled.queue == queue.name]
        short = any(entitled.fair_share < entitled.requested for entitled in own)
        (decisive if short or resource == "GPU" else more).extend(lines)
    return decisive, more


def _resource_line(picture: Picture, queue: QueueAmounts, resource: QueueResource) -> Iterable[str]:
    """The line of CPU or memory; every explanation begins with that of GPUs."""
    if resource == "GPU":
        return
    own = shares_in(picture, resource)[queue.name]

    def words(amount: float) -> str:
        return amount_text(resource, amount)

    yield (
        f"{resource}: it holds {words(own.allocated)} of {words(own.requested)} asked for; quota {words(own.quota)}, limit "
        f"{words(own.limit)}{f'; {words(own.borrowed)} {is_or_are(words(own.borrowed))} beyond its quota' if own.borrowed else ''}."
    )


def _head(queue: QueueAmounts) -> str:
    share = "" if queue.fair_share is None else f", fair share now {gpus(queue.fair_share)}"
    parent = f" under {queue.parent}" if queue.parent else ""
    return f"Queue {queue.name}{parent}: quota {gpus(queue.quota)}, limit {gpus(queue.limit)}{share}."


def _holding(queue: QueueAmounts) -> str:
    text = f"It holds {gpus(queue.allocated)} of {gpus(queue.requested)} asked for"
    if queue.non_preemptible:
        text += f"; {gpus(queue.non_preemptible)} of them can't be taken away (non-preemptible)"
    return text + "."


def borrowing_lines(picture: Picture, shares: QueueTreeShares, queue: QueueAmounts) -> Iterable[str]:
    if not queue.borrowed:
        return
    yield f"It borrows {gpus(queue.borrowed)}, {unused_words(shares, queue.name)}."
    if queue.fair_share is None and picture.scheduler.knows_queues:
        who = picture.scheduler.title
        yield f"{who} does not report fair shares: kailab does not know which queue may take this back."
        return
    if queue.fair_share is None:
        yield "The scheduler of this lab knows no queues: it limits none of them to its share and reclaims nothing for them."
        return
    yield from return_lines(picture, _returns(picture, queue))


def _returns(picture: Picture, queue: QueueAmounts) -> list[ReclaimOption]:
    """The entitled returns from a queue that borrows."""
    if not queue.borrowed or queue.fair_share is None:
        return []
    return entitled_returns(returns_from(picture, queue.name)[queue.name])


def _lending(picture: Picture, shares: QueueTreeShares, queue: QueueAmounts) -> Iterable[str]:
    beyond = [sibling for sibling in shares.queues.values() if sibling.parent == queue.parent and sibling.borrowed]
    owed = [] if queue.fair_share is None else claims(picture, queue.name)
    if beyond and queue.unused:
        # GPUs belong to no queue, so unused quota can't be matched to the queues that hold more than theirs.
        each = some(
            [
                f"{borrower.name} holds {gpus(borrower.borrowed)}"
                for borrower in sorted(beyond, key=lambda borrower: borrower.name)
            ]
        )
        free = owed and not any(return_blockers(picture, option) for option in owed)
        back = "; it gets them back by reclaim when it asks" if free else ""
        unused = gpus(queue.unused)
        yield f"Of its quota {unused} {is_or_are(unused)} unused, while {each} beyond its own{back}."
        yield from () if free else claim_lines(picture, owed)
    elif owed and queue.waiting:
        yield from claim_lines(picture, owed)
    elif queue.unused and not queue.waiting:
        yield f"{gpus(queue.unused)} of its quota {'is' if queue.unused == 1000 else 'are'} unused and not lent."


def _waiting(picture: Picture, shares: QueueTreeShares, queue: QueueAmounts) -> Iterable[str]:
    parents = {q.name: q.parent for q in shares.queues.values()}
    waiting = [entry for entry in picture.pending.values() if queue.name in queue_ancestry(entry.queue, parents)]
    reasons: dict[str, int] = {}
    for entry in waiting:
        reasons[entry.reason] = reasons.get(entry.reason, 0) + 1
    if reasons:
        each = ", ".join(f"{number} {reason}" for reason, number in reasons.items())
        yield f"{count(len(waiting), 'pod group')} of it {'waits' if len(waiting) == 1 else 'wait'}: {each}."
    yield from shortage_lines(shortages_of_queue(picture, picture.below(queue.name)), of_queue=True)
    yield from _limits(picture, queue.name, queue_ancestry(queue.name, parents))
    if queue.quota == 0 and queue.limit == 0:
        yield (
            "Its limit is 0, so nothing in it can run; a queue without a resources block (or one without gpu) has "
            "zeros throughout. Set spec.resources.gpu.quota and .limit (-1: unlimited)."
        )


def _limits(picture: Picture, name: str, line: list[str]) -> Iterable[str]:
    """Limits of the queue and of those above it that are reached, or exceeded because they were lowered under running work."""
    for resource in RESOURCES:
        shares = shares_in(picture, resource)
        for level in line:
            held = shares[level]
            bound = amount_text(resource, held.limit)
            if held.limit != UNLIMITED and held.allocated > held.limit:
                yield (
                    f"{level} holds {amount_text(resource, held.allocated)}, above its limit of {bound}: nothing is evicted for that, and "
                    "nothing more starts until it holds less."
                )
            elif held.limit not in (UNLIMITED, 0) and shares[name].waiting and held.allocated == held.limit:
                yield f"{level} is at its limit of {bound}: it can't hold more however idle the cluster is."


def shares_in(picture: Picture, resource: QueueResource) -> QueueTreeShares:
    """The amounts of all queues in one resource."""
    if resource == "GPU" or not picture.scheduler.knows_queues:
        return picture.shares
    return QueueTreeShares.counted(
        picture.present.queues, fair=picture.scheduler.reports_shares, resource=_OTHERS[resource]
    )


def unused_words(shares: QueueTreeShares, name: str) -> str:
    """``while 12 GPUs of the quota of b are unused``. GPUs belong to no queue, so a borrowed one has no single lender."""
    unused = [f"{gpus(amount)} of the quota of {queue}" for queue, amount in shares.unused_beside(name)]
    if not unused:
        return "which no unused quota beside it covers"
    return f"while {some(unused)} {'is' if len(unused) == 1 and unused[0].startswith('1 GPU ') else 'are'} unused"


def _data(picture: Picture, shares: QueueTreeShares, queue: QueueAmounts) -> dict[str, Any]:
    back = _returns(picture, queue)
    data = {
        **_amounts_data(shares, queue),
        "could_reclaim": [option.taker.queue for option in back],
        "returns": [return_data(picture, option) for option in back],
        "claims": []
        if queue.fair_share is None
        else [return_data(picture, option) for option in claims(picture, queue.name)],
    }
    if not picture.scheduler.knows_queues:
        return data
    data |= shortage_data(shortages_of_queue(picture, picture.below(queue.name)))
    line = queue_ancestry(queue.name, {amounts.name: amounts.parent for amounts in shares.queues.values()})
    others = {
        name: QueueTreeShares.counted(picture.present.queues, fair=picture.scheduler.reports_shares, resource=name)
        for name in _OTHERS.values()
    }
    data["resources"] = {name: _amounts_data(each, each[queue.name]) for name, each in others.items()}
    if queue.fair_share is not None:
        divisions = picture.present.divisions
        data["divisions"] = [
            msgspec.to_builtins(division)
            for resource in RESOURCES
            for division in divisions_on_path(divisions, line, resource)
        ]
    return data


def _amounts_data(shares: QueueTreeShares, queue: QueueAmounts) -> dict[str, Any]:
    return {
        **asdict(queue),
        "borrowed": queue.borrowed,
        "borrowed_from": dict(shares.lenders(queue.name)),
        "lent": shares.lent(queue.name),
        "lent_to": dict(shares.borrowers(queue.name)),
    }


_PARTS: tuple[Literal["priority", "waiting", "efficiency", "fairness"], ...] = (
    "priority",
    "waiting",
    "efficiency",
    "fairness",
)


def policy_lines(numbers: Numbers) -> Iterable[str]:
    """For a waiting job: why it has its place in the order of a configured policy."""
    if "aged_since" in numbers:
        yield f"Aged: it waits since {format_time(numbers['aged_since'])}, long enough to come before all others of its queue."
    if "score" in numbers:
        score = numbers["score"]
        each = {part: score[part] for part in _PARTS}
        parts = " + ".join(f"{part} {value:.3f} x {weight:g}" for part, (value, weight) in each.items())
        yield f"Score: {score['total']:.3f} = {parts}."
    if "policy" in numbers:
        key = ", ".join(f"{part:g}" for part in numbers["policy"]["key"])
        yield f"Order of jobs: the policy {numbers['policy']['name']!r} gives it {key}; the smallest comes first."


def saving_lines(pod: Object) -> Iterable[str]:
    """For a terminating pod: whether it was asked to save its state, and until when it may."""
    metadata = pod["metadata"]
    asked = (metadata.get("annotations") or {}).get(labels.CHECKPOINT_REQUESTED)
    if asked and "deletionTimestamp" in metadata:
        yield (
            f"It has been saving its state since {asked} and keeps its GPUs meanwhile, until {metadata['deletionTimestamp']} at the "
            "latest."
        )
