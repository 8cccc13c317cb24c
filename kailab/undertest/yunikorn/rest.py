"""Whether YuniKorn is done with all that it was given: all its pods are placed, or it has not taken the chance to place more."""

from __future__ import annotations

import time
from collections.abc import Callable

from kailab.cluster.protocol import Cluster, Object
from kailab.undertest.contract import Plane
from kailab.undertest.next_try import NextTry
from kailab.undertest.programs import check
from kailab.undertest.yunikorn.words import NAME, SCHEDULER_NAME

LOOK_AGAIN_SECONDS = 18.0
"""A request for whose room nobody was found to give way is looked at again after 15 s (``preemptAttemptFrequency``)."""

CHECK_SECONDS = 1.0


class YuniKornRest:
    """``plane``: where it runs; ``cluster``: the same, as a client sees it. ``monotonic``: the clock of waiting."""

    def __init__(self, plane: Plane, cluster: Cluster, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._plane = plane
        self._next_try = NextTry(cluster, LOOK_AGAIN_SECONDS, _is_its, monotonic)
        self._monotonic = monotonic
        self._checked = float("-inf")

    def changed(self) -> None:
        """What has changed is seen on the pods."""

    def at_rest(self) -> bool:
        """Raises SchedulerFailed, with its last words, if it has ended."""
        now = self._monotonic()
        # Asked far more often than once a second, and a look at processes costs.
        if now - self._checked >= CHECK_SECONDS:
            check(self._plane, (NAME,))
            self._checked = now
        return not self._next_try.owed()


def _is_its(pod: Object) -> bool:
    return bool(pod["spec"].get("schedulerName") == SCHEDULER_NAME)
