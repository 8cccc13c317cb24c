"""Who is served before a waiting PodGroup, in words. The order itself is the engine's (``kailab.engine.report.serving``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from kailab.engine.decisions import ServingPosition
from kailab.engine.queueing.order_records import PROMISED, EarlierQueue
from kailab.engine.working.order_criteria import JobCriterion, QueueCriterion
from kailab.evidence.wording import some
from kailab.lab.picture import Picture

_WORDS: dict[str, str] = {
    PROMISED: "room was made for work of it",
    QueueCriterion.FAIR_SHARE: "{over} is above its fair share",
    QueueCriterion.QUOTA: "it stays within its quota",
    QueueCriterion.PRIORITY: "it has the higher priority",
    QueueCriterion.NO_SHARE: "{over} would hold what it has no share of",
    QueueCriterion.SHARE_WITH_JOB: "it is further below its share, with what each would get next",
    QueueCriterion.SHARE: "it is further below its share",
    QueueCriterion.SIZE: "of two with the same part of their share, the smaller comes first",
    QueueCriterion.AGE: "it is older, and nothing else tells them apart",
    JobCriterion.AGED: "work of it has waited for longest",
    JobCriterion.SCORE: "work of it has the higher score",
}


def order_lines(picture: Picture, podgroup: str) -> Iterable[str]:
    """``podgroup``: ``namespace/name``. Empty for one without a turn, which could not run in its queue at all."""
    turn = picture.turns.get(podgroup)
    if turn is None:
        return
    ahead = _ahead(picture, podgroup)
    if ahead:
        yield f"Ahead of it in {turn.queue}: {some(ahead)}."
    earlier = _earlier(picture, turn.queue)
    if earlier:
        each = [
            f"{earlier_queue.queue} ({_WORDS[earlier_queue.because].format(over=earlier_queue.over)})"
            for earlier_queue in earlier
        ]
        yield f"Queues served before {turn.queue}: {some(each)}."


def order_data(picture: Picture, podgroup: str) -> dict[str, Any]:
    """``ahead``: PodGroups of its queue that are served before it. ``place``: among all waiting ones, from 1; None if it has no turn.
    ``because``: the criterion that put it behind the one before it. ``queues_ahead``: queues served before its queue, and why."""
    turn = picture.turns.get(podgroup)
    if turn is None:
        return {"ahead": [], "place": None, "because": "", "queues_ahead": []}
    return {
        "ahead": _ahead(picture, podgroup),
        "place": turn.place,
        "because": turn.because,
        "queues_ahead": [
            {
                "queue": earlier_queue.queue,
                "before": earlier_queue.over,
                "next": picture.present.podgroup(earlier_queue.podgroup),
                "because": earlier_queue.because,
            }
            for earlier_queue in _earlier(picture, turn.queue)
        ],
    }


def _ahead(picture: Picture, podgroup: str) -> list[str]:
    """Names of the PodGroups with an earlier turn in its queue. One that the queue rules refuse is ahead only of others that they refuse."""
    own = picture.turns[podgroup]
    return [
        name.partition("/")[2]
        for name, turn in picture.turns.items()
        if turn.queue == own.queue and turn.place < own.place and (turn.refused is None or own.refused is not None)
    ]


def _earlier(picture: Picture, queue: str) -> tuple[EarlierQueue, ...]:
    """Empty for a scheduler that does not report its shares, as its order of queues is then unknown."""
    return picture.present.queues_before(queue) if picture.scheduler.reports_shares else ()


class RankedQueue(NamedTuple):
    """A queue in the order in which queues are served. ``next``: the PodGroup (``namespace/name``) whose turn comes next there, at ``place``
    among all that wait. ``because``: what puts it behind the one before it; "" for the first. ``refused``: the code of the queue rule that
    does not let it start. ``waiting``: its PodGroups that have a turn."""

    queue: str
    place: int
    next: str
    because: str
    refused: str
    waiting: int


def rank_queues(picture: Picture) -> list[RankedQueue]:
    """All queues in which something has a turn, those served first at the head: by the first turn in them that the queue rules allow, or
    by their first of all where they allow none."""
    first: dict[str, tuple[str, ServingPosition]] = {}
    before: dict[int, str] = {}
    waiting: Counter[str] = Counter()
    for name, turn in picture.turns.items():
        waiting[turn.queue] += 1
        before[turn.place + 1] = turn.queue
        known = first.get(turn.queue)
        if known is None or (known[1].refused is not None and turn.refused is None):
            first[turn.queue] = (name, turn)
    ranked = []
    for name, turn in sorted(first.values(), key=lambda entry: (entry[1].refused is not None, entry[1].place)):
        why = ""
        if turn.because and (ahead := before.get(turn.place)) is not None:
            words = _WORDS.get(turn.because, "work of it comes first").format(over=turn.queue)
            why = f"behind {ahead}: {words}"
        ranked.append(RankedQueue(turn.queue, turn.place, name, why, turn.refused or "", waiting[turn.queue]))
    return ranked
