"""Queue limits (for all work) and quotas (for non-preemptible work), checked at every level of the tree.

Source: KAI's capacity_policy.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from kailab.engine.decisions import Numbers, PendingCode
from kailab.engine.snapshot.amounts import gpus_text, quantity_text
from kailab.engine.working.queues import NAMES, RESOURCES, Amounts, WQueue


class QueueRefusal(NamedTuple):
    """Why a queue refuses a job: KAI's code, a sentence, and the numbers behind it."""

    code: PendingCode
    queue: str
    message: str
    numbers: Numbers


def over_limit(queue: WQueue, wanted: Amounts) -> QueueRefusal | None:
    """The refusal of work beyond a limit, or None."""
    for level in queue.path:
        for r in RESOURCES:
            # A queue that is over its limit in one resource still takes work that asks for none of it.
            if wanted[r] and level.limit[r] < level.allocated[r] + wanted[r]:
                return _refusal(PendingCode.OVER_LIMIT, level, r, wanted[r], level.limit[r], level.allocated[r])
    return None


def over_quota(queue: WQueue, wanted: Amounts) -> QueueRefusal | None:
    """The refusal of non-preemptible work beyond a quota, or None."""
    for level in queue.path:
        for r in RESOURCES:
            if wanted[r] and level.quota[r] < level.non_preemptible[r] + wanted[r]:
                return _refusal(
                    PendingCode.NON_PREEMPTIBLE_OVER_QUOTA,
                    level,
                    r,
                    wanted[r],
                    level.quota[r],
                    level.non_preemptible[r],
                )
    return None


def refuses(queue: WQueue, wanted: Amounts, preemptible: bool) -> QueueRefusal | None:
    """The first rule that refuses the amounts, or None."""
    # In KAI's order (IsJobOverQueueCapacity); the first refusal is the reason that is reported.
    refusal = over_limit(queue, wanted)
    if refusal is None and not preemptible:
        refusal = over_quota(queue, wanted)
    return refusal


def _refusal(code: PendingCode, queue: WQueue, r: int, wanted: int, bound: float, held: int) -> QueueRefusal:
    want, have, cap = quantity_text(r, wanted), quantity_text(r, held), quantity_text(r, bound)
    if code == PendingCode.OVER_LIMIT:
        message = (
            f"queue {queue.name} is at its limit: limit {cap}, {have} allocated, and the workload wants {want} more"
        )
    else:
        message = (
            f"non-preemptible work may not go over quota: the workload wants {want}, the quota of queue {queue.name} is "
            f"{cap}, and non-preemptible pods hold {have} of it; preemptible work may borrow beyond the quota"
        )
    numbers: Numbers = {
        "resource": NAMES[r],
        "requested": wanted,
        "allocated": held,
        "bound": -1 if bound == inf else bound,
        "allocated_text": gpus_text(held) if r == 2 else have,
    }
    return QueueRefusal(code, queue.name, message, numbers)
