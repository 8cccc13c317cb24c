"""KServe: InferenceService, and the runtimes with the containers of its models."""

from __future__ import annotations

from typing import Any

from kailab.model.kind import Kind, Unread
from kailab.model.validation.core import shape_of_type

_GROUP = "serving.kserve.io"


def _kserve(kind: str, *short: str, versions: tuple[str, ...] = ("v1alpha1",), **parts: Any) -> Kind:
    return Kind(
        group=_GROUP,
        kind=kind,
        versions=versions,
        plural=f"{kind.lower()}s",
        short=short,
        label_domains=("kserve.io",),
        **parts,
    )


_WEBHOOKS = "kailab.workloads.kserve_webhooks"
_COMPONENTS = ("predictor", "transformer", "explainer")
_RUNTIMES = ("ServingRuntime", "ClusterServingRuntime")

KINDS = (
    _kserve(
        "InferenceService",
        "isvc",
        versions=("v1beta1",),
        shape=shape_of_type("InferenceService"),
        check=f"{_WEBHOOKS}:check_inference_service",
        checks_metadata=True,
        advice="kailab.workloads.kserve:advise_inference_service",
        immutable=("metadata.annotations.deploymentMode",),
        fixed=f"{_WEBHOOKS}:fixed_mode",
        describes="kailab.workloads.kserve:pods_of_service",
        needs="kailab.workloads.kserve:needs_of_inference_service",
        controller="kailab.workloads.kserve:InferenceServiceController",
        wanted_pods="kailab.workloads.kserve:inference_service_pods",
        watches=_RUNTIMES,
        in_all=True,
        unread=(
            *(
                Unread(("spec", role, "autoScaling"), "an autoscaler changes how many pods there are")
                for role in _COMPONENTS
            ),
            *(
                Unread(("spec", role, "canaryTrafficPercent"), "pods of the former revision stay")
                for role in _COMPONENTS
            ),
        ),
    ),
    *(
        _kserve(
            kind,
            namespaced=not kind.startswith("Cluster"),
            shape=shape_of_type("ServingRuntime"),
            check=f"{_WEBHOOKS}:check_runtime",
            immutable=("spec.workerSpec",),
            fixed=f"{_WEBHOOKS}:fixed_worker",
            owns_pods=False,
        )
        for kind in _RUNTIMES
    ),
    _kserve("InferenceGraph", "ig", check=f"{_WEBHOOKS}:check_graph", in_cluster="KServe runs a router for it"),
    _kserve(
        "LLMInferenceService",
        "llmisvc",
        versions=("v1alpha2", "v1alpha1"),
        in_cluster="KServe makes a Deployment or a LeaderWorkerSet of it",
    ),
)
