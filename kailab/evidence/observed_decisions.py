"""Decisions read off a cluster, for schedulers that tell nothing of their own: what was bound, what was evicted.

The entries are those of the decision log; reasons are those that pods carry. The action of an eviction is what its
reason tells, where the scheduler says it, and ``schedule`` otherwise, as for binds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kailab.cluster.protocol import Cluster, Object, WatchEvent
from kailab.evidence.canonical import format_rfc3339
from kailab.evidence.cluster_state import condition_of, controller_name, pod_queue
from kailab.evidence.entries import Decision, PodBound, PodEvicted
from kailab.model import labels
from kailab.undertest.contract import Stop, Stopped, Told

ACTION = "schedule"
LATE_SECONDS = 20.0
"""So long after a pod began to leave what its scheduler says elsewhere is waited for: on a busy machine Events come after the pod is gone."""
_AGAIN_SECONDS = 1.0  # between two looks at what is said elsewhere, as each costs


class _Cause(NamedTuple):
    """Of an eviction, as far as its reason tells it."""

    action: str
    beneficiary: str
    beneficiary_queue: str


class DecisionObserver:
    """Sees pods being bound and evicted by others. ``opened``: the time that ``t`` counts from. ``eviction``: reads what their
    scheduler says of an eviction; ``stopped``: what it says elsewhere (``SchedulerUnderTest``)."""

    def __init__(
        self,
        cluster: Cluster,
        opened: float,
        eviction: Callable[[str], Told | None],
        stopped: Stopped | None = None,
    ) -> None:
        self._cluster = cluster
        self._eviction = eviction
        self._stopped = stopped
        self._watch = cluster.watch(["Pod", "PodGroup"])
        self._opened = opened
        self._bound: set[str] = set()  # by UID, as the next pod may have the same name
        self._evicted: set[str] = set()
        self._groups: dict[tuple[str, str], Object] = {}  # also those that are gone: a victim may outlive its PodGroup
        self._unexplained: dict[
            str, tuple[Object, float]
        ] = {}  # by UID: it leaves, and nobody has said why; since when
        self._asked_at = float("-inf")
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
        events = self._watch.poll()
        stopped = self._told_elsewhere(events)
        moment: dict[str, Any] = {"cycle": cycle, "t": round(now - self._opened, 6), "time": format_rfc3339(now)}
        for event in events:
            if event.kind == "PodGroup":
                self._know(event.object)
                continue
            pod, uid = event.object, event.object["metadata"]["uid"]
            # Every later event of a pod that was bound has its node, too.
            if pod["spec"].get("nodeName") and uid not in self._bound:
                self._bound.add(uid)
                found.append(PodBound(**moment, action=ACTION, **self._pod(pod)))
            # KAI's default evictor and kube-scheduler's preemption set it before they delete the pod. A workload's
            # controller does not.
            stop = None if uid in self._evicted else _evicted_because(pod) or stopped.get(uid)
            if stop is not None:
                self._evicted.add(uid)
                self._unexplained.pop(uid, None)
                found.append(self._evicted_entry(moment, pod, stop))
            elif "deletionTimestamp" in pod["metadata"] and uid in self._bound and uid not in self._evicted:
                self._unexplained.setdefault(uid, (pod, now))
            if event.type == "DELETED":
                self._bound.discard(uid)
                self._evicted.discard(uid)
        return [*found, *(self._evicted_entry(moment, pod, stop) for pod, stop in self._told_late(now))]

    def close(self) -> None:
        self._watch.close()

    def _know(self, group: Object) -> None:
        self._groups[group["metadata"].get("namespace", ""), group["metadata"]["name"]] = group

    def _told_elsewhere(self, events: Sequence[WatchEvent]) -> Mapping[str, Stop]:
        pods = {event.object["metadata"]["uid"]: event.object for event in events if event.kind == "Pod"}
        asked = [pod for uid, pod in pods.items() if uid not in self._evicted]
        return self._stopped(asked) if asked and self._stopped is not None else {}

    def _told_late(self, now: float) -> list[tuple[Object, Stop]]:
        """Those of which it was not said yet when they began to leave."""
        waited = self._unexplained.items()
        self._unexplained = {uid: (pod, since) for uid, (pod, since) in waited if now - since <= LATE_SECONDS}
        if self._stopped is None or not self._unexplained or now - self._asked_at < _AGAIN_SECONDS:
            return []
        self._asked_at = now
        told = self._stopped([pod for pod, _ in self._unexplained.values()])
        late = [(self._unexplained.pop(uid)[0], told[uid]) for uid in [*self._unexplained] if uid in told]
        # Of those that are there yet nothing is to be told twice.
        self._evicted |= {pod["metadata"]["uid"] for pod, _ in late} & self._bound
        return late

    def _evicted_entry(self, moment: Mapping[str, Any], pod: Object, stop: Stop) -> PodEvicted:
        return PodEvicted(**moment, **self._told(stop)._asdict(), **self._pod(pod), reason=stop.message)

    def _told(self, stop: Stop) -> _Cause:
        told = stop.told or self._eviction(stop.message)
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
            "owner": controller_name(pod),
            "podgroup": f"{metadata.get('namespace', '')}/{group}" if group else "",
            "queue": pod_queue(pod, self._groups),
            "node": pod["spec"].get("nodeName", ""),
        }


def _evicted_because(pod: Object) -> Stop | None:
    disrupted = condition_of(pod, "DisruptionTarget")
    return None if disrupted is None else Stop(disrupted.get("message") or str(disrupted.get("reason", "")))
