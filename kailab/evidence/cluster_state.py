"""The state of a cluster at one moment, in rows small enough to keep after every step.

``read_cluster_state`` reads pods, PodGroups, queues and nodes of a cluster. ``RowCache`` reuses the rows of objects that did not change. The row types are in
``kailab.evidence.entries``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from kailab.cluster.protocol import Cluster, Object
from kailab.engine.snapshot.records import GPU
from kailab.evidence.entries import ClusterState, NodeRow, PodGroupRow, PodRow, QueueRow
from kailab.model import labels
from kailab.model.objects import condition_of, controller_name, metadata_of, name_of, parent_of, shown_phase, spec_of
from kailab.scheduler.reading.accounts import GpuAccounts
from kailab.scheduler.reading.nodes import unavailable

Row = TypeVar("Row", PodGroupRow, QueueRow)

_NOTHING: Mapping[str, Any] = {}


def pod_queue(pod: Object, podgroups: Mapping[tuple[str, str], Object]) -> str:
    """The queue of a pod: the queue of its PodGroup, else of its own label."""
    metadata = metadata_of(pod)
    name = (metadata.get("annotations") or {}).get(labels.POD_GROUP)
    group = podgroups.get((metadata.get("namespace", ""), name)) if name else None
    if group is not None:
        return spec_of(group).get("queue") or ""
    own = metadata.get("labels") or {}
    return own.get(labels.QUEUE) or own.get(labels.QUEUE_RUNAI) or ""


def pod_row(pod: Object, podgroups: Mapping[tuple[str, str], Object], accounts: GpuAccounts) -> PodRow:
    metadata, spec = metadata_of(pod), pod["spec"]
    place = spec.get("nodeName") or ""
    # The condition of a placed pod may be from the time when it waited.
    scheduled = None if place else condition_of(pod, "PodScheduled")
    unscheduled = scheduled if scheduled and scheduled.get("status") == "False" else _NOTHING
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
        reason=unscheduled.get("reason", ""),
        message=unscheduled.get("message", ""),
    )


class _Known(NamedTuple):
    """A row with the objects that it was made from. ``key``: the PodGroup that the pod names. The objects are kept alive,
    because ``id()`` of a freed object can be reused."""

    pod: Object
    key: tuple[str, str]
    group: Object | None
    row: PodRow


class RowCache:
    """The rows of a cluster, kept between two reads. A row is reused if no object that it depends on has changed."""

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
        accounts: GpuAccounts,
    ) -> list[PodRow]:
        """The rows of pods. ``podgroups``: by namespace and name. ``nodes``: by name."""
        before = self._known if self._are_alike(nodes) else {}
        known: dict[int, _Known] = {}
        self._nodes, self._known, rows = nodes, known, []
        for pod in pods:
            was = before.get(id(pod))
            if was is not None and podgroups.get(was.key) is was.group:
                known[id(pod)] = was
                rows.append(was.row)
                continue
            metadata = metadata_of(pod)
            key = metadata.get("namespace", ""), (metadata.get("annotations") or {}).get(labels.POD_GROUP, "")
            row = pod_row(pod, podgroups, accounts)
            rows.append(row)
            # Not cached: pods with claims and reservation pods, whose amounts depend on the pods that share a claim or a GPU.
            if not pod["spec"].get("resourceClaims") and key[0] != labels.RESERVATION_NAMESPACE:
                known[id(pod)] = _Known(pod, key, podgroups.get(key), row)
        return rows

    def _are_alike(self, nodes: Mapping[str, Object]) -> bool:
        """True if nodes have the labels of the reading before; the value of GPU memory depends on them."""
        before = self._nodes
        return len(nodes) == len(before) and all(
            (was := before.get(name)) is node
            or (was is not None and metadata_of(was).get("labels") == metadata_of(node).get("labels"))
            for name, node in nodes.items()
        )

    def of_groups(self, groups: Sequence[Object]) -> tuple[PodGroupRow, ...]:
        self._groups, rows = _reuse_rows(self._groups, groups, _podgroup_row)
        return rows

    def of_queues(self, queues: Sequence[Object]) -> tuple[QueueRow, ...]:
        self._queues, rows = _reuse_rows(self._queues, queues, _queue_row)
        return rows

    def of_nodes(
        self, nodes: Mapping[str, Object], accounts: GpuAccounts, used: Mapping[str, int]
    ) -> tuple[NodeRow, ...]:
        """The rows of nodes. ``used``: milli-GPU in use by node."""
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


def _reuse_rows(
    before: dict[int, tuple[Object, Row]], objects: Sequence[Object], make: Callable[[Object], Row]
) -> tuple[dict[int, tuple[Object, Row]], tuple[Row, ...]]:
    """Rows of objects; the rows of unchanged objects are reused."""
    known = {id(obj): before.get(id(obj)) or (obj, make(obj)) for obj in objects}
    return known, tuple(row for _, row in known.values())


def read_cluster_state(cluster: Cluster, rows: RowCache | None = None) -> ClusterState:
    """Read the present state of a cluster. ``rows``: the cache of earlier readings."""
    rows = rows or RowCache()
    groups = cluster.list("PodGroup")
    by_name = {(metadata_of(group).get("namespace", ""), name_of(group)): group for group in groups}
    nodes = {name_of(node): node for node in cluster.list("Node")}
    pods = cluster.list("Pod")
    # For all pods at once, because a claim that pods of a node share counts once.
    accounts = GpuAccounts(cluster, pods, nodes)
    pod_rows = rows.of(pods, by_name, nodes, accounts)
    return state_of_rows(cluster, rows, nodes, pod_rows, accounts, accounts.used_by(pod_rows), groups)


def state_of_rows(
    cluster: Cluster,
    rows: RowCache,
    nodes: Mapping[str, Object],
    pods: Sequence[PodRow],
    accounts: GpuAccounts,
    used: Mapping[str, int],
    groups: Sequence[Object] | None = None,
) -> ClusterState:
    """The present state, from pod rows that are known already."""
    return ClusterState(
        pods=tuple(pods),
        podgroups=rows.of_groups(cluster.list("PodGroup") if groups is None else groups),
        queues=rows.of_queues(cluster.list("Queue")),
        nodes=rows.of_nodes(nodes, accounts, used),
    )


def _podgroup_row(group: Object) -> PodGroupRow:
    metadata, spec = metadata_of(group), spec_of(group)
    return PodGroupRow(
        name=f"{metadata.get('namespace', '')}/{metadata['name']}",
        queue=spec.get("queue", ""),
        min_member=spec.get("minMember"),
        priority_class=spec.get("priorityClassName", ""),
        status=group.get("status") or {},
    )


def _queue_row(queue: Object) -> QueueRow:
    return QueueRow(
        name=name_of(queue),
        parent=parent_of(queue),
        status=queue.get("status") or {},
    )
