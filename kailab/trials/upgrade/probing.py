"""Does it schedule? A pod of its own that needs next to nothing, and how far it got."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType

from kailab.cluster.kubernetes import Connection, KubernetesCluster
from kailab.cluster.protocol import Cluster, Object
from kailab.cluster.waiting import wait_until
from kailab.errors import AlreadyExists, NotFound
from kailab.model import labels
from kailab.undertest.kai.probe import is_bound, probe_pod, probe_queues, stuck_stage

NAMESPACE = "default"
QUEUES = ("upgrade-probes", "upgrade-probe")
"""A queue above, and the probe's own."""


class Probe:
    """A pod that is looked for from the moment it is made, in a thread and over a connection of its own. ``seconds``: how long to look."""

    def __init__(self, cluster: Cluster, connection: Connection, name: str, seconds: float) -> None:
        for queue in probe_queues(*QUEUES):
            with suppress(AlreadyExists):
                cluster.create(queue)
        cluster.create(probe_pod(name, NAMESPACE, QUEUES[1]))
        self.begun = time.monotonic()
        self._name = name
        self._cluster = cluster
        self._seconds = seconds
        self._over = False
        self._pool = ThreadPoolExecutor(1)
        self._seen: Future[float | None] = self._pool.submit(self._look, connection)

    def _look(self, connection: Connection) -> float | None:
        own = KubernetesCluster(connection, name="probe")
        try:
            bound = wait_until(lambda: self._over or is_bound(own, self._name, NAMESPACE), self._seconds)
            return time.monotonic() if bound and not self._over else None
        finally:
            own.close()

    @property
    def bound(self) -> bool:
        """So far."""
        return self._seen.done() and self._seen.result() is not None

    def bound_at(self) -> float | None:
        """On this process's monotonic clock, once it is bound; None: not within the time."""
        return self._seen.result()

    def stuck(self) -> str:
        """Whose turn it is, by the objects that KAI's programs hand on to each other; empty: it is bound."""
        return stuck_stage(self._cluster, self._name, NAMESPACE)

    def __enter__(self) -> Probe:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True
        self._pool.shutdown()
        with suppress(NotFound):
            self._cluster.delete("Pod", self._name, NAMESPACE, 0)


def is_probes(obj: Object) -> bool:
    """Whether it is a probe's pod or PodGroup, or one of its queues."""
    metadata = obj["metadata"]
    own = (metadata.get("labels") or {}).get(labels.QUEUE), (obj.get("spec") or {}).get("queue")
    return metadata["name"] in QUEUES or QUEUES[1] in own
