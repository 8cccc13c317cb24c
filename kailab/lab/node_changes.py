"""Changes of nodes: nodes are added, drained, fail and recover.

``drain_node`` deletes all pods at once, for plans and forks; the command ``drain`` evicts them as PodDisruptionBudgets allow
(``kailab.workloads.disruption``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, TypeAlias

from kailab.cluster.protocol import Object
from kailab.errors import InputError, NotFound
from kailab.evidence.entries import PodRow
from kailab.evidence.wording import some
from kailab.lab.change import Apply, Change, Delete, Patch
from kailab.lab.open_lab import OpenLab
from kailab.model import labels
from kailab.model.multimap import multimap
from kailab.model.objects import (
    ENDED_PHASES,
    annotations_of,
    full_name,
    is_ended,
    is_terminating,
    metadata_of,
    name_of,
    namespace_of,
    owner_references,
    spec_of,
    status_of,
)
from kailab.model.times import format_time
from kailab.workloads.disruption import budget_states, evictions

FailedReadyStatus: TypeAlias = Literal["Unknown", "False"]
"""The Ready condition of a failed node: Unknown if its kubelet reports nothing more, False if the kubelet reports the failure."""

MOST_NODES = 10_000
_WELL = {
    "MemoryPressure": "KubeletHasSufficientMemory",
    "DiskPressure": "KubeletHasNoDiskPressure",
    "PIDPressure": "KubeletHasSufficientPID",
}
_NUMBERED = re.compile(r"(.*?)-?(\d+)")


def nodes_to_add(lab: OpenLab, text: str) -> Apply:
    """``POOL:COUNT``: this many more nodes like the last one of a pool. A pool is the nodes with one name and a number, or a single node of
    that name. New nodes have its labels (except the host name), taints and resources. Raises InputError."""
    pool, colon, number = text.rpartition(":")
    if not colon or not pool or not number.isascii() or not number.isdigit() or not 0 < int(number) <= MOST_NODES:
        raise InputError(f"{text!r}: expected POOL:COUNT, as in a100:2, with a count from 1 to {MOST_NODES:,}")
    nodes = {name_of(node): node for node in lab.cluster.list("Node")}
    pools = node_pools(nodes)
    if pool in pools:
        last, like = max(pools[pool])
        width = len(like) - len(like.rstrip("0123456789"))
        stem = like[: len(like) - width]
    elif pool in nodes:
        last, like, width, stem = 0, pool, 0, f"{pool}-"
    else:
        raise InputError(f"{text!r}: there is no pool {pool!r}; there are: {some(sorted(pools or nodes), 8)}")
    free = (f"{stem}{index:0{width}d}" for index in range(last + 1, last + 1 + MOST_NODES + len(nodes)))
    names = islice((name for name in free if name not in nodes), int(number))
    slices = [
        published for published in lab.cluster.list("ResourceSlice") if spec_of(published).get("nodeName") == like
    ]
    added = [(name, _like(nodes[like], name)) for name in names]
    return Apply(
        tuple(
            obj for name, node in added for obj in (node, *(_slice_of(published, like, name) for published in slices))
        )
    )


def node_pools(nodes: Iterable[str]) -> dict[str, list[tuple[int, str]]]:
    """Pools among names of nodes: pool -> its nodes by number."""
    return multimap((match[1], (int(match[2]), name)) for name in nodes if (match := _NUMBERED.fullmatch(name)))


def growable(nodes: Iterable[str]) -> dict[str, int]:
    """Name -> number of nodes, for everything to which nodes can be added: pools, and single nodes that are in no pool."""
    pools = node_pools(names := list(nodes))
    of_pools = {name for nodes_of_pool in pools.values() for _, name in nodes_of_pool}
    alone = {name: 1 for name in names if name not in of_pools}
    return dict(sorted((alone | {pool: len(nodes_of_pool) for pool, nodes_of_pool in pools.items()}).items()))


def _like(node: Object, name: str) -> Object:
    metadata = metadata_of(node)
    own = {**(metadata.get("labels") or {}), labels.HOSTNAME: name}
    spec = {field: value for field, value in spec_of(node).items() if field == "taints"}
    status = {
        field: value for field, value in status_of(node).items() if field in ("capacity", "allocatable", "nodeInfo")
    }
    status["conditions"] = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": own},
        "spec": spec,
        "status": status,
    }


def _slice_of(published: Object, like: str, name: str) -> Object:
    """The devices that a node publishes, for another node."""
    spec = published["spec"]
    pool = {**(spec.get("pool") or {}), "name": name}
    own = f"{name_of(published).replace(like, '').strip('-')}-{name}".strip("-")
    return {
        "apiVersion": published["apiVersion"],
        "kind": "ResourceSlice",
        "metadata": {"name": own},
        "spec": {**spec, "nodeName": name, "pool": pool},
    }


def drain_node(lab: OpenLab, name: str) -> tuple[Change, ...]:
    """As ``kubectl drain --ignore-daemonsets --force``: cordon the node and delete its pods. Raises InputError."""
    _node(lab, name)
    return (
        Patch("Node", name, {"spec": {"unschedulable": True}}),
        *(Delete("Pod", pod, namespace) for namespace, pod in pods_to_drain(lab, name)),
    )


def pods_to_drain(lab: OpenLab, name: str) -> list[tuple[str, str]]:
    """Namespace and name of the pods that draining a node deletes."""
    return [(namespace_of(pod), name_of(pod)) for pod in lab.cluster.list("Pod") if _is_on(pod, name) and _leaves(pod)]


def _leaves(pod: Object) -> bool:
    return not any(owner.get("kind") in _OF_NODES for owner in owner_references(pod))


@dataclass(frozen=True)
class EvictedWork:
    """Work that loses pods on a drained node. ``owner``: ``Kind/name``. ``gang``: the minimum of pods that it would fall below, or 0."""

    namespace: str
    owner: str
    queue: str
    pods: int
    milli_gpus: int
    gang: int = 0


@dataclass(frozen=True)
class DrainPreview:
    """What draining one node, or several together, would evict. ``title``: the node, or what the ``nodes`` have in common. ``blocked``: the reasons of pods that a disruption budget does not let go at once. ``obstacles``: why
    ``kailab drain`` refuses the node without ``--force`` or ``--delete-emptydir-data``."""

    title: str
    nodes: tuple[str, ...]
    work: tuple[EvictedWork, ...]
    blocked: tuple[str, ...]
    obstacles: tuple[str, ...]

    @property
    def pods(self) -> int:
        return sum(entry.pods for entry in self.work)

    @property
    def milli_gpus(self) -> int:
        return sum(entry.milli_gpus for entry in self.work)


def preview_drains(lab: OpenLab, sets: Mapping[str, Sequence[str]]) -> list[DrainPreview]:
    """What draining the nodes of each set together, and no others, would evict; the sets that evict the fewest GPUs, then the fewest pods,
    come first. ``sets``: title -> names of nodes."""
    on_node = multimap((pod["spec"].get("nodeName") or "", pod) for pod in lab.cluster.list("Pod"))
    picture, budgets = lab.picture(), budget_states(lab.cluster)
    rows = {row.name: row for row in picture.rows}
    minimums = {
        f"{key[0]}/{key[1]}": int(spec_of(group).get("minMember") or 0) for key, group in picture.podgroups.items()
    }
    bound = Counter(row.group for row in picture.rows if row.node and row.phase not in ENDED_PHASES)
    result = []
    for title, names in sets.items():
        own = {name: [pod for pod in on_node.get(name, ()) if _is_on(pod, name)] for name in names}
        leaving = [pod for pods in own.values() for pod in pods if _leaves(pod) and not is_ended(pod)]
        by_work: dict[tuple[str, str, str, str], list[PodRow]] = {}
        for row in (rows[full_name(pod)] for pod in leaving):
            owner = row.owner or f"Pod/{row.name.partition('/')[2]}"
            # The pods of a Deployment have a group each.
            group = row.group if minimums.get(row.group, 0) > 1 else ""
            by_work.setdefault((row.name.partition("/")[0], owner, row.queue, group), []).append(row)
        work = [
            EvictedWork(
                namespace,
                owner,
                queue,
                len(lost),
                sum(row.milli_gpus for row in lost),
                minimums[group] if group and bound[group] - len(lost) < minimums[group] else 0,
            )
            for (namespace, owner, queue, group), lost in by_work.items()
        ]
        result.append(
            DrainPreview(
                title,
                tuple(names),
                tuple(sorted(work, key=lambda entry: -entry.milli_gpus)),
                tuple(dict.fromkeys(why for _, why in evictions(lab.cluster, leaving, budgets).blocked)),
                tuple(
                    str(obstacle)
                    for name, pods in own.items()
                    for obstacle in _obstacles(name, pods, daemons=False, lone=True, local=True)
                ),
            )
        )
    return sorted(result, key=lambda preview: (preview.milli_gpus, preview.pods, preview.title))


_OF_NODES = ("DaemonSet", "Node")
"""Owners whose pods stay on a drained node: a pod of a Node is the mirror of a static pod, which its kubelet runs from a file."""


def fail_node(lab: OpenLab, name: str, ready: FailedReadyStatus) -> Patch:
    """The failure of a node that reports nothing more (Unknown), or that reports that it can run nothing (False). Its conditions become those
    that the node lifecycle controller or its kubelet writes. Raises InputError."""
    if ready == "Unknown":
        reason = {"reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
        return _condition(lab, name, {kind: {"status": "Unknown", **reason} for kind in ("Ready", *_WELL)})
    not_ready = {"status": "False", "reason": "KubeletNotReady", "message": "container runtime is down"}
    return _condition(lab, name, {**_pressures(), "Ready": not_ready})


def recover_node(lab: OpenLab, name: str) -> Patch:
    """The recovery of a node. Raises InputError."""
    return _condition(
        lab, name, {**_pressures(), "Ready": {"status": "True", "reason": "KubeletReady", "message": "fake node"}}
    )


def _pressures() -> dict[str, dict[str, str]]:
    return {kind: {"status": "False", "reason": reason} for kind, reason in _WELL.items()}


def _condition(lab: OpenLab, name: str, wanted: dict[str, dict[str, str]]) -> Patch:
    node = _node(lab, name)
    if not lab.venue.exclusive and labels.FAKE_NODE_TAINT not in annotations_of(node):
        raise InputError(f"Node {name!r} is a real node: only its kubelet sets its conditions")
    now = format_time(lab.cluster.now() // 1)
    present = {entry["type"]: entry for entry in status_of(node).get("conditions") or ()}
    conditions: list[dict[str, Any]] = []
    for kind in dict.fromkeys((*present, *wanted)):
        before, after = present.get(kind, {}), wanted.get(kind)
        if after is None or all(before.get(field) == value for field, value in after.items()):
            conditions.append(before)
            continue
        same = before.get("status") == after["status"]
        since = before["lastTransitionTime"] if same and "lastTransitionTime" in before else now
        conditions.append({"type": kind, **after, "lastHeartbeatTime": now, "lastTransitionTime": since})
    return Patch("Node", name, {"status": {"conditions": conditions}}, subresource="status")


def _node(lab: OpenLab, name: str) -> Object:
    try:
        return lab.cluster.get("Node", name)
    except NotFound as error:
        there = sorted(name_of(node) for node in lab.cluster.list("Node"))
        raise InputError(f"{error}; there are: {some(there, 8)}") from None


def drain_obstacles(lab: OpenLab, name: str, *, daemons: bool, lone: bool, local: bool = True) -> list[InputError]:
    """Reasons against draining a node, as kubectl has them. ``daemons``: pods of DaemonSets, which would come back; ``lone``: pods that no
    controller replaces; ``local``: pods that lose data in an emptyDir."""
    pods = [pod for pod in lab.cluster.list("Pod") if _is_on(pod, name)]
    return _obstacles(name, pods, daemons=daemons, lone=lone, local=local)


def _obstacles(name: str, pods: Iterable[Object], *, daemons: bool, lone: bool, local: bool) -> list[InputError]:
    errors = []
    for pod in pods:
        kinds = {owner.get("kind") for owner in owner_references(pod) if owner.get("controller")}
        pod_title = f"node/{name}: pod {full_name(pod)}"
        if "DaemonSet" in kinds and daemons:
            errors.append(
                InputError(
                    f"{pod_title} belongs to a DaemonSet and would come back; --ignore-daemonsets leaves it alone"
                )
            )
        # Nothing is lost with a pod that stays or has ended.
        if not kinds.isdisjoint(_OF_NODES) or is_ended(pod):
            continue
        if not kinds and lone:
            errors.append(InputError(f"{pod_title} has no controller that replaces it; --force deletes it"))
        if local and any("emptyDir" in volume for volume in pod["spec"].get("volumes") or ()):
            errors.append(
                InputError(
                    f"{pod_title} has data in an emptyDir, which would be lost; --delete-emptydir-data allows it"
                )
            )
    return errors


def _is_on(pod: Object, node: str) -> bool:
    return pod["spec"].get("nodeName") == node and not is_terminating(pod)
