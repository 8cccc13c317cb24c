"""Take a snapshot: every kind that decisions and controllers read is listed once, nothing is written, and all objects pass the evidence's filter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import msgspec

from kailab.cluster.backends import BACKENDS
from kailab.cluster.protocol import Cluster, Object
from kailab.engine.config import EngineConfig
from kailab.engine.decisions import Decisions
from kailab.engine.snapshot.records import GPU
from kailab.errors import Forbidden, InputError
from kailab.evidence.decision_file import SchedulerDecisions
from kailab.evidence.entries import LabFacts, LabSettings
from kailab.evidence.sanitizing import Sanitizer
from kailab.lab.cluster_copies import ClusterCounters
from kailab.lab.record_facts import lab_facts
from kailab.model import decoding
from kailab.model.kinds import KINDS, key_of, register_installed
from kailab.model.objects import owner_references
from kailab.scheduler.reading.accounts import GpuAccounts
from kailab.scheduler.settings.config_file import SchedulerSettings
from kailab.snapshots.kai_settings import KaiSettings, settings_in
from kailab.snapshots.snapshot import ClusterSnapshot
from kailab.version import __version__

if TYPE_CHECKING:
    from kailab.lab.lab import Lab


_READ = (
    "Namespace", "PriorityClass", "Topology", "DeviceClass", "ResourceSlice", "ResourceClaim", "ResourceClaimTemplate", "ConfigMap",
    "PersistentVolumeClaim", "PersistentVolume", "StorageClass", "CSIDriver", "CSIStorageCapacity", "RuntimeClass", "ResourceQuota",
    "LimitRange", "PodDisruptionBudget", "NodeResourceTopology", "Node", "Queue", "BindRequest", "PodGroup", "Pod",
)  # fmt: skip

NEEDED = frozenset({"Namespace", "Node", "Queue", "PodGroup", "Pod", "PriorityClass"})
"""Without these kinds there is nothing to decide."""

NAMES_ONLY = frozenset({"ConfigMap"})
"""Kinds of which only the metadata is requested."""


def kinds_taken() -> tuple[str, ...]:
    """Kind keys in the order of reading: owners of pods first, then the runtimes and templates that their controllers read, pods last, so that of
    objects made meanwhile an owner may be missing but no pod is counted without its owner."""
    register_installed()
    owners = [key for key, kind in KINDS.items() if kind.owns_pods]
    templates = [watched for kind in KINDS.values() for watched in kind.watches if watched not in _READ]
    return (*dict.fromkeys((*owners, *templates, "ReplicationController")), *_READ)


def cluster_role() -> Object:
    """The ClusterRole for taking a snapshot: get and list, nothing else."""
    groups: dict[str, set[str]] = {}
    for key in kinds_taken():
        groups.setdefault(KINDS[key].group, set()).add(KINDS[key].plural)
    rules = [
        {"apiGroups": [group], "resources": sorted(plurals), "verbs": ["get", "list"]}
        for group, plurals in sorted(groups.items())
    ]
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "kailab-snapshot"},
        "rules": rules,
    }


ObjectsByKind = dict[str, list[Object]]


@runtime_checkable
class ListsMetadata(Protocol):
    """A server that can list the metadata of objects alone."""

    def list_metadata(self, kind: str) -> list[Object]: ...


def of_lab(lab: Lab, *, partial: bool = False) -> ClusterSnapshot:
    """A snapshot of a lab on any backend, with the decisions of its scheduler so far. Raises InputError, ApiError."""
    picture = lab.picture()
    log, facts = picture.log, lab_facts(lab)
    by_kind, left_out = _list_objects(lab.cluster, partial)
    kai = KaiSettings(SchedulerSettings(engine=lab.config, usage=lab.usage))
    if not BACKENDS[lab.backend].starts_schedulers:
        kai = settings_in(by_kind, lab.cluster.get) or kai
        facts = msgspec.structs.replace(facts, settings=_settings(kai.settings, facts.settings.adopt_default_scheduler))
    decided = SchedulerDecisions(cycle=log.cycle, evictions=list(log.evictions), last=log.last)
    return _snapshot(
        lab.cluster, facts, by_kind, left_out, kai,
        opened=lab.opened, decided=decided, embedded=lab.venue.exclusive,
    )  # fmt: skip


def of_cluster(
    kubeconfig: str | Path | None = None, context: str | None = None, *, partial: bool = False
) -> ClusterSnapshot:
    """A snapshot of the cluster that a kubeconfig names. Raises ConnectError, InputError for missing rights, ApiError. ``partial``: kinds
    that may not be read are left out and named."""
    from kailab.cluster.kubernetes import Connection, KubernetesCluster
    from kailab.lab.venues.kubeconfig import kubeconfig_of

    connection = Connection.from_kubeconfig(kubeconfig_of(kubeconfig), context)
    cluster = KubernetesCluster(connection)
    try:
        by_kind, left_out = _list_objects(cluster, partial)
        kai = settings_in(by_kind, cluster.get) or KaiSettings(SchedulerSettings(engine=EngineConfig()))
        facts = cluster_facts(
            cluster,
            by_kind.get("Node", []),
            fleet="cluster",
            backend="kubeconfig",
            scheduler=kai.version or "unknown",
            settings=kai.settings,
            versions={"kubernetes": cluster.version},
        )
        return _snapshot(cluster, facts, by_kind, left_out, kai, opened=cluster.now())
    finally:
        cluster.close()


def cluster_facts(
    cluster: Cluster,
    nodes: Sequence[Object],
    *,
    fleet: str,
    backend: str,
    scheduler: str,
    settings: SchedulerSettings,
    versions: Mapping[str, str] | None = None,
) -> LabFacts:
    """The facts of a cluster that is no lab of kailab's: ``nodes`` of it, and the scheduler's settings. ``versions``: of others than kailab."""
    accounts = GpuAccounts(cluster, (), {})
    return LabFacts(
        fleet=fleet,
        backend=backend,
        scheduler=scheduler,
        nodes=len(nodes),
        gpus=sum(map(accounts.offered, nodes)) // GPU,
        settings=_settings(settings, False),
        versions={"kailab": __version__, **(versions or {})},
    )


def _settings(settings: SchedulerSettings, adopt: bool) -> LabSettings:
    return LabSettings(engine=settings.engine, usage=settings.usage, adopt_default_scheduler=adopt)


# --- reading ----------------------------------------------------------------------------------------------------------


def _list_objects(cluster: Cluster, partial: bool) -> tuple[ObjectsByKind, dict[str, str]]:
    by_kind: ObjectsByKind = {}
    refused: dict[str, str] = {}
    for kind in kinds_taken():
        _list_kind(cluster, kind, by_kind, refused)
    required = {kind: why for kind, why in refused.items() if not partial or kind in NEEDED}
    if required:
        missing = "; ".join(f"{KINDS[kind].resource}: {why}" for kind, why in required.items())
        raise InputError(
            f"the snapshot needs rights to get and list that are missing: {missing}. `kailab snapshot take --rights` prints the "
            "ClusterRole that it needs; --partial leaves out what nodes, pods, queues and podgroups can do without"
        )
    for kind in unknown_owner_kinds(by_kind):
        _list_kind(cluster, kind, by_kind, refused)
    return by_kind, refused


def _list_kind(cluster: Cluster, kind: str, by_kind: ObjectsByKind, refused: dict[str, str]) -> None:
    try:
        if kind in NAMES_ONLY and isinstance(cluster, ListsMetadata):
            objects = cluster.list_metadata(kind)
        else:
            objects = cluster.list(kind)
    except Forbidden as error:
        refused[kind] = str(error)
        return
    if objects:
        by_kind[kind] = list(objects)


def unknown_owner_kinds(by_kind: Mapping[str, Sequence[Object]]) -> list[str]:
    """Kinds of owners here that kailab does not know."""
    kinds: dict[str, None] = {}
    for objects in by_kind.values():
        for obj in objects:
            for owner in owner_references(obj):
                key = key_of(owner.get("apiVersion", ""), owner.get("kind", ""))
                if key not in KINDS:
                    kinds[key] = None
    return list(kinds)


# --- the snapshot ---------------------------------------------------------------------------------------------------------


def _snapshot(
    cluster: Cluster,
    facts: LabFacts,
    by_kind: ObjectsByKind,
    left_out: dict[str, str],
    how: KaiSettings,
    *,
    opened: float,
    decided: SchedulerDecisions | None = None,
    embedded: bool = False,
) -> ClusterSnapshot:
    decided = decided or SchedulerDecisions()
    gone = {
        name for entry in decided.evictions for name in (entry.pod, *entry.pod.split("/"), entry.podgroup, entry.queue)
    }
    filtered = Sanitizer((), by_kind, {}, names=gone)
    text = filtered.text
    objects = {kind: text.value(found) for kind, found in filtered.before.items()}
    return ClusterSnapshot(
        taken=cluster.now(),
        opened=opened,
        facts=facts,
        node_pool=how.node_pool,
        notices=tuple(map(text.text, how.notices)),
        embedded=embedded,
        counters=ClusterCounters.of(cluster),
        objects=objects,
        decided=SchedulerDecisions(
            cycle=decided.cycle,
            evictions=text.entries(decided.evictions),
            last=None
            if decided.last is None
            else decoding.convert(text.value(msgspec.to_builtins(decided.last)), Decisions),
        ),
        cut=filtered.cut,
        left_out={KINDS[kind].resource if kind in KINDS else kind: text.text(why) for kind, why in left_out.items()},
    )
