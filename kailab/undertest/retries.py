"""Work that a scheduler looks at again by itself, after a time that is known of it: until then a lab is not at rest.

Metrics and conditions don't tell: a scheduler that has put a pod aside says nothing, and is idle.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from kailab.cluster.protocol import Cluster
from kailab.model.objects import Object, is_ended, is_terminating


class RetryTracker:
    """``seconds``: how long it may take to look again at a pod that waits. ``tried``: whether it does so with this one.
    ``monotonic``: the clock of waiting."""

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
        """Something waits that it has not looked at again since pods or nodes came, moved or went, or queues were changed. What it
        writes on a pod that goes on waiting does not count: then it would be owed for ever."""
        pods = self._cluster.list("Pod")
        others = (_said(obj) for kind in ("Node", "Queue") for obj in self._cluster.list(kind))
        standing = frozenset((*map(_place, pods), *others))
        now = self._monotonic()
        if standing != self._standing:
            self._standing, self._since = standing, now
        return now - self._since < self._seconds and any(_waits(pod) and self._tried(pod) for pod in pods)


def _said(obj: Object) -> tuple[object, ...]:
    # No status: a node says there all the time that it lives.
    return obj["metadata"]["uid"], obj["metadata"].get("generation")


def _place(pod: Object) -> tuple[object, ...]:
    metadata = pod["metadata"]
    ended = is_ended(pod)
    return metadata["uid"], pod["spec"].get("nodeName", ""), "deletionTimestamp" in metadata, ended


def _waits(pod: Object) -> bool:
    return not pod["spec"].get("nodeName") and not is_terminating(pod)
