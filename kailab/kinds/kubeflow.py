"""Kubeflow's training jobs (PyTorchJob, TFJob, XGBoostJob, JAXJob, PaddleJob, MPIJob), Notebook and ScheduledWorkflow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kailab.kinds.kubernetes import SpecCheck, spec_check
from kailab.model.kind import Kind, Unread
from kailab.model.validation.core import shape_of_type
from kailab.model.validation.fields import Faults
from kailab.model.validation.pods import check_template


def _check(field: str, known: tuple[str, ...]) -> SpecCheck:
    """A check of the replica specs by role in a field of the spec. ``known``: the roles that the operator's webhook accepts; empty: all."""

    @spec_check
    def check(faults: Faults, spec: dict[str, Any]) -> None:
        path = f"spec.{field}"
        roles = faults.mapping(spec, field, path, required=True)
        for role in roles or {}:
            if known and role not in known:
                faults.add(f"{path}.{role}", f"there is no such role; expected {' or '.join(known)}")
            replicas = faults.mapping(roles or {}, role, f"{path}.{role}")
            if replicas is not None:
                faults.integer(replicas, "replicas", f"{path}.{role}.replicas")
                check_template(faults, replicas, f"{path}.{role}")

    return check


_MANAGED_BY = Unread(
    ("spec", "runPolicy", "managedBy"),
    "the controller that it names makes the pods",
    ("kubeflow.org/training-operator", "kubeflow.org/mpi-operator"),
)
_ELASTIC = Unread(("spec", "elasticPolicy", "metrics"), "a HorizontalPodAutoscaler changes how many workers there are")

_MASTER_AND_WORKERS = ("Master", "Worker")

_FIXED_MANAGER = ("spec.runPolicy.managedBy",)
"""What the webhooks of some of these kinds never let change."""


_CONTAINERS = {
    "PyTorchJob": "pytorch",
    "TFJob": "tensorflow",
    "XGBoostJob": "xgboost",
    "JAXJob": "jax",
    "PaddleJob": "paddle",
}
"""The name of the container that each role must have. Source: the webhooks of the training operator v1.9.4."""


def _advise_containers(field: str, name: str) -> Callable[[Faults, dict[str, Any]], None]:
    def advise(faults: Faults, obj: dict[str, Any]) -> None:
        for role, replicas in (obj["spec"].get(field) or {}).items():
            containers = (replicas["template"].get("spec") or {}).get("containers") or ()
            if all(container.get("name") != name for container in containers):
                text = f"has none called {name}: the training operator refuses the {obj['kind']}, and kailab makes its pods"
                faults.add(f"spec.{field}.{role}.template.spec.containers", text)

    return advise


def _training(kind: str, field: str, known: tuple[str, ...] = (), **parts: Any) -> Kind:
    return Kind(
        **{
            "group": "kubeflow.org",
            "kind": kind,
            "versions": ("v1",),
            "plural": f"{kind.lower()}s",
            "check": _check(field, known),
            "advice": _advise_containers(field, _CONTAINERS[kind]) if kind in _CONTAINERS else None,
            "shape": shape_of_type(kind),
            "controller": "kailab.workloads.kubeflow:TrainingJobController",
            "wanted_pods": "kailab.workloads.wanted_pods:training_job",
            "suspended_by": "runPolicy.suspend",
            "immutable_while_set": ("spec.runPolicy.schedulingPolicy.queue",),
            "label_domains": ("kubeflow.org",),
            "unread": (_MANAGED_BY,),
            **parts,
        }
    )


KINDS = (
    _training(
        "PyTorchJob",
        "pytorchReplicaSpecs",
        _MASTER_AND_WORKERS,
        grouping="kailab.grouping.families.kubeflow:PYTORCH",
        in_all=True,
        unread=(_MANAGED_BY, _ELASTIC),
    ),
    _training(
        "TFJob",
        "tfReplicaSpecs",
        grouping="kailab.grouping.families.kubeflow:TENSORFLOW",
        immutable=_FIXED_MANAGER,
        unread=(
            _MANAGED_BY,
            Unread(("spec", "successPolicy"), "the job ends when all its workers have succeeded", only=("AllWorkers",)),
        ),
    ),
    _training(
        "XGBoostJob",
        "xgbReplicaSpecs",
        _MASTER_AND_WORKERS,
        grouping="kailab.grouping.families.kubeflow:XGBOOST",
        immutable=_FIXED_MANAGER,
    ),
    _training("JAXJob", "jaxReplicaSpecs", ("Worker",), grouping="kailab.grouping.families.kubeflow:JAX"),
    _training("PaddleJob", "paddleReplicaSpecs", _MASTER_AND_WORKERS, immutable=_FIXED_MANAGER),
    _training(
        "MPIJob",
        "mpiReplicaSpecs",
        versions=("v2beta1", "v1"),
        controller="kailab.workloads.kubeflow:MpiJobController",
        grouping="kailab.grouping.families.kubeflow:MPI",
        in_all=True,
    ),
    Kind(
        group="kubeflow.org",
        kind="Notebook",
        versions=("v1", "v1beta1", "v1alpha1"),
        plural="notebooks",
        shape=shape_of_type("Notebook"),
        controller="kailab.workloads.notebook:NotebookController",
        wanted_pods="kailab.workloads.notebook:wanted",
        grouping="kailab.grouping.families.plain_workloads:NOTEBOOK",
        in_all=True,
    ),
    Kind(
        group="kubeflow.org",
        kind="ScheduledWorkflow",
        versions=("v1beta1", "v1alpha1"),
        plural="scheduledworkflows",
        short=("swf",),
        in_cluster="Kubeflow Pipelines makes a Workflow at each of its times",
    ),
)
