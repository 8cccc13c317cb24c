"""The events of a cluster by workload: one row for each workload and reason, with the latest message."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kailab.cluster.protocol import Object
from kailab.evidence.canonical import format_rfc3339
from kailab.evidence.history import LabHistory
from kailab.model.objects import involved_of, metadata_of
from kailab.model.times import parse_time


@dataclass
class EventRow:
    """Events of one type and reason about the objects of a workload. ``first`` and ``last``: seconds since the epoch. ``count``: of events,
    with repetitions. ``objects``: ``Kind/name``. ``message``: of the latest."""

    type: str
    reason: str
    first: float
    last: float
    count: int
    message: str
    objects: dict[str, None] = field(default_factory=dict)

    def data(self) -> dict[str, Any]:
        return {
            "type": self.type,
            "reason": self.reason,
            "first": format_rfc3339(self.first),
            "last": format_rfc3339(self.last),
            "count": self.count,
            "objects": list(self.objects),
            "message": self.message,
        }


@dataclass(frozen=True)
class WorkloadEvents:
    """``workload``: ``Kind namespace/name``, or ``Kind name`` of an object outside of namespaces. ``rows``: the latest first."""

    workload: str
    rows: tuple[EventRow, ...]

    def data(self) -> dict[str, Any]:
        return {"workload": self.workload, "events": [row.data() for row in self.rows]}


def workload_events(history: LabHistory, events: Iterable[Object], since: float) -> list[WorkloadEvents]:
    """Events from ``since`` (seconds since the epoch) on, by workload; those with the latest event first. A pod belongs to its top owner, and so
    does its PodGroup, also once both are gone."""
    rows: dict[str, dict[tuple[str, str], EventRow]] = {}
    owners = {(pod.namespace, owner): pod.workload for pod in history.pods.values() for owner in pod.owners}
    for event in sorted(events, key=_last):
        last = _last(event)
        if last < since:
            continue
        involved = involved_of(event)
        kind, name, namespace = (str(involved.get(key) or "") for key in ("kind", "name", "namespace"))
        own = rows.setdefault(_workload(history, owners, kind, name, namespace), {})
        key = str(event.get("type") or ""), str(event.get("reason") or "")
        times, message = int(event.get("count") or 1), " ".join(str(event.get("message") or "").split())
        row = own.get(key)
        if row is None:
            row = own[key] = EventRow(*key, _time(event, "firstTimestamp", last), last, 0, message)
        row.count += times
        row.first, row.last, row.message = min(row.first, _time(event, "firstTimestamp", last)), last, message
        row.objects[f"{kind}/{name}"] = None
    result = [
        WorkloadEvents(workload, tuple(sorted(own.values(), key=lambda row: (-row.last, row.reason))))
        for workload, own in rows.items()
    ]
    return sorted(result, key=lambda group: (-group.rows[0].last, group.workload))


def _workload(history: LabHistory, owners: Mapping[tuple[str, str], str], kind: str, name: str, namespace: str) -> str:
    """``owners``: (namespace, ``Kind/name``) of an owner of pods -> their workload."""
    full = f"{namespace}/{name}"
    if kind == "Pod" and full in history.pods:
        return history.pods[full].workload
    own = f"{kind} {full}" if namespace else f"{kind} {name}"
    if kind == "PodGroup":
        return history.workloads.get(full, own)
    # Events of an object between a workload and its pods, as of a ReplicaSet, are of the workload.
    return owners.get((namespace, f"{kind}/{name}"), own)


def _last(event: Object) -> float:
    return _time(event, "lastTimestamp", _time(event, "eventTime", 0.0) or _created(event))


def _created(event: Object) -> float:
    stamp = metadata_of(event).get("creationTimestamp")
    return parse_time(stamp) if stamp else 0.0


def _time(event: Object, name: str, default: float) -> float:
    stamp = event.get(name)
    return parse_time(stamp) if stamp else default
