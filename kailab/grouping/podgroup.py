"""Turns groupings into PodGroup objects, and merges them with existing PodGroups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kailab.cluster.protocol import Object
from kailab.grouping.family import GroupingConfig
from kailab.grouping.records import Grouping, PlannedSubGroup, PlannedTopology
from kailab.model.kinds import api_version_of
from kailab.model.objects import annotations_of, labels_of, metadata_of, owner_references, shared_labels, spec_of

KIND = "PodGroup"

# Fields of a PodGroup's spec that other parts of KAI write.
_FOREIGN_FIELDS = ("markUnschedulable", "schedulingBackoff", "queue")


def podgroup_object(grouping: Grouping) -> Object:
    """The PodGroup to create. ``minSubGroup`` and ``minMember`` exclude each other; empty fields are left out."""
    metadata: dict[str, Any] = {"name": grouping.name, "namespace": grouping.namespace}
    if grouping.labels:
        metadata["labels"] = shared_labels(tuple(grouping.labels.items()))
    if grouping.annotations:
        metadata["annotations"] = grouping.annotations
    metadata["ownerReferences"] = [grouping.owner.as_object()]
    spec = _least(grouping.min_member, grouping.min_sub_group)
    for field, value in (
        ("queue", grouping.queue),
        ("priorityClassName", grouping.priority_class),
        ("preemptibility", grouping.preemptibility),
        ("preemptionDelay", grouping.preemption_delay),
        ("stalenessGracePeriod", grouping.staleness_grace_period),
        ("topologyConstraint", _constraint(grouping.topology)),
        ("subGroups", [_sub_group(each) for each in grouping.sub_groups]),
    ):
        if value:
            spec[field] = value
    return {"apiVersion": api_version_of(KIND), "kind": KIND, "metadata": metadata, "spec": spec}


def keep_foreign_fields(existing: Object, wanted: Object, config: GroupingConfig) -> Object:
    """``wanted`` with the fields of ``existing`` that belong to others.

    Those are the queue, markUnschedulable and schedulingBackoff of the spec, the node-pool label (also its absence),
    the queue label, and the topology constraint as long as ``wanted`` names no topology. Source: KAI's podgroup
    handler.
    """
    old_spec, old_labels = spec_of(existing), labels_of(existing)
    spec = {key: value for key, value in wanted["spec"].items() if key not in _FOREIGN_FIELDS}
    spec.update((key, old_spec[key]) for key in _FOREIGN_FIELDS if old_spec.get(key) is not None)
    # As in KAI's ignoreFields, a constraint that another client wrote stays.
    if not (spec.get("topologyConstraint") or {}).get("topology"):
        spec.pop("topologyConstraint", None)
        if old_spec.get("topologyConstraint"):
            spec["topologyConstraint"] = old_spec["topologyConstraint"]
    labels = dict(labels_of(wanted))
    # Its absence stays too: the component that assigns node pools removed it.
    labels.pop(config.node_pool_label, None)
    for key in (config.node_pool_label, config.queue_label):
        if key in old_labels:
            labels[key] = old_labels[key]
    metadata = dict(wanted["metadata"])
    metadata.pop("labels", None)
    if labels:
        metadata["labels"] = labels
    return {**wanted, "metadata": metadata, "spec": spec}


def updated_podgroup(existing: Object, grouping: Grouping, config: GroupingConfig) -> Object | None:
    """``existing`` updated for ``grouping``; None if nothing changes.

    Other labels and annotations stay. A shared PodGroup keeps its content and only gains an owner.
    """
    if grouping.shared:
        return _with_owner(existing, grouping.owner.as_object())
    planned = keep_foreign_fields(existing, podgroup_object(grouping), config)
    metadata = metadata_of(existing)
    changed = {
        "labels": {**labels_of(existing), **labels_of(planned)},
        "annotations": {**annotations_of(existing), **annotations_of(planned)},
        "ownerReferences": owner_references(planned),
    }
    # KAI writes empty fields, which mean the same as missing ones.
    old_spec = {key: value for key, value in spec_of(existing).items() if value not in ({}, [], None)}
    if old_spec == planned["spec"] and all(metadata.get(key) == value for key, value in changed.items() if value):
        return None
    return {**existing, "metadata": {**metadata, **changed}, "spec": planned["spec"]}


def _with_owner(existing: Object, reference: Mapping[str, Any]) -> Object | None:
    references = owner_references(existing)
    if any(each.get("uid") == reference["uid"] for each in references):
        return None
    return {**existing, "metadata": {**existing["metadata"], "ownerReferences": [*references, reference]}}


def _sub_group(sub_group: PlannedSubGroup) -> dict[str, Any]:
    obj: dict[str, Any] = {
        "name": sub_group.name,
        **_least(sub_group.min_member, sub_group.min_sub_group),
    }
    if sub_group.parent is not None:
        obj["parent"] = sub_group.parent
    if sub_group.topology is not None:
        obj["topologyConstraint"] = _constraint(sub_group.topology)
    return obj


def _least(min_member: int, min_sub_group: int | None) -> dict[str, Any]:
    return {"minMember": min_member} if min_sub_group is None else {"minSubGroup": min_sub_group}


def _constraint(topology: PlannedTopology) -> dict[str, str]:
    fields = {
        "topology": topology.topology,
        "requiredTopologyLevel": topology.required_level,
        "preferredTopologyLevel": topology.preferred_level,
    }
    return {key: value for key, value in fields.items() if value}
