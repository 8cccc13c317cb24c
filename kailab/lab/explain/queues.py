"""Why a queue holds what it holds: its share now, what it borrows and lends, and who could have it back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from kailab.engine.decisions import Taker
from kailab.errors import NotFound
from kailab.lab.explain.explanation import Explanation, count, gpus, some
from kailab.lab.picture import Picture
from kailab.lab.shares import NOBODY, UNLIMITED, QueueStanding, Shares, lineage

if TYPE_CHECKING:
    from kailab.lab.lab import Lab


def about_queue(lab: Lab, kind: str, name: str, namespace: str) -> list[Explanation]:
    """The question about a queue."""
    return [explain_queue(lab.picture(), name)]


def explain_queue(picture: Picture, name: str) -> Explanation:
    """Raises NotFound for a queue that there is not."""
    shares = picture.shares
    if name not in shares:
        raise NotFound(f'queues.scheduling.run.ai "{name}" not found')
    queue = shares[name]
    lines = [_head(queue), _holding(queue)]
    lines += _borrowing(picture, shares, queue)
    lines += _lending(shares, queue)
    lines += _waiting(picture, shares, queue)
    return Explanation("queue", name, tuple(lines), _data(picture, shares, queue))


def _head(queue: QueueStanding) -> str:
    share = "" if queue.fair_share is None else f", fair share now {gpus(queue.fair_share)}"
    parent = f" under {queue.parent}" if queue.parent else ""
    return f"Queue {queue.name}{parent}: quota {gpus(queue.quota)}, limit {gpus(queue.limit)}{share}."


def _holding(queue: QueueStanding) -> str:
    text = f"It holds {gpus(queue.allocated)} of {gpus(queue.requested)} asked for"
    if queue.non_preemptible:
        text += f"; {gpus(queue.non_preemptible)} of them can't be taken away (non-preemptible)"
    return text + "."


def _borrowing(picture: Picture, shares: Shares, queue: QueueStanding) -> Iterable[str]:
    if not queue.borrowed:
        return
    yield f"It borrows {gpus(queue.borrowed)}: {_from(shares.lenders(queue.name))}."
    if queue.fair_share is None and picture.scheduler.knows_queues:
        who = picture.scheduler.title
        yield f"{who} keeps to itself what share it works out: who may take this back is not known here."
        return
    if queue.fair_share is None:
        yield "The scheduler of this lab knows no queues: it holds none of them to its share and gives nobody theirs back."
        return
    takers = _takers(picture, queue)
    if not takers:
        yield "Nobody could reclaim it: no other queue is below its quota."
    elif takers[0].rule == "quota":
        yield f"Who could reclaim it, by asking: {', '.join(map(_owner, takers))}."
    else:
        yield f"Who could reclaim it: {some([taker.queue for taker in takers])}, below their fair share now."


def _takers(picture: Picture, queue: QueueStanding) -> list[Taker]:
    """By the engine. Those that the quota entitles, else those that wait below their fair share."""
    if not queue.borrowed or queue.fair_share is None:
        return []
    takers = picture.present.takers(queue.name)
    owners = [taker for taker in takers if taker.rule == "quota"]
    return owners or list(takers)


def _owner(taker: Taker) -> str:
    return f"{taker.queue} ({'its quota is unlimited' if taker.amount < 0 else f'up to {gpus(taker.amount)} of its quota'})"


def _lending(shares: Shares, queue: QueueStanding) -> Iterable[str]:
    borrowers = shares.borrowers(queue.name)
    if borrowers:
        each = ", ".join(f"{gpus(amount)} to {borrower}" for borrower, amount in borrowers)
        back = "; it gets them back by reclaim when it asks" if queue.fair_share is not None else ""
        yield f"Of its quota it lends {each}{back}."
    elif queue.unused and not queue.waiting:
        yield f"{gpus(queue.unused)} of its quota {'is' if queue.unused == 1000 else 'are'} unused and not lent."


def _waiting(picture: Picture, shares: Shares, queue: QueueStanding) -> Iterable[str]:
    parents = {q.name: q.parent for q in shares.queues.values()}
    waiting = [entry for entry in picture.pending.values() if queue.name in lineage(entry.queue, parents)]
    reasons: dict[str, int] = {}
    for entry in waiting:
        reasons[entry.reason] = reasons.get(entry.reason, 0) + 1
    if reasons:
        each = ", ".join(f"{number} {reason}" for reason, number in reasons.items())
        yield f"{count(len(waiting), 'pod group')} of it wait: {each}."
    for name in lineage(queue.name, parents):
        held = shares[name]
        if queue.waiting and held.limit != UNLIMITED and held.allocated >= held.limit:
            yield f"{name} is at its limit of {gpus(held.limit)}: it can't hold more however idle the cluster is."
    if queue.quota == 0 and queue.limit == 0:
        yield (
            "Its limit is 0, so nothing in it can run; a queue without a resources block (or one without gpu) has "
            "zeros throughout. Set spec.resources.gpu.quota and .limit (-1: unlimited)."
        )


def _from(lenders: list[tuple[str, int]]) -> str:
    return ", ".join(
        f"{gpus(amount)} that no queue's quota covers"
        if lender == NOBODY
        else f"{gpus(amount)} from the unused quota of {lender}"
        for lender, amount in lenders
    )


def _data(picture: Picture, shares: Shares, queue: QueueStanding) -> dict[str, Any]:
    return {
        **asdict(queue),
        "borrowed": queue.borrowed,
        "borrowed_from": dict(shares.lenders(queue.name)),
        "lent": shares.lent(queue.name),
        "lent_to": dict(shares.borrowers(queue.name)),
        "could_reclaim": [taker.queue for taker in _takers(picture, queue)],
    }
