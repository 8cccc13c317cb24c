"""Objects of any cluster made an embedded one: they keep their uids, times and status, and nobody admits or defaults them anew.

What others did to them before is made readable for the controllers that stand in for them here, so that nothing happens that
would not have happened there: a workload whose pods are as they should be is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from kailab.cluster.embedded import EmbeddedCluster
from kailab.cluster.embedded.bootstrap import base_objects
from kailab.cluster.protocol import Object
from kailab.model.kinds import KINDS
from kailab.model.times import format_time
from kailab.workloads.apps import with_taken_over_revision
from kailab.workloads.jobs import FINALIZER
from kailab.workloads.knative import noted_revision

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
    """A cluster with these objects (by kind key), at this time. ``embedded``: they come from an embedded cluster, whose controllers
    are the same; ``counters``: what it gave out so far. ``taken``: changes an object on its way. The objects given are not changed."""
    numbers = _Numbers(objects)
    given = counters or ClusterCounters()
    found: dict[str, list[Object]] = {}
    for kind, several in objects.items():
        made = [numbers.complete(kind, taken(obj), now) for obj in several]
        if made:
            found[kind] = sorted(made, key=_age)
    # In an embedded cluster only those are set that its own controllers take off.
    if not embedded:
        found = _without_foreign_finalizers(found)
    cluster = EmbeddedCluster.restore(
        {
            "now": now,
            "version": numbers.version,
            # Not only those in use: one that is gone must not be given again, since decisions and records name it.
            "uids": max(numbers.uids, given.uids),
            "names": given.names,
            "objects": _with_revisions(found),
            "events": {},
        }
    )
    _provide_namespaces(cluster, found)
    return cluster


class ClusterCounters(msgspec.Struct, frozen=True, kw_only=True):
    """Of an embedded cluster: how many uids it gave, and names by "kind|namespace|prefix", so that none is given twice."""

    uids: int = 0
    names: dict[str, int] = {}

    @classmethod
    def of(cls, cluster: object) -> ClusterCounters:
        """None of a cluster that is not embedded."""
        if not isinstance(cluster, EmbeddedCluster):
            return cls()
        return cls(uids=cluster.store.uids, names=dict(cluster.store.names))


class _Numbers:
    """What a server gives to each object, for those that come without it."""

    def __init__(self, objects: Mapping[str, Iterable[Object]]) -> None:
        everyone = [obj["metadata"] for several in objects.values() for obj in several]
        self.version = max((_number(meta.get("resourceVersion")) for meta in everyone), default=0)
        own = (uid for meta in everyone if isinstance(uid := meta.get("uid"), str) and uid.startswith(_UID))
        self.uids = max((int(uid[len(_UID) :], 16) for uid in own), default=0)

    def complete(self, kind: str, obj: Object, now: float) -> Object:
        # Nobody here applies by field managers, and they are the larger part of many objects.
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
            # Controllers tell by it whether they have seen an object as it is now.
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
    """The oldest first, as an embedded cluster has them, whose uids count up."""
    uid = str(obj["metadata"]["uid"])
    return str(obj["metadata"]["creationTimestamp"]), uid if uid.startswith(_UID) else ""


def _without_foreign_finalizers(objects: dict[str, list[Object]]) -> dict[str, list[Object]]:
    """Without finalizers that nobody here would take off. Those of a Job on its pods stay, if the Job is there."""
    jobs = {job["metadata"]["uid"] for job in objects.get("Job", ())}
    return {kind: [_without_finalizers(obj, jobs) for obj in several] for kind, several in objects.items()}


def _with_revisions(objects: dict[str, list[Object]]) -> dict[str, list[Object]]:
    """Workloads with a note of what their template is called on their pods: elsewhere it is named otherwise, and what was left out
    of a template changes the name that it gets here."""
    owned: dict[str, list[Object]] = {}
    for kind in ("Pod", "Revision"):
        for obj in objects.get(kind, ()):
            for owner in obj["metadata"].get("ownerReferences") or ():
                owned.setdefault(owner.get("uid", ""), []).append(obj)
    found = dict(objects)
    for kind in ("StatefulSet", "DaemonSet"):
        if kind in found:
            found[kind] = [with_taken_over_revision(obj, owned.get(obj["metadata"]["uid"], ())) for obj in found[kind]]
    for service in objects.get("Service.serving.knative.dev", ()):
        revisions = owned.get(service["metadata"]["uid"], [])
        if revisions:
            newest = noted_revision(service, revisions)
            found["Revision"] = [
                newest if obj["metadata"]["uid"] == newest["metadata"]["uid"] else obj for obj in found["Revision"]
            ]
    return found


def _without_finalizers(obj: Object, jobs: set[str]) -> Object:
    meta = obj["metadata"]
    finalizers = meta.get("finalizers")
    if not finalizers:
        return obj
    kept = [
        one
        for one in finalizers
        if one == FINALIZER and any(o.get("uid") in jobs for o in meta.get("ownerReferences") or ())
    ]
    rest = {key: value for key, value in meta.items() if key != "finalizers"}
    return {**obj, "metadata": {**rest, "finalizers": kept} if kept else rest}


def _provide_namespaces(cluster: EmbeddedCluster, objects: Mapping[str, Iterable[Object]]) -> None:
    """Those that objects are in, and Kubernetes' own, where the snapshot has them not."""
    there = {obj["metadata"]["name"] for obj in objects.get("Namespace", ())}
    named = {str(obj["metadata"].get("namespace") or "") for several in objects.values() for obj in several}
    bases = {obj["metadata"]["name"]: obj for obj in base_objects() if obj["kind"] == "Namespace"}
    for name in sorted({*named, *_LEFT_ALONE} - there - {""}):
        cluster.create(bases.get(name) or {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
