"""What KServe's webhooks refuse of an InferenceService, a ServingRuntime and an InferenceGraph.

Source: KServe 0.16, pkg/apis/serving/v1beta1 (inference_service_validation.go, component.go, predictor.go), pkg/apis/serving/v1alpha1
(inference_graph_validation.go), pkg/webhook/admission/servingruntime. The webhook of runtimes also compares them with each other: it refuses
two of one format, protocol and priority, which is not checked here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from posixpath import commonpath
from typing import Any

from kailab.model.objects import Object, annotations_of, status_of
from kailab.model.validation.fields import Faults, shown

PREFIX = "serving.kserve.io/"
MODE, AUTOSCALER = f"{PREFIX}deploymentMode", f"{PREFIX}autoscalerClass"
CONTAINER, WORKER, TRANSFORMER = "kserve-container", "worker-container", "transformer-container"
COMPONENTS = ("predictor", "transformer", "explainer")
FRAMEWORKS = (
    "sklearn", "xgboost", "tensorflow", "pytorch", "triton", "onnx", "huggingface", "pmml", "lightgbm", "paddle",
)  # fmt: skip
"""Fields of a predictor that say what ``model`` with a format of the same name says."""
IMPLEMENTATIONS = {
    "predictor": ("containers", "model", *FRAMEWORKS), "transformer": ("containers",), "explainer": ("containers", "art"),
}  # fmt: skip
LEGACY_MODES = {"RawDeployment": "Standard", "Serverless": "Knative"}
GPUS = ("nvidia.com/gpu", "amd.com/gpu", "intel.com/gpu", "habana.ai/gaudi")
_GPU_TYPES = f"{PREFIX}gpu-resource-types"
_AUTOSCALERS = ("hpa", "external", "keda", "none")
_NAME = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_OF_NODES = ("cpu", "memory", "storage", "ephemeral-storage")
_WITH_KEYS = ("s3://", "hdfs://", "webhdfs://")
"""The protocols of models whose place ``storage`` gives."""
_STORAGE_URI = "STORAGE_URI"


def mode_of(obj: Object) -> str:
    """How an InferenceService runs: Standard or Knative. KServe writes it into the status at first, and keeps it."""
    recorded = status_of(obj).get("deploymentMode")
    given = annotations_of(obj).get(MODE, "")
    mode = recorded or LEGACY_MODES.get(given, given)
    return "Standard" if mode == "Standard" else "Knative"


def fixed_mode(stored: Object, obj: Object) -> Object:
    """An InferenceService with its mode as a field, which never changes. A former name of a mode counts as the mode."""
    given = annotations_of(obj).get(MODE)
    recorded = status_of(stored).get("deploymentMode")
    mode = LEGACY_MODES.get(given, given) if given and recorded else recorded
    return {"metadata": {"annotations": {"deploymentMode": mode}}}


def fixed_worker(stored: Object, runtime: Object) -> Object:
    """Whether a runtime has workers: once it has some, it keeps some."""
    had = stored["spec"].get("workerSpec") is not None
    return {"spec": {"workerSpec": "some" if had and runtime["spec"].get("workerSpec") is not None else None}}


# --- InferenceService -------------------------------------------------------------------------------------------------


def check_inference_service(faults: Faults, obj: Object) -> None:
    _check_name(faults, obj)
    notes = _mapping(_mapping(obj.get("metadata")).get("annotations"))
    autoscaler = notes.get(AUTOSCALER)
    if autoscaler is not None and autoscaler not in _AUTOSCALERS:
        faults.wrong(f"metadata.annotations[{AUTOSCALER}]", autoscaler, " or ".join(_AUTOSCALERS))
    spec = _mapping(obj.get("spec"))
    for role, choices in IMPLEMENTATIONS.items():
        component = spec.get(role)
        if not isinstance(component, dict):
            continue
        at = f"spec.{role}"
        _check_implementation(faults, component, at, choices)
        _check_numbers(faults, component, at)
        _check_scaling(faults, component, at, notes)
        _check_storage(faults, component, at, choices)
    predictor = _mapping(spec.get("predictor"))
    for index, container in _each(predictor.get("containers")):
        at = f"spec.predictor.containers[{index}]"
        if container.get("name") == TRANSFORMER and _variable(container, _STORAGE_URI) is not None:
            faults.add(f"{at}.env", f"gives {_STORAGE_URI}, which only the container of the model may")
        if index == 0 and (version := _variable(container, "PROTOCOL")) not in (None, "v1", "v2"):
            faults.wrong(f"{at}.env[PROTOCOL]", version, "v1 or v2")
    if isinstance(predictor.get("workerSpec"), dict):
        _check_workers(faults, predictor, notes)


def _check_name(faults: Faults, obj: Object) -> None:
    name = _mapping(obj.get("metadata")).get("name")
    if isinstance(name, str) and name and not re.fullmatch(_NAME, name, re.ASCII):
        faults.wrong("metadata.name", name, "lower case letters, digits and '-', with a letter at first")


def _check_implementation(faults: Faults, component: Object, at: str, choices: tuple[str, ...]) -> None:
    """Each component has exactly one implementation."""
    given = [name for name in choices if component.get(name) is not None]
    names = [container.get("name") for _, container in _each(component.get("containers"))]
    if "containers" in given and len(given) > 1 and at == "spec.predictor" and CONTAINER not in names:
        given.remove("containers")  # the sidecars of a model or a framework
    if len(given) != 1:
        text = f"gives {' and '.join(given)}" if given else "has no implementation"
        faults.add(at, f"{text}; expected one of {', '.join(choices)}")
    for name in given:
        if name not in ("containers", "art") and _mapping(component[name]).get("name"):
            faults.add(f"{at}.{name}.name", "the container of a model has no name of its own")


def _check_numbers(faults: Faults, component: Object, at: str) -> None:
    least, most = component.get("minReplicas", 1), component.get("maxReplicas") or 0
    if isinstance(least, int) and isinstance(most, int) and 0 < most < least:
        faults.add(f"{at}.minReplicas", f"{least} is more than the {most} of maxReplicas")
    faults.integer(component, "containerConcurrency", f"{at}.containerConcurrency")
    logger = component.get("logger")
    if isinstance(logger, dict):
        faults.one_of(logger, "mode", f"{at}.logger.mode", ("all", "request", "response"))
        if "mode" not in logger:
            faults.add(f"{at}.logger.mode", "is required; expected all or request or response")
        storage = logger.get("storage")
        if isinstance(storage, dict) and any(storage.get(key) is None for key in ("path", "parameters", "key")):
            faults.add(f"{at}.logger.storage", "expected path, parameters and key")


def _check_scaling(faults: Faults, component: Object, at: str, notes: Object) -> None:
    """The rules depend on the autoscaler. Only the annotation Standard, not its former name, makes those of raw deployments."""
    metric, target = component.get("scaleMetric"), component.get("scaleTarget")
    number = target if isinstance(target, int) else None
    if notes.get(MODE) == "Standard":
        autoscaler = {"hpa": "hpa", "keda": "keda"}.get(str(notes.get(AUTOSCALER)), "")
    else:
        autoscaler = "hpa" if notes.get("autoscaling.knative.dev/class") == "hpa.autoscaling.knative.dev" else "kpa"
    if autoscaler == "kpa":
        if component.get("deploymentStrategy") is not None:
            text = f"is for raw deployments alone, which the annotation {MODE}: Standard chooses"
            faults.add(f"{at}.deploymentStrategy", text)
        if metric not in (None, "concurrency", "rps"):
            faults.wrong(f"{at}.scaleMetric", metric, f"concurrency or rps (without {MODE}: Standard)")
        if metric == "rps" and number is not None and number < 1:
            faults.wrong(f"{at}.scaleTarget", target, "1 or more")
    elif autoscaler == "hpa":
        if metric not in (None, "cpu", "memory"):
            faults.wrong(f"{at}.scaleMetric", metric, "cpu or memory")
        if number is not None and not 1 <= number <= 100:
            faults.wrong(f"{at}.scaleTarget", target, "a whole number from 1 to 100")
    elif autoscaler == "keda" and metric is not None:
        faults.add(f"{at}.scaleMetric", "KEDA takes its metrics from autoScaling")
    kinds = {"hpa": ("Resource",), "keda": ("Resource", "External", "PodMetric")}.get(autoscaler, ())
    metrics = _mapping(component.get("autoScaling")).get("metrics")
    for index, entry in _each(metrics) if kinds else ():
        place = f"{at}.autoScaling.metrics[{index}]"
        if entry.get("type") not in kinds:
            faults.wrong(f"{place}.type", entry.get("type"), " or ".join(kinds))
        elif entry.get(str(entry["type"]).lower()) is None:
            faults.add(f"{place}.{str(entry['type']).lower()}", "is required")


def _check_storage(faults: Faults, component: Object, at: str, choices: tuple[str, ...]) -> None:
    named = next((name for name in choices if name != "containers" and component.get(name) is not None), "")
    served = _mapping(component.get(named))
    uri, storage = served.get("storageUri"), served.get("storage")
    if isinstance(storage, dict):
        kind = _mapping(storage.get("parameters")).get("type")
        if isinstance(uri, str) and not uri.startswith(_WITH_KEYS):
            faults.wrong(f"{at}.{named}.storageUri", uri, f"{', '.join(_WITH_KEYS)} (as there is storage beside it)")
        elif uri is None and isinstance(kind, str) and not f"{kind}://".startswith(_WITH_KEYS):
            faults.wrong(f"{at}.{named}.storage.parameters.type", kind, "s3 or hdfs or webhdfs")
    places = component.get("storageUris")
    if not isinstance(places, list):
        return
    if uri is not None or any(source is not None for source in _custom_uris(component, named)):
        faults.add(f"{at}.storageUris", "can't stand beside a storageUri")
    fetched: list[str] = []
    claims: list[str] = []
    for index, place in _each(places):
        path, source = place.get("mountPath", "/mnt/models"), place.get("uri")
        if not isinstance(path, str) or not isinstance(source, str):
            continue
        if not source:
            faults.add(f"{at}.storageUris[{index}].uri", "must not be empty")
        if path == "/" or not path.startswith("/") or ".." in path:
            faults.wrong(f"{at}.storageUris[{index}].mountPath", path, "an absolute path, without '..'")
        else:
            (claims if source.startswith("pvc://") else fetched).append(path)
    if len(fetched) > 1:
        if len(set(claims)) < len(claims):
            faults.add(f"{at}.storageUris", "two claims are mounted at one path")
        if commonpath(fetched) == "/":
            faults.add(f"{at}.storageUris", f"the paths {', '.join(fetched)} have no directory in common")


def _custom_uris(component: Object, named: str) -> Iterator[str | None]:
    for index, container in _each(component.get("containers")) if not named else ():
        if index == 0 or container.get("name") == CONTAINER:
            yield _variable(container, _STORAGE_URI)


def _check_workers(faults: Faults, predictor: Object, notes: Object) -> None:
    workers, at = predictor["workerSpec"], "spec.predictor.workerSpec"
    _check_worker_spec(faults, workers, at, notes)
    model = predictor.get("model")
    if not isinstance(model, dict):
        return
    _check_parallel_variables(faults, model, "spec.predictor.model")
    _check_gpus(faults, model, "spec.predictor.model", notes)
    uri = model.get("storageUri")
    if uri is None:
        faults.add("spec.predictor.model.storageUri", "is required with workerSpec; expected pvc:// or oci://")
    elif isinstance(uri, str) and not uri.startswith(("pvc://", "oci://")):
        faults.wrong("spec.predictor.model.storageUri", uri, "pvc:// or oci:// (with workerSpec)")
    if notes.get(AUTOSCALER) != "none":
        faults.add(f"metadata.annotations[{AUTOSCALER}]", "expected none, as there is a workerSpec")


# --- runtimes and graphs ----------------------------------------------------------------------------------------------


def check_runtime(faults: Faults, obj: Object) -> None:
    spec = _mapping(obj.get("spec"))
    if spec.get("disabled") is True:
        return
    priorities: dict[str, Any] = {}
    for index, entry in _each(spec.get("supportedModelFormats")):
        name, priority = entry.get("name"), entry.get("priority")
        if not entry.get("autoSelect") or not isinstance(name, str):
            continue
        first = priorities.setdefault(name, priority)
        if first is not None and priority is not None and first != priority:
            text = f"{priority} is another than the {first} of the same format {shown(name)}"
            faults.add(f"spec.supportedModelFormats[{index}].priority", text)
    workers = spec.get("workerSpec")
    if not isinstance(workers, dict):
        return
    notes = _mapping(spec.get("annotations"))
    if not workers.get("containers"):
        faults.add("spec.workerSpec.containers", "is required")
    _check_worker_spec(faults, workers, "spec.workerSpec", notes)
    for index, container in _each(spec.get("containers")):
        if container.get("name") == CONTAINER:
            _check_parallel_variables(faults, container, f"spec.containers[{index}]")
            _check_gpus(faults, container, f"spec.containers[{index}]", notes)


def check_graph(faults: Faults, obj: Object) -> None:
    _check_name(faults, obj)
    nodes = _mapping(_mapping(obj.get("spec")).get("nodes"))
    if "root" not in nodes:
        faults.add("spec.nodes", "has no node 'root', with which a graph begins")
    for name, node in nodes.items():
        steps = list(_each(_mapping(node).get("steps")))
        seen: set[str] = set()
        for index, step in steps:
            at = f"spec.nodes[{name}].steps[{index}]"
            targets = [key for key in ("nodeName", "serviceName", "serviceUrl") if step.get(key)]
            if len(targets) != 1:
                text = f"gives {' and '.join(targets)}" if targets else "has no target"
                faults.add(at, f"{text}; expected one of nodeName, serviceName, serviceUrl")
            if step.get("name") and str(step["name"]) in seen:
                faults.add(f"{at}.name", f"{shown(step['name'])} is the name of an earlier step")
            seen.add(str(step.get("name")))
        if _mapping(node).get("routerType") == "Splitter":
            weights = [step.get("weight") for _, step in steps]
            if sum(weight for weight in weights if isinstance(weight, int)) != 100 or None in weights:
                faults.add(f"spec.nodes[{name}].steps", "the weights of a Splitter's steps must be 100 together")


# --- what they share --------------------------------------------------------------------------------------------------


def _check_worker_spec(faults: Faults, workers: Object, at: str, notes: Object) -> None:
    containers = list(_each(workers.get("containers")))
    if len(containers) > 1:
        faults.add(f"{at}.containers", "expected one container")
    for index, container in containers:
        _check_gpus(faults, container, f"{at}.containers[{index}]", notes)
    for field in ("pipelineParallelSize", "tensorParallelSize"):
        faults.integer(workers, field, f"{at}.{field}", least=1)


def _check_parallel_variables(faults: Faults, container: Object, at: str) -> None:
    for name in ("PIPELINE_PARALLEL_SIZE", "TENSOR_PARALLEL_SIZE"):
        if _variable(container, name) is not None:
            faults.add(f"{at}.env[{name}]", "is set by KServe: give the size in workerSpec")


def _check_gpus(faults: Faults, container: Object, at: str, notes: Object) -> None:
    known = {*_OF_NODES, *GPUS}
    if custom := notes.get(_GPU_TYPES):
        try:
            more = json.loads(custom)
        except (TypeError, ValueError):
            more = None
        if not isinstance(more, list) or not more or not all(isinstance(name, str) and name for name in more):
            faults.wrong(f"metadata.annotations[{_GPU_TYPES}]", custom, "a list of resources in JSON")
            return
        known.update(more)
    resources = _mapping(container.get("resources"))
    for kind in ("limits", "requests"):
        for name in _mapping(resources.get(kind)):
            if name not in known:
                text = f"is no GPU that KServe knows; name it in the annotation {_GPU_TYPES}"
                faults.add(f"{at}.resources.{kind}[{name}]", text)


def _variable(container: Object, name: str) -> str | None:
    """The value of an environment variable; None if it is not given."""
    for _, entry in _each(container.get("env")):
        if entry.get("name") == name:
            return str(entry.get("value") or "")
    return None


def storage_uri_of(container: Object) -> str:
    """Where a custom container says that its model is."""
    return _variable(container, _STORAGE_URI) or ""


def _mapping(value: Any) -> Object:
    return value if isinstance(value, dict) else {}


def _each(value: Any) -> Iterator[tuple[int, Object]]:
    """The items of a list that are mappings, with their numbers. The object may be unchecked."""
    for index, item in enumerate(value if isinstance(value, list) else ()):
        if isinstance(item, dict):
            yield index, item
