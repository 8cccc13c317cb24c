"""Knative Services: a revision is one gang of its min-scale, or with ``knative_gang`` off each pod is a PodGroup of its own.

A revision whose pods already have a PodGroup each keeps them.
"""

from __future__ import annotations

from collections.abc import Sequence

from kailab.cluster.protocol import Object
from kailab.grouping.default import (
    INFERENCE,
    group_annotations,
    group_labels,
    pod_group_name,
    priority_class_of,
    queue_of,
    reference_to,
)
from kailab.grouping.family import Context, Family
from kailab.grouping.records import Grouping, GroupingError, Plan
from kailab.model.kinds import api_version_of
from kailab.model.labels import KNATIVE_MIN_SCALE, POD_GROUP
from kailab.model.objects import annotations_of, name_of, namespace_of, owner_references
from kailab.model.quantities import parse_count

_REVISION = "serving.knative.dev/revision"


def _knative(top: Object, pod: Object, chain: Sequence[Object], context: Context) -> Plan:
    revision = context.labelled(pod, _REVISION, "serving.knative.dev/v1", "Revision")
    # As in KAI's isBCRevision: pods with a PodGroup each were grouped by an older KAI.
    gang = context.config.knative_gang and not _has_group_per_pod(revision, context)
    scale = annotations_of(revision).get(KNATIVE_MIN_SCALE, "1")
    return Plan(
        Grouping(
            name=pod_group_name(revision if gang else pod),
            namespace=namespace_of(revision if gang else pod),
            queue=queue_of(revision, pod, context),
            priority_class=priority_class_of((revision,), pod, context, INFERENCE) if gang else INFERENCE,
            owner=reference_to(revision if gang else pod),
            min_member=parse_count(scale, 1) if gang else 1,
            labels=group_labels(revision, pod),
            annotations=group_annotations(revision, pod),
        )
    )


def _has_group_per_pod(revision: Object, context: Context) -> bool:
    """Whether the revision's pods have a PodGroup each."""
    namespace = namespace_of(revision)
    pods = context.reads.list("v1", "Pod", namespace, {_REVISION: name_of(revision)})
    podgroups = [annotations_of(pod)[POD_GROUP] for pod in pods if POD_GROUP in annotations_of(pod)]
    # Two pods in one PodGroup are a gang.
    if len(set(podgroups)) < len(podgroups) or not podgroups:
        return False
    if len(podgroups) > 1:
        return True
    # With a single pod the owner of the PodGroup decides.
    pod_group = context.reads.get(api_version_of("PodGroup"), "PodGroup", namespace, podgroups[0])
    if pod_group is None:
        return False
    owners = owner_references(pod_group)
    kind = owners[0].get("kind") if owners else None
    if kind not in ("Revision", "Pod"):
        raise GroupingError(f"PodGroup {namespace}/{podgroups[0]} is owned by neither its revision nor a pod of it")
    return kind == "Pod"


KNATIVE = Family("knative", _knative, per_owner=False)
