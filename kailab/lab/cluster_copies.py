"""Embedded clusters from objects of any cluster. The objects keep their uids, times and status, and are not admitted or defaulted again.

Notes of other controllers are translated for the controllers here, so that they leave a workload alone whose pods are as they should be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from kailab.cluster.base_objects import base_objects
from kailab.cluster.embedded import EmbeddedCluster
from kailab.cluster.protocol import Object
from kailab.model.kinds import KINDS
from kailab.model.times import format_time
from kailab.workloads.apps import annotate_foreign_revision
from kailab.workloads.jobs import FINALIZER
from kailab.workloads.knative import annotate_newest_revision

_UID = "00000000-0000-4000-8000-"
_LEFT_ALONE = ("default", "kube-system")


def embedded_from(
    objects: Mapping[str, Iterable[Object]],
    now: float,
    *,
    embedded: bool = False,
    counters: ClusterCounters | None = None,
    taken: Callable[[Object], Object] = lambda obj: obj,
) -> EmbeddedCluster:
    """A cluster with these objects (by kind key), at this time. ``embedded``: they come from an embedded cluster, whose controllers are the
    same; ``counters``: of that cluster. ``taken``: changes an object on its way. The objects given are not changed."""
    numbers = _Numbers(objects)
    given = counters or ClusterCounters()
    found: dict[str, list[Object]] = {}
    for kind, several in objects.items():
        made = [numbers.complete(kind, taken(obj), now) for obj in several]
        if made:
            found[kind] = sorted(made, key=_age)
    # In an embedded cluster only finalizers are set that its own controllers remove.
    if not embedded:
        found = _without_foreign_finalizers(found)
    cluster = EmbeddedCluster.restore(
        {
            "now": now,
            "version": numbers.version,
            # The uids of deleted objects count too: they must not be given again, because decisions and records name them.
            "uids": max(numbers.uids, given.uids),
            "names": given.names,
            "objects": _with_revisions(found),
            "events": {},
        }
    )
    _provide_namespaces(cluster, found)
    return cluster


class ClusterCounters(msgspec.Struct, frozen=True, kw_only=True):
    """Counters of an embedded cluster, so that no uid and no generated name is given twice: the number of uids, and for each
    "kind|namespace|prefix" the number of names."""

    uids: int = 0
    names: dict[str, int] = {}

    @classmethod
    def of(cls, cluster: object) -> ClusterCounters:
        """Empty for a cluster that is not embedded."""
        if not isinstance(cluster, EmbeddedCluster):
            return cls()
        return cls(uids=cluster.store.uids, names=dict(cluster.store.names))


class _Numbers:
    """Fills in what a server gives to each object: uid, resourceVersion, creationTimestamp."""

    def __init__(self, objects: Mapping[str, Iterable[Object]]) -> None:
        everyone = [obj["metadata"] for several in objects.values() for obj in several]
        self.version = max((_number(meta.get("resourceVersion")) for meta in everyone), default=0)
        own = (uid for meta in everyone if isinstance(uid := meta.get("uid"), str) and uid.startswith(_UID))
        self.uids = max((int(uid[len(_UID) :], 16) for uid in own), default=0)

    def complete(self, kind: str, obj: Object, now: float) -> Object:
        # Nobody here uses field managers, and they are the larger part of many objects.
        meta = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
        if not meta.get("uid"):
            self.uids += 1
            meta["uid"] = f"{_UID}{self.uids:012x}"
        if not _number(meta.get("resourceVersion")):
            self.version += 1
            meta["resourceVersion"] = str(self.version)
        if not meta.get("creationTimestamp"):
            meta["creationTimestamp"] = format_time(now // 1)
        whole: Object = {**obj, "metadata": meta}
        if "spec" in whole:
            # Controllers compare it with status.observedGeneration.
            meta.setdefault("generation", 1)
        if kind == "Pod":
            status = whole.get("status") or {}
            whole["status"] = status if status.get("phase") else {**status, "phase": "Pending"}
        known = KINDS.get(kind)
        if known is not None and known.namespaced:
            meta.setdefault("namespace", "default")
        return whole


def _number(version: Any) -> int:
    return int(version) if isinstance(version, str) and version.isascii() and version.isdigit() else 0


def _age(obj: Object) -> tuple[str, str]:
    """Sort key: the oldest first, as in an embedded cluster, whose uids count up."""
    uid = str(obj["metadata"]["uid"])
    return str(obj["metadata"]["creationTimestamp"]), uid if uid.startswith(_UID) else ""


def _without_foreign_finalizers(objects: dict[str, list[Object]]) -> dict[str, list[Object]]:
    """Remove finalizers that no controller here would remove. Those of a Job on its pods stay, if the Job exists."""
    jobs = {job["metadata"]["uid"] for job in objects.get("Job", ())}
    return {kind: [_without_finalizers(obj, jobs) for obj in several] for kind, several in objects.items()}


def _with_revisions(objects: dict[str, list[Object]]) -> dict[str, list[Object]]:
    """Workloads with a note of the revision name on their pods. Another cluster computes that name in another way, and an incomplete
    template would get another name here."""
    owned: dict[str, list[Object]] = {}
    for kind in ("Pod", "Revision"):
        for obj in objects.get(kind, ()):
            for owner in obj["metadata"].get("ownerReferences") or ():
                owned.setdefault(owner.get("uid", ""), []).append(obj)
    result = dict(objects)
    for kind in ("StatefulSet", "DaemonSet"):
        if kind in result:
            result[kind] = [
                annotate_foreign_revision(obj, owned.get(obj["metadata"]["uid"], ())) for obj in result[kind]
            ]
    for service in objects.get("Service.serving.knative.dev", ()):
        revisions = owned.get(service["metadata"]["uid"], [])
        if revisions:
            newest = annotate_newest_revision(service, revisions)
            result["Revision"] = [
                newest if obj["metadata"]["uid"] == newest["metadata"]["uid"] else obj for obj in result["Revision"]
            ]
    return result


def _without_finalizers(obj: Object, jobs: set[str]) -> Object:
    meta = obj["metadata"]
    finalizers = meta.get("finalizers")
    if not finalizers:
        return obj
    known = [
        one
        for one in finalizers
        if one == FINALIZER and any(o.get("uid") in jobs for o in meta.get("ownerReferences") or ())
    ]
    others = {key: value for key, value in meta.items() if key != "finalizers"}
    return {**obj, "metadata": {**others, "finalizers": known} if known else others}


def _provide_namespaces(cluster: EmbeddedCluster, objects: Mapping[str, Iterable[Object]]) -> None:
    """Create the namespaces that objects are in, and Kubernetes' own, if they are missing."""
    there = {obj["metadata"]["name"] for obj in objects.get("Namespace", ())}
    named = {str(obj["metadata"].get("namespace") or "") for several in objects.values() for obj in several}
    bases = {obj["metadata"]["name"]: obj for obj in base_objects() if obj["kind"] == "Namespace"}
    for name in sorted({*named, *_LEFT_ALONE} - there - {""}):
        cluster.create(bases.get(name) or {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
