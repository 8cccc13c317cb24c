"""Work that a scheduler retries by itself after a known time: until then the lab is not idle. Metrics and conditions do not show it, because
a scheduler that waits for a retry is idle.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from kailab.cluster.protocol import Cluster
from kailab.model.objects import Object, is_ended, is_terminating


class RetryTracker:
    """``seconds``: how long a retry of a pending pod may take. ``tried``: whether the scheduler retries this pod. ``monotonic``: measures
    waiting."""

    def __init__(
        self,
        cluster: Cluster,
        seconds: float,
        tried: Callable[[Object], bool],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._seconds = seconds
        self._tried = tried
        self._monotonic = monotonic
        self._standing: frozenset[tuple[object, ...]] = frozenset()
        self._since = monotonic()

    def owed(self) -> bool:
        """Whether a pending pod has not been retried since pods or nodes were added, moved or removed, or queues changed. Writes to a pod
        that stays pending do not count, because they would keep the retry open for ever."""
        pods = self._cluster.list("Pod")
        others = (_said(obj) for kind in ("Node", "Queue") for obj in self._cluster.list(kind))
        standing = frozenset((*map(_place, pods), *others))
        now = self._monotonic()
        if standing != self._standing:
            self._standing, self._since = standing, now
        return now - self._since < self._seconds and any(_waits(pod) and self._tried(pod) for pod in pods)


def _said(obj: Object) -> tuple[object, ...]:
    # Without status, because a node's heartbeats change it all the time.
    return obj["metadata"]["uid"], obj["metadata"].get("generation")


def _place(pod: Object) -> tuple[object, ...]:
    metadata = pod["metadata"]
    ended = is_ended(pod)
    return metadata["uid"], pod["spec"].get("nodeName", ""), "deletionTimestamp" in metadata, ended


def _waits(pod: Object) -> bool:
    return not pod["spec"].get("nodeName") and not is_terminating(pod)
