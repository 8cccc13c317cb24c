"""The nodes of a fleet in a real cluster: brought in, taken out, and waited for. Those that are the same stay from lab to lab,
which is why the next one begins within a second."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from kailab.cluster.answered import write_until_answered
from kailab.cluster.kubernetes import KubernetesCluster
from kailab.cluster.protocol import Object
from kailab.cluster.waiting import look_until
from kailab.cluster.writes import Create, Delete
from kailab.errors import ConnectError, InputError, NotFound
from kailab.evidence.cluster_state import condition_of
from kailab.lab.venues.clearing import MARK

NODES_SECONDS = 120.0
_NOT_READY = "node.kubernetes.io/not-ready"


def provide(cluster: KubernetesCluster, mark: str, wanted: Mapping[str, Object]) -> None:
    """Have these nodes, by name, of the lab with this mark; ones of an earlier lab that are the same stay. Raises InputError where
    a node of that name is somebody else's."""
    there = {node["metadata"]["name"]: node for node in cluster.list("Node")}
    for name in wanted.keys() & there.keys():
        if not _is_own(there[name], mark):
            raise InputError(
                f"the cluster has a node {name!r} that is not this lab's; use a fleet whose nodes have other names, "
                "or end the lab that has it"
            )
    stale = [
        name
        for name, node in there.items()
        if _is_own(node, mark) and (name not in wanted or not _same(node, wanted[name]))
    ]
    _write(cluster, [Delete("Node", name) for name in stale])
    kept = there.keys() - stale
    new = [node for name, node in wanted.items() if name not in kept]
    _write(cluster, [Create(node) for node in new])


def _is_own(node: Object, mark: str) -> bool:
    return bool((node["metadata"].get("labels") or {}).get(MARK) == mark)


def _same(there: Object, wanted: Object) -> bool:
    """Whether a node is as a fleet has it, whatever Kubernetes added."""
    own, given = there["metadata"], wanted["metadata"]
    labels = {**(own.get("labels") or {})}
    notes = own.get("annotations") or {}
    taints = [t for t in there["spec"].get("taints") or () if not t["key"].startswith("node.kubernetes.io/")]
    known = {*given["labels"], MARK}
    return bool(
        "deletionTimestamp" not in own
        and all(labels.get(key) == value for key, value in given["labels"].items())
        and not [key for key in labels if key not in known and "kubernetes.io/" not in key]
        and all(notes.get(key) == value for key, value in given["annotations"].items())
        and [(t["key"], t.get("value"), t["effect"]) for t in taints]
        == [(t["key"], t.get("value"), t["effect"]) for t in wanted["spec"].get("taints") or ()]
        and not there["spec"].get("unschedulable")
        and (there.get("status") or {}).get("allocatable") == wanted["status"]["allocatable"]
    )


def await_ready(cluster: KubernetesCluster, names: Collection[str]) -> None:
    """As long as more of them become ready; a large fleet takes its time. Raises ConnectError."""

    def look() -> list[str]:
        nodes = {node["metadata"]["name"]: node for node in cluster.list("Node")}
        return sorted(name for name in names if not _is_ready(nodes.get(name)))

    def fewer(seen: list[str]) -> bool:
        return len(seen) < len(late)

    late = sorted(names)
    while late:
        seen = look_until(look, fewer, NODES_SECONDS, sleep=cluster.wait)
        if not fewer(seen):
            raise ConnectError(
                f"{len(seen)} of {len(names)} nodes ({', '.join(seen[:3])} ...) do not become ready, and none has for "
                f"{NODES_SECONDS:.0f} s: does KWOK run for this cluster, and does it manage nodes annotated "
                "kwok.x-k8s.io/node=fake?"
            )
        late = seen


def _is_ready(node: Object | None) -> bool:
    if node is None:
        return False
    ready = condition_of(node, "Ready")
    taints = node["spec"].get("taints") or ()
    return bool(ready and ready["status"] == "True" and not any(taint["key"] == _NOT_READY for taint in taints))


def _write(cluster: KubernetesCluster, writes: Sequence[Create | Delete]) -> None:
    for outcome in write_until_answered(cluster, writes, NODES_SECONDS, sleep=cluster.wait):
        if outcome.error is not None and not isinstance(outcome.error, NotFound):
            raise outcome.error
