"""Embedded clusters from objects of any cluster, and forks: copies of a lab in which anything can be tried.

    with lab.fork() as fork:
        fork.patch("Queue", "team-a", {"spec": {"resources": {"gpu": {"quota": 8}}}})
        fork.settle()

The objects of a copied cluster keep their uids, times and status, and are not admitted or defaulted again. Revision names that
real controllers gave are translated, so that the controllers here keep the pods that match their workload's template.

A fork is an embedded lab with the same objects, clock, settings and scheduler configuration. It has new controllers and a new scheduler,
with copies of the state that these keep beside objects: promises, refused binds, past use. So an unchanged fork decides exactly what the
lab would decide. There is one exception: if the controllers of the lab have not read the latest objects yet, the fork acts as the
lab does after it was saved and resumed. Nothing in a fork changes the lab. Lab and fork share objects, because no cluster changes an object that it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from kailab.cluster.base_objects import base_objects
from kailab.cluster.embedded import EmbeddedCluster
from kailab.cluster.embedded.storage.store import Reference
from kailab.cluster.protocol import Object
from kailab.lab.spec import LabSpec
from kailab.lab.venues import LabCluster
from kailab.lab.venues.embedded import EmbeddedVenue
from kailab.model.defaults import apply_defaults
from kailab.model.kinds import KINDS
from kailab.model.multimap import multimap
from kailab.model.objects import metadata_of, name_of, namespace_of, owner_references, uid_of
from kailab.model.times import format_time
from kailab.undertest.contract import SchedulerUnderTest
from kailab.workloads.apps import annotate_foreign_revision
from kailab.workloads.grove import annotate_pods_revision
from kailab.workloads.jobs import FINALIZER
from kailab.workloads.knative import annotate_newest_revision
from kailab.workloads.leaderworkerset import annotate_leaders_revision

if TYPE_CHECKING:
    from kailab.scheduler.settings.config_file import SchedulerSettings


_UID = "00000000-0000-4000-8000-"
_ALWAYS_PRESENT = ("default", "kube-system")


def embedded_from(
    objects: Mapping[str, Iterable[Object]],
    now: float,
    *,
    embedded: bool = False,
    counters: ClusterCounters | None = None,
    convert: Callable[[Object], Object] = lambda obj: obj,
) -> EmbeddedCluster:
    """A cluster with these objects (by kind key), at this time. ``embedded``: they come from an embedded cluster, which has the same
    controllers; ``counters``: of that cluster. ``convert``: called with each object, returns the object to take over. The given objects are
    not changed."""
    server_fields = _ServerFields(objects)
    given = counters or ClusterCounters()
    by_kind: dict[str, list[Object]] = {}
    for kind, several in objects.items():
        made = [server_fields.complete(kind, convert(obj), now) for obj in several]
        if made:
            by_kind[kind] = sorted(made, key=_age)
    # In an embedded cluster only finalizers are set that its own controllers remove.
    if not embedded:
        by_kind = _without_foreign_finalizers(by_kind)
    cluster = EmbeddedCluster.restore(
        {
            "now": now,
            "version": server_fields.version,
            # The uids of deleted objects count too: they must not be given again, because decisions and records name them.
            "uids": max(server_fields.uids, given.uids),
            "names": given.names,
            "objects": _with_revisions(by_kind),
            "events": {},
        }
    )
    _provide_namespaces(cluster, by_kind)
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


class _ServerFields:
    """Fills in what a server gives to each object: uid, resourceVersion, creationTimestamp."""

    def __init__(self, objects: Mapping[str, Iterable[Object]]) -> None:
        everyone = [metadata_of(obj) for several in objects.values() for obj in several]
        self.version = max((_number(meta.get("resourceVersion")) for meta in everyone), default=0)
        own = (uid for meta in everyone if isinstance(uid := meta.get("uid"), str) and uid.startswith(_UID))
        self.uids = max((int(uid[len(_UID) :], 16) for uid in own), default=0)

    def complete(self, kind: str, obj: Object, now: float) -> Object:
        # An embedded cluster has no field managers, and they are the larger part of many objects.
        meta = {key: value for key, value in metadata_of(obj).items() if key != "managedFields"}
        if not meta.get("uid"):
            self.uids += 1
            meta["uid"] = f"{_UID}{self.uids:012x}"
        if not _number(meta.get("resourceVersion")):
            self.version += 1
            meta["resourceVersion"] = str(self.version)
        if not meta.get("creationTimestamp"):
            meta["creationTimestamp"] = format_time(now // 1)
        whole: Object = {**obj, "metadata": meta}
        if kind in ("Queue", "PodGroup"):
            whole = apply_defaults(whole, kind)  # a cluster may have them without a spec, an embedded one has none such
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
    uid = str(uid_of(obj))
    return str(metadata_of(obj)["creationTimestamp"]), uid if uid.startswith(_UID) else ""


def _without_foreign_finalizers(objects: dict[str, list[Object]]) -> dict[str, list[Object]]:
    """Remove finalizers that no controller here would remove. Those of a Job on its pods stay, if the Job exists."""
    jobs = {uid_of(job) for job in objects.get("Job", ())}
    return {kind: [_without_finalizers(obj, jobs) for obj in several] for kind, several in objects.items()}


_ANNOTATING: Mapping[str, Callable[[Object, Iterable[Object]], Object]] = {
    "StatefulSet": annotate_foreign_revision,
    "DaemonSet": annotate_foreign_revision,
    "PodClique": annotate_pods_revision,
    "LeaderWorkerSet": annotate_leaders_revision,
}
"""Kinds of workloads, and what notes their revision, given what they own."""


def _with_revisions(objects: dict[str, list[Object]]) -> dict[str, list[Object]]:
    """Workloads with a note of the revision name on their pods. Another cluster computes that name in another way, and an incomplete
    template would get another name here."""
    owned = multimap(
        (owner.get("uid", ""), obj)
        for kind in ("Pod", "Revision", "StatefulSet")
        for obj in objects.get(kind, ())
        for owner in owner_references(obj)
    )
    result = dict(objects)
    for kind, annotate in _ANNOTATING.items():
        if kind in result:
            result[kind] = [annotate(obj, owned.get(uid_of(obj), ())) for obj in result[kind]]
    for service in objects.get("Service.serving.knative.dev", ()):
        revisions = owned.get(uid_of(service), [])
        if revisions:
            newest = annotate_newest_revision(service, revisions)
            result["Revision"] = [newest if uid_of(obj) == uid_of(newest) else obj for obj in result["Revision"]]
    return result


def _without_finalizers(obj: Object, jobs: set[str]) -> Object:
    meta = metadata_of(obj)
    finalizers = meta.get("finalizers")
    if not finalizers:
        return obj
    known = [
        finalizer
        for finalizer in finalizers
        if finalizer == FINALIZER and any(o.get("uid") in jobs for o in meta.get("ownerReferences") or ())
    ]
    others = {key: value for key, value in meta.items() if key != "finalizers"}
    return {**obj, "metadata": {**others, "finalizers": known} if known else others}


def _provide_namespaces(cluster: EmbeddedCluster, objects: Mapping[str, Iterable[Object]]) -> None:
    """Create the namespaces that objects are in, and Kubernetes' own, if they are missing."""
    existing = {name_of(obj) for obj in objects.get("Namespace", ())}
    named = {str(namespace_of(obj) or "") for several in objects.values() for obj in several}
    bases = {name_of(obj): obj for obj in base_objects() if obj["kind"] == "Namespace"}
    for name in sorted({*named, *_ALWAYS_PRESENT} - existing - {""}):
        cluster.create(bases.get(name) or {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


# --- forks ------------------------------------------------------------------------------------------------------------


OWN_SCHEDULER = "kailab"


def copy_lab(
    cluster: LabCluster, spec: LabSpec, settings: SchedulerSettings | None, without: Iterable[Reference]
) -> tuple[EmbeddedVenue, LabSpec]:
    """The venue and the spec of a fork. If the lab is on a real API server, its present objects are copied. If its scheduler only runs as
    processes beside a cluster, kailab's own scheduler with the same configuration replaces it, and the spec names it. ``settings``: of the
    scheduler; None: as in the lab. ``without``: objects to leave out, with everything that only they own."""
    spec = _with_scheduler_in_process(spec)
    if settings is not None:
        spec = structs.replace(spec, config=settings.engine, usage=settings.usage)
    return EmbeddedVenue(_copied(cluster, without)), spec


def _copied(cluster: LabCluster, without: Iterable[Reference]) -> EmbeddedCluster:
    if isinstance(cluster, EmbeddedCluster):
        return cluster.fork(without)
    kinds = dict.fromkeys((*KINDS, *cluster.kinds()))
    by_kind = {kind: cluster.list(kind) for kind in kinds if kind != "Event"}
    copied = embedded_from({kind: objects for kind, objects in by_kind.items() if objects}, cluster.now())
    return copied.fork(without) if without else copied


def _with_scheduler_in_process(spec: LabSpec) -> LabSpec:
    if type(spec.under_test).within is not SchedulerUnderTest.within:
        return spec
    return structs.replace(spec, scheduler=OWN_SCHEDULER, kind=OWN_SCHEDULER, options={})
