"""How a cluster stands at one moment, in rows small enough to keep at every step.

The rows are in ``kailab.evidence.entries``: pods, PodGroups, queues and nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kailab.cluster.protocol import Cluster, Object
from kailab.engine.snapshot.records import GPU
from kailab.evidence.entries import NodeRow, PodGroupRow, PodRow, QueueRow, State
from kailab.model import labels
from kailab.scheduler.reading.accounts import Accounts

_NOTHING: Mapping[str, Any] = {}


def phase(pod: Object) -> str:
    """``status.phase``, or ``Terminating`` for a pod on its way out."""
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return (pod.get("status") or {}).get("phase") or "Pending"


def owner(obj: Object) -> str:
    """The controlling owner as ``Kind/name``; empty for none."""
    references = obj["metadata"].get("ownerReferences") or ()
    for reference in references:
        if reference.get("controller"):
            return f"{reference['kind']}/{reference['name']}"
    # None of them controls it: the first, by which grouping goes, too.
    return f"{references[0]['kind']}/{references[0]['name']}" if references else ""


def condition(obj: Object, type: str) -> Mapping[str, Any] | None:
    """The condition of that type in ``status.conditions``."""
    for entry in (obj.get("status") or {}).get("conditions") or ():
        if entry.get("type") == type:
            return entry
    return None


def pod_queue(pod: Object, podgroups: Mapping[tuple[str, str], Object]) -> str:
    """The queue a pod counts for: that of its PodGroup, else its own label."""
    metadata = pod["metadata"]
    name = (metadata.get("annotations") or {}).get(labels.POD_GROUP)
    group = podgroups.get((metadata.get("namespace", ""), name)) if name else None
    if group is not None:
        return group["spec"].get("queue") or ""
    own = metadata.get("labels") or {}
    return own.get(labels.QUEUE) or own.get(labels.QUEUE_RUNAI) or ""


def pod_row(pod: Object, podgroups: Mapping[tuple[str, str], Object], accounts: Accounts) -> PodRow:
    """One pod. It holds the rest of what it asks for where it holds its GPUs."""
    metadata, spec = pod["metadata"], pod["spec"]
    place = spec.get("nodeName") or ""
    # A placed pod's condition may be of the time when it waited.
    scheduled = None if place else condition(pod, "PodScheduled")
    told = scheduled if scheduled and scheduled.get("status") == "False" else _NOTHING
    return PodRow(
        name=f"{metadata.get('namespace', '')}/{metadata['name']}",
        app=(metadata.get("labels") or {}).get("app", ""),
        owner=owner(pod),
        phase=phase(pod),
        node=place,
        queue=pod_queue(pod, podgroups),
        podgroup=(metadata.get("annotations") or {}).get(labels.POD_GROUP, ""),
        milli_gpus=accounts.gpus(pod),
        holds=accounts.holds(pod),
        reason=told.get("reason", ""),
        message=told.get("message", ""),
    )


class Rows:
    """Rows of a cluster's pods, from look to look: of a pod on which nothing changed that its row depends on it is the one of before."""

    def __init__(self) -> None:
        self._nodes: Mapping[str, Object] = {}
        self._known: dict[int, tuple[Object, Object | None, PodRow]] = {}

    def of(
        self,
        pods: Iterable[Object],
        podgroups: Mapping[tuple[str, str], Object],
        nodes: Mapping[str, Object],
        accounts: Accounts,
    ) -> list[PodRow]:
        """``podgroups``: by namespace and name; ``nodes``: by name."""
        # What GPU memory counts for is a matter of nodes.
        same = len(nodes) == len(self._nodes) and all(self._nodes.get(name) is node for name, node in nodes.items())
        before = self._known if same else {}
        self._nodes, self._known, found = nodes, {}, []
        for pod in pods:
            metadata = pod["metadata"]
            name = (metadata.get("annotations") or {}).get(labels.POD_GROUP)
            group = podgroups.get((metadata.get("namespace", ""), name)) if name else None
            was = before.get(id(pod))
            row = was[2] if was is not None and was[1] is group else pod_row(pod, podgroups, accounts)
            found.append(row)
            # A claim counts by those who share it, what reserves a GPU by those who share that.
            if not pod["spec"].get("resourceClaims") and metadata.get("namespace") != labels.RESERVATION_NAMESPACE:
                self._known[id(pod)] = (pod, group, row)
        return found


def standing(cluster: Cluster, rows: Rows | None = None) -> State:
    """All of a cluster, as it is now. ``rows``: of earlier looks at it."""
    groups = cluster.list("PodGroup")
    by_name = {(group["metadata"].get("namespace", ""), group["metadata"]["name"]): group for group in groups}
    nodes = {node["metadata"]["name"]: node for node in cluster.list("Node")}
    pods = cluster.list("Pod")
    # Over all pods at once: a claim that several pods of a node share counts there once.
    accounts = Accounts(cluster, pods, nodes)
    return State(
        pods=tuple((rows or Rows()).of(pods, by_name, nodes, accounts)),
        podgroups=tuple(_podgroup_row(group) for group in groups),
        queues=tuple(_queue_row(queue) for queue in cluster.list("Queue")),
        nodes=tuple(
            NodeRow(name=name, gpus=accounts.offered(node) // GPU, milli_gpus_used=accounts.used[name])
            for name, node in nodes.items()
        ),
    )


def _podgroup_row(group: Object) -> PodGroupRow:
    metadata, spec = group["metadata"], group["spec"]
    return PodGroupRow(
        name=f"{metadata.get('namespace', '')}/{metadata['name']}",
        queue=spec.get("queue", ""),
        min_member=spec.get("minMember"),
        priority_class=spec.get("priorityClassName", ""),
        status=group.get("status") or {},
    )


def _queue_row(queue: Object) -> QueueRow:
    return QueueRow(
        name=queue["metadata"]["name"],
        parent=queue["spec"].get("parentQueue", ""),
        status=queue.get("status") or {},
    )
