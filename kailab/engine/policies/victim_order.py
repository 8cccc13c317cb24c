"""Victims by a policy's cost if one is chosen, then by lowest priority, then newest, over all queues, instead of KAI's
reverse queue order.

Newest: started last. KAI's rules still decide which queues may lose pods, and how many. A queue from which the
reclaimer may take no more in this search comes after those that may still give, so that the search does not end with a
refused set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kailab.engine.queueing.victims import Victim
from kailab.engine.search.reclaimable import above_allocatable, owed_quota
from kailab.engine.working.queues import RESOURCES, Amounts, WQueue
from kailab.engine.working.state import Job

if TYPE_CHECKING:
    from kailab.engine.session import Session


class LowestNewest:
    """The order of the victims of one search for ``job``."""

    def __init__(self, session: Session, job: Job) -> None:
        self._session = session
        self._tree = session.tree
        self._home = session.queue_of(job)
        self._wanted = session.wanted(job)
        self._taken: dict[str, list[int]] = {}
        self._parted: dict[str, tuple[WQueue, WQueue]] = {}

    def taken(self, queue: WQueue, amounts: Amounts, sign: int) -> None:
        """A victim of this queue was popped (sign 1), or the rest of it pushed back (-1)."""
        for level in queue.path:
            given = self._taken.setdefault(level.name, [0, 0, 0])
            for r in RESOURCES:
                given[r] += sign * amounts[r]

    def first(self, left: WQueue, right: WQueue, left_victim: Job | Victim, right_victim: Job | Victim) -> int:
        """-1 if the victim of ``left`` goes before that of ``right``, 1 if after it, 0 if equal."""
        mine, theirs = self._may_give(left_victim), self._may_give(right_victim)
        if mine != theirs:
            return -1 if mine else 1
        ours, others = _key(left_victim), _key(right_victim)
        if ours == others:
            return 0
        return -1 if ours > others else 1

    def _may_give(self, victim: Job | Victim) -> bool:
        home = self._home
        queue = self._session.queue_of(victim.job if isinstance(victim, Victim) else victim)
        # Within a queue, shares are not compared.
        if home is None or queue is None or home is queue:
            return True
        parted = self._parted.get(queue.name)
        if parted is None:
            parted = self._parted[queue.name] = self._tree.diverging_ancestors(home, queue)
        mine, theirs = parted
        if mine is theirs:
            return True
        given = self._taken.get(theirs.name, (0, 0, 0))
        left = [theirs.allocated[r] - given[r] for r in RESOURCES]
        return above_allocatable(theirs, left) or owed_quota(mine.allocated, self._wanted, mine, theirs, left)


def _key(victim: Job | Victim) -> tuple[object, ...]:
    return victim.key() if isinstance(victim, Victim) else victim.victim_key()
