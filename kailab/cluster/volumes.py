"""Volumes and claims: which volume a claim may have, and the nodes on which a volume can be used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from kailab.cluster.protocol import Object
from kailab.cluster.selectors import from_label_selector, matches
from kailab.model.objects import is_terminating, labels_of, name_of, spec_of, status_of
from kailab.model.quantities import parse

NO_PROVISIONER = "kubernetes.io/no-provisioner"
"""The provisioner of classes whose volumes are made by hand."""


def serves(volume: Object, claim: Object) -> bool:
    """Whether a claim may be bound to a volume: by class, size, access modes, selector, and who holds the volume. Source: Kubernetes
    volume.FindMatchingVolume."""
    has, wants = spec_of(volume), spec_of(claim)
    held = has.get("claimRef")
    if held and not is_meant_for(volume, claim):
        return False
    if wants.get("volumeName"):
        return bool(wants["volumeName"] == name_of(volume))
    if status_of(volume).get("phase") in ("Released", "Failed") or is_terminating(volume):
        return False
    return (
        (has.get("storageClassName") or "") == (wants.get("storageClassName") or "")
        and (has.get("volumeMode") or "Filesystem") == (wants.get("volumeMode") or "Filesystem")
        and set(wants.get("accessModes") or ()) <= set(has.get("accessModes") or ())
        and size_of(volume) >= parse(asked_size(claim))
        and (wants.get("selector") is None or matches(from_label_selector(wants["selector"]) or (), labels_of(volume)))
    )


def is_meant_for(volume: Object, claim: Object) -> bool:
    """Whether the volume names the claim, or the claim the volume."""
    held = spec_of(volume).get("claimRef") or {}
    metadata = claim["metadata"]
    named = held.get("name") == metadata["name"] and (held.get("namespace") or "default") == metadata.get("namespace")
    # The uid of an earlier claim of this name, unless the volume comes with its claim from elsewhere.
    return named or (not held and spec_of(claim).get("volumeName") == name_of(volume))


def claim_of_volume(volume: Mapping[str, Any], pod: str) -> str:
    """The name of the claim that a volume of a pod is, or "". The claim of an ephemeral volume is named after both."""
    if claim := volume.get("persistentVolumeClaim"):
        return str(claim.get("claimName") or "")
    return f"{pod}-{volume.get('name')}" if volume.get("ephemeral") else ""


def claim_templates(pod: Object) -> Iterator[tuple[str, Object]]:
    """The claims of a pod's ephemeral volumes: the name of each, and its template."""
    for volume in pod["spec"].get("volumes") or ():
        if ephemeral := volume.get("ephemeral"):
            yield claim_of_volume(volume, name_of(pod)), ephemeral.get("volumeClaimTemplate") or {}


def volume_node_terms(volume: Object) -> list[Mapping[str, Any]]:
    """The terms of the volume's node affinity, of which one suffices; empty: it can be used everywhere."""
    required = (spec_of(volume).get("nodeAffinity") or {}).get("required") or {}
    return list(required.get("nodeSelectorTerms") or ())


def topology_terms(storage_class: Object) -> list[dict[str, Any]]:
    """The topologies in which volumes of a class are made, in the form of node selector terms."""
    return [
        {
            "matchExpressions": [
                {"key": each.get("key", ""), "operator": "In", "values": list(each.get("values") or ())}
                for each in term.get("matchLabelExpressions") or ()
            ]
        }
        for term in storage_class.get("allowedTopologies") or ()
    ]


def size_of(volume: Object) -> Fraction:
    return parse((spec_of(volume).get("capacity") or {}).get("storage", 0))


def asked_size(claim: Object) -> Any:
    return ((spec_of(claim).get("resources") or {}).get("requests") or {}).get("storage", 0)


# --- storage that drivers tell of ------------------------------------------------------------------------------------


def counts_capacity(driver: Object | None) -> bool:
    """Whether a driver tells by CSIStorageCapacity objects how much storage it has. A class whose driver is no CSIDriver has any amount."""
    return driver is not None and bool(spec_of(driver).get("storageCapacity"))


def has_room(capacity: Object, storage_class: Object, claim: Object) -> bool:
    """Whether a CSIStorageCapacity has room for a claim. Source: Kubernetes' volume binder, capacitySufficient."""
    limit = capacity.get("maximumVolumeSize", capacity.get("capacity"))
    return (
        capacity.get("storageClassName") == name_of(storage_class)
        and capacity.get("nodeTopology") is not None
        and limit is not None
        and parse(limit) >= parse(asked_size(claim))
    )


def capacity_term(capacity: Object) -> dict[str, Any]:
    """The nodes that can use a CSIStorageCapacity, as a node selector term."""
    topology = capacity.get("nodeTopology") or {}
    labels = [
        {"key": key, "operator": "In", "values": [value]} for key, value in (topology.get("matchLabels") or {}).items()
    ]
    return {"matchExpressions": [*labels, *(topology.get("matchExpressions") or ())]}


def combined_terms(term: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """A node selector term that holds where both do."""
    return {"matchExpressions": [*term.get("matchExpressions", ()), *other.get("matchExpressions", ())]}
