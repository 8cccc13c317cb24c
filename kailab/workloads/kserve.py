"""KServe's InferenceService: a Deployment for each of its components, or a Knative Service.

The annotation ``serving.kserve.io/deploymentMode`` chooses (RawDeployment, since KServe 0.16 also Standard); without it KServe's own
configuration takes Knative. A model's container is that of the runtime, changed by the model. A runtime that is not in the lab counts as one
that KServe brings. Source: KServe 0.16, pkg/controller/v1beta1/inferenceservice (components/predictor.go,
reconcilers/deployment/deployment_reconciler.go), config/runtimes.
"""

from __future__ import annotations

from kailab.cluster.protocol import WatchEvent
from kailab.errors import InputError
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
from kailab.model.validation.core import field_types
from kailab.workloads.apps import ensure_object, passed_on_annotations
from kailab.workloads.controller import Controller, Reference
from kailab.workloads.knative import MIN_SCALE

PREFIX = "serving.kserve.io/"
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
_MODEL_ONLY = ("modelFormat", "runtime", "storageUri", "storage", "protocolVersion", "runtimeVersion")


def least_pods(component: Object) -> int:
    """The pods of a component without traffic. A component that scales to 0 has one until then."""
    return max(int(component.get("minReplicas", 1)), 1)


class InferenceServiceController(Controller):
    def concerned(self, event: WatchEvent) -> list[Reference]:
        """All InferenceServices, because any may use this runtime."""
        return [(self.kind, object_key(owner)) for owner in self._bench.cluster.list(self.kind)]

    def sync(self, owner: Object) -> None:
        if is_terminating(owner):
            return
        raw = annotations_of(owner).get(f"{PREFIX}deploymentMode") in _RAW
        kind = "Deployment" if raw else "Service.serving.knative.dev"
        wanted = {f"{name_of(owner)}-{role}": role for role in COMPONENTS if owner["spec"].get(role) is not None}
        for other in ("Deployment", "Service.serving.knative.dev"):
            gone = [one for one in self._bench.owned(owner, other) if other != kind or name_of(one) not in wanted]
            self._bench.delete(other, *gone)
        ready = [self._component(owner, kind, name, role) for name, role in wanted.items()]
        conditions = [
            (f"{role.capitalize()}Ready", up, "", "") for role, up in zip(wanted.values(), ready, strict=True)
        ]
        self.set_status(owner, *conditions, ("Ready", all(ready), "" if all(ready) else "ComponentsNotReady", ""))

    def _component(self, owner: Object, kind: str, name: str, role: str) -> bool:
        """Write what runs a component. Returns whether it is ready."""
        bench, component = self._bench, owner["spec"][role]
        try:
            runtime, pod_spec = self._pod_spec(owner, component)
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
            spec, notes = {}, {MIN_SCALE: str(component.get("minReplicas", 1)), **notes}
        spec["template"] = {"metadata": {"labels": labels, "annotations": notes}, "spec": pod_spec}
        current = ensure_object(bench, owner, kind, name, spec, labels, notes)
        if current is None:
            return False
        if kind == "Deployment":
            return bool(status_of(current).get("availableReplicas", 0) >= least_pods(component))
        return has_condition(current, "Ready")

    def _pod_spec(self, owner: Object, component: Object) -> tuple[Object, Object]:
        """The runtime's spec (empty without one) and the pod spec of a component. Raises InputError if they can't be joined."""
        known = field_types("V1PodSpec")
        given = {key: value for key, value in component.items() if key in known}
        containers = [{"name": _CONTAINER, **one} for one in given.get("containers") or ()]
        model, runtime = component.get("model"), {}
        if model is not None:
            runtime = self._runtime(owner, model)
            base = next((one for one in runtime.get("containers") or () if one["name"] == _CONTAINER), _BROUGHT)
            changes = {key: value for key, value in model.items() if key not in _MODEL_ONLY}
            merged = strategic_patch(base, {**changes, "name": base["name"]}, "spec.predictor.model")
            others = [one for one in runtime.get("containers") or () if one["name"] != base["name"]]
            containers = [merged, *others, *(one for one in containers if one["name"] != _CONTAINER)]
            if model.get("storageUri") or model.get("storage"):
                given["initContainers"] = [_FETCHING, *(given.get("initContainers") or ())]
        from_runtime = {key: value for key, value in runtime.items() if key in known}
        return runtime, {**from_runtime, **given, "containers": [{"image": "kserve", **one} for one in containers]}

    def _runtime(self, owner: Object, model: Object) -> Object:
        """The spec of the runtime that a model names, else of the first one for its format; empty if the lab has none."""
        bench = self._bench
        spaces = (("ServingRuntime", namespace_of(owner)), ("ClusterServingRuntime", ""))
        if named := model.get("runtime"):
            found = next((one for kind, space in spaces if (one := bench.find(kind, (space, named)))), None)
            return dict(found["spec"]) if found else {}
        wanted = model["modelFormat"]["name"]
        for kind, space in spaces:
            for runtime in bench.cluster.list(kind, space or None):
                formats = runtime["spec"].get("supportedModelFormats") or ()
                if not runtime["spec"].get("disabled") and any(
                    each["name"] == wanted and each.get("autoSelect") for each in formats
                ):
                    return dict(runtime["spec"])
        return {}
