"""The volumes of pods, as they decide where a pod may run.

A bound claim keeps its pods on the nodes that its volume reaches. A claim whose class binds at once keeps them off all nodes until it is bound;
one that waits for its first consumer leads them to the nodes for which there is a volume. Claims whose class does not exist decide nothing;
``lab.references`` reports them. Source: KAI's VolumeBinding predicate, which is Kubernetes' plugin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kailab.cluster.protocol import Object
from kailab.cluster.volumes import (
    NO_PROVISIONER,
    capacity_term,
    combined_terms,
    counts_capacity,
    has_room,
    serves,
    topology_terms,
    volume_node_terms,
)
from kailab.engine.snapshot.records import NodeTerm
from kailab.model.kinds import KINDS
from kailab.model.objects import name_of, namespace_of, spec_of, status_of
from kailab.scheduler.reading import affinity

VOLUME_KINDS = ("PersistentVolume", "StorageClass", "CSIDriver", "CSIStorageCapacity")
_UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
_NO_SPACE = "node(s) did not have enough free storage"
_NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
Alternatives = tuple[NodeTerm, ...]


class VolumeLimits(NamedTuple):
    """``terms``: for each claim that limits the nodes, terms of which one must hold. ``blocked``: why no node can take the pod."""

    terms: tuple[Alternatives, ...] = ()
    blocked: tuple[str, ...] = ()


NO_LIMITS = VolumeLimits()


class VolumeIndex:
    """Claims, volumes and classes of the cluster."""

    def __init__(self) -> None:
        self._claims: dict[tuple[str, str], Object] = {}
        self._volumes: dict[str, Object] = {}
        self._classes: dict[str, Object] = {}
        self._drivers: dict[str, Object] = {}
        self._capacities: dict[tuple[str, str], Object] = {}

    def process_object(self, kind: str, obj: Object, deleted: bool) -> bool:
        """Process an object. Returns whether pods may be limited otherwise than before."""
        tables: dict[str, dict[Any, Object]] = {
            "PersistentVolumeClaim": self._claims, "PersistentVolume": self._volumes, "StorageClass": self._classes,
            "CSIDriver": self._drivers, "CSIStorageCapacity": self._capacities,
        }  # fmt: skip
        table = tables.get(kind)
        if table is None:
            return False
        key = (namespace_of(obj), name_of(obj)) if KINDS[kind].namespaced else name_of(obj)
        before = table.pop(key, None)
        if not deleted:
            table[key] = obj
        return before is None or deleted or _deciding(before) != _deciding(obj)

    def has_claim(self, namespace: str, name: str) -> bool:
        return (namespace, name) in self._claims

    def limits(self, namespace: str, claims: Iterable[str]) -> VolumeLimits:
        """The limits of a pod's claims on its node. Claims that do not exist are left out."""
        terms: list[Alternatives] = []
        blocked: dict[str, None] = {}
        for name in claims:
            claim = self._claims.get((namespace, name))
            if claim is None:
                continue
            found = self._of_claim(claim)
            if isinstance(found, str):
                blocked[found] = None
            elif found:
                terms.append(found)
        return VolumeLimits(tuple(terms), tuple(blocked)) if terms or blocked else NO_LIMITS

    def _of_claim(self, claim: Object) -> Alternatives | str:
        """Terms of which one must hold (none: any node will do), or why no node will do."""
        spec = spec_of(claim)
        if name := spec.get("volumeName"):
            volume = self._volumes.get(name)
            return _terms(volume_node_terms(volume)) if volume is not None else ()
        storage_class = self._classes.get(spec.get("storageClassName") or "")
        if storage_class is None:
            return ()
        if storage_class.get("volumeBindingMode") != "WaitForFirstConsumer":
            return _UNBOUND
        volumes = [volume for volume in self._volumes.values() if serves(volume, claim)]
        if any(not volume_node_terms(volume) for volume in volumes):
            return ()
        alternatives: list[Mapping[str, Any]] = [term for volume in volumes for term in volume_node_terms(volume)]
        if storage_class.get("provisioner") != NO_PROVISIONER:
            made = self._provisionable(storage_class, claim)
            if made is None:
                return ()
            if not made and not alternatives:
                return _NO_SPACE
            alternatives += made
        return _terms(alternatives) or _NO_VOLUME

    def _provisionable(self, storage_class: Object, claim: Object) -> list[dict[str, Any]] | None:
        """Node selector terms of the nodes for which a volume can be made; None: all nodes."""
        terms = topology_terms(storage_class)
        if counts_capacity(self._drivers.get(str(storage_class.get("provisioner")))):
            rooms = [capacity_term(each) for each in self._capacities.values() if has_room(each, storage_class, claim)]
            terms = [combined_terms(topology, room) for topology in terms or ({},) for room in rooms]
        elif not terms:
            return None
        return None if any(not term["matchExpressions"] for term in terms) else terms


def _terms(terms: list[Mapping[str, Any]]) -> Alternatives:
    if not terms:
        return ()
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return tuple(dict.fromkeys(affinity.node_terms({"nodeAffinity": required})))


def both_terms(terms: Alternatives, others: Alternatives) -> Alternatives:
    """The alternatives that require one of ``terms`` and one of ``others``. No terms require nothing."""
    if not terms:
        return others
    return tuple(
        NodeTerm(requirements=mine.requirements + theirs.requirements, fields=mine.fields + theirs.fields)
        for mine in terms
        for theirs in others
    )


def _deciding(obj: Object) -> tuple[Any, ...]:
    fields = (
        "spec",
        "volumeBindingMode",
        "provisioner",
        "allowedTopologies",
        "storageClassName",
        "nodeTopology",
        "capacity",
        "maximumVolumeSize",
    )
    return status_of(obj).get("phase"), *map(obj.get, fields)
