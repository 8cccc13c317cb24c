"""How a fair share came about, as records: what ``fairshare`` tells of a division when somebody asks for it.

Amounts are in the engine's units of the resource. The sum of a queue's ``entitled``, of what each round gave it and of its
remainder is its fair share.
"""

from __future__ import annotations

import msgspec

from kailab.engine.working.queues import QueueResource


class Entitled(msgspec.Struct, frozen=True, kw_only=True):
    """What a queue brought to the division and got of it. ``requested``: held and waited for, by it and all below it. ``usage``: its
    past share of the cluster, 0..1. ``by_quota``: the smaller of its quota and what it can ask for (up to its limit);
    ``fair_share``: in the end."""

    queue: str
    priority: int
    quota: float
    limit: float
    weight: float
    requested: float
    usage: float
    by_quota: float
    fair_share: float


class DivisionPart(msgspec.Struct, frozen=True, kw_only=True):
    """One queue in a round. ``weight``: its weight after past usage, a whole number in proportion to those of the others.
    ``wanted``: up to its request and limit; ``given``: that, or its part in whole units."""

    queue: str
    weight: int
    wanted: float
    given: float


class DivisionRound(msgspec.Struct, frozen=True, kw_only=True):
    """Dividing ``amount`` among the queues of one priority that want more. ``weights``: the sum of theirs."""

    priority: int
    amount: float
    weights: int
    parts: tuple[DivisionPart, ...]


class DivisionRemainder(msgspec.Struct, frozen=True, kw_only=True):
    """One unit, or the rest of one, of what rounding down left. ``lost``: what the queue lost to rounding."""

    queue: str
    priority: int
    lost: float
    given: float


class Division(msgspec.Struct, frozen=True, kw_only=True):
    """The children of one queue (``parent``; "": the roots) and one resource: ``total`` is the parent's own fair share, or all that
    there is. ``over_quota``: what is left of it beyond quotas, below zero where these are more than there is. ``unit``: in which that is
    given out. ``left``: what nobody got."""

    parent: str
    resource: QueueResource
    total: float
    unit: int
    k_value: float
    queues: tuple[Entitled, ...]
    over_quota: float
    rounds: tuple[DivisionRound, ...] = ()
    remainders: tuple[DivisionRemainder, ...] = ()
    left: float = 0
