"""PyTorchJobs: one gang with a subgroup for the masters and one for the workers, cut into segments if asked.

The gang's size is, by precedence, ``schedulingPolicy.minAvailable``, ``elasticPolicy.minReplicas``, all replicas;
what the masters don't take of it the workers must bring. Segments beyond it are elastic: their minimum is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kailab.cluster.protocol import Object
from kailab.grouping.families.kubeflow import distributed_grouping
from kailab.grouping.families.segments import (
    POD_ANNOTATIONS,
    SEGMENT_SIZE,
    annotation,
    check_count,
    segment_topology,
)
from kailab.grouping.family import Context, Family
from kailab.grouping.fields import integer, mapping, title, whole_number
from kailab.grouping.records import GroupingError, Plan, SubGroup
from kailab.model.objects import labels_of

_REPLICA_TYPE = "training.kubeflow.org/replica-type"
_REPLICA_INDEX = "training.kubeflow.org/replica-index"
_SPECS = "pytorchReplicaSpecs"


def _pytorch(top: Object, pod: Object, chain: Sequence[Object], context: Context) -> Plan:
    grouping = distributed_grouping(top, pod, context, _SPECS)
    if integer(top, "spec", "runPolicy", "schedulingPolicy", "minAvailable") is None:
        elastic = integer(top, "spec", "elasticPolicy", "minReplicas")
        grouping.min_member = grouping.min_member if elastic is None else elastic
    specs = mapping(top, "spec", _SPECS)
    if specs is None:
        raise GroupingError(f"{title(top)}: spec.{_SPECS} is missing")
    masters = integer(specs, "Master", "replicas") or 0
    if masters:
        grouping.sub_groups.append(SubGroup("master", masters))
    worker_segment: Callable[[Object], str] = _no_worker_group
    if "Worker" in specs:
        least = max(0, grouping.min_member - masters)
        workers, worker_segment = _worker_groups(top, pod, specs, least)
        grouping.sub_groups += workers

    def sub_group_of(member: Object) -> str:
        replica_type = labels_of(member).get(_REPLICA_TYPE)
        if replica_type == "master":
            return "master" if masters else ""
        return worker_segment(member) if replica_type == "worker" else ""

    return Plan(grouping, sub_group_of)


def _worker_groups(
    top: Object, pod: Object, specs: dict[str, Any], least: int
) -> tuple[list[SubGroup], Callable[[Object], str]]:
    template = mapping(specs, "Worker", "template") or {}
    size_text = annotation(pod, template, SEGMENT_SIZE)
    workers = integer(specs, "Worker", "replicas")
    workers = 1 if workers is None else workers
    size = whole_number(size_text, f"{title(top)}: annotation {SEGMENT_SIZE}", least=1) if size_text else 0
    segments = -(-workers // size) if size else 0
    if not segments:
        return [SubGroup("worker", least)], _one_worker_group
    check_count(segments)
    topology = segment_topology(pod, template, top)
    groups = [SubGroup("worker", min_sub_group=segments)]
    for index in range(segments):
        # The last segment may be smaller than the rest. One that begins beyond the minimum is elastic.
        must = min(size, workers - index * size) if index * size < least else 0
        groups.append(SubGroup(f"worker-{index}", must, parent="worker", topology=topology))

    def segment_of(member: Object) -> str:
        index = _replica_index(member) // size
        return f"worker-{index}" if index < segments else ""

    return groups, segment_of


def _replica_index(pod: Object) -> int:
    text = labels_of(pod).get(_REPLICA_INDEX)
    if text is None:
        raise GroupingError(f"{title(pod)} lacks the label {_REPLICA_INDEX}")
    return whole_number(text, f"{title(pod)}: label {_REPLICA_INDEX}", least=0)


def _one_worker_group(pod: Object) -> str:
    return "worker"


def _no_worker_group(pod: Object) -> str:
    return ""


PYTORCH = Family("pytorch", _pytorch, pod_annotations=POD_ANNOTATIONS)
