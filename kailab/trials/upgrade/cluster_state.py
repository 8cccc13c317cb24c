"""The state of a cluster in an upgrade trial: a probe pod that shows if the scheduler works, and a comparison of pods
and KAI's objects by uid."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import Any, NamedTuple

from kailab.cluster.kubernetes import Connection, KubernetesCluster
from kailab.cluster.polling import wait_until
from kailab.cluster.protocol import Cluster, Object
from kailab.errors import AlreadyExists, NotFound
from kailab.model import labels
from kailab.undertest.contract import IdleDetector
from kailab.undertest.kai.probe import is_bound, probe_pod, probe_queues, stuck_stage

NAMESPACE = "default"
QUEUES = ("upgrade-probes", "upgrade-probe")
"""The parent queue and the probe's queue."""


class SchedulingProbe:
    """A pod that needs almost nothing, watched from its creation in a thread with its own connection. ``seconds``: how
    long to watch."""

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
        """True if it has been bound by now."""
        return self._seen.done() and self._seen.result() is not None

    def bound_at(self) -> float | None:
        """Wait until it is bound and return the time on this process's monotonic clock; None if that does not happen in
        time."""
        return self._seen.result()

    def stuck(self) -> str:
        """The stage at which it waits, by the objects that KAI's programs exchange; empty if it is bound."""
        return stuck_stage(self._cluster, self._name, NAMESPACE)

    def __enter__(self) -> SchedulingProbe:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True
        self._pool.shutdown()
        with suppress(NotFound):
            self._cluster.delete("Pod", self._name, NAMESPACE, 0)


def is_probes(obj: Object) -> bool:
    """True if the object is a probe's pod, PodGroup or queue."""
    metadata = obj["metadata"]
    own = (metadata.get("labels") or {}).get(labels.QUEUE), (obj.get("spec") or {}).get("queue")
    return metadata["name"] in QUEUES or QUEUES[1] in own


_OVER = ("Succeeded", "Failed")
_PAUSE_SECONDS = 0.5


class UpgradeClusterState(NamedTuple):
    """The state by uid.

    ``pods``: ``namespace/name`` of pods that have a node and have not ended. ``specs``: specs of Queues and PodGroups;
    ``names``: their kind and name. PodGroups of deleted pods and the trial's own probes are left out.
    """

    pods: dict[str, str]
    specs: dict[str, dict[str, Any]]
    names: dict[str, str]

    @classmethod
    def of(cls, cluster: Cluster) -> UpgradeClusterState:
        pods = _pods(cluster)
        grouped = {_group(obj) for obj in pods if not _is_over(obj)}
        podgroups = [obj for obj in cluster.list("PodGroup") if not _is_owned(obj) or _name(obj) in grouped]
        objects = [obj for obj in (*cluster.list("Queue"), *podgroups) if not is_probes(obj)]
        return cls(
            {obj["metadata"]["uid"]: _name(obj) for obj in pods if _holds_a_node(obj)},
            {obj["metadata"]["uid"]: dict(obj.get("spec") or {}) for obj in objects},
            {obj["metadata"]["uid"]: f"{obj['kind']} {_name(obj)}" for obj in objects},
        )

    def lost(self, after: UpgradeClusterState) -> tuple[str, ...]:
        """Pods and objects of KAI that are gone, and pods that lost their node. An object recreated under the same name
        counts as lost."""
        pods = (f"Pod {name}" for uid, name in self.pods.items() if uid not in after.pods)
        return (*pods, *(name for uid, name in self.names.items() if uid not in after.names))

    def altered(self, after: UpgradeClusterState) -> tuple[str, ...]:
        """Spec fields that have changed, each with the number of objects."""
        counts: Counter[str] = Counter()
        for uid, spec in self.specs.items():
            if uid not in after.specs:
                continue
            now = after.specs[uid]
            for field in sorted({*spec, *now}):
                if spec.get(field) != now.get(field):
                    change = "gone" if field not in now else "new" if field not in spec else "changed"
                    counts[f"{self.names[uid].split()[0]} spec.{field} {change}"] += 1
        return tuple(f"{change} ({count})" for change, count in sorted(counts.items()))


def wait_until_steady(cluster: Cluster, idle_detector: IdleDetector | None, quiet: float, patience: float) -> bool:
    """Wait until nothing has changed for ``quiet`` seconds and the scheduler has seen everything since.

    Returns False after ``patience`` seconds. Raises SchedulerFailed if the scheduler has ended.
    """
    begun = since = time.monotonic()
    seen: object = None
    while time.monotonic() - begun < patience:
        now = sorted((pod["metadata"]["uid"], pod["spec"].get("nodeName", "")) for pod in _pods(cluster))
        if now != seen:
            seen, since = now, time.monotonic()
            if idle_detector is not None:
                idle_detector.changed()
        elif time.monotonic() - since >= quiet and (idle_detector is None or idle_detector.is_idle()):
            return True
        time.sleep(_PAUSE_SECONDS)
    return False


def _pods(cluster: Cluster) -> list[Object]:
    return [pod for pod in cluster.list("Pod") if not is_probes(pod)]


def _holds_a_node(pod: Object) -> bool:
    return bool(pod["spec"].get("nodeName")) and not _is_over(pod)


def _is_over(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"] or (pod.get("status") or {}).get("phase") in _OVER


def _group(pod: Object) -> str:
    metadata = pod["metadata"]
    return f"{metadata.get('namespace')}/{(metadata.get('annotations') or {}).get(labels.POD_GROUP, '')}"


def _is_owned(obj: Object) -> bool:
    return bool(obj["metadata"].get("ownerReferences"))


def _name(obj: Object) -> str:
    namespace = obj["metadata"].get("namespace")
    return f"{namespace}/{obj['metadata']['name']}" if namespace else str(obj["metadata"]["name"])
