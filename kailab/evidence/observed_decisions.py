"""Decisions read off a cluster, for schedulers that report none: which pods were bound and which were evicted.

The entries are those of the decision log, with the reasons that pods carry. The action of an eviction is taken from its reason if the scheduler
writes it there; otherwise it is ``schedule``, as for binds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kailab.cluster.protocol import Cluster, Object, WatchEvent
from kailab.evidence.canonical import format_rfc3339
from kailab.evidence.cluster_state import pod_queue
from kailab.evidence.entries import Decision, PodBound, PodEvicted
from kailab.model import labels
from kailab.model.objects import (
    annotations_of,
    condition_of,
    controller_name,
    full_name,
    is_terminating,
    labels_of,
    name_of,
    namespace_of,
    spec_of,
    uid_of,
)
from kailab.undertest.contract import EvictionCondition, EvictionFinder, EvictionReason

ACTION = "schedule"
LATE_SECONDS = 20.0
"""How long after the start of a deletion the scheduler's reason is still expected: on a busy machine, Events arrive after the pod is gone."""
_AGAIN_SECONDS = 1.0  # between two queries for reasons, because each costs time


class _Cause(NamedTuple):
    """The cause of an eviction, as far as its reason shows it."""

    action: str
    beneficiary: str
    beneficiary_queue: str


class DecisionObserver:
    """Observes binds and evictions of pods. ``opened``: the origin of ``t``. ``eviction``: reads the scheduler's message of an eviction. ``find_reasons``: finds reasons that
    the scheduler writes elsewhere (``SchedulerUnderTest``)."""

    def __init__(
        self,
        cluster: Cluster,
        opened: float,
        eviction: Callable[[str], EvictionCondition | None],
        find_reasons: EvictionFinder | None = None,
    ) -> None:
        self._cluster = cluster
        self._read_message = eviction
        self._find_reasons = find_reasons
        self._watch = cluster.watch(["Pod", "PodGroup"])
        self._opened = opened
        self._bound: set[str] = set()  # by UID, because the next pod may have the same name
        self._evicted: set[str] = set()
        self._groups: dict[tuple[str, str], Object] = {}  # also deleted ones, because a victim may outlive its PodGroup
        # By UID: pods that are being deleted without a known reason, and since when.
        self._unexplained: dict[str, tuple[Object, float]] = {}
        self._asked_at = float("-inf")
        self._skip_bound()

    def _skip_bound(self) -> None:
        """Skip pods that are bound already."""
        for event in self._watch.poll():
            if event.kind == "PodGroup":
                self._remember_group(event.object)
            elif event.object["spec"].get("nodeName"):
                self._bound.add(uid_of(event.object))

    def entries(self, cycle: int) -> list[Decision]:
        """The binds and evictions since the last call, as entries of a cycle."""
        now = self._cluster.now()
        decisions: list[Decision] = []
        events = self._watch.poll()
        reasons = self._reasons_elsewhere(events)
        moment: dict[str, Any] = {"cycle": cycle, "t": round(now - self._opened, 6), "time": format_rfc3339(now)}
        for event in events:
            if event.kind == "PodGroup":
                self._remember_group(event.object)
                continue
            pod, uid = event.object, uid_of(event.object)
            # Only the first event with a node is the bind.
            if pod["spec"].get("nodeName") and uid not in self._bound:
                self._bound.add(uid)
                decisions.append(PodBound(**moment, action=ACTION, **self._pod(pod)))
            # KAI's default evictor and kube-scheduler's preemption set DisruptionTarget before they delete a pod; controllers of workloads
            # do not.
            reason = None if uid in self._evicted else _disruption_reason(pod) or reasons.get(uid)
            if reason is not None:
                self._evicted.add(uid)
                self._unexplained.pop(uid, None)
                decisions.append(self._evicted_entry(moment, pod, reason))
            elif is_terminating(pod) and uid in self._bound and uid not in self._evicted:
                self._unexplained.setdefault(uid, (pod, now))
            if event.type == "DELETED":
                self._bound.discard(uid)
                self._evicted.discard(uid)
        return [*decisions, *(self._evicted_entry(moment, pod, reason) for pod, reason in self._late_reasons(now))]

    def close(self) -> None:
        self._watch.close()

    def _remember_group(self, group: Object) -> None:
        self._groups[namespace_of(group), name_of(group)] = group

    def _reasons_elsewhere(self, events: Sequence[WatchEvent]) -> Mapping[str, EvictionReason]:
        pods = {uid_of(event.object): event.object for event in events if event.kind == "Pod"}
        unexplained = [pod for uid, pod in pods.items() if uid not in self._evicted]
        return self._find_reasons(unexplained) if unexplained and self._find_reasons is not None else {}

    def _late_reasons(self, now: float) -> list[tuple[Object, EvictionReason]]:
        """Evictions whose reason was not known when the deletion started."""
        waited = self._unexplained.items()
        self._unexplained = {uid: (pod, since) for uid, (pod, since) in waited if now - since <= LATE_SECONDS}
        if self._find_reasons is None or not self._unexplained or now - self._asked_at < _AGAIN_SECONDS:
            return []
        self._asked_at = now
        reasons = self._find_reasons([pod for pod, _ in self._unexplained.values()])
        late = [(self._unexplained.pop(uid)[0], reasons[uid]) for uid in [*self._unexplained] if uid in reasons]
        # Pods that still exist must not be reported twice.
        self._evicted |= {uid_of(pod) for pod, _ in late} & self._bound
        return late

    def _evicted_entry(self, moment: Mapping[str, Any], pod: Object, reason: EvictionReason) -> PodEvicted:
        return PodEvicted(**moment, **self._cause(reason)._asdict(), **self._pod(pod), reason=reason.message)

    def _cause(self, reason: EvictionReason) -> _Cause:
        condition = reason.condition or self._read_message(reason.message)
        if condition is None:
            return _Cause(ACTION, "", "")
        namespace, _, name = condition.beneficiary.partition("/")
        group = self._groups.get((namespace, name))
        queue = spec_of(group).get("queue", "") if group is not None else condition.queue
        return _Cause(condition.action, condition.beneficiary, queue)

    def _pod(self, pod: Object) -> dict[str, Any]:
        group = annotations_of(pod).get(labels.POD_GROUP, "")
        return {
            "pod": full_name(pod),
            "app": labels_of(pod).get("app", ""),
            "owner": controller_name(pod),
            "podgroup": f"{namespace_of(pod)}/{group}" if group else "",
            "queue": pod_queue(pod, self._groups),
            "node": pod["spec"].get("nodeName", ""),
        }


def _disruption_reason(pod: Object) -> EvictionReason | None:
    disrupted = condition_of(pod, "DisruptionTarget")
    return None if disrupted is None else EvictionReason(disrupted.get("message") or str(disrupted.get("reason", "")))
