"""Records of the serving order: which queues are served earlier, and what a queue could take back.

``order`` and ``report.reclaim_options`` make them. They have a module of their own, because commands that show a saved lab
read them and must not load the engine's state with numpy.
"""

from __future__ import annotations

import msgspec

from kailab.engine.decisions import Reclaimer
from kailab.engine.working.queues import QueueResource

PROMISED = "promised"
"""The previous cycle made room for this job, so it goes first."""


class EarlierQueue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue that is served before another. ``over``: that other queue, or its ancestor that is a sibling of this one.
    ``podgroup``: this queue's next job.
    """

    queue: str
    over: str
    podgroup: str
    because: str


class ReclaimOption(msgspec.Struct, frozen=True, kw_only=True):
    """What ``taker.queue`` could take from ``taker.beside`` and the queues below it, in amounts of ``taker.resource``.

    ``over``: the resource of which ``beside`` holds more than the taker's rule leaves it. ``beyond``: by how much; if
    ``over`` is another resource, all that ``beside`` holds of ``taker.resource``. Of what ``beside`` holds, ``firm`` is
    held by non-preemptible work, ``young`` by work within a minimum runtime that ends between ``young_first`` and
    ``young_last``, and ``open`` by unprotected work. ``waiting``: what the taker asks for and does not hold;
    ``delayed`` of it is asked for by jobs with a preemption delay, the first of which ends at ``delayed_until``.
    ``reclaims``: the scheduler has the reclaim action. ``unserved``: the taker's first waiting PodGroup
    (``namespace/name``) if the next cycle takes nothing of this for it; empty otherwise, and if no cycle was run to
    find out.
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
        """The most that could be taken at this moment; 0 if something stops all of it. Gangs are evicted as a whole, so
        it may be less.
        """
        if not self.reclaims or self.unserved:
            return 0
        return self.allowed

    @property
    def allowed(self) -> int:
        """The most that the rules of queues allow, regardless of the work that asks."""
        if not self.reclaims:
            return 0
        amount = self.beyond if self.taker.amount < 0 else min(self.beyond, self.taker.amount)
        return min(amount, self.open)
