"""Kubeflow Trainer v2: TrainJob, and the runtimes with the templates of its JobSets."""

from __future__ import annotations

from kailab.kinds.jobset import IMMUTABLE_POLICIES, advise_start_of_runtime, job_set_spec, unread_of_job_sets
from kailab.model.kind import Kind, Unread
from kailab.model.objects import Object
from kailab.model.validation.core import fields_of, shape
from kailab.model.validation.shapes import (
    COUNT,
    FLAG,
    MAPPING,
    PODS,
    TEXT,
    Check,
    filled,
    items,
    named,
    record,
    table,
    with_spec,
)

_GROUP = "trainer.kubeflow.org"
_RUNTIMES = ("TrainingRuntime", "ClusterTrainingRuntime")


def _train_job() -> Check:
    trainer = {
        "numNodes": PODS,
        "image": TEXT,
        "command": items(TEXT),
        "args": items(TEXT),
        "env": shape("[V1EnvVar]"),
        "resourcesPerNode": shape("V1ResourceRequirements"),
    }
    spec = {
        "runtimeRef": record({"apiGroup": TEXT, "kind": TEXT, "name": TEXT}),
        "trainer": record(trainer),
        "labels": table(TEXT),
        "annotations": table(TEXT),
        "suspend": FLAG,
        "activeDeadlineSeconds": COUNT,
        "podTemplateOverrides": items(record({"targetJobs": _targets(), **_pods()})),
        "podSpecOverrides": items(record({"targetJobs": _targets(), **_pod_spec()})),
        "runtimePatches": items(record({"manager": TEXT, "trainingRuntimeSpec": _runtime_patch()}, ("manager",))),
    }
    return with_spec(record(spec))


def _targets() -> Check:
    return items(record({"name": filled(TEXT)}, ("name",)))


def _pod_spec() -> dict[str, Check]:
    """The fields of a pod spec that may be partial, because the runtime has the rest."""
    containers = named(record(fields_of("V1Container"), ("name",)))
    return {**fields_of("V1PodSpec"), "containers": containers, "initContainers": containers}


def _pods() -> dict[str, Check]:
    return {"metadata": record({"labels": table(TEXT), "annotations": table(TEXT)}), "spec": record(_pod_spec())}


def _runtime_patch() -> Check:
    """The shape of a patch of a runtime's template."""
    meta = record({"labels": table(TEXT), "annotations": table(TEXT)})
    pods = record(_pods())
    job = record({"metadata": meta, "spec": record({"template": pods})})
    jobs = named(record({"name": filled(TEXT), "template": job}, ("name",)))
    return record({"template": record({"metadata": meta, "spec": record({"replicatedJobs": jobs})})})


def _runtime() -> Check:
    template = record({"metadata": MAPPING, "spec": job_set_spec()})
    return with_spec(record({"mlPolicy": record({"numNodes": PODS}), "template": template}))


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
        shape=_train_job,
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
            shape=_runtime,
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
