"""KServe's InferenceService: a Deployment for each of its components, or a Knative Service.

The annotation ``serving.kserve.io/deploymentMode`` chooses (RawDeployment, since KServe 0.16 also Standard); without it KServe's own
configuration takes Knative. A model's container is that of the runtime, changed by the model. The runtimes that KServe brings need not be in
the lab; without any other runtime no pods are made. Source: KServe 0.16, pkg/controller/v1beta1/inferenceservice (components/predictor.go,
reconcilers/deployment/deployment_reconciler.go), pkg/apis/serving/v1beta1/inference_service_defaults.go, config/runtimes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from kailab.cluster.protocol import WatchEvent
from kailab.errors import InputError
from kailab.model.kind import Need
from kailab.model.labels import KNATIVE_MIN_SCALE, KSERVE_STOP
from kailab.model.objects import (
    Object,
    annotations_of,
    has_condition,
    is_terminating,
    labels_of,
    metadata_of,
    name_of,
    namespace_of,
    object_key,
    status_of,
)
from kailab.model.patches import strategic_patch
from kailab.model.quantities import parse
from kailab.model.times import time_or_none
from kailab.model.validation import validate
from kailab.model.validation.advice import DescribedPod
from kailab.model.validation.core import field_types
from kailab.model.validation.fields import Faults, shown
from kailab.workloads.apps import ensure_object, passed_on_annotations
from kailab.workloads.controller import Controller, Reference
from kailab.workloads.kserve_webhooks import (
    AUTOSCALER,
    COMPONENTS,
    CONTAINER,
    FRAMEWORKS,
    GPUS,
    LEGACY_MODES,
    MODE,
    PREFIX,
    WORKER,
    mode_of,
    storage_uri_of,
)

RUNTIMES = ("ServingRuntime", "ClusterServingRuntime")
_SMALL = {"cpu": "1", "memory": "2Gi"}
"""The requests and limits that KServe's configuration gives to a component's own container where it has none."""
_BROUGHT = {"name": CONTAINER, "image": "kserve", "resources": {"requests": _SMALL, "limits": _SMALL}}
"""The container of the runtimes that KServe brings."""
_BROUGHT_WORKER = {**_BROUGHT, "name": WORKER}
_LITTLE = {"requests": {"cpu": "100m", "memory": "100Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
_FETCHING = {"name": "storage-initializer", "image": "kserve/storage-initializer", "resources": _LITTLE}
_AGENT = {"name": "agent", "image": "kserve/agent", "resources": _LITTLE}
"""The container that logs or batches requests."""
_LEAST = {"cpu": "10m", "memory": "15Mi"}
_MODEL_IMAGE = {"name": "modelcar", "image": "model", "resources": {"requests": _LEAST, "limits": _LEAST}}
"""The container of a model that is an image (oci://)."""
_PROTOCOLS = (
    "gs://", "s3://", "pvc://", "file://", "https://", "http://", "hdfs://", "webhdfs://", "oci://", "hf://",
)  # fmt: skip
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
_SECOND_PROTOCOL = ("triton", "onnx", "huggingface")
_FROM_RUNTIME = ("nodeSelector", "affinity", "tolerations", "volumes", "imagePullSecrets")
_PROTOCOL_ORDER = ("v1", "v2", "grpc-v1", "grpc-v2")


def least_pods(obj: Object, component: Object) -> int:
    """The pods of a component without traffic. A component that scales to 0 has one until then; only one without an autoscaler has none."""
    alone = annotations_of(obj).get(AUTOSCALER) == "none" and mode_of(obj) == "Standard"
    return max(int(component.get("minReplicas", 1)), 0 if alone else 1)


def is_stopped(obj: Object) -> bool:
    return annotations_of(obj).get(KSERVE_STOP, "").lower() == "true"


def model_of(component: Object) -> Object | None:
    """The model that a component serves, whether ``model`` or a framework's field gives it."""
    if component.get("model") is not None:
        return dict(component["model"])
    for framework in FRAMEWORKS:
        if (served := component.get(framework)) is not None:
            version = {"protocolVersion": "v2"} if framework in _SECOND_PROTOCOL else {}
            return {**version, **served, "modelFormat": {"name": framework}}
    return None


def without_runtime(model: Object, runtimes: Iterable[Object], *, workers: bool = False) -> str:
    """Why KServe finds no runtime for a model among these and its own; "" if it does."""
    if named := model.get("runtime"):
        found = next((one for one in runtimes if name_of(one) == named), None)
        if found is None:
            known = named in _BROUGHT_RUNTIMES
            return "" if known else f"there is no ServingRuntime or ClusterServingRuntime {shown(named)}"
        if found["spec"].get("disabled"):
            return f"the runtime {shown(named)} is disabled"
        if not _serves(found, model):
            return f"the runtime {shown(named)} does not serve the format {_format(model)}, or not by its protocol"
        return ""
    if model["modelFormat"]["name"] in _BROUGHT_FORMATS or any(_is_chosen(one, model, workers) for one in runtimes):
        return ""
    return (
        f"no ServingRuntime or ClusterServingRuntime is chosen for the model format {_format(model)} (with autoSelect)"
    )


def _format(model: Object) -> str:
    name, version = model["modelFormat"]["name"], model["modelFormat"].get("version")
    return shown(name if version is None else f"{name}:{version}")


def _serves(runtime: Object, model: Object) -> bool:
    """True if a runtime knows the model's format, version and protocol; if the model names no runtime, only formats with autoSelect count."""
    spec, wanted = runtime["spec"], model["modelFormat"]
    default = "v2" if wanted["name"] == "triton" else "v1"
    protocols = spec.get("protocolVersions")
    if protocols and (model.get("protocolVersion") or ("" if model.get("runtime") else default)) not in (
        *protocols,
        "",
    ):
        return False
    return any(
        each["name"] == wanted["name"]
        and (model.get("runtime") or each.get("autoSelect"))
        and wanted.get("version") in (None, each.get("version"))
        for each in spec.get("supportedModelFormats") or ()
    )


def _is_chosen(runtime: Object, model: Object, workers: bool) -> bool:
    spec = runtime["spec"]
    if spec.get("disabled") or spec.get("multiModel") or (spec.get("workerSpec") is not None) != workers:
        return False
    return _serves(runtime, model)


def _order(model: Object, runtime: Object) -> tuple[bool, int, int, float, str]:
    """The order in which KServe tries runtimes: those of the namespace first, then by priority for the format, protocol and age."""
    spec, wanted = runtime["spec"], model["modelFormat"]["name"]
    priority = next((e.get("priority") for e in spec.get("supportedModelFormats") or () if e["name"] == wanted), None)
    known = [_PROTOCOL_ORDER.index(one) for one in spec.get("protocolVersions") or () if one in _PROTOCOL_ORDER]
    created = time_or_none(metadata_of(runtime).get("creationTimestamp") or "") or 0.0
    last = 2**31
    return (
        not namespace_of(runtime),
        last if priority is None else -priority,
        min(known, default=-1),
        -created,
        name_of(runtime),
    )


def needs_of_inference_service(obj: Object) -> Iterator[Need]:
    for role in COMPONENTS:
        component = obj["spec"].get(role)
        model = model_of(component) if component is not None else None
        workers = component is not None and component.get("workerSpec") is not None
        if model is not None and (problem := without_runtime(model, (), workers=workers)):
            field = "model.runtime" if model.get("runtime") else "model.modelFormat.name"
            text = f"{problem}: KServe makes no pods until there is one"
            yield Need(RUNTIMES, partial(_is_runtime_of, model, workers), f"spec.{role}.{field}", text)


def pods_of_service(obj: Object) -> Iterator[DescribedPod]:
    for role in COMPONENTS:
        component = obj["spec"].get(role)
        if component is not None:
            marks = {key: component[key] for key in ("labels", "annotations") if component.get(key)}
            path = f"spec.{role}."
            yield DescribedPod(path, path, {"metadata": marks, "spec": _pod_spec(role, component, {})})


def advise_inference_service(faults: Faults, obj: Object) -> None:
    """Name what KServe takes, and then makes no pods of."""
    raw, name = mode_of(obj) == "Standard", name_of(obj)
    if annotations_of(obj).get(MODE) in LEGACY_MODES:
        now = LEGACY_MODES[annotations_of(obj)[MODE]]
        text = f"is a former name: KServe 0.16 refuses each later change of such an object; write {now}"
        faults.add(f"metadata.annotations[{MODE}]", text)
    for role in COMPONENTS:
        component = obj["spec"].get(role)
        if component is None:
            continue
        if len(label := f"isvc.{name}-{role}" if raw else f"{name}-{role}") > 63:
            faults.add(
                "metadata.name",
                f"makes {label!r}, which is too long by {len(label) - 63}: in a cluster no pods are made",
            )
        model = model_of(component) or {}
        uri = model.get("storageUri") or ""
        if "://" in uri and not uri.startswith(_PROTOCOLS):
            text = f"is of no protocol that KServe knows ({', '.join(_PROTOCOLS)}): in a cluster no pods are made"
            faults.add(
                f"spec.{role}.{'model' if component.get('model') else model['modelFormat']['name']}.storageUri", text
            )
        if not model:
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": _pod_spec(role, component, {})}
            for field, message in validate(pod, "Pod")[:3]:
                faults.add(
                    f"spec.{role}.{field.removeprefix('spec.')}", f"{message}, with KServe's defaults: no pods are made"
                )


def _is_runtime_of(model: Object, workers: bool, runtime: Object) -> bool:
    return not without_runtime(model, [runtime], workers=workers)


def _pod_spec(role: str, component: Object, runtime: Object) -> Object:
    """The pod spec of a component. ``runtime``: the spec of its runtime, empty for one that KServe brings. Raises InputError if they can't be
    joined."""
    known = field_types("V1PodSpec")
    given = {key: value for key, value in component.items() if key in known}
    containers = list(given.pop("containers", None) or ())
    served = model_of(component) or component.get("art")
    own = {key: value for key, value in (served or {}).items() if key not in _MODEL_ONLY}
    if model_of(component) is not None:
        main, others = _joined(CONTAINER, runtime, own, _BROUGHT)
        given = strategic_patch({key: runtime[key] for key in _FROM_RUNTIME if key in runtime}, given, f"spec.{role}")
        containers = [main, *others, *(one for one in containers if one.get("name") != CONTAINER)]
    elif served is not None:
        containers = [_completed({**own, "name": CONTAINER})]
    elif containers:
        first, *others = containers
        name = first.get("name") if role == "predictor" and others and first.get("name") else CONTAINER
        containers = [_completed({**first, "name": name}), *others]
    _bring_model(given, containers, component, served)
    if component.get("logger") is not None or component.get("batcher") is not None:
        containers.append(_AGENT)
    return {**given, "containers": [{"image": "kserve", **one} for one in containers]}


def _joined(name: str, runtime: Object, changes: Object, brought: Object) -> tuple[Object, list[Object]]:
    """The runtime's container of this name, changed, and its others. Raises InputError."""
    containers = runtime.get("containers") or ([] if runtime else [brought])
    base = next((one for one in containers if one.get("name") == name), None)
    if base is None:
        raise InputError(f"the runtime has no container {name}")
    merged = strategic_patch(base, {**changes, "name": name}, "spec.predictor.model")
    return merged, [one for one in containers if one is not base]


def _completed(container: Object) -> Object:
    """A container of the user's own with KServe's default requests and limits."""
    resources = container.get("resources") or {}
    both = {kind: {**_SMALL, **(resources.get(kind) or {})} for kind in ("requests", "limits")}
    return {**container, "resources": {**resources, **both}}


def _bring_model(given: Object, containers: list[Object], component: Object, served: Object | None) -> None:
    """Add what brings the model into a pod: a container that fetches it first, its claim, or the container of its image."""
    uris = [place["uri"] for place in component.get("storageUris") or ()]
    if served is not None:
        uris += [served["storageUri"]] if served.get("storageUri") else []
    elif containers:
        main = next((one for one in containers if one.get("name") == CONTAINER), containers[0])
        uris += [uri] if (uri := storage_uri_of(main)) else []
    fetched = [uri for uri in uris if not uri.startswith(("pvc://", "oci://"))]
    before, volumes = list(given.get("initContainers") or ()), list(given.get("volumes") or ())
    if fetched or (served or {}).get("storage"):
        before.append(_FETCHING)
    for number, uri in enumerate(uri for uri in uris if uri.startswith("pvc://")):
        claim = uri.removeprefix("pvc://").partition("/")[0]
        volumes.append({"name": f"kserve-pvc-source-{number}", "persistentVolumeClaim": {"claimName": claim}})
    if any(uri.startswith("oci://") for uri in uris):
        containers.append(_MODEL_IMAGE)
        before.append({**_MODEL_IMAGE, "name": "modelcar-init"})
    given.update({key: value for key, value in (("initContainers", before), ("volumes", volumes)) if value})


def _workers_of(obj: Object, runtime: Object, head: Object) -> tuple[Object, Object, int]:
    """The pod spec of the first pod and that of the others, with their GPUs, and how many others there are. Raises InputError.

    Source: KServe, components/predictor.go (multiNodeProcess, computeRayNodeAndGPUs), deployment_reconciler.go."""
    wanted, own = obj["spec"]["predictor"]["workerSpec"], runtime.get("workerSpec") or {}
    if runtime and not own.get("containers"):
        raise InputError("the runtime has no workerSpec with a container")
    known = field_types("V1PodSpec")
    changes: Object = next(iter(wanted.get("containers") or ()), {})
    container, _ = _joined(
        WORKER, own, {key: value for key, value in changes.items() if key != "name"}, _BROUGHT_WORKER
    )
    given = {key: value for key, value in wanted.items() if key in known and key != "containers"}
    spec = strategic_patch({key: own[key] for key in _FROM_RUNTIME if key in own}, given, "spec.predictor.workerSpec")
    size = 1
    for field in ("pipelineParallelSize", "tensorParallelSize"):
        size *= wanted.get(field) or own.get(field) or 1
    gpus, held = _gpus_of(head["containers"][0]), _gpus_of(container)
    if held:
        nodes = -(-size // held)
        gpus, nodes = (gpus or size - held * (nodes - 1)), (1 if gpus >= size else nodes)
        gpus, held = (size, 0) if nodes == 1 else (gpus, held)
    elif gpus:
        nodes, held = 1 + max(size - gpus, 0), 1
    else:
        nodes, gpus, held = size, 1, 1
    if size > gpus + held * (nodes - 1):
        raise InputError(f"{size} GPUs are wanted, and {gpus} and {held * (nodes - 1)} are asked for")
    first = {**head, "containers": [_with_gpus(head["containers"][0], gpus), *head["containers"][1:]]}
    others = {**spec, "containers": [{"image": "kserve", **_with_gpus(container, held)}]}
    return first, others, nodes - 1


def _has_workers(obj: Object, role: str) -> bool:
    """True if a component has more pods than those of its replicas. Knative runs the first pod alone."""
    component = obj["spec"].get(role) or {}
    return role == "predictor" and component.get("workerSpec") is not None and mode_of(obj) == "Standard"


def inference_service_pods(obj: Object) -> int:
    """The pods of an InferenceService without traffic; those of several nodes by the runtime that KServe brings."""
    if is_stopped(obj):
        return 0
    total = sum(least_pods(obj, obj["spec"][role]) for role in COMPONENTS if obj["spec"].get(role) is not None)
    if not _has_workers(obj, "predictor"):
        return total
    try:
        return total + _workers_of(obj, {}, _pod_spec("predictor", obj["spec"]["predictor"], {}))[2]
    except InputError:
        return total


def _gpu_name(container: Object, *kinds: str) -> str:
    resources = container.get("resources") or {}
    return next((name for name in GPUS for kind in kinds if (resources.get(kind) or {}).get(name)), "")


def _gpus_of(container: Object) -> int:
    name = _gpu_name(container, "requests")
    return int(parse(container["resources"]["requests"][name])) if name else 0


def _with_gpus(container: Object, number: int) -> Object:
    resources, name = container.get("resources") or {}, _gpu_name(container, "limits", "requests") or GPUS[0]
    both = {kind: {**(resources.get(kind) or {}), name: str(number)} for kind in ("requests", "limits")}
    return {**container, "resources": {**resources, **both}}


class InferenceServiceController(Controller):
    def concerned(self, event: WatchEvent) -> list[Reference]:
        """All InferenceServices, because any may use this runtime."""
        return [(self.kind, object_key(owner)) for owner in self._bench.cluster.list(self.kind)]

    def sync(self, owner: Object) -> None:
        if is_terminating(owner):
            return
        mode = mode_of(owner)
        kind = "Deployment" if mode == "Standard" else "Service.serving.knative.dev"
        stopped = is_stopped(owner)
        roles = () if stopped else COMPONENTS
        wanted = {f"{name_of(owner)}-{role}": role for role in roles if owner["spec"].get(role) is not None}
        workers = {f"{name}-worker" for name, role in wanted.items() if _has_workers(owner, role)}
        for other in ("Deployment", "Service.serving.knative.dev"):
            owned = self._bench.owned(owner, other)
            self._bench.delete(other, *(o for o in owned if other != kind or name_of(o) not in {*wanted, *workers}))
        ready = [self._component(owner, kind, name, role) for name, role in wanted.items()]
        conditions = [
            (f"{role.capitalize()}Ready", up, "", "") for role, up in zip(wanted.values(), ready, strict=True)
        ]
        up = bool(ready) and all(ready)
        reason = "" if up else "Stopped" if stopped else "ComponentsNotReady"
        self.set_status(owner, *conditions, ("Ready", up, reason, ""), deploymentMode=mode)

    def _component(self, owner: Object, kind: str, name: str, role: str) -> bool:
        """Write what runs a component. Returns whether it is ready."""
        bench, component = self._bench, owner["spec"][role]
        others: Object | None = None
        number = 0
        try:
            model = model_of(component)
            runtime = self._runtime(owner, component, model) if model is not None else {}
            pod_spec = _pod_spec(role, component, runtime)
            if _has_workers(owner, role):
                pod_spec, others, number = _workers_of(owner, runtime, pod_spec)
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
            least = least_pods(owner, component)
            ready = self._deployment(owner, name, least, labels, notes, pod_spec)
            if others is not None:
                marks = {**((runtime.get("workerSpec") or {}).get("labels") or {}), **labels, **own}
                ready = self._deployment(owner, f"{name}-worker", number, marks, notes, others) and ready
            return ready
        notes = {KNATIVE_MIN_SCALE: str(component.get("minReplicas", 1)), **notes}
        spec = {"template": {"metadata": {"labels": labels, "annotations": notes}, "spec": pod_spec}}
        current = ensure_object(bench, owner, kind, name, spec, labels, notes)
        return current is not None and has_condition(current, "Ready")

    def _deployment(
        self,
        owner: Object,
        name: str,
        replicas: int,
        labels: Mapping[str, str],
        notes: Mapping[str, str],
        pod_spec: Object,
    ) -> bool:
        app = f"isvc.{name}"
        marks = {**labels, "app": app}
        template = {"metadata": {"labels": marks, "annotations": notes}, "spec": pod_spec}
        spec = {"replicas": replicas, "selector": {"matchLabels": {"app": app}}, "template": template}
        current = ensure_object(self._bench, owner, "Deployment", name, spec, marks, notes)
        return current is not None and bool(status_of(current).get("availableReplicas", 0) >= replicas)

    def _runtime(self, owner: Object, component: Object, model: Object) -> Object:
        """The spec of the runtime that a model names, else of the first one for its format; empty for one that KServe brings. Raises
        InputError if there is none."""
        bench = self._bench
        runtimes = [
            *bench.cluster.list("ServingRuntime", namespace_of(owner)),
            *bench.cluster.list("ClusterServingRuntime"),
        ]
        workers = component.get("workerSpec") is not None
        if problem := without_runtime(model, runtimes, workers=workers):
            raise InputError(problem)
        named = model.get("runtime")
        fitting = [one for one in runtimes if (name_of(one) == named if named else _is_chosen(one, model, workers))]
        found = min(fitting, key=partial(_order, model), default=None)
        return {} if found is None else dict(found["spec"])
