"""An embedded cluster of objects that another server has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kailab.cluster.embedded.cluster import EmbeddedCluster
from kailab.cluster.protocol import Object


def adopted(objects: Mapping[str, Iterable[Object]], now: float) -> EmbeddedCluster:
    """A cluster of its own with these objects (by kind) as they are, uids, times and status included; its clock begins at ``now``,
    seconds since the epoch. The objects become its own. What they lack of admission is not added, nor is any of it checked."""
    ordered = {kind: sorted(given, key=_age) for kind, given in objects.items()}
    version = max((_version(obj) for given in ordered.values() for obj in given), default=0)
    state = {"now": now, "version": version, "uids": 0, "names": {}, "objects": ordered, "events": {}}
    return EmbeddedCluster.restore(state)


def _age(obj: Object) -> tuple[str, str, str]:
    """Objects in order of creation, as far as a server tells it."""
    metadata = obj["metadata"]
    return metadata.get("creationTimestamp") or "", metadata.get("namespace") or "", metadata["name"]


def _version(obj: Object) -> int:
    text = str(obj["metadata"].get("resourceVersion") or "")
    return int(text) if text.isdigit() else 0
