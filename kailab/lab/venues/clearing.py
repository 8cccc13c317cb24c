"""Taking out of a real cluster what a lab has brought in, and nothing else.

What a lab creates carries its mark. What others made of it (the pods of its Jobs, their PodGroups) goes with its owner, and
is helped along where a fake node would take its time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from kailab.cluster.answered import write_until_answered
from kailab.cluster.kubernetes import KubernetesCluster
from kailab.cluster.protocol import Object
from kailab.cluster.waiting import look_until
from kailab.cluster.writes import Delete
from kailab.errors import ConnectError, NotFound, Unavailable
from kailab.model.kinds import KINDS

MARK = "kailab.dev/lab"
"""Label of all that a lab creates; its value says which lab."""

PATIENCE_SECONDS = 180.0
_MAKERS = ("ReplicaSet", "Job", "StatefulSet", "Deployment")
_FOLLOWERS = ("Pod", "PodGroup")
_LAST = (
    "Node", "ClusterQueue", "Cohort", "ResourceFlavor", "Queue", "Topology", "PriorityClass", "Namespace",
    "CustomResourceDefinition",
)  # fmt: skip
"""Deleted when everything else is gone, and waited for: what others stand on. Owners whose objects were not marked come before. Kinds of these
names are of any group: Volcano's scheduler ends where a queue of its own goes before the pods that it holds. Kueue holds a ResourceFlavor until no
ClusterQueue names it: the next lab's, applied before, would go with it."""

Found: TypeAlias = list[tuple[str, Object]]


def clear(
    cluster: KubernetesCluster,
    mark: str,
    *,
    kinds: Iterable[str] | None = None,
    keep: Iterable[str] = (),
    makers: Iterable[str] = (),
) -> None:
    """Delete all that carries the mark, wait until it is gone with all that hung on it. ``kinds``: the only ones there can be
    any of (None: look at all that the server has). ``keep``: kinds to leave. ``makers``: further kinds whose objects others make, and that
    make some themselves. Raises ConnectError for what does not go."""
    makers = (*makers, *_MAKERS)
    looked_at = [kind for kind in (kinds if kinds is not None else _all_kinds(cluster)) if kind not in keep]
    found = [
        (kind, obj)
        for kind in looked_at
        if kind != "Event" and not _is_last(kind)
        for obj in cluster.list(kind, labels={MARK: mark})
    ]
    gone = {obj["metadata"]["uid"] for _, obj in found}
    _delete(cluster, found)
    nodes = {node["metadata"]["name"] for node in cluster.list("Node", labels={MARK: mark})}

    def left() -> list[str]:
        """What is still there; pods are sent off at once."""
        hanging = _hanging(cluster, mark, gone, nodes, makers)
        gone.update(obj["metadata"]["uid"] for _, obj in hanging)
        _delete(cluster, hanging)
        return [f"{kind} {_name(obj)}" for kind, obj in hanging]

    _until_gone(cluster, left)
    kinds_last = sorted(filter(_is_last, looked_at), key=lambda kind: _LAST.index(_bare(kind)))
    last = [(kind, obj) for kind in kinds_last for obj in cluster.list(kind, labels={MARK: mark})]
    _delete(cluster, last)
    _until_gone(
        cluster,
        lambda: [
            f"{kind} {_name(obj)}"
            for kind in dict.fromkeys(kind for kind, _ in last)
            for obj in cluster.list(kind, labels={MARK: mark})
        ],
    )


def _is_last(kind: str) -> bool:
    return _bare(kind) in _LAST


def _bare(kind: str) -> str:
    """Without the group that tells it from another kind of its name."""
    return kind.partition(".")[0]


def _hanging(cluster: KubernetesCluster, mark: str, gone: set[str], nodes: set[str], makers: Iterable[str]) -> Found:
    """Marked objects, those that belong to what is gone, and pods on nodes of the lab."""
    found: Found = []
    for kind in (*makers, *_FOLLOWERS):
        for obj in cluster.list(kind):
            metadata = obj["metadata"]
            owners = {reference["uid"] for reference in metadata.get("ownerReferences") or ()}
            marked = (metadata.get("labels") or {}).get(MARK) == mark
            if marked or owners & gone or (kind == "Pod" and obj["spec"].get("nodeName") in nodes):
                found.append((kind, obj))
                gone.add(metadata["uid"])
    return found


def _delete(cluster: KubernetesCluster, found: Found) -> None:
    writes = []
    for kind, obj in found:
        metadata = obj["metadata"]
        grace = 0.0 if kind == "Pod" else None
        if kind != "Pod" and "deletionTimestamp" in metadata:
            continue
        writes.append(Delete(kind, metadata["name"], metadata.get("namespace"), grace))
    for outcome in write_until_answered(cluster, writes, PATIENCE_SECONDS, sleep=cluster.wait):
        if isinstance(outcome.error, Unavailable):
            raise ConnectError(f"the cluster can't be cleared: {outcome.error}")


def _until_gone(cluster: KubernetesCluster, left: Callable[[], list[str]]) -> None:
    there = look_until(left, lambda names: not names, PATIENCE_SECONDS, pause=0.15, sleep=cluster.wait)
    if there:
        told = ", ".join(there[:5])
        raise ConnectError(f"{cluster.name}: still there {PATIENCE_SECONDS:.0f} s after it was deleted: {told}")


def _all_kinds(cluster: KubernetesCluster) -> list[str]:
    """Kinds that objects of a lab can have: those that kailab knows and the server has, and those of its CRDs."""
    there = []
    for kind in dict.fromkeys((*KINDS, *cluster.kinds())):
        try:
            cluster.resources.of(kind)
        except NotFound:
            continue
        there.append(kind)
    return there


def _name(obj: Object) -> str:
    metadata = obj["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else str(metadata["name"])
