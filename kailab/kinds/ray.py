"""Ray: RayCluster, and RayJob and RayService, which make one."""

from __future__ import annotations

from typing import Any

from kailab.model.kind import Kind
from kailab.model.validation.core import shape
from kailab.model.validation.fields import Faults
from kailab.model.validation.pods import check_template
from kailab.model.validation.shapes import COUNT, FLAG, PODS, TEXT, Check, named, record, table, whole, with_spec


def _check_cluster(faults: Faults, obj: dict[str, Any]) -> None:
    spec = faults.mapping(obj, "spec", "spec", required=True)
    if spec is None:
        return
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
        {"suspend": FLAG, "headGroupSpec": head, "workerGroupSpecs": named(record(worker, ("template",)), "groupName")}
    )


def _job() -> Check:
    spec = {
        "rayClusterSpec": _cluster_spec(),
        "submitterPodTemplate": shape("V1PodTemplateSpec"),
        "submitterConfig": record({"backoffLimit": COUNT}),
        "submissionMode": TEXT,
        "shutdownAfterJobFinishes": FLAG,
        "suspend": FLAG,
        "ttlSecondsAfterFinished": COUNT,
        "activeDeadlineSeconds": COUNT,
    }
    return with_spec(record(spec))


def _service() -> Check:
    return with_spec(record({"rayClusterConfig": _cluster_spec(), "rayClusterSpec": _cluster_spec()}))


def _ray(kind: str, plural: str, grouping: str, **parts: Any) -> Kind:
    return Kind(
        group="ray.io",
        kind=kind,
        versions=("v1", "v1alpha1"),
        plural=plural,
        controller=f"kailab.workloads.ray:{kind}Controller",
        grouping=f"kailab.grouping.families.ray:{grouping}",
        **parts,
    )


KINDS = (
    _ray(
        "RayCluster",
        "rayclusters",
        "RAY_CLUSTER",
        check=_check_cluster,
        shape=lambda: with_spec(_cluster_spec()),
        in_all=True,
    ),
    _ray("RayJob", "rayjobs", "RAY_JOB", shape=_job, in_all=True),
    _ray("RayService", "rayservices", "RAY_SERVICE", shape=_service),
)
