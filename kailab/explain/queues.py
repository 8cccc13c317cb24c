"""Why a queue holds what it holds: its share now, what it borrows and lends, and who could have it back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, Literal

import msgspec

from kailab.engine.queueing.order_records import Return
from kailab.engine.working.queues import QueueResource
from kailab.errors import NotFound
from kailab.evidence.shares import UNLIMITED, QueueAmounts, QueueTreeShares, queue_ancestry
from kailab.explain.explanation import Explanation
from kailab.explain.queue_returns import claim_lines, claims, entitled, return_data, return_lines, returns, stops
from kailab.explain.queue_share import divided, share_lines
from kailab.lab.picture import Picture
from kailab.lab.wording import amount_text, count, gpus, some

RESOURCES: tuple[QueueResource, ...] = ("GPU", "CPU", "Memory")
_OTHERS: Mapping[QueueResource, Literal["cpu", "memory"]] = {"CPU": "cpu", "Memory": "memory"}


def explain_queue(picture: Picture, name: str) -> Explanation:
    """``more`` has the arithmetic of CPU and memory where that does not decide. Raises NotFound for a queue that there is not."""
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
    """How the fair share came about: lines of the resources in which it keeps the queue short, and GPUs; and those of the others."""
    decisive: list[str] = []
    more: list[str] = []
    if queue.fair_share is None:
        return decisive, more
    line = queue_ancestry(queue.name, {one.name: one.parent for one in picture.shares.queues.values()})
    for resource in RESOURCES:
        divisions = divided(picture.present.divisions, line, resource)
        lines = [*_standing_line(picture, queue, resource), *share_lines(divisions, line)]
        own = [one for division in divisions for one in division.queues if one.queue == queue.name]
        short = any(one.fair_share < one.requested for one in own)
        (decisive if short or resource == "GPU" else more).extend(lines)
    return decisive, more


def _standing_line(picture: Picture, queue: QueueAmounts, resource: QueueResource) -> Iterable[str]:
    """That of GPUs is the beginning of every explanation."""
    if resource == "GPU":
        return
    own = standings(picture, resource)[queue.name]

    def told(amount: float) -> str:
        return amount_text(resource, amount)

    yield (
        f"{resource}: it holds {told(own.allocated)} of {told(own.requested)} asked for; quota {told(own.quota)}, limit "
        f"{told(own.limit)}{f'; {told(own.borrowed)} are beyond its quota' if own.borrowed else ''}."
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
        yield f"{who} keeps to itself what share it works out: who may take this back is not known here."
        return
    if queue.fair_share is None:
        yield "The scheduler of this lab knows no queues: it holds none of them to its share and gives nobody theirs back."
        return
    yield from return_lines(picture, _returns(picture, queue))


def _returns(picture: Picture, queue: QueueAmounts) -> list[Return]:
    """By the engine. Those that the quota entitles, else those that wait below their fair share."""
    if not queue.borrowed or queue.fair_share is None:
        return []
    return entitled(returns(picture, queue.name)[queue.name])


def _lending(picture: Picture, shares: QueueTreeShares, queue: QueueAmounts) -> Iterable[str]:
    beyond = [one for one in shares.queues.values() if one.parent == queue.parent and one.borrowed]
    owed = [] if queue.fair_share is None else claims(picture, queue.name)
    if beyond and queue.unused:
        # No GPU belongs to a queue: who holds which part of what it leaves unused nobody can say.
        each = some([f"{one.name} holds {gpus(one.borrowed)}" for one in sorted(beyond, key=lambda one: one.name)])
        free = owed and not any(stops(picture, one) for one in owed)
        back = "; it gets them back by reclaim when it asks" if free else ""
        yield f"Of its quota {gpus(queue.unused)} are unused, while {each} beyond its own{back}."
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
    yield from _limits(picture, queue.name, queue_ancestry(queue.name, parents))
    if queue.quota == 0 and queue.limit == 0:
        yield (
            "Its limit is 0, so nothing in it can run; a queue without a resources block (or one without gpu) has "
            "zeros throughout. Set spec.resources.gpu.quota and .limit (-1: unlimited)."
        )


def _limits(picture: Picture, name: str, line: list[str]) -> Iterable[str]:
    """Limits that are reached or passed, of the queue and those above it. One that is passed was lowered under work that runs."""
    for resource in RESOURCES:
        shares = standings(picture, resource)
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


def standings(picture: Picture, resource: QueueResource) -> QueueTreeShares:
    """Where queues stand in one resource."""
    if resource == "GPU" or not picture.scheduler.knows_queues:
        return picture.shares
    return QueueTreeShares.counted(
        picture.present.queues, fair=picture.scheduler.reports_shares, resource=_OTHERS[resource]
    )


def unused_words(shares: QueueTreeShares, name: str) -> str:
    """``while 12 GPUs of the quota of b are unused``. No GPU belongs to a queue, so whose a borrowed one is nobody can say."""
    unused = [f"{gpus(amount)} of the quota of {queue}" for queue, amount in shares.unused_beside(name)]
    return f"while {some(unused)} are unused" if unused else "which no unused quota beside it covers"


def _data(picture: Picture, shares: QueueTreeShares, queue: QueueAmounts) -> dict[str, Any]:
    back = _returns(picture, queue)
    data = {
        **_standing_data(shares, queue),
        "could_reclaim": [one.taker.queue for one in back],
        "returns": [return_data(picture, one) for one in back],
        "claims": []
        if queue.fair_share is None
        else [return_data(picture, one) for one in claims(picture, queue.name)],
    }
    if not picture.scheduler.knows_queues:
        return data
    line = queue_ancestry(queue.name, {one.name: one.parent for one in shares.queues.values()})
    others = {
        name: QueueTreeShares.counted(picture.present.queues, fair=picture.scheduler.reports_shares, resource=name)
        for name in _OTHERS.values()
    }
    data["resources"] = {name: _standing_data(each, each[queue.name]) for name, each in others.items()}
    if queue.fair_share is not None:
        divisions = picture.present.divisions
        data["divisions"] = [
            msgspec.to_builtins(one) for resource in RESOURCES for one in divided(divisions, line, resource)
        ]
    return data


def _standing_data(shares: QueueTreeShares, queue: QueueAmounts) -> dict[str, Any]:
    return {
        **asdict(queue),
        "borrowed": queue.borrowed,
        "borrowed_from": dict(shares.lenders(queue.name)),
        "lent": shares.lent(queue.name),
        "lent_to": dict(shares.borrowers(queue.name)),
    }
