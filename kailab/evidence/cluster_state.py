"""How a cluster stands at one moment, in rows small enough to keep at every step.

The rows are in ``kailab.evidence.entries``: pods, PodGroups, queues and nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from kailab.cluster.protocol import Cluster, Object
from kailab.engine.snapshot.records import GPU
from kailab.evidence.entries import ClusterState, NodeRow, PodGroupRow, PodRow, QueueRow
from kailab.model import labels
from kailab.scheduler.reading.accounts import Accounts
from kailab.scheduler.reading.nodes import unavailable

Row = TypeVar("Row", PodGroupRow, QueueRow)

_NOTHING: Mapping[str, Any] = {}


def shown_phase(pod: Object) -> str:
    """``status.phase``, or ``Terminating`` for a pod on its way out."""
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return (pod.get("status") or {}).get("phase") or "Pending"


def controller_name(obj: Object) -> str:
    """The controlling owner as ``Kind/name``; empty for none."""
    references = obj["metadata"].get("ownerReferences") or ()
    for reference in references:
        if reference.get("controller"):
            return f"{reference['kind']}/{reference['name']}"
    # None of them controls it: the first, by which grouping goes, too.
    return f"{references[0]['kind']}/{references[0]['name']}" if references else ""


def condition_of(obj: Object, type: str) -> Mapping[str, Any] | None:
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
    scheduled = None if place else condition_of(pod, "PodScheduled")
    told = scheduled if scheduled and scheduled.get("status") == "False" else _NOTHING
    return PodRow(
        name=f"{metadata.get('namespace', '')}/{metadata['name']}",
        app=(metadata.get("labels") or {}).get("app", ""),
        owner=controller_name(pod),
        phase=shown_phase(pod),
        node=place,
        queue=pod_queue(pod, podgroups),
        podgroup=(metadata.get("annotations") or {}).get(labels.POD_GROUP, ""),
        milli_gpus=accounts.gpus(pod),
        holds=accounts.holds(pod),
        reason=told.get("reason", ""),
        message=told.get("message", ""),
    )


class _Known(NamedTuple):
    """``key``: of the PodGroup that it names, whose object was ``group``. The object is held, so that no other takes its identity."""

    pod: Object
    key: tuple[str, str]
    group: Object | None
    row: PodRow


class RowCache:
    """Rows of a cluster, from look to look: where nothing changed that a row depends on it is the one of before."""

    def __init__(self) -> None:
        self._nodes: Mapping[str, Object] = {}
        self._known: dict[int, _Known] = {}
        self._groups: dict[int, tuple[Object, PodGroupRow]] = {}
        self._queues: dict[int, tuple[Object, QueueRow]] = {}
        self._offered: dict[str, tuple[Object, int, int, str]] = {}
        self._node_rows: dict[str, NodeRow] = {}

    def of(
        self,
        pods: Iterable[Object],
        podgroups: Mapping[tuple[str, str], Object],
        nodes: Mapping[str, Object],
        accounts: Accounts,
    ) -> list[PodRow]:
        """``podgroups``: by namespace and name; ``nodes``: by name."""
        before = self._known if self._are_alike(nodes) else {}
        known: dict[int, _Known] = {}
        self._nodes, self._known, found = nodes, known, []
        for pod in pods:
            was = before.get(id(pod))
            if was is not None and podgroups.get(was.key) is was.group:
                known[id(pod)] = was
                found.append(was.row)
                continue
            metadata = pod["metadata"]
            key = metadata.get("namespace", ""), (metadata.get("annotations") or {}).get(labels.POD_GROUP, "")
            row = pod_row(pod, podgroups, accounts)
            found.append(row)
            # A claim counts by those who share it, what reserves a GPU by those who share that.
            if not pod["spec"].get("resourceClaims") and key[0] != labels.RESERVATION_NAMESPACE:
                known[id(pod)] = _Known(pod, key, podgroups.get(key), row)
        return found

    def _are_alike(self, nodes: Mapping[str, Object]) -> bool:
        """What GPU memory counts for is a matter of nodes' labels."""
        before = self._nodes
        return len(nodes) == len(before) and all(
            (was := before.get(name)) is node
            or (was is not None and was["metadata"].get("labels") == node["metadata"].get("labels"))
            for name, node in nodes.items()
        )

    def of_groups(self, groups: Sequence[Object]) -> tuple[PodGroupRow, ...]:
        """Of PodGroups."""
        self._groups, rows = _kept(self._groups, groups, _podgroup_row)
        return rows

    def of_queues(self, queues: Sequence[Object]) -> tuple[QueueRow, ...]:
        """Of queues."""
        self._queues, rows = _kept(self._queues, queues, _queue_row)
        return rows

    def of_nodes(self, nodes: Mapping[str, Object], accounts: Accounts, used: Mapping[str, int]) -> tuple[NodeRow, ...]:
        """Of nodes. ``used``: as the accounts tell."""
        offered: dict[str, tuple[Object, int, int, str]] = {}
        rows: dict[str, NodeRow] = {}
        for name, node in nodes.items():
            claimed, was = accounts.sliced(name), self._offered.get(name)
            if was is None or was[0] is not node or was[1] != claimed:
                closed = unavailable(node.get("spec") or {}, node.get("status") or {})
                was = (node, claimed, accounts.offered(node) // GPU, closed)
            offered[name] = was
            row = self._node_rows.get(name)
            if row is None or (row.gpus, row.milli_gpus_used, row.unavailable) != (was[2], used[name], was[3]):
                row = NodeRow(name=name, gpus=was[2], milli_gpus_used=used[name], unavailable=was[3])
            rows[name] = row
        self._offered, self._node_rows = offered, rows
        return tuple(rows.values())


def _kept(
    before: dict[int, tuple[Object, Row]], objects: Sequence[Object], make: Callable[[Object], Row]
) -> tuple[dict[int, tuple[Object, Row]], tuple[Row, ...]]:
    """Rows of objects, those of before where an object is the same."""
    known = {id(obj): before.get(id(obj)) or (obj, make(obj)) for obj in objects}
    return known, tuple(row for _, row in known.values())


def read_cluster_state(cluster: Cluster, rows: RowCache | None = None) -> ClusterState:
    """All of a cluster, as it is now. ``rows``: of earlier looks at it."""
    rows = rows or RowCache()
    groups = cluster.list("PodGroup")
    by_name = {(group["metadata"].get("namespace", ""), group["metadata"]["name"]): group for group in groups}
    nodes = {node["metadata"]["name"]: node for node in cluster.list("Node")}
    pods = cluster.list("Pod")
    # Over all pods at once: a claim that several pods of a node share counts there once.
    accounts = Accounts(cluster, pods, nodes)
    told = rows.of(pods, by_name, nodes, accounts)
    return state_of_rows(cluster, rows, nodes, told, accounts, accounts.used_by(told), groups)


def state_of_rows(
    cluster: Cluster,
    rows: RowCache,
    nodes: Mapping[str, Object],
    pods: Sequence[PodRow],
    accounts: Accounts,
    used: Mapping[str, int],
    groups: Sequence[Object] | None = None,
) -> ClusterState:
    """The same where the rows of pods are known."""
    return ClusterState(
        pods=tuple(pods),
        podgroups=rows.of_groups(cluster.list("PodGroup") if groups is None else groups),
        queues=rows.of_queues(cluster.list("Queue")),
        nodes=rows.of_nodes(nodes, accounts, used),
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
