"""Kubeflow's distributed jobs: one gang of all replicas, or of ``schedulingPolicy.minAvailable``.

An MPIJob with ``launcherCreationPolicy: WaitForWorkersReady`` counts its launcher only once the launcher's pod exists.

A PyTorchJob has a subgroup for masters and one for workers, cut into segments if the annotation asks for it. Its ``minMember`` is, by
precedence, ``schedulingPolicy.minAvailable``, ``elasticPolicy.minReplicas``, all replicas. Masters count first, workers bring the rest.
Segments beyond the minimum are elastic: their minimum is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kailab.cluster.protocol import Object
from kailab.grouping.default import default_grouping
from kailab.grouping.families.segments import POD_ANNOTATIONS, SEGMENT_SIZE, annotation, check_count, segment_topology
from kailab.grouping.family import Context, Family, MakePlan
from kailab.grouping.fields import integer, mapping, string, title, whole_number
from kailab.grouping.records import Grouping, GroupingError, Plan, PlannedSubGroup, no_sub_group
from kailab.model.objects import is_terminating, labels_of, name_of, namespace_of

_LAUNCHER = "Launcher"


def distributed_grouping(
    top: Object, pod: Object, context: Context, replica_specs: str, required: Sequence[str] = ()
) -> Grouping:
    """The gang of a training-operator job. ``replica_specs``: its field of replica specs; ``required``: the replica specs that it needs."""
    grouping = default_grouping(top, pod, (), context)
    least = integer(top, "spec", "runPolicy", "schedulingPolicy", "minAvailable")
    grouping.min_member = least if least is not None else _all_replicas(top, replica_specs, required)
    return grouping


def _all_replicas(top: Object, field: str, required: Sequence[str]) -> int:
    specs = mapping(top, "spec", field)
    if specs is None:
        raise GroupingError(f"{title(top)}: spec.{field} is missing")
    for name in required:
        if name not in specs:
            raise GroupingError(f"{title(top)}: spec.{field} needs a {name} replica spec")
    total = 0
    for name in specs:
        replicas = integer(specs, name, "replicas")
        if not replicas:
            raise GroupingError(f"{title(top)}: spec.{field}.{name}.replicas must be 1 or more")
        total += replicas
    if total <= 0:
        raise GroupingError(f"{title(top)}: spec.{field} asks for {total} pods in all, expected 1 or more")
    return total


def _distributed(replica_specs: str, *required: str) -> MakePlan:
    return lambda top, pod, chain, context: Plan(distributed_grouping(top, pod, context, replica_specs, required))


def _mpi(top: Object, pod: Object, chain: Sequence[Object], context: Context) -> Plan:
    grouping = distributed_grouping(top, pod, context, "mpiReplicaSpecs", (_LAUNCHER, "Worker"))
    waits = string(top, "spec", "launcherCreationPolicy") == "WaitForWorkersReady"
    if waits and not _has_launcher(top, context):
        launchers = integer(top, "spec", "mpiReplicaSpecs", _LAUNCHER, "replicas")
        if not launchers:
            raise GroupingError(f"{title(top)}: spec.mpiReplicaSpecs.{_LAUNCHER}.replicas must be 1 or more")
        # With the launcher in the gang, the workers would wait for a pod that waits for them.
        grouping.min_member -= launchers
    return Plan(grouping)


def _has_launcher(top: Object, context: Context) -> bool:
    labels = {"training.kubeflow.org/job-name": name_of(top), "training.kubeflow.org/job-role": "launcher"}
    pods = context.reads.list("v1", "Pod", namespace_of(top), labels)
    return any(not is_terminating(pod) for pod in pods)


TENSORFLOW = Family("tensorflow", _distributed("tfReplicaSpecs"))
XGBOOST = Family("xgboost", _distributed("xgbReplicaSpecs", "Master", "Worker"))
JAX = Family("jax", _distributed("jaxReplicaSpecs", "Worker"))
MPI = Family("mpi", _mpi, per_owner=False)


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
        grouping.sub_groups.append(PlannedSubGroup("master", masters))
    worker_segment: Callable[[Object], str] = no_sub_group
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
) -> tuple[list[PlannedSubGroup], Callable[[Object], str]]:
    template = mapping(specs, "Worker", "template") or {}
    size_text = annotation(pod, template, SEGMENT_SIZE)
    workers = integer(specs, "Worker", "replicas")
    workers = 1 if workers is None else workers
    size = whole_number(size_text, f"{title(top)}: annotation {SEGMENT_SIZE}", least=1) if size_text else 0
    segments = -(-workers // size) if size else 0
    if not segments:
        return [PlannedSubGroup("worker", least)], lambda member: "worker"
    check_count(segments)
    topology = segment_topology(pod, template, top)
    groups = [PlannedSubGroup("worker", min_sub_group=segments)]
    for index in range(segments):
        # The last segment may be smaller. A segment beyond the minimum is elastic.
        minimum = min(size, workers - index * size) if index * size < least else 0
        groups.append(PlannedSubGroup(f"worker-{index}", minimum, parent="worker", topology=topology))

    def segment_of(member: Object) -> str:
        index = _replica_index(member) // size
        return f"worker-{index}" if index < segments else ""

    return groups, segment_of


def _replica_index(pod: Object) -> int:
    text = labels_of(pod).get(_REPLICA_INDEX)
    if text is None:
        raise GroupingError(f"{title(pod)} lacks the label {_REPLICA_INDEX}")
    return whole_number(text, f"{title(pod)}: label {_REPLICA_INDEX}", least=0)


PYTORCH = Family("pytorch", _pytorch, pod_annotations=POD_ANNOTATIONS)
