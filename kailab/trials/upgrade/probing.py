"""Does it schedule? A pod of its own that needs next to nothing, and how far it got."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import Any

from kailab.cluster.kubernetes import Connection, KubernetesCluster
from kailab.cluster.protocol import Cluster, Object
from kailab.cluster.waiting import wait_until
from kailab.errors import AlreadyExists, NotFound
from kailab.model import labels
from kailab.model.kinds import api_version_of

NAMESPACE = "default"
QUEUES = ("upgrade-probes", "upgrade-probe")
"""A queue above and the probe's own: it asks for no GPU, and takes no part in what the others share."""


class Probe:
    """A pod that is looked for from the moment it is made, in a thread and over a connection of its own. ``seconds``: how long to look."""

    def __init__(self, cluster: Cluster, connection: Connection, name: str, seconds: float) -> None:
        for queue in _queues():
            with suppress(AlreadyExists):
                cluster.create(queue)
        cluster.create(_pod(name))
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
            bound = wait_until(lambda: self._over or _bound(own, self._name), self._seconds)
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
        if _bound(self._cluster, self._name):
            return ""
        pod = self._cluster.get("Pod", self._name, NAMESPACE)
        if not (pod["metadata"].get("annotations") or {}).get(labels.POD_GROUP):
            return "podgrouper: the pod has no PodGroup"
        asked = [
            one
            for one in self._cluster.list("BindRequest", NAMESPACE)
            if (one.get("spec") or {}).get("podName") == self._name
        ]
        if not asked:
            return "scheduler: the pod has a PodGroup, and no BindRequest"
        return "binder: the pod has a BindRequest, and no node"

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


def _bound(cluster: Cluster, name: str) -> bool:
    try:
        return bool(cluster.get("Pod", name, NAMESPACE)["spec"].get("nodeName"))
    except NotFound:
        return False


def _queues() -> list[dict[str, Any]]:
    free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    none = {"quota": 0, "limit": 0, "overQuotaWeight": 0}
    above, own = QUEUES
    resources = {"gpu": none, "cpu": free, "memory": free}
    return [
        {"apiVersion": api_version_of("Queue"), "kind": "Queue", "metadata": {"name": name}, "spec": spec}
        for name, spec in ((above, {"resources": resources}), (own, {"parentQueue": above, "resources": resources}))
    ]


def _pod(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {labels.QUEUE: QUEUES[1], "app": name}},
        "spec": {
            "schedulerName": labels.SCHEDULER_NAME,
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "probe", "image": "probe", "resources": {"requests": {"cpu": "10m"}}}],
        },
    }
