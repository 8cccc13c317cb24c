"""Kubeflow Trainer v2: TrainJob, and the runtimes with the templates of its JobSets."""

from __future__ import annotations

from kailab.kinds.jobset import IMMUTABLE_POLICIES, advise_start_of_runtime, unread_of_job_sets
from kailab.model.kind import Kind, Unread
from kailab.model.objects import Object
from kailab.model.validation.core import shape_of_type

_GROUP = "trainer.kubeflow.org"
_RUNTIMES = ("TrainingRuntime", "ClusterTrainingRuntime")


def _fixed(stored: Object, obj: Object) -> Object:
    """While a TrainJob is suspended, and when it becomes so, the patches of its runtime may change, as Kueue does it. Source: Trainer's
    webhook (checkRuntimePatchesImmutability)."""
    before, spec = stored["spec"], obj["spec"]
    patches = before.get("runtimePatches") or []
    if not (before.get("suspend") or spec.get("suspend")):
        patches = spec.get("runtimePatches") or []
    return {**obj, "spec": {**spec, "runtimePatches": patches}}


KINDS = (
    Kind(
        group=_GROUP,
        kind="TrainJob",
        versions=("v1alpha1",),
        plural="trainjobs",
        shape=shape_of_type("TrainJob"),
        immutable=("spec.runtimePatches",),
        immutable_while_set=tuple(
            f"spec.{field}" for field in ("runtimeRef", "initializer", "trainer", "managedBy", "activeDeadlineSeconds")
        ),
        fixed=_fixed,
        needs="kailab.workloads.kubeflow:needs_of_train_job",
        controller="kailab.workloads.kubeflow:TrainJobController",
        suspended_by="suspend",
        watches=_RUNTIMES,
        grouping="kailab.grouping.families.plain_workloads:WRAPPER",
        fields_of_other_versions=(
            "spec.labels",
            "spec.annotations",
            "spec.podTemplateOverrides",
            "spec.podSpecOverrides",
        ),
        unread=(
            Unread(
                ("spec", "managedBy"),
                "the controller that it names makes the pods",
                ("trainer.kubeflow.org/trainjob-controller",),
            ),
        ),
    ),
    *(
        Kind(
            group=_GROUP,
            kind=kind,
            versions=("v1alpha1",),
            plural=f"{kind.lower()}s",
            namespaced=not kind.startswith("Cluster"),
            shape=shape_of_type("TrainingRuntime"),
            advice=advise_start_of_runtime,
            immutable_while_set=tuple(f"spec.template.spec.{field}" for field in IMMUTABLE_POLICIES),
            unread=(
                *unread_of_job_sets("spec", "template", "spec"),
                Unread(
                    ("spec", "podGroupPolicy"),
                    "the scheduler that it names starts the pods as a group; without that scheduler's kinds Trainer makes none",
                ),
                Unread(
                    ("spec", "mlPolicy", "mpi", "runLauncherAsNode"),
                    "the launcher is one of the nodes, so a worker fewer is made",
                ),
            ),
        )
        for kind in _RUNTIMES
    ),
)
