"""The requests that carry out each write of the protocol, and the meaning of their answers.

A repeated request may have been carried out the first time, with its answer lost. Then "not found" is the success of a
delete, and "exists already" or "bound already" that of a create or a bind, once a GET has confirmed it. If even the last
try has no answer, the write is *unanswered*.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from kailab.cluster.kubernetes.apiclient.resources import ApiResource
from kailab.cluster.kubernetes.apiclient.transport import HttpAnswer, NoAnswer, Transport, refusal
from kailab.cluster.protocol import Object
from kailab.errors import ApiError, Unavailable

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
MANAGER = "kailab"
_MANAGED: Mapping[str, str | int] = {"fieldManager": MANAGER}
_DELETE: Mapping[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class ApiRequest(NamedTuple):
    """``title``: the request in messages. ``resolve``: the path of the object. If a repeated request is refused, a GET of it shows whether an
    earlier try succeeded; for a bind, that is the case if the pod is on ``resolve_node``."""

    method: str
    path: str
    body: bytes | None
    content: str = "application/json"
    title: str = ""
    resolve: str = ""
    resolve_node: str = ""


def body_of(answer: HttpAnswer) -> Object:
    """The object in an answer, without managedFields."""
    obj: Object = _decode(answer.body)
    metadata = obj.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)
    return obj


def create_request(resource: ApiResource, obj: Object) -> ApiRequest:
    metadata = obj["metadata"]
    namespace, name = resource.space(metadata.get("namespace")), metadata.get("name", "")
    return ApiRequest(
        "POST",
        resource.path(namespace, query=_MANAGED),
        _encode(obj),
        title=f"create {resource.kind} {name}",
        # A name that the server generates can't be looked up.
        resolve=resource.path(namespace, name) if name else "",
    )


def update_request(resource: ApiResource, obj: Object) -> ApiRequest:
    metadata = obj["metadata"]
    return ApiRequest(
        "PUT",
        resource.path(metadata.get("namespace"), metadata["name"], query=_MANAGED),
        _encode(obj),
        title=f"update {resource.kind} {metadata['name']}",
    )


def apply_request(resource: ApiResource, obj: Object) -> ApiRequest:
    metadata = obj["metadata"]
    # Forced: the manifest decides about its fields, even those that somebody else has set since.
    path = resource.path(metadata.get("namespace"), metadata["name"], query={**_MANAGED, "force": "true"})
    return ApiRequest("PATCH", path, _encode(obj), APPLY, f"apply {resource.kind} {metadata['name']}")


def patch_request(
    resource: ApiResource, name: str, namespace: str | None, patch: Mapping[str, Any], subresource: str
) -> ApiRequest:
    path = resource.path(namespace, name, subresource if resource.status else "", query=_MANAGED)
    return ApiRequest("PATCH", path, _encode(patch), MERGE, f"patch {resource.kind} {name}")


def delete_request(
    resource: ApiResource, name: str, namespace: str | None, grace_seconds: float | None, uid: str = ""
) -> ApiRequest:
    options: dict[str, Any] = {**_DELETE}
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = math.ceil(grace_seconds)
    # Another object may have the name by now; it must not be deleted.
    if uid:
        options["preconditions"] = {"uid": uid}
    title = f"delete {resource.kind} {name}"
    return ApiRequest("DELETE", resource.path(namespace, name), _encode(options), title=title)


def delete_all_request(resource: ApiResource, namespace: str | None) -> ApiRequest:
    options = _encode({**_DELETE, "gracePeriodSeconds": 0})
    return ApiRequest("DELETE", resource.path(namespace), options, title=f"delete all {resource.plural}")


def bind_request(
    resource: ApiResource, namespace: str, pod: str, uid: str, node: str, annotations: Mapping[str, str] | None
) -> ApiRequest:
    metadata: dict[str, Any] = {"name": pod, "namespace": namespace}
    # The API server refuses to bind another pod of that name.
    if uid:
        metadata["uid"] = uid
    if annotations:
        metadata["annotations"] = dict(annotations)
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": metadata,
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    path = resource.path(namespace, pod, "binding", query=_MANAGED)
    pod_path = resource.path(namespace, pod)
    return ApiRequest("POST", path, _encode(body), title=f"bind Pod {pod}", resolve=pod_path, resolve_node=node)


def disruption_request(
    resource: ApiResource, namespace: str, pod: str, uid: str, reason: str, message: str, stamp: str
) -> ApiRequest:
    """The condition that says why a pod is about to go."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": stamp,
    }
    # A precondition: the server refuses to change another pod of that name.
    metadata = {"uid": uid} if uid else {}
    body = _encode({"metadata": metadata, "status": {"conditions": [condition]}})
    path = resource.path(namespace, pod, "status", query=_MANAGED)
    # Strategic: conditions are merged by type; a merge patch would replace the list.
    return ApiRequest("PATCH", path, body, STRATEGIC, f"evict Pod {pod}")


async def send(transport: Transport, request: ApiRequest, patience: float, brief: bool = False) -> HttpAnswer:
    """The answer to a request that was carried out. Raises ApiError for one that was refused, or is ``unanswered``."""
    answer = await transport.request(
        request.method, request.path, request.body, request.content, patience=patience, brief=brief
    )
    if answer.code < 300:
        return answer
    # Only if an earlier try may have succeeded: otherwise the refusal means what it says.
    if answer.unanswered:
        if request.method == "DELETE" and answer.code == 404:
            return HttpAnswer(200, b"{}", answer.tries)
        if request.resolve and answer.code == 409:
            present = await _look(transport, request.resolve, patience, brief)
            if present.code == 200 and _is_ours(present, request):
                return present if not request.resolve_node else HttpAnswer(201, b"{}", answer.tries)
    error = refusal(answer.code, answer.body, request.title)
    # After 404 there is no object, and after 409 another client's change stands: the write is not in effect, whatever became of earlier tries.
    error.unanswered = answer.unanswered and answer.code not in (404, 409)
    raise error


async def _look(transport: Transport, path: str, patience: float, brief: bool) -> HttpAnswer:
    """The present state. Raises ApiError, ``unanswered``, if the server does not answer."""
    try:
        present = await transport.request("GET", path, patience=patience, brief=brief)
        # A busy or failing server says nothing about the object.
        if present.code >= 429:
            raise refusal(present.code, present.body, f"GET {path}")
    except ApiError as error:
        error.unanswered = True
        raise
    return present


def _is_ours(present: HttpAnswer, request: ApiRequest) -> bool:
    obj = _decode(present.body)
    if request.resolve_node:
        return bool(obj["spec"].get("nodeName") == request.resolve_node)
    # Only here managedFields are read, to see who created an object that exists already.
    managers = obj["metadata"].get("managedFields") or ()
    return any(entry.get("manager") == MANAGER and entry.get("operation") == "Update" for entry in managers)


async def send_in_order(
    transport: Transport, requests: list[ApiRequest], batch: RequestBatch
) -> tuple[list[HttpAnswer], ApiError | None]:
    """Send a chain. Returns the answers up to the first refusal, and that refusal.

    A server that is unreachable is so for the whole batch; a single write that gets no good answer does not delay the
    others.
    """
    answers: list[HttpAnswer] = []
    try:
        for request in requests:
            # Checked before each request: another chain may have given up the server meanwhile.
            if batch.lost is not None:
                raise batch.lost
            answers.append(await send(transport, request, batch.patience, brief=True))
    except NoAnswer as error:
        if not error.own and batch.lost is None:
            batch.lost = NoAnswer(str(error))
        return answers, error
    except ApiError as error:
        return answers, error
    return answers, None


class RequestBatch:
    """Chains that were submitted together. ``lost``: the server was given up on, so the rest is not sent."""

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self.lost: Unavailable | None = None
