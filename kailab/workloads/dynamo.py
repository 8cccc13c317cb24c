"""NVIDIA Dynamo's DynamoGraphDeployment: a Grove PodCliqueSet with a clique for each service.

A service of several nodes is a scaling group of a leader's clique and a workers' clique, and each of its replicas starts whole. A service of
one node needs one pod to start. The operator puts pods into the queue of the annotation ``nvidia.com/kai-scheduler-queue``, else into the
queue ``dynamo``. Source: Dynamo's operator, internal/dynamo/graph.go (GenerateGrovePodCliqueSet).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kailab.model import labels as names
from kailab.model.objects import Object, annotations_of, is_terminating, labels_of, name_of, status_of
from kailab.model.validation.advice import DescribedPod
from kailab.workloads.apps import ensure_object
from kailab.workloads.controller import Controller

QUEUE = "nvidia.com/kai-scheduler-queue"
_DEFAULT_QUEUE = "dynamo"
_PREFIX = "nvidia.com/dynamo-"
_MAIN = "main"


def services_of(spec: Object) -> dict[str, Object]:
    """The services of a graph by name: ``services`` of v1alpha1, ``components`` of v1beta1."""
    services: dict[str, Object] = {name: service or {} for name, service in (spec.get("services") or {}).items()}
    return services | {component["name"]: component for component in spec.get("components") or ()}


def roles_of(name: str, service: Object) -> list[tuple[str, int]]:
    """The cliques of a service, with the pods of each."""
    nodes = (service.get("multinode") or {}).get("nodeCount") or 1
    if nodes > 1:
        return [(f"{name}-ldr", 1), (f"{name}-wkr", nodes - 1)]
    return [(name, service.get("replicas", 1))]


def pods_of_graph(obj: Object) -> Iterator[DescribedPod]:
    queue = annotations_of(obj).get(QUEUE)
    places = {name: f"spec.services.{name}." for name in obj["spec"].get("services") or {}}
    for index, component in enumerate(obj["spec"].get("components") or ()):
        places[component["name"]] = f"spec.components[{index}]."
    for name, service in services_of(obj["spec"]).items():
        labels, annotations, pod_spec = _pod(obj, name, service)
        pod = {
            "metadata": {"labels": {**({names.QUEUE: queue} if queue else {}), **labels}, "annotations": annotations},
            "spec": pod_spec,
        }
        within = "podTemplate.spec." if "podTemplate" in service else "extraPodSpec."
        yield DescribedPod(places[name], places[name] + within, pod)


class DynamoController(Controller):
    def sync(self, owner: Object) -> None:
        if is_terminating(owner):
            return
        bench, spec = self._bench, owner["spec"]
        queue = annotations_of(owner).get(QUEUE, "")
        if not queue and bench.find("Queue", ("", _DEFAULT_QUEUE)) is not None:
            queue = _DEFAULT_QUEUE
        wanted = {"replicas": 1, "template": self._template(owner, queue)}
        labels, annotations = spec.get("labels") or {}, spec.get("annotations") or {}
        current = ensure_object(bench, owner, "PodCliqueSet", name_of(owner), wanted, labels, annotations)
        ready = current is not None and status_of(current).get("availableReplicas", 0) > 0
        self.set_status(
            owner,
            ("Ready", ready, "all_resources_are_ready" if ready else "some_resources_are_not_ready", ""),
            state="successful" if ready else "pending",
        )

    def _template(self, owner: Object, queue: str) -> Object:
        cliques: list[Object] = []
        groups: list[Object] = []
        for name, service in services_of(owner["spec"]).items():
            # A service without pods has no clique: Grove takes 0 for a missing number.
            if service.get("replicas", 1) == 0:
                continue
            roles = roles_of(name, service)
            several = len(roles) > 1
            constraint = _constraint(service)
            for role, replicas in roles:
                labels, annotations, pod_spec = _pod(owner, name, service)
                if queue:
                    labels.setdefault(names.QUEUE, queue)
                cliques.append({
                    "name": role.lower(),
                    "labels": labels,
                    "annotations": annotations,
                    "spec": {"roleName": role.lower(), "replicas": replicas,
                             "minAvailable": replicas if several else 1, "podSpec": pod_spec},
                    **({} if several else constraint),
                })  # fmt: skip
            if several:
                groups.append({
                    "name": name.lower(), "cliqueNames": [role.lower() for role, _ in roles],
                    "replicas": service.get("replicas", 1), "minAvailable": 1, **constraint,
                })  # fmt: skip
        template: Object = {"cliques": cliques}
        if groups:
            template["podCliqueScalingGroups"] = groups
        template |= _constraint(owner["spec"])
        if named := owner["spec"].get("priorityClassName"):
            template["priorityClassName"] = named
        return template


def _constraint(holder: Object) -> Object:
    """A topology constraint in Grove's words; the versions of the graph have two names for the topology."""
    given = holder.get("topologyConstraint")
    if not given:
        return {}
    named = given.get("clusterTopologyName") or given.get("topologyProfile")
    pack = {"packDomain": given["packDomain"]} if given.get("packDomain") else {}
    return {"topologyConstraint": {**({"topologyName": named} if named else {}), **pack}}


def _pod(owner: Object, name: str, service: Object) -> tuple[dict[str, str], dict[str, str], Object]:
    """Labels, annotations and spec of a service's pods."""
    given = service.get("podTemplate") or {}
    more = service.get("extraPodMetadata") or {}
    labels = {
        f"{_PREFIX}graph-deployment-name": name_of(owner),
        f"{_PREFIX}component": name,
        **{key: value for key, value in labels_of(owner).items() if key == names.QUEUE},
        **(service.get("labels") or {}),
        **(more.get("labels") or {}),
        **labels_of(given),
    }
    annotations = {**(service.get("annotations") or {}), **(more.get("annotations") or {}), **annotations_of(given)}
    if kind := service.get("componentType") or service.get("type"):
        labels[f"{_PREFIX}component-type"] = kind
    extra = {**(service.get("extraPodSpec") or {}), **(given.get("spec") or {})}
    main = {**(extra.pop("mainContainer", None) or {})}
    containers = list(extra.pop("containers", None) or ())
    # The container of this name is the service's; others run beside it.
    main = {**main, **next((one for one in containers if one.get("name") == _MAIN), {}), "name": _MAIN}
    beside = [one for one in containers if one.get("name") != _MAIN]
    main.setdefault("image", "dynamo")
    if resources := _resources(service.get("resources") or {}):
        main["resources"] = resources
    # The operator names KAI's scheduler where it finds KAI.
    return labels, annotations, {"schedulerName": names.SCHEDULER_NAME, **extra, "containers": [main, *beside]}


def _resources(given: Object) -> Object:
    result: dict[str, Any] = {}
    for side in ("requests", "limits"):
        item = given.get(side) or {}
        amounts = {key: str(item[key]) for key in ("cpu", "memory") if item.get(key)}
        if item.get("gpu"):
            amounts[item.get("gpuType") or names.GPU_RESOURCE] = str(item["gpu"])
        amounts |= item.get("custom") or {}
        if amounts:
            result[side] = amounts
    # An extended resource has a limit; the operator copies a request that has none.
    gpus = {key: value for key, value in result.get("requests", {}).items() if "/" in key}
    if gpus:
        result["limits"] = {**gpus, **result.get("limits", {})}
    if given.get("claims"):
        result["claims"] = given["claims"]
    return result
