"""Who could take back what a queue holds beyond its quota, and what stops them, in words: the engine's ``Return`` told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import msgspec
from msgspec import structs

from kailab.engine.queueing.order_records import Return
from kailab.lab.owners import work_title
from kailab.lab.picture import Picture
from kailab.lab.wording import amount_text, gpus, some
from kailab.model.times import format_time

SHOWN = 3
"""Claims, and what stands against them, that are told in words; the data has all."""


def returns(picture: Picture, *names: str) -> dict[str, tuple[Return, ...]]:
    """Of each queue named what others could take from it, or from an ancestor of it, and what stops them. By the rules of queues, and
    where the taker's work waits, by what the next cycle takes for it."""
    found = picture.present.returns(*names)
    return {name: tuple(_asked(picture, one) for one in ones) for name, ones in found.items()}


def _asked(picture: Picture, one: Return) -> Return:
    """With the work that asks in vain, where there is some."""
    if not one.waiting or not one.allowed or not picture.scheduler.knows_queues:
        return one
    decisions, queues = picture.next_cycle, picture.queue_of_group
    mine, theirs = picture.below(one.taker.queue), picture.below(one.taker.beside)
    for eviction in decisions.evictions:
        if queues.get(eviction.beneficiary) in mine and queues.get(eviction.podgroup) in theirs:
            return one
    unserved = [pending.podgroup for pending in decisions.pending if pending.queue in mine]
    if not unserved:
        return one
    places = {turn.podgroup: turn.place for turn in picture.present.order}
    first = min(unserved, key=lambda uid: (places.get(uid, len(places) + 1), uid))
    return structs.replace(one, unserved=picture.present.podgroup(first))


def entitled(returns: Sequence[Return]) -> list[Return]:
    """Those that the quota entitles, else those that wait below their fair share."""
    owners = [one for one in returns if one.taker.rule == "quota"]
    return owners or list(returns)


def return_lines(picture: Picture, returns: Sequence[Return]) -> Iterable[str]:
    """``returns``: of those that are entitled."""
    if not returns:
        yield "Nobody could reclaim it: no other queue is below its quota."
        return
    if returns[0].taker.rule == "quota":
        yield f"Who could reclaim it, by asking: {some([_owner(one) for one in returns])}."
    else:
        yield f"Who could reclaim it: {some([one.taker.queue for one in returns])}, below their fair share now."
    told: dict[str, list[str]] = {}
    for one in returns:
        for text in stops(picture, one):
            told.setdefault(text, []).append(one.taker.queue)
    for text, queues in islice(told.items(), SHOWN):
        whom = "" if len(queues) == len(returns) else f"{some(queues)}: "
        yield f"What stands against it: {whom}{text}."


def claims(picture: Picture, name: str) -> list[Return]:
    """What a queue, or an ancestor of it, could take back: from each queue beside them that holds more than it may keep."""
    line = picture.lines[name]
    levels = {picture.shares[one].parent for one in line}
    beside = sorted(one.name for one in picture.shares.queues.values() if one.parent in levels and one.name not in line)
    found = [one for ones in returns(picture, *beside).values() for one in entitled(ones)]
    return list(dict.fromkeys(one for one in found if one.taker.queue in line and one.taker.beside in beside))


def claim_lines(picture: Picture, returns: Sequence[Return]) -> Iterable[str]:
    """``returns``: of one who waits, and has these claims."""
    largest = sorted(returns, key=lambda one: (-one.beyond, one.taker.beside))
    if len(largest) > SHOWN:
        yield f"It has claims on {len(largest)} queues; the largest:"
    for one in largest[:SHOWN]:
        told = [amount_text(one.taker.resource, amount) for amount in (one.beyond, one.now)]
        against = "; ".join(stops(picture, one))
        tail = f", up to {told[1]} of it now" if one.now else ", nothing of it now"
        what = (
            f"{told[0]}"
            if one.over == one.taker.resource
            else f"{told[0]}, with {one.over} that it holds beyond its own,"
        )
        yield f"{one.taker.queue} may take {what} back from {one.taker.beside}{tail}{f': {against}' if against else ''}."


def stops(picture: Picture, one: Return) -> list[str]:
    """What keeps the taker from what it has a claim on, now. Empty: nothing does, as far as the rules of queues go."""
    if not one.reclaims:
        return ["this scheduler does not reclaim (its actions leave it out)"]

    def told(amount: int) -> str:
        return amount_text(one.taker.resource, amount)

    found = []
    if one.young:
        until = _until(one.young_first, one.young_last)
        found.append(f"{told(one.young)} of {one.taker.beside} are protected by a minimum runtime {until}")
    if one.firm:
        found.append(f"{told(one.firm)} of {one.taker.beside} are held by non-preemptible work")
    if one.delayed_until is not None:
        found.append(
            f"work of {one.taker.queue} for {told(one.delayed)} may not have others evicted before "
            f"{format_time(one.delayed_until)} (its preemption delay)"
        )
    # Where all that waits is delayed, that is why.
    if one.unserved and not (one.delayed_until is not None and one.delayed >= one.waiting):
        found.append(
            f"what waits in {one.taker.queue} gets none of it as things stand ({_first_in_line(picture, one)})"
        )
    return found


def return_data(picture: Picture, one: Return) -> dict[str, Any]:
    """As the engine has it, with what could be taken ``now``, and ``stops`` in words."""
    data: dict[str, Any] = msgspec.to_builtins(one)
    return {**data.pop("taker"), **data, "now": one.now, "stops": stops(picture, one)}


def _first_in_line(picture: Picture, one: Return) -> str:
    rows = picture.by_group.get(one.unserved, ())
    wanted = sum(row.milli_gpus for row in rows if not row.node)
    size = f", which wants {gpus(wanted)}" if wanted else ""
    return f"first in its line: {work_title(picture, one.unserved)}{size}"


def _until(first: float | None, last: float | None) -> str:
    if first is None or last is None:
        return ""
    if first == last:
        return f"until {format_time(last)}"
    return f"from {format_time(first)} to {format_time(last)}, one after the other"


def _owner(one: Return) -> str:
    amount = one.taker.amount
    most = f"up to {amount_text(one.taker.resource, amount)} of its quota"
    return f"{one.taker.queue} ({'its quota is unlimited' if amount < 0 else most})"
