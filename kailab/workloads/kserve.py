"""KServe's InferenceService: a Deployment for each of its components, or a Knative Service.

The annotation ``serving.kserve.io/deploymentMode`` chooses (RawDeployment, since KServe 0.16 also Standard); without it KServe's own
configuration takes Knative. A model's container is that of the runtime, changed by the model. The runtimes that KServe brings need not be in
the lab; without any other runtime no pods are made. Source: KServe 0.16, pkg/controller/v1beta1/inferenceservice (components/predictor.go,
reconcilers/deployment/deployment_reconciler.go), pkg/apis/serving/v1beta1/inference_service_defaults.go, config/runtimes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from kailab.cluster.protocol import WatchEvent
from kailab.errors import InputError
from kailab.model.kind import Need
from kailab.model.labels import KNATIVE_MIN_SCALE, KSERVE_DEPLOYMENT_MODE, KSERVE_STOP
from kailab.model.objects import (
    Object,
    annotations_of,
    has_condition,
    is_terminating,
    labels_of,
    name_of,
    namespace_of,
    object_key,
    status_of,
)
from kailab.model.patches import strategic_patch
from kailab.model.validation.advice import DescribedPod
from kailab.model.validation.core import field_types
from kailab.model.validation.fields import Faults, shown
from kailab.workloads.apps import ensure_object, passed_on_annotations
from kailab.workloads.controller import Controller, Reference

PREFIX = "serving.kserve.io/"
RUNTIMES = ("ServingRuntime", "ClusterServingRuntime")
COMPONENTS = ("predictor", "transformer", "explainer")
_RAW = ("RawDeployment", "Standard")
_CONTAINER = "kserve-container"
_SMALL = {"cpu": "1", "memory": "2Gi"}
_BROUGHT = {"name": _CONTAINER, "image": "kserve", "resources": {"requests": _SMALL, "limits": _SMALL}}
"""The container of the runtimes that KServe brings."""
_FETCHING = {
    "name": "storage-initializer",
    "image": "kserve/storage-initializer",
    "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
}
FRAMEWORKS = (
    "sklearn", "xgboost", "tensorflow", "pytorch", "triton", "onnx", "huggingface", "pmml", "lightgbm", "paddle",
)  # fmt: skip
"""Fields of a predictor that say what ``model`` with a format of the same name says."""
_IMPLEMENTATIONS = {
    "predictor": ("containers", "model", *FRAMEWORKS), "transformer": ("containers", "model"), "explainer": ("containers", "art"),
}  # fmt: skip
_BROUGHT_FORMATS = frozenset(
    (*FRAMEWORKS, "autogluon", "mlflow", "openvino", "tensorrt", "keras", "vLLM")
)  # fmt: skip
_BROUGHT_RUNTIMES = frozenset(
    f"kserve-{name}"
    for name in (
        "autogluonserver", "huggingfaceserver", "huggingfaceserver-multinode", "lgbserver", "mlserver", "openvino", "paddleserver",
        "pmmlserver", "predictiveserver", "sklearnserver", "tensorflow-serving", "torchserve", "tritonserver", "vllmserver", "xgbserver",
    )
)  # fmt: skip
_MODEL_ONLY = ("modelFormat", "runtime", "storageUri", "storage", "protocolVersion", "runtimeVersion")


def least_pods(component: Object) -> int:
    """The pods of a component without traffic. A component that scales to 0 has one until then."""
    return max(int(component.get("minReplicas", 1)), 1)


def is_stopped(obj: Object) -> bool:
    return annotations_of(obj).get(KSERVE_STOP, "").lower() == "true"


def check_inference_service(faults: Faults, obj: Object) -> None:
    """Each component has exactly one implementation, as KServe's webhook asks."""
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return
    for role, choices in _IMPLEMENTATIONS.items():
        component = spec.get(role)
        if not isinstance(component, dict) or component.get("workerSpec") is not None:
            continue
        given = [name for name in choices if component.get(name) is not None]
        # Containers beside a model or a framework are its sidecars.
        named = [name for name in given if name != "containers"] or given
        if len(named) != 1:
            text = f"gives {' and '.join(named)}" if named else "has no implementation"
            faults.add(f"spec.{role}", f"{text}; expected one of {', '.join(choices)}")


def model_of(component: Object) -> Object | None:
    """The model that a component serves, whether ``model`` or a framework's field gives it."""
    if component.get("model") is not None:
        return dict(component["model"])
    for framework in FRAMEWORKS:
        if component.get(framework) is not None:
            return {**component[framework], "modelFormat": {"name": framework}}
    return None


def without_runtime(model: Object, runtimes: Iterable[Object]) -> str:
    """Why KServe finds no runtime for a model among these and its own; "" if it does."""
    if named := model.get("runtime"):
        known = named in _BROUGHT_RUNTIMES or any(name_of(one) == named for one in runtimes)
        return "" if known else f"there is no ServingRuntime or ClusterServingRuntime {shown(named)}"
    wanted = model["modelFormat"]["name"]
    if wanted in _BROUGHT_FORMATS or any(_serves(one, wanted) for one in runtimes):
        return ""
    return (
        f"no ServingRuntime or ClusterServingRuntime is chosen for the model format {shown(wanted)} (with autoSelect)"
    )


def _serves(runtime: Object, wanted: Any) -> bool:
    formats = runtime["spec"].get("supportedModelFormats") or ()
    return not runtime["spec"].get("disabled") and any(
        each["name"] == wanted and each.get("autoSelect") for each in formats
    )


def needs_of_inference_service(obj: Object) -> Iterator[Need]:
    for role in COMPONENTS:
        component = obj["spec"].get(role)
        model = model_of(component) if component is not None else None
        if model is not None and (problem := without_runtime(model, ())):
            field = "model.runtime" if model.get("runtime") else "model.modelFormat.name"
            text = f"{problem}: KServe makes no pods until there is one"
            yield Need(RUNTIMES, partial(_is_runtime_of, model), f"spec.{role}.{field}", text)


def pods_of_service(obj: Object) -> Iterator[DescribedPod]:
    for role in COMPONENTS:
        component = obj["spec"].get(role)
        if component is not None:
            marks = {key: component[key] for key in ("labels", "annotations") if component.get(key)}
            path = f"spec.{role}."
            yield DescribedPod(path, path, {"metadata": marks, "spec": _pod_spec(component, {})})


def _is_runtime_of(model: Object, runtime: Object) -> bool:
    return not without_runtime(model, [runtime])


def _pod_spec(component: Object, runtime: Object) -> Object:
    """The pod spec of a component. ``runtime``: the spec of its runtime, empty for one that KServe brings. Raises InputError if they can't be
    joined."""
    known = field_types("V1PodSpec")
    given = {key: value for key, value in component.items() if key in known}
    containers = [{"name": _CONTAINER, **one} for one in given.get("containers") or ()]
    served = model_of(component) or component.get("art")
    if served is not None:
        base = next((one for one in runtime.get("containers") or () if one["name"] == _CONTAINER), _BROUGHT)
        changes = {key: value for key, value in served.items() if key not in _MODEL_ONLY}
        merged = strategic_patch(base, {**changes, "name": base["name"]}, "spec.predictor.model")
        others = [one for one in runtime.get("containers") or () if one["name"] != base["name"]]
        containers = [merged, *others, *(one for one in containers if one["name"] != _CONTAINER)]
        if served.get("storageUri") or served.get("storage"):
            given["initContainers"] = [_FETCHING, *(given.get("initContainers") or ())]
    from_runtime = {key: value for key, value in runtime.items() if key in known}
    return {**from_runtime, **given, "containers": [{"image": "kserve", **one} for one in containers]}


class InferenceServiceController(Controller):
    def concerned(self, event: WatchEvent) -> list[Reference]:
        """All InferenceServices, because any may use this runtime."""
        return [(self.kind, object_key(owner)) for owner in self._bench.cluster.list(self.kind)]

    def sync(self, owner: Object) -> None:
        if is_terminating(owner):
            return
        raw = annotations_of(owner).get(KSERVE_DEPLOYMENT_MODE) in _RAW
        kind = "Deployment" if raw else "Service.serving.knative.dev"
        stopped = is_stopped(owner)
        roles = () if stopped else COMPONENTS
        wanted = {f"{name_of(owner)}-{role}": role for role in roles if owner["spec"].get(role) is not None}
        for other in ("Deployment", "Service.serving.knative.dev"):
            gone = [one for one in self._bench.owned(owner, other) if other != kind or name_of(one) not in wanted]
            self._bench.delete(other, *gone)
        ready = [self._component(owner, kind, name, role) for name, role in wanted.items()]
        conditions = [
            (f"{role.capitalize()}Ready", up, "", "") for role, up in zip(wanted.values(), ready, strict=True)
        ]
        up = bool(ready) and all(ready)
        reason = "" if up else "Stopped" if stopped else "ComponentsNotReady"
        self.set_status(owner, *conditions, ("Ready", up, reason, ""))

    def _component(self, owner: Object, kind: str, name: str, role: str) -> bool:
        """Write what runs a component. Returns whether it is ready."""
        bench, component = self._bench, owner["spec"][role]
        try:
            model = model_of(component)
            runtime = self._runtime(owner, model) if model is not None else {}
            pod_spec = _pod_spec(component, runtime)
        except InputError as error:
            bench.cluster.event(owner, "Warning", "InternalError", str(error), "v1beta1Controllers")
            return False
        own = {f"{PREFIX}inferenceservice": name_of(owner), "component": role}
        labels = {**(runtime.get("labels") or {}), **labels_of(owner), **(component.get("labels") or {}), **own}
        notes = {
            **(runtime.get("annotations") or {}),
            **passed_on_annotations(owner),
            **(component.get("annotations") or {}),
        }
        if kind == "Deployment":
            labels["app"] = f"isvc.{name}"
            spec: Object = {"replicas": least_pods(component), "selector": {"matchLabels": {"app": labels["app"]}}}
        else:
            spec, notes = {}, {KNATIVE_MIN_SCALE: str(component.get("minReplicas", 1)), **notes}
        spec["template"] = {"metadata": {"labels": labels, "annotations": notes}, "spec": pod_spec}
        current = ensure_object(bench, owner, kind, name, spec, labels, notes)
        if current is None:
            return False
        if kind == "Deployment":
            return bool(status_of(current).get("availableReplicas", 0) >= least_pods(component))
        return has_condition(current, "Ready")

    def _runtime(self, owner: Object, model: Object) -> Object:
        """The spec of the runtime that a model names, else of the first one for its format; empty for one that KServe brings. Raises
        InputError if there is none."""
        bench = self._bench
        runtimes = [
            *bench.cluster.list("ServingRuntime", namespace_of(owner)),
            *bench.cluster.list("ClusterServingRuntime"),
        ]
        if problem := without_runtime(model, runtimes):
            raise InputError(problem)
        named, wanted = model.get("runtime"), model["modelFormat"]["name"]
        fitting = (one for one in runtimes if (name_of(one) == named if named else _serves(one, wanted)))
        found = next(fitting, None)
        return {} if found is None else dict(found["spec"])
