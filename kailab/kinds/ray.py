"""Ray: RayCluster, and RayJob and RayService, which create one."""

from __future__ import annotations

from typing import Any

from kailab.kinds.kubernetes import spec_check
from kailab.model.kind import Kind, Unread
from kailab.model.validation.core import shape
from kailab.model.validation.fields import Faults
from kailab.model.validation.pods import check_template
from kailab.model.validation.shapes import (
    COUNT,
    FLAG,
    PODS,
    TEXT,
    Check,
    items,
    named,
    one_of,
    record,
    table,
    whole,
    with_spec,
)


@spec_check
def _check_cluster(faults: Faults, spec: dict[str, Any]) -> None:
    head = faults.mapping(spec, "headGroupSpec", "spec.headGroupSpec", required=True)
    if head is not None:
        check_template(faults, head, "spec.headGroupSpec")
    for path, group in faults.mappings(spec, "workerGroupSpecs", "spec.workerGroupSpecs"):
        for key in ("replicas", "minReplicas", "maxReplicas"):
            faults.integer(group, key, f"{path}.{key}")
        faults.integer(group, "numOfHosts", f"{path}.numOfHosts", least=1)
        check_template(faults, group, path)


def _cluster_spec() -> Check:
    template = shape("V1PodTemplateSpec")
    worker = {
        "groupName": TEXT,
        "replicas": PODS,
        "minReplicas": COUNT,
        "maxReplicas": COUNT,
        "numOfHosts": whole(1, 10_000),
        "suspend": FLAG,
        "suspended": FLAG,
        "rayStartParams": table(TEXT),
        "template": template,
    }
    head = record({"rayStartParams": table(TEXT), "template": template}, ("template",))
    return record(
        {
            "enableInTreeAutoscaling": FLAG,
            "autoscalerOptions": record({"resources": shape("V1ResourceRequirements")}),
            "suspend": FLAG,
            "headGroupSpec": head,
            "workerGroupSpecs": named(record(worker, ("template",)), "groupName"),
        }
    )


def _job() -> Check:
    policy = one_of("DeleteCluster", "DeleteWorkers", "DeleteSelf", "DeleteNone")
    condition = record({"jobStatus": TEXT, "jobDeploymentStatus": TEXT, "ttlSeconds": COUNT})
    rule = record({"policy": policy, "condition": condition}, ("policy", "condition"))
    legacy = record({"policy": policy})
    spec = {
        "clusterSelector": table(TEXT),
        "deletionStrategy": record({"deletionRules": items(rule), "onSuccess": legacy, "onFailure": legacy}),
        "rayClusterSpec": _cluster_spec(),
        "submitterPodTemplate": shape("V1PodTemplateSpec"),
        "submitterConfig": record({"backoffLimit": COUNT}),
        "submissionMode": TEXT,
        "shutdownAfterJobFinishes": FLAG,
        "suspend": FLAG,
        "ttlSecondsAfterFinished": COUNT,
        "activeDeadlineSeconds": COUNT,
        "preRunningDeadlineSeconds": COUNT,
        "backoffLimit": COUNT,
    }
    return with_spec(record(spec))


def _service() -> Check:
    return with_spec(record({"rayClusterConfig": _cluster_spec(), "rayClusterDeletionDelaySeconds": COUNT}))


def _ray(kind: str, plural: str, name: str, *above: str, **parts: Any) -> Kind:
    """``above``: the path to the spec of the RayCluster that it makes."""
    return Kind(
        group="ray.io",
        kind=kind,
        versions=("v1", "v1alpha1"),
        plural=plural,
        controller=f"kailab.workloads.ray:{kind}Controller",
        grouping=f"kailab.grouping.families.ray:{name}",
        wanted_pods=f"kailab.workloads.wanted_pods:{name.lower()}",
        label_domains=("ray.io",),
        immutable_while_set=("spec.managedBy", *(f"{path}.managedBy" for path in above)),
        **parts,
    )


_MANAGED_BY = Unread(("spec", "managedBy"), "the controller that it names makes the pods", ("ray.io/kuberay-operator",))


def _autoscaling(*above: str) -> Unread:
    """The unread field for autoscaling of a RayCluster's spec. ``above``: the path to the spec."""
    return Unread(
        (*above, "enableInTreeAutoscaling"),
        "Ray's autoscaler changes how many workers there are",
    )


KINDS = (
    _ray(
        "RayCluster",
        "rayclusters",
        "RAY_CLUSTER",
        check=_check_cluster,
        shape=lambda: with_spec(_cluster_spec()),
        in_all=True,
        unread=(
            _autoscaling("spec"),
            Unread(("spec", "upgradeStrategy", "type"), "a change of a template replaces all pods", only=("Recreate",)),
            _MANAGED_BY,
        ),
    ),
    _ray(
        "RayJob",
        "rayjobs",
        "RAY_JOB",
        "spec.rayClusterSpec",
        shape=_job,
        needs="kailab.workloads.ray:needs_of_ray_job",
        suspended_by="suspend",
        watches=("RayCluster",),
        in_all=True,
        unread=(
            _autoscaling("spec", "rayClusterSpec"),
            _MANAGED_BY,
        ),
    ),
    _ray(
        "RayService",
        "rayservices",
        "RAY_SERVICE",
        "spec.rayClusterConfig",
        shape=_service,
        unread=(_autoscaling("spec", "rayClusterConfig"), _MANAGED_BY),
    ),
)
