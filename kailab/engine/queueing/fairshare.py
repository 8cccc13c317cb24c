"""Fair shares: the division of the cluster among queues, per resource, level by level from the root.

The rule (source: KAI's proportion plugin, package resource_division). Among siblings, for one resource:

1. Each queue gets the smaller of its quota and what it can ask for (its request, capped by its limit).
2. The rest goes by queue priority, highest band first. Within a band it is divided in proportion to the over-quota
   weights of the queues that still want some. A queue that wants no more than its part gets what it wants; any other
   queue gets its part in whole units. This is repeated while some queue wanted less than its part.
3. What rounding down left over goes out in single units, band by band: largest lost fraction first, then the older
   queue, then the UID. A queue gets a unit even if it wants less than one.

Past usage lowers a weight: with n the queue's part of the weights and u its past share of the cluster, the weight
becomes max(0, n + k * (n - u)).

KAI computes in floating point. Here amounts are integers and weights are ratios of integers, so that rounding noise
never decides: 49 equal queues on 49 GPUs get exactly one each. Weights are floats only with past usage, which is a
measured value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import NamedTuple, TypeAlias

from kailab.engine.queueing.division import DividedQueue, Division, DivisionPart, DivisionRemainder, DivisionRound
from kailab.engine.snapshot.records import GPU, Queue, ResourceShare
from kailab.engine.working.queues import NAMES

# Weights after past usage are floats. As multiples of 2**-52, a float's precision at 1, they become whole numbers.
WEIGHT_SCALE = 1 << 52


class Amounts(NamedTuple):
    """One number per resource: millicores, bytes, milli-GPU. Plain triples in this order serve as well."""

    cpu: float = 0
    memory: float = 0
    gpu: float = 0


# Smallest amount in which over-quota is given out: one millicore, one byte, one device.
UNITS = Amounts(cpu=1, memory=1, gpu=GPU)
NOTHING = Amounts()
Triple: TypeAlias = Amounts | tuple[float, float, float] | Sequence[float]


@dataclass(slots=True)
class Claim:
    """What one queue brings to the division of one resource.

    ``quota`` and ``limit`` below zero: unlimited. ``usage``: past share of the cluster, 0..1. ``share``: what it has
    already; the result is added to it. Amounts are integers in any unit, the same for all claims (a float must be
    whole). ``created`` and ``uid`` break ties.
    """

    name: str
    quota: float = 0
    limit: float = -1
    weight: float = 0
    request: float = 0
    usage: float = 0.0
    priority: int = 100
    created: float = 0.0
    uid: str = ""
    share: float = 0

    @property
    def requestable(self) -> float:
        return self.request if self.limit < 0 else min(self.limit, self.request)


class DivisionTrace:
    """Collects the rounds and remainders of one division. Without a trace they are not recorded."""

    def __init__(self) -> None:
        self.rounds: list[DivisionRound] = []
        self.remainders: list[DivisionRemainder] = []


def divide(
    total: float, claims: Sequence[Claim], *, unit: int = 1, k_value: float = 0.0
) -> tuple[float, dict[str, float]]:
    """Divide ``total`` of one resource among sibling queues.

    Returns the undivided rest and each queue's fair share by name. Quotas are honoured even if their sum exceeds
    ``total``; then nothing is left over.
    """
    remaining = total
    for claim in claims:
        # An unlimited quota means the whole total. Quotas are guarantees: they are not reduced if their sum exceeds the
        # total.
        quota = total if claim.quota < 0 else claim.quota
        amount = min(quota, claim.requestable)
        claim.share += amount
        remaining -= amount
    remaining = divide_over_quota(remaining, claims, unit=unit, k_value=k_value) if remaining > 0 else 0
    return remaining, {claim.name: claim.share for claim in claims}


def divide_over_quota(
    amount: float, claims: Sequence[Claim], *, unit: int = 1, k_value: float = 0.0, trace: DivisionTrace | None = None
) -> float:
    """Steps 2 and 3: give out ``amount`` beyond quotas, adding to the claims' shares. Returns the rest. ``trace``
    collects each round and remainder.
    """
    bands: dict[int, list[Claim]] = {}
    for claim in claims:
        # A queue without a weight gets only its quota (KAI skips an over-quota weight of 0).
        if claim.weight and claim.requestable > claim.share:
            bands.setdefault(claim.priority, []).append(claim)
    lost: list[list[tuple[float, Claim]]] = []
    for priority in sorted(bands, reverse=True):
        amount, fractions = _fill(amount, bands[priority], unit, k_value, trace)
        lost.append(fractions)
    # After all bands, as in KAI (divideOverQuotaResource): the leftovers of one band first go on to the next.
    for fractions in lost:
        if amount <= 0:
            break
        fractions.sort(key=lambda entry: (-entry[0], entry[1].created, entry[1].uid))
        for fraction, claim in fractions:
            given = min(unit, amount)
            claim.share += given
            amount -= given
            if trace is not None:
                trace.remainders.append(
                    DivisionRemainder(queue=claim.name, priority=claim.priority, lost=fraction, given=given)
                )
            if amount <= 0:
                break
    return amount


def _fill(
    amount: float, claims: list[Claim], unit: int, k_value: float, trace: DivisionTrace | None
) -> tuple[float, list[tuple[float, Claim]]]:
    """Step 2 within one priority band. Returns the rest, and the fractions of a unit lost to rounding."""
    lost: dict[int, tuple[float, Claim]] = {}
    hungry = claims
    while amount > 0 and hungry:
        weights = _share_weights(hungry, k_value)
        whole = sum(weights)
        if whole == 0:
            break
        # All parts of a round refer to the amount at its beginning, so the order of queues does not matter.
        pool, again, still, parts = amount, False, [], []
        for claim, weight in zip(hungry, weights, strict=True):
            wanted = claim.requestable - claim.share
            part = pool * weight  # the part is part / whole, kept as a ratio so that it is exact
            # Both sides are multiplied by ``whole``, so that nothing is rounded before the comparison.
            if wanted * whole <= part:
                given = wanted
                # As in KAI, a satisfied queue takes no part in distributing the remainder.
                lost.pop(id(claim), None)
                again = again or wanted * whole < part
            else:
                given = part // (whole * unit) * unit
                rest = part - given * whole
                if rest:
                    lost[id(claim)] = (rest / whole, claim)
                still.append(claim)
            claim.share += given
            amount -= given
            if trace is not None:
                parts.append(DivisionPart(queue=claim.name, weight=weight, wanted=wanted, given=given))
        if trace is not None:
            trace.rounds.append(
                DivisionRound(priority=claims[0].priority, amount=pool, weights=whole, parts=tuple(parts))
            )
        hungry = still
        # No queue left anything of its part, so another round could divide only rounding losses.
        if not again:
            break
    return amount, list(lost.values())


def _share_weights(claims: list[Claim], k_value: float) -> list[int]:
    """The weights in proportion as whole numbers, none below zero."""
    if k_value and any(claim.usage for claim in claims):
        total = sum(claim.weight for claim in claims)
        if total == 0:
            return [0] * len(claims)
        parts = [(claim.weight / total, claim.usage) for claim in claims]
        return [round(max(0.0, part + k_value * (part - usage)) * WEIGHT_SCALE) for part, usage in parts]
    whole = [int(claim.weight) for claim in claims]
    if any(claim.weight != rounded for claim, rounded in zip(claims, whole, strict=True)):
        ratios = [Fraction(repr(claim.weight)) for claim in claims]  # 0.1 stands for exactly a tenth
        scale = lcm(*(ratio.denominator for ratio in ratios))
        whole = [int(ratio * scale) for ratio in ratios]
    # If the sum is negative (weight -1 stands for "unlimited"), the signs are flipped so that parts are positive.
    sign = 1 if sum(whole) > 0 else -1
    return [max(0, weight * sign) for weight in whole] if sum(whole) else [0] * len(whole)


def tree_shares(
    queues: Iterable[Queue],
    totals: Triple,
    requests: Mapping[str, Triple],
    *,
    k_value: float = 0.0,
    usage: Mapping[str, Mapping[str, float]] | None = None,
    tell: Callable[[Division], None] | None = None,
) -> dict[str, Amounts]:
    """Fair shares of a whole queue tree, by queue name.

    ``requests``: what each queue holds and waits for, already summed up the tree (see ``sum_up``); a missing queue asks
    for nothing. ``usage``: queue -> resource ("gpu", "cpu", "memory") -> past share, 0..1. ``tell`` is called with each
    division, from the root down. The share of a queue is divided among its children. A queue whose ancestors do not
    lead to a root gets nothing.
    """
    queues = list(queues)
    children: dict[str, list[Queue]] = {}
    for queue in queues:
        children.setdefault(queue.parent, []).append(queue)
    shares = dict.fromkeys((queue.name for queue in queues), NOTHING)
    level: list[tuple[str, list[Queue], Triple]] = [("", children.get("", []), totals)]
    past = usage or {}
    while level:
        parent, siblings, total = level.pop()
        cpu, memory, gpu = (
            _divide_level(parent, siblings, total[resource.position], resource, requests, past, k_value, tell)
            for resource in RESOURCES
        )
        # A parent's fair share is what its children divide, whatever its quota.
        for index, queue in enumerate(siblings):
            shares[queue.name] = Amounts(cpu[index], memory[index], gpu[index])
            # "" stands for the level above the roots; a queue with this name would be divided endlessly.
            if queue.name in children and queue.name:
                level.append((queue.name, children[queue.name], shares[queue.name]))
    return shares


class _Resource(NamedTuple):
    name: str
    position: int
    unit: int
    share: Callable[[Queue], ResourceShare]


RESOURCES = (
    _Resource("cpu", 0, int(UNITS.cpu), lambda queue: queue.cpu),
    _Resource("memory", 1, int(UNITS.memory), lambda queue: queue.memory),
    _Resource("gpu", 2, int(UNITS.gpu), lambda queue: queue.gpu),
)


def _divide_level(
    parent: str,
    siblings: list[Queue],
    total: float,
    resource: _Resource,
    requests: Mapping[str, Triple],
    usage: Mapping[str, Mapping[str, float]],
    k_value: float,
    tell: Callable[[Division], None] | None,
) -> list[float]:
    """The shares of siblings, in their order."""
    shares: list[float] = []
    claims: list[tuple[int, Claim]] = []
    remaining = total
    for queue in siblings:
        asked = requests.get(queue.name)
        request = asked[resource.position] if asked is not None else 0
        bounds = resource.share(queue)
        wanted = request if bounds.limit < 0 else min(bounds.limit, request)
        given = min(total if bounds.quota < 0 else bounds.quota, wanted)
        remaining -= given
        # The same as ``divide``, but with claims only for queues that take part in steps 2 and 3; most do not.
        if wanted > given and bounds.weight:
            claim = Claim(
                name=queue.name,
                limit=bounds.limit,
                weight=bounds.weight,
                request=request,
                usage=_used(usage, queue.name, resource),
                priority=queue.priority,
                created=queue.created,
                uid=queue.uid or queue.name,
                share=given,
            )
            claims.append((len(shares), claim))
        shares.append(given)
    trace = None if tell is None else DivisionTrace()
    by_quota = tuple(shares) if tell is not None else ()
    # Negative if quotas exceed the total.
    left = max(remaining, 0)
    if claims and remaining > 0:
        left = divide_over_quota(
            remaining, [claim for _, claim in claims], unit=resource.unit, k_value=k_value, trace=trace
        )
        for at, claim in claims:
            shares[at] = claim.share
    if tell is not None and trace is not None:
        entitled = tuple(
            _entitled(queue, resource, requests, usage, first, share)
            for queue, first, share in zip(siblings, by_quota, shares, strict=True)
        )
        tell(
            Division(
                parent=parent, resource=NAMES[resource.position], total=total, unit=resource.unit, k_value=k_value,
                queues=entitled, over_quota=remaining, rounds=tuple(trace.rounds), remainders=tuple(trace.remainders),
                left=left,
            )
        )  # fmt: skip
    return shares


def _entitled(
    queue: Queue,
    resource: _Resource,
    requests: Mapping[str, Triple],
    usage: Mapping[str, Mapping[str, float]],
    by_quota: float,
    fair_share: float,
) -> DividedQueue:
    bounds = resource.share(queue)
    asked = requests.get(queue.name)
    return DividedQueue(
        queue=queue.name, priority=queue.priority, quota=bounds.quota, limit=bounds.limit, weight=bounds.weight,
        requested=asked[resource.position] if asked is not None else 0, usage=_used(usage, queue.name, resource),
        by_quota=by_quota, fair_share=fair_share,
    )  # fmt: skip


def _used(usage: Mapping[str, Mapping[str, float]], queue: str, resource: _Resource) -> float:
    past = usage.get(queue)
    return past.get(resource.name, 0.0) if past else 0.0


def sum_up(queues: Iterable[Queue], amounts: Mapping[str, Triple]) -> dict[str, Amounts]:
    """Add each queue's own amounts to all its ancestors. A cycle of parents is followed once."""
    parents = {queue.name: queue.parent for queue in queues}
    totals = dict.fromkeys(parents, NOTHING)
    for name, own in amounts.items():
        seen: set[str] = set()
        while name in parents and name not in seen:
            seen.add(name)
            present = totals[name]
            totals[name] = Amounts(present.cpu + own[0], present.memory + own[1], present.gpu + own[2])
            name = parents[name]
    return totals
