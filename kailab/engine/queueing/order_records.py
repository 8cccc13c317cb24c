"""Records of the serving order: why one job or queue is served before another, and what a queue could take back.

``order`` and ``report.returning`` make them. They stand in a module of their own because commands that show a saved lab read them,
and must not load the engine's state with numpy.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from kailab.engine.decisions import Reclaimer
from kailab.engine.working.queues import QueueResource


class QueueCriterion(StrEnum):
    """What put one queue before another, in the order in which it is asked."""

    FAIR_SHARE = "fair-share"  # the other is above its fair share in every resource
    QUOTA = "quota"  # with its next job it stays within its quota
    PRIORITY = "queue-priority"
    NO_SHARE = "no-share"  # the other would hold something of which it may have nothing
    SHARE_WITH_JOB = "share-with-job"  # it holds the smaller part of its share, its next job counted
    SHARE = "share"  # the same, without the job
    SIZE = "size"  # its share is smaller
    AGE = "queue-age"


class JobCriterion(StrEnum):
    """What put one job before another of its queue."""

    AGED = "aged"  # it has waited for long enough to come before all others
    SCORE = "score"
    POLICY = "policy"  # a policy that another distribution brings
    PRIORITY = "priority"
    MINIMUM = "minimum"  # below its minimum of pods comes before at it, and that before above it
    AGE = "age"
    UID = "uid"


PROMISED = "promised"
"""Room was made, or was to be made, for the one before: it goes first."""


class Earlier(msgspec.Struct, frozen=True, kw_only=True):
    """A queue that is served before another. ``over``: that queue, or the ancestor of it beside which this one stands.
    ``podgroup``: whose turn is next there."""

    queue: str
    over: str
    podgroup: str
    because: str


# What a queue could take back from another and what stops it, as records: reckoned by ``report.returning``.


class Return(msgspec.Struct, frozen=True, kw_only=True):
    """What ``taker.queue`` could take from the work of ``taker.beside`` and of the queues below it. Amounts of ``taker.resource``.

    ``over``: the resource of which ``beside`` holds more than the taker's rule leaves it; ``beyond``: how much that is, and all that it
    holds of ``taker.resource`` where that is another. Of all that it holds, ``firm`` is held by non-preemptible
    work and ``young`` by work within a minimum runtime, which ends between ``young_first`` and ``young_last``; ``open`` is held by work
    that nothing protects. ``waiting``: what the taker asks for and does not hold, ``delayed`` of it by jobs with a preemption delay, the
    first of which ends at ``delayed_until``. ``reclaims``: whether the scheduler reclaims at all. ``unserved``: the PodGroup
    (``namespace/name``) that stands first in the taker's line, where work of it waits and the next cycle takes nothing of this for
    it; empty where that is not so, and where nobody has asked for a cycle.
    """

    taker: Reclaimer
    beyond: int
    over: QueueResource = "GPU"
    firm: int = 0
    young: int = 0
    young_first: float | None = None
    young_last: float | None = None
    open: int = 0
    waiting: int = 0
    delayed: int = 0
    delayed_until: float | None = None
    reclaims: bool = True
    unserved: str = ""

    @property
    def now(self) -> int:
        """Up to how much could be taken at this moment; 0 where something stops all of it. Gangs go as a whole, so it may be less."""
        if not self.reclaims or self.unserved:
            return 0
        return self.allowed

    @property
    def allowed(self) -> int:
        """The same by the rules of queues alone, whatever the work is that asks."""
        if not self.reclaims:
            return 0
        amount = self.beyond if self.taker.amount < 0 else min(self.beyond, self.taker.amount)
        return min(amount, self.open)
