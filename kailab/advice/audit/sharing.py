"""Who holds less than its due and who more than its quota, what stands against taking it back, and quota that nobody uses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

from kailab.advice.audit.finding import Finding, FindingCode, Severity
from kailab.engine.decisions import TaskAmounts
from kailab.engine.queueing.order import Return
from kailab.engine.working.queues import QueueResource
from kailab.evidence.shares import NOBODY, QueueAmounts, QueueTreeShares
from kailab.explain.queue_returns import entitled, return_data, returns, stops
from kailab.lab.picture import Picture
from kailab.lab.wording import amount_text, gpus, some

SHOWN = 3
"""Queues that a sentence names; the numbers have all."""

Resource = Literal["gpu", "cpu", "memory"]
RESOURCES: dict[Resource, QueueResource] = {"gpu": "GPU", "cpu": "CPU", "memory": "Memory"}


def standings(picture: Picture, resource: Resource) -> QueueTreeShares:
    """Where queues stand in one resource."""
    if resource == "gpu" or not picture.scheduler.knows_queues:
        return picture.shares
    return QueueTreeShares.counted(picture.present.queues, fair=picture.scheduler.reports_shares, resource=resource)


def starved(picture: Picture, helpless: Mapping[str, TaskAmounts]) -> Iterable[Finding]:
    """Leaf queues whose work waits while they hold less than their due: of the first resource that they wait for. ``helpless``: what
    of their work asks for that no share would help."""
    if not picture.scheduler.knows_queues:
        return
    every: dict[Resource, QueueTreeShares] = {resource: standings(picture, resource) for resource in RESOURCES}
    parents = {queue.parent for queue in picture.shares.queues.values()}
    pairs = _pairs(picture)
    reasons: dict[str, Counter[str]] = {}
    for entry in picture.pending.values():
        reasons.setdefault(entry.queue, Counter())[entry.reason] += 1
    for name in sorted(picture.shares.queues):
        short: Resource | None = next((one for one in RESOURCES if every[one][name].waiting), None)
        if name in parents or short is None:
            continue
        queue = every[short][name]
        if name in helpless:
            queue = replace(queue, requested=max(queue.allocated, queue.requested - getattr(helpless[name], short)))
        if queue.starving:
            resource = RESOURCES[short]
            claims = [
                one for level in picture.lines[name] for one in pairs.get(level, ()) if one.taker.resource == resource
            ]
            yield _starved(picture, queue, resource, claims, reasons.get(name, Counter()))


def _pairs(picture: Picture) -> dict[str, list[Return]]:
    """Queue -> what it could take back from others."""
    names = sorted(picture.shares.queues)
    found: dict[str, dict[str, Return]] = {}
    for ones in returns(picture, *names).values():
        for one in entitled(ones):
            found.setdefault(one.taker.queue, {})[one.taker.beside] = one
    return {name: [ones[beside] for beside in sorted(ones)] for name, ones in found.items()}


def _starved(
    picture: Picture,
    queue: QueueAmounts,
    resource: QueueResource,
    claims: list[Return],
    reasons: Counter[str],
) -> Finding:
    by_quota, due = queue.allocated < queue.entitled_to, queue.due
    which = f"its quota of {amount_text(resource, queue.quota)}" if by_quota else "its fair share"
    parts = [
        f"{queue.name} holds {amount_text(resource, queue.allocated)} of {amount_text(resource, due)} that are its due "
        f"by {which}, and {amount_text(resource, queue.waiting)} wait"
    ]
    largest = sorted(claims, key=lambda one: (-one.beyond, one.taker.beside))
    for one in largest[:SHOWN]:
        against = "; ".join(stops(picture, one)) or f"up to {amount_text(resource, one.now)} could be taken now"
        what = amount_text(resource, one.beyond)
        more = f"{what} beyond its own" if one.over == resource else f"{what} and more {one.over} than its own"
        parts.append(f"{one.taker.beside} holds {more}: {against}")
    if len(claims) > SHOWN:
        parts.append(f"{len(claims) - SHOWN} more hold less than these beyond their own")
    if reasons:
        parts.append(
            "Its pod groups wait with " + ", ".join(f"{code} ({count})" for code, count in reasons.most_common())
        )
    numbers: dict[str, Any] = {
        "resource": resource,
        "owed": due - queue.allocated,
        "due": due,
        "allocated": queue.allocated,
        "requested": queue.requested,
        "quota": queue.quota,
        "fair_share": queue.fair_share,
        "from": [return_data(picture, one) for one in claims],
        "reasons": dict(reasons),
    }
    objects = (f"queue/{queue.name}", *(f"queue/{one.taker.beside}" for one in claims))
    severity = Severity.ERROR if by_quota else Severity.WARNING
    return Finding(FindingCode.STARVED, severity, ". ".join(parts) + ".", objects, numbers)


def borrowing(picture: Picture) -> Iterable[Finding]:
    """Every queue that lives on more than its quota: whose it is, and what stands against its return."""
    if not picture.scheduler.knows_queues:
        return
    shares = picture.shares
    borrowers = [queue for _, queue in sorted(shares.queues.items()) if queue.borrowed]
    back = returns(picture, *(queue.name for queue in borrowers))
    for queue in borrowers:
        lenders = shares.unused_beside(queue.name)
        each = [f"{gpus(amount)} of the quota of {lender}" for lender, amount in lenders]
        own = [one for one in entitled(back[queue.name]) if one.taker.beside == queue.name]
        against = list(dict.fromkeys(text for one in own for text in stops(picture, one)))
        tail = f"; against its return: {'; '.join(against)}" if against else ""
        yield Finding(
            FindingCode.BORROWING,
            Severity.INFO,
            f"{queue.name} holds {gpus(queue.borrowed)} beyond its quota of {gpus(queue.quota)}; unused: {some(each) or 'nothing beside it'}{tail}.",
            (f"queue/{queue.name}", *(f"queue/{lender}" for lender, _ in lenders if lender != NOBODY)),
            {"borrowed": queue.borrowed, "from": dict(lenders), "returns": [return_data(picture, one) for one in own]},
        )


def idle(picture: Picture) -> Iterable[Finding]:
    """Leaf queues with quota that neither they nor anybody else uses."""
    shares = picture.shares
    parents = {queue.parent for queue in shares.queues.values()}
    for name, queue in sorted(shares.queues.items()):
        if name in parents or queue.waiting:
            continue
        lent = shares.lent(name)
        if queue.unused > lent:
            rest = f", of which others use {gpus(lent)}" if lent else ""
            yield Finding(
                FindingCode.IDLE_QUOTA,
                Severity.INFO,
                f"{name} uses {gpus(queue.allocated)} of its quota of {gpus(queue.quota)} and asks for no more; "
                f"{gpus(queue.unused)} are unused{rest}.",
                (f"queue/{name}",),
                {"quota": queue.quota, "allocated": queue.allocated, "lent": lent, "idle": queue.unused - lent},
            )
