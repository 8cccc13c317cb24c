"""Decisions read off a cluster, for schedulers that tell nothing of their own: what was bound, what was evicted.

The entries are those of the decision log; reasons are those that pods carry. The action of an eviction is what its
reason tells, where the scheduler says it, and ``schedule`` otherwise, as for binds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from kailab.cluster.protocol import Cluster, Object
from kailab.evidence.canonical import rfc3339
from kailab.evidence.entries import Bound, Decision, Evicted
from kailab.evidence.standing import condition, owner, pod_queue
from kailab.model import labels
from kailab.undertest.contract import Told

ACTION = "schedule"


class _Cause(NamedTuple):
    """Of an eviction, as far as its reason tells it."""

    action: str
    beneficiary: str
    beneficiary_queue: str


class DecisionReader:
    """Sees pods being bound and evicted by others. ``opened``: the time that ``t`` counts from. ``eviction``: reads what their
    scheduler says of an eviction; ``stopped``: what it says elsewhere (``SchedulerUnderTest``)."""

    def __init__(
        self,
        cluster: Cluster,
        opened: float,
        eviction: Callable[[str], Told | None],
        stopped: Callable[[Object, Cluster], str | None] = lambda pod, there: None,
    ) -> None:
        self._cluster = cluster
        self._eviction = eviction
        self._stopped = stopped
        self._watch = cluster.watch(["Pod", "PodGroup"])
        self._opened = opened
        self._bound: set[str] = set()  # by UID, as the next pod may have the same name
        self._evicted: set[str] = set()
        self._groups: dict[tuple[str, str], Object] = {}  # also those that are gone: a victim may outlive its PodGroup
        self._watch_begins()

    def _watch_begins(self) -> None:
        """What is bound already is nobody's news."""
        for event in self._watch.poll():
            if event.kind == "PodGroup":
                self._know(event.object)
            elif event.object["spec"].get("nodeName"):
                self._bound.add(event.object["metadata"]["uid"])

    def entries(self, cycle: int) -> list[Decision]:
        """What has happened since the last call, as decision log entries of a cycle."""
        now = self._cluster.now()
        found: list[Decision] = []
        for event in self._watch.poll():
            if event.kind == "PodGroup":
                self._know(event.object)
                continue
            pod, uid = event.object, event.object["metadata"]["uid"]
            moment: dict[str, Any] = {"cycle": cycle, "t": round(now - self._opened, 6), "time": rfc3339(now)}
            # Every later event of a pod that was bound has its node, too.
            if pod["spec"].get("nodeName") and uid not in self._bound:
                self._bound.add(uid)
                found.append(Bound(**moment, action=ACTION, **self._pod(pod)))
            # KAI's default evictor and kube-scheduler's preemption set it before they delete the pod. A workload's
            # controller does not.
            message = None if uid in self._evicted else self._evicted_because(pod)
            if message is not None:
                self._evicted.add(uid)
                found.append(Evicted(**moment, **self._told(message)._asdict(), **self._pod(pod), reason=message))
            if event.type == "DELETED":
                self._bound.discard(uid)
                self._evicted.discard(uid)
        return found

    def close(self) -> None:
        self._watch.close()

    def _know(self, group: Object) -> None:
        self._groups[group["metadata"].get("namespace", ""), group["metadata"]["name"]] = group

    def _evicted_because(self, pod: Object) -> str | None:
        disrupted = condition(pod, "DisruptionTarget")
        if disrupted is not None:
            return disrupted.get("message") or str(disrupted.get("reason", ""))
        return self._stopped(pod, self._cluster)

    def _told(self, message: str) -> _Cause:
        told = self._eviction(message)
        if told is None:
            return _Cause(ACTION, "", "")
        namespace, _, name = told.beneficiary.partition("/")
        group = self._groups.get((namespace, name))
        queue = group["spec"].get("queue", "") if group is not None else told.queue
        return _Cause(told.action, told.beneficiary, queue)

    def _pod(self, pod: Object) -> dict[str, Any]:
        metadata = pod["metadata"]
        group = (metadata.get("annotations") or {}).get(labels.POD_GROUP, "")
        return {
            "pod": f"{metadata.get('namespace', '')}/{metadata['name']}",
            "app": (metadata.get("labels") or {}).get("app", ""),
            "owner": owner(pod),
            "podgroup": f"{metadata.get('namespace', '')}/{group}" if group else "",
            "queue": pod_queue(pod, self._groups),
            "node": pod["spec"].get("nodeName", ""),
        }
