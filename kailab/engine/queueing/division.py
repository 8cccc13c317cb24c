"""Records of how fair shares came about, filled in by ``fairshare`` on request.

Amounts are in the engine's units of the resource. A queue's fair share is the sum of its ``by_quota``, of what each
round gave it, and of its remainder.
"""

from __future__ import annotations

import msgspec

from kailab.engine.working.queues import QueueResource


class DividedQueue(msgspec.Struct, frozen=True, kw_only=True):
    """One queue in a division. ``requested``: held and waited for, by it and all queues below it. ``usage``: its past
    share of the cluster, 0..1. ``by_quota``: the smaller of its quota and what it can ask for (up to its limit).
    ``fair_share``: the result.
    """

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
    """One queue in a round. ``weight``: its weight after past usage, as a whole number in proportion to the others.
    ``wanted``: up to its request and limit. ``given``: all it wanted, or its part in whole units.
    """

    queue: str
    weight: int
    wanted: float
    given: float


class DivisionRound(msgspec.Struct, frozen=True, kw_only=True):
    """One round: ``amount`` divided among the queues of one priority that want more. ``weights``: the sum of their
    weights.
    """

    priority: int
    amount: float
    weights: int
    parts: tuple[DivisionPart, ...]


class DivisionRemainder(msgspec.Struct, frozen=True, kw_only=True):
    """One unit, or less, of what rounding down left over. ``lost``: what the queue lost to rounding."""

    queue: str
    priority: int
    lost: float
    given: float


class Division(msgspec.Struct, frozen=True, kw_only=True):
    """The division of one resource among the children of a queue (``parent``; "": the roots).

    ``total``: the parent's fair share, or the whole cluster. ``over_quota``: what is left beyond quotas; below zero if
    quotas exceed the total. ``unit``: the unit in which over-quota is given out. ``left``: what no queue got.
    """

    parent: str
    resource: QueueResource
    total: float
    unit: int
    k_value: float
    queues: tuple[DividedQueue, ...]
    over_quota: float
    rounds: tuple[DivisionRound, ...] = ()
    remainders: tuple[DivisionRemainder, ...] = ()
    left: float = 0
