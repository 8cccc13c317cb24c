"""JobSets: one PodGroup with a parent subgroup per replicatedJob and a leaf subgroup per replica of it.

The PodGroup requires all replicatedJobs, or one if the JobSet starts them in order. The annotation ``batch-min-member`` on the JobSet
lowers that number. On a replicatedJob's template, the annotation sets the minimum of its leaves, which is otherwise the parallelism. A
template's topology annotations apply to each replica.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kailab.cluster.protocol import Object
from kailab.grouping.default import default_grouping, pod_group_name
from kailab.grouping.family import Context, Family
from kailab.grouping.fields import integer, objects, string, title, whole_number
from kailab.grouping.records import GroupingError, Plan, PlannedSubGroup, annotated_topology
from kailab.model.kinds import api_version_of
from kailab.model.labels import BATCH_MIN_MEMBER
from kailab.model.objects import annotations_of, labels_of, name_of, namespace_of, spec_of, uid_of

_REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"
_JOB_INDEX = "jobset.sigs.k8s.io/job-index"


def _jobset(top: Object, pod: Object, chain: Sequence[Object], context: Context) -> Plan:
    if not name_of(top) or not uid_of(top):
        raise GroupingError(f"{title(top)} has no name or no uid")
    replicated_jobs = objects(top, "spec", "replicatedJobs")
    if not replicated_jobs:
        raise GroupingError(f"{title(top)}: spec.replicatedJobs is empty")
    in_order = string(top, "spec", "startupPolicy", "startupPolicyOrder") == "InOrder"
    # The PodGroup of an older KAI is kept, so that running pods do not get another one. Source: KAI detectLegacyPodGroup.
    if _has_legacy_pod_group(top, context):
        return _legacy(top, pod, in_order, context)
    grouping = default_grouping(top, pod, (), context)
    # minMember and minSubGroup exclude each other.
    grouping.min_member = 0
    grouping.min_sub_group = _min_sub_group(top, len(replicated_jobs), in_order)
    for index, replicated_job in enumerate(replicated_jobs):
        grouping.sub_groups += _sub_groups(replicated_job, index)
    leaves = frozenset(group.name for group in grouping.sub_groups if group.parent is not None)

    def sub_group_of(member: Object) -> str:
        leaf = f"{_label(member, _REPLICATED_JOB)}-replica-{_label(member, _JOB_INDEX)}"
        if leaf not in leaves:
            raise GroupingError(f"{title(top)} has no replica that {title(member)} belongs to ({leaf})")
        return leaf

    return Plan(grouping, sub_group_of)


def _min_sub_group(top: Object, replicated_jobs: int, in_order: bool) -> int:
    override = annotations_of(top).get(BATCH_MIN_MEMBER)
    if override is not None:
        least = whole_number(override, f"{title(top)}: annotation {BATCH_MIN_MEMBER}", least=1)
        return min(least, replicated_jobs)
    # In order, the next job's pods are made when the previous ones are ready: a gang of all would wait for itself.
    return 1 if in_order else replicated_jobs


def _sub_groups(replicated_job: dict[str, Any], index: int) -> list[PlannedSubGroup]:
    name = string(replicated_job, "name")
    if not name:
        raise GroupingError(f"spec.replicatedJobs.{index} has no name")
    replicas = integer(replicated_job, "replicas")
    replicas = 1 if replicas is None else replicas
    parallelism = integer(replicated_job, "template", "spec", "parallelism")
    least = 1 if parallelism is None else parallelism
    override = _template_annotation(replicated_job, BATCH_MIN_MEMBER)
    if override:
        least = whole_number(override, f"replicatedJob {name}: annotation {BATCH_MIN_MEMBER}", least=1)
    topology = annotated_topology(lambda key: _template_annotation(replicated_job, key))
    constraint = topology if topology.topology and (topology.required_level or topology.preferred_level) else None
    parent = PlannedSubGroup(name, min_sub_group=replicas)
    return [
        parent,
        *(PlannedSubGroup(f"{name}-replica-{i}", least, parent=name, topology=constraint) for i in range(replicas)),
    ]


def _template_annotation(replicated_job: dict[str, Any], key: str) -> str:
    return string(replicated_job, "template", "metadata", "annotations", key) or ""


def _label(pod: Object, key: str) -> str:
    value = labels_of(pod).get(key)
    if not value:
        raise GroupingError(f"{title(pod)} lacks the label {key}")
    return value


def _has_legacy_pod_group(top: Object, context: Context) -> bool:
    """Whether an older KAI made a PodGroup of this JobSet without subgroups."""
    if not context.config.legacy_pod_groups:
        return False
    name = pod_group_name(top)
    for pod_group in context.reads.list(api_version_of("PodGroup"), "PodGroup", namespace_of(top)):
        existing = name_of(pod_group)
        if (existing == name or existing.startswith(f"{name}-")) and not spec_of(pod_group).get("subGroups"):
            return True
    return False


def _legacy(top: Object, pod: Object, in_order: bool, context: Context) -> Plan:
    """The plan of an older KAI without subgroups: one PodGroup, or one per replicatedJob if they start in order."""
    grouping = default_grouping(top, pod, (), context)
    replicated_job = _label(pod, _REPLICATED_JOB)
    if in_order:
        grouping.name = f"{grouping.name}-{replicated_job}"
    override = annotations_of(top).get(BATCH_MIN_MEMBER)
    if override is not None:
        grouping.min_member = whole_number(override, f"{title(top)}: annotation {BATCH_MIN_MEMBER}", least=0)
    return Plan(grouping)


JOBSET = Family("jobset", _jobset, pod_labels=(_REPLICATED_JOB,))
