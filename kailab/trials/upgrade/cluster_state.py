"""Does it schedule? A pod of its own that needs next to nothing, and how far it got."""

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
"""A queue above, and the probe's own."""


class SchedulingProbe:
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
    """Whether it is a probe's pod or PodGroup, or one of its queues."""
    metadata = obj["metadata"]
    own = (metadata.get("labels") or {}).get(labels.QUEUE), (obj.get("spec") or {}).get("queue")
    return metadata["name"] in QUEUES or QUEUES[1] in own


# What stands in a cluster, by identity: pods with a node, and KAI's objects with what they ask for; and what a change took or altered.

_OVER = ("Succeeded", "Failed")
_PAUSE_SECONDS = 0.5


class UpgradeClusterState(NamedTuple):
    """``pods``: uid -> ``namespace/name`` of pods that have a node and have not ended or failed. ``specs``: uid -> the spec of Queues
    and PodGroups; ``names``: uid -> their kind and name. Without PodGroups that were made for pods which are gone: they are garbage.
    Without the trial's own probes, which come and go."""

    pods: dict[str, str]
    specs: dict[str, dict[str, Any]]
    names: dict[str, str]

    @classmethod
    def of(cls, cluster: Cluster) -> UpgradeClusterState:
        pods = _pods(cluster)
        grouped = {_group(one) for one in pods if not _is_over(one)}
        podgroups = [one for one in cluster.list("PodGroup") if not _is_owned(one) or _name(one) in grouped]
        objects = [one for one in (*cluster.list("Queue"), *podgroups) if not is_probes(one)]
        return cls(
            {one["metadata"]["uid"]: _name(one) for one in pods if _holds_a_node(one)},
            {one["metadata"]["uid"]: dict(one.get("spec") or {}) for one in objects},
            {one["metadata"]["uid"]: f"{one['kind']} {_name(one)}" for one in objects},
        )

    def lost(self, after: UpgradeClusterState) -> tuple[str, ...]:
        """Pods and KAI's objects that are gone, or have lost their node; what was made anew under an old name is lost, too."""
        pods = (f"Pod {name}" for uid, name in self.pods.items() if uid not in after.pods)
        return (*pods, *(name for uid, name in self.names.items() if uid not in after.names))

    def altered(self, after: UpgradeClusterState) -> tuple[str, ...]:
        """Fields of specs that say something else now, each with how many objects it is of."""
        counted: Counter[str] = Counter()
        for uid, spec in self.specs.items():
            if uid not in after.specs:
                continue
            now = after.specs[uid]
            for field in sorted({*spec, *now}):
                if spec.get(field) != now.get(field):
                    what = "gone" if field not in now else "new" if field not in spec else "changed"
                    counted[f"{self.names[uid].split()[0]} spec.{field} {what}"] += 1
        return tuple(f"{what} ({count})" for what, count in sorted(counted.items()))


def wait_until_steady(cluster: Cluster, rest: IdleDetector | None, quiet: float, patience: float) -> bool:
    """Wait until nothing has changed for ``quiet`` seconds, and the scheduler has looked at everything since. False: not within
    ``patience`` seconds. Raises SchedulerFailed where it has ended."""
    begun = since = time.monotonic()
    seen: object = None
    while time.monotonic() - begun < patience:
        now = sorted((one["metadata"]["uid"], one["spec"].get("nodeName", "")) for one in _pods(cluster))
        if now != seen:
            seen, since = now, time.monotonic()
            if rest is not None:
                rest.changed()
        elif time.monotonic() - since >= quiet and (rest is None or rest.is_idle()):
            return True
        time.sleep(_PAUSE_SECONDS)
    return False


def _pods(cluster: Cluster) -> list[Object]:
    return [one for one in cluster.list("Pod") if not is_probes(one)]


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
