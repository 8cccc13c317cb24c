"""Kubeflow's distributed jobs: one gang of all replicas, or of ``schedulingPolicy.minAvailable`` where it is given.

TFJob, XGBoostJob, JAXJob and MPIJob; PyTorchJob builds on this in a module of its own. An MPIJob that makes its
launcher only when the workers are ready does not count the launcher until its pod is there.
"""

from __future__ import annotations

from collections.abc import Sequence

from kailab.cluster.protocol import Object
from kailab.grouping.default import default_grouping
from kailab.grouping.family import Context, Family
from kailab.grouping.fields import integer, mapping, string, title
from kailab.grouping.records import Grouping, GroupingError, Plan
from kailab.model.objects import name_of, namespace_of

_LAUNCHER = "Launcher"


def distributed_grouping(
    top: Object, pod: Object, context: Context, replica_specs: str, required: Sequence[str] = ()
) -> Grouping:
    """A gang of a training-operator job. ``replica_specs``: the field that has them; ``required``: names it needs."""
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


def _tensorflow(top: Object, pod: Object, chain: Sequence[Object], context: Context) -> Plan:
    return Plan(distributed_grouping(top, pod, context, "tfReplicaSpecs"))


def _xgboost(top: Object, pod: Object, chain: Sequence[Object], context: Context) -> Plan:
    return Plan(distributed_grouping(top, pod, context, "xgbReplicaSpecs", ("Master", "Worker")))


def _jax(top: Object, pod: Object, chain: Sequence[Object], context: Context) -> Plan:
    return Plan(distributed_grouping(top, pod, context, "jaxReplicaSpecs", ("Worker",)))


def _mpi(top: Object, pod: Object, chain: Sequence[Object], context: Context) -> Plan:
    grouping = distributed_grouping(top, pod, context, "mpiReplicaSpecs", (_LAUNCHER, "Worker"))
    waits = string(top, "spec", "launcherCreationPolicy") == "WaitForWorkersReady"
    if waits and not _has_launcher(top, context):
        launchers = integer(top, "spec", "mpiReplicaSpecs", _LAUNCHER, "replicas")
        if not launchers:
            raise GroupingError(f"{title(top)}: spec.mpiReplicaSpecs.{_LAUNCHER}.replicas must be 1 or more")
        # The workers alone start the gang; with the launcher in it they would wait for a pod that waits for them.
        grouping.min_member -= launchers
    return Plan(grouping)


def _has_launcher(top: Object, context: Context) -> bool:
    labels = {"training.kubeflow.org/job-name": name_of(top), "training.kubeflow.org/job-role": "launcher"}
    pods = context.reads.list("v1", "Pod", namespace_of(top), labels)
    return any("deletionTimestamp" not in pod["metadata"] for pod in pods)


TENSORFLOW = Family("tensorflow", _tensorflow)
XGBOOST = Family("xgboost", _xgboost)
JAX = Family("jax", _jax)
MPI = Family("mpi", _mpi, per_owner=False)
