"""NVIDIA Dynamo: DynamoGraphDeployment, whose operator makes a Grove PodCliqueSet of it."""

from __future__ import annotations

from kailab.model.kind import Kind, Unread
from kailab.model.validation.core import shape_of_type

_SCALED = "an autoscaler changes how many pods there are"

_SHARED = "containers share their GPUs by a ResourceClaim"
_PARTS = (("spec", "services", "*"), ("spec", "components", "*", "experimental"))

KINDS = (
    Kind(
        group="nvidia.com",
        kind="DynamoGraphDeployment",
        versions=("v1beta1", "v1alpha1"),
        plural="dynamographdeployments",
        short=("dgd",),
        label_domains=("nvidia.com",),
        shape=shape_of_type("DynamoGraphDeployment"),
        controller="kailab.workloads.dynamo:DynamoController",
        describes="kailab.workloads.dynamo:pods_of_graph",
        wanted_pods="kailab.workloads.wanted_pods:dynamo_graph",
        grouping="kailab.grouping.families.plain_workloads:WRAPPER",
        in_all=True,
        unread=(
            Unread(
                ("metadata", "annotations", "nvidia.com/enable-grove"),
                "Deployments run the services, and none of them is a gang",
                ("true",),
            ),
            Unread(("spec", "services", "*", "scalingAdapter"), _SCALED),
            Unread(("spec", "components", "*", "scalingAdapter"), _SCALED),
            *(Unread((*path, "gpuMemoryService"), _SHARED) for path in _PARTS),
            *(Unread((*path, "failover"), "more pods or containers stand by") for path in _PARTS),
            Unread(("spec", "experimental", "componentGroups"), "its components are scaled together, as one gang"),
        ),
    ),
    Kind(
        group="nvidia.com",
        kind="DynamoComponentDeployment",
        versions=("v1beta1", "v1alpha1"),
        plural="dynamocomponentdeployments",
        short=("dcd",),
        in_cluster="Dynamo's operator runs it by a Deployment",
    ),
    Kind(
        group="nvidia.com",
        kind="DynamoGraphDeploymentRequest",
        versions=("v1beta1", "v1alpha1"),
        plural="dynamographdeploymentrequests",
        short=("dgdr",),
        in_cluster="Dynamo's operator profiles the model and makes a DynamoGraphDeployment",
    ),
)
