"""Pods that KAI was about to bind: its scheduler has decided, its binder has not yet written. Here they count as bound."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kailab.cluster.protocol import Object
from kailab.model import labels
from kailab.scheduler.reading.tasks import group_labels

_DONE = ("Succeeded", "Failed")


def carried_out(objects: Mapping[str, list[Object]]) -> tuple[dict[str, list[Object]], int]:
    """Objects without BindRequests, and how many pods are bound by them. One that failed binds nothing: KAI decides anew."""
    requests = {key: one for one in objects.get("BindRequest", ()) if (key := _pod_of(one)) and _is_open(one)}
    found = {kind: list(several) for kind, several in objects.items() if kind != "BindRequest"}
    if not requests:
        return found, 0
    count = 0
    pods: list[Object] = []
    for pod in found.get("Pod", ()):
        meta = pod["metadata"]
        request = requests.get((meta.get("namespace", ""), meta["name"]))
        if request is not None and not pod["spec"].get("nodeName"):
            pod = _bound(pod, request["spec"])
            count += 1
        pods.append(pod)
    found["Pod"] = pods
    return found, count


def _pod_of(request: Object) -> tuple[str, str] | None:
    spec = request.get("spec") or {}
    name = spec.get("podName")
    return (request["metadata"].get("namespace", ""), name) if name and spec.get("selectedNode") else None


def _is_open(request: Object) -> bool:
    return (request.get("status") or {}).get("phase") not in _DONE


def _bound(pod: Object, request: Mapping[str, object]) -> Object:
    meta = pod["metadata"]
    notes = {
        **(meta.get("annotations") or {}),
        labels.RECEIVED_RESOURCE_TYPE: str(request.get("receivedResourceType") or "Regular"),
    }
    groups = request.get("selectedGPUGroups")
    shared = group_labels(tuple(map(str, groups))) if isinstance(groups, Iterable) and groups else {}
    return {
        **pod,
        "metadata": {**meta, "annotations": notes, "labels": {**(meta.get("labels") or {}), **shared}},
        "spec": {**pod["spec"], "nodeName": request["selectedNode"]},
    }
