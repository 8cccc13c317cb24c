"""KServe: InferenceService, and the runtimes with the containers of its models."""

from __future__ import annotations

from typing import Any

from kailab.model.kind import Kind, Unread
from kailab.model.validation.core import fields_of, shape
from kailab.model.validation.shapes import COUNT, MAPPING, TEXT, Check, items, record, table, whole, with_spec

_GROUP = "serving.kserve.io"


def _pod_fields() -> dict[str, Check]:
    # Containers may be partial, because a runtime or a default has the rest.
    return {**fields_of("V1PodSpec"), "containers": items(record(fields_of("V1Container")))}


def _shape() -> Check:
    from kailab.workloads.kserve_webhooks import FRAMEWORKS

    worker = {**_pod_fields(), "pipelineParallelSize": COUNT, "tensorParallelSize": COUNT}
    place = record({"uri": TEXT, "mountPath": TEXT}, ("uri",))
    served = {**fields_of("V1Container"), "runtime": TEXT, "storageUri": TEXT, "storage": MAPPING}
    model = {**served, "modelFormat": record({"name": TEXT, "version": TEXT}, ("name",))}
    component = record(
        {
            **_pod_fields(),
            "minReplicas": COUNT,
            "maxReplicas": COUNT,
            "labels": table(TEXT),
            "annotations": table(TEXT),
            "storageUris": items(place),
            "logger": MAPPING,
            "batcher": MAPPING,
            "workerSpec": record(worker),
            "model": record(model, ("modelFormat",)),
            **dict.fromkeys((*FRAMEWORKS, "art"), record(served)),
        }
    )
    spec = {"predictor": component, "transformer": component, "explainer": component}
    return with_spec(record(spec, ("predictor",)))


def _runtime() -> Check:
    served = {"name": TEXT, "version": TEXT, "autoSelect": shape("bool"), "priority": whole(-(2**31), 2**31 - 1)}
    worker = {
        **_pod_fields(),
        "pipelineParallelSize": COUNT,
        "tensorParallelSize": COUNT,
        "labels": table(TEXT),
        "annotations": table(TEXT),
    }
    spec = {
        **_pod_fields(),
        "supportedModelFormats": items(record(served, ("name",))),
        "protocolVersions": items(TEXT),
        "multiModel": shape("bool"),
        "workerSpec": record(worker),
    }
    return with_spec(record({**spec, "labels": table(TEXT), "annotations": table(TEXT), "disabled": shape("bool")}))


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
        shape=_shape,
        check=f"{_WEBHOOKS}:check_inference_service",
        checks_metadata=True,
        advice="kailab.workloads.kserve:advise_inference_service",
        immutable=("metadata.annotations.deploymentMode",),
        fixed=f"{_WEBHOOKS}:fixed_mode",
        describes="kailab.workloads.kserve:pods_of_service",
        needs="kailab.workloads.kserve:needs_of_inference_service",
        controller="kailab.workloads.kserve:InferenceServiceController",
        wanted_pods="kailab.workloads.kserve:wanted_pods",
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
            shape=_runtime,
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
