"""States of a pod as the API server and the kubelet write them: bound, disrupted, started, ended, crashed, restarted.

The functions are pure: a pod and a time (as Kubernetes writes it) go in, a new state comes out.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from kailab.cluster.pod_lifecycle import (
    BACKING_OFF,
    CODE_COMPLETED,
    COMPLETED,
    DONE_REASONS,
    NOT_READY,
    READY_CONDITIONS,
    STARTED_CONDITIONS,
)
from kailab.cluster.protocol import Object
from kailab.model.objects import conditions_of, uid_of
from kailab.model.times import time_or_none

_HEXADECIMAL = re.compile(r"[0-9a-f]{1,12}")


@lru_cache(maxsize=1024)
def condition(type: str, status: str, since: str, reason: str = "", message: str = "") -> dict[str, Any]:
    """A pod condition. Equal ones are one dict, shared by all pods that have it (read-only, as everything stored)."""
    made = {"type": type, "status": status, "lastProbeTime": None, "lastTransitionTime": since}
    if reason:
        made["reason"] = reason
    if message:
        made["message"] = message
    return made


def with_conditions(old: list[dict[str, Any]] | None, *new: dict[str, Any]) -> list[dict[str, Any]]:
    """Conditions with some set, each in its old place; the transition time changes only with the status."""
    result = list(old or ())
    for wanted in new:
        for index, present in enumerate(result):
            if present.get("type") == wanted["type"]:
                if present.get("status") == wanted["status"] and present.get("lastTransitionTime"):
                    wanted = {**wanted, "lastTransitionTime": present["lastTransitionTime"]}
                result[index] = wanted
                break
        else:
            result.append(wanted)
    return result


@lru_cache(maxsize=256)
def _scheduled_only(since: str) -> list[dict[str, Any]]:
    return [condition("PodScheduled", "True", since)]


@lru_cache(maxsize=256)
def _ready_after(scheduled: str, now: str) -> list[dict[str, Any]]:
    return with_conditions(_scheduled_only(scheduled), *_ready(now))


def _ready(now: str) -> list[dict[str, Any]]:
    return [condition(name, "True", now) for name in STARTED_CONDITIONS]


def ready_conditions(old: list[dict[str, Any]] | None, now: str) -> list[dict[str, Any]]:
    """Conditions of a pod that has just become ready; pods with the same history share one list."""
    # The usual case. Identity with the cached condition proves that it has no other fields.
    if old and len(old) == 1 and old[0] is condition("PodScheduled", "True", old[0]["lastTransitionTime"]):
        return _ready_after(old[0]["lastTransitionTime"], now)
    return with_conditions(old, *_ready(now))


def bound_at(pod: Object) -> float:
    """When the pod was bound, in seconds since the epoch; 0 if nothing in it says so."""
    for entry in conditions_of(pod):
        if entry.get("type") == "PodScheduled" and entry.get("status") == "True":
            return time_or_none(entry.get("lastTransitionTime")) or 0.0
    return 0.0


def bound_pod(pod: Object, node: str, annotations: Mapping[str, str] | None, now: str) -> Object:
    """The pod on its node, its PodScheduled condition true."""
    status = pod.get("status") or {}
    scheduled = condition("PodScheduled", "True", now)
    old = status.get("conditions")
    new_status = {**status, "conditions": with_conditions(old, scheduled) if old else _scheduled_only(now)}
    new_status.pop("nominatedNodeName", None)
    new = {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": new_status}
    if annotations:
        meta = dict(pod["metadata"])
        meta["annotations"] = {**(meta.get("annotations") or {}), **annotations}
        new["metadata"] = meta
    return new


def disrupted_pod(pod: Object, reason: str, message: str, now: str) -> Object:
    """The pod with a DisruptionTarget condition."""
    status = pod.get("status") or {}
    target = condition("DisruptionTarget", "True", now, reason, message)
    return {**pod, "status": {**status, "conditions": with_conditions(status.get("conditions"), target)}}


def started_pod(pod: Object, node: Object, now: str) -> Object:
    """Running and ready, its init containers completed."""
    spec = pod["spec"]
    host = _host_ip(node)
    address = host if spec.get("hostNetwork") else _pod_ip(pod)
    status = {
        **pod["status"],
        "phase": "Running",
        "conditions": ready_conditions(pod["status"].get("conditions"), now),
        "startTime": now,
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "containerStatuses": [_running(c["name"], c.get("image", ""), now, 0) for c in spec.get("containers") or ()],
    }
    if inits := spec.get("initContainers"):
        status["initContainerStatuses"] = [_initialised(c["name"], c.get("image", ""), now) for c in inits]
    return status


def ended_pod(pod: Object, phase: str, code: int, reason: str, now: str) -> Object:
    """Succeeded or Failed, all containers terminated."""
    return {
        **pod["status"],
        "phase": phase,
        "conditions": _not_ready(pod, DONE_REASONS[phase], now),
        "containerStatuses": [
            {**c, "ready": False, "started": False, "state": {"terminated": _terminated(c, code, reason, now)}}
            for c in pod["status"].get("containerStatuses") or ()
        ],
    }


def crashed_pod(pod: Object, code: int, reason: str, now: str) -> Object:
    """Still running, but its containers wait to be restarted (CrashLoopBackOff)."""
    return {
        **pod["status"],
        "conditions": _not_ready(pod, NOT_READY, now),
        "containerStatuses": [
            {
                **c,
                "ready": False,
                "started": False,
                "restartCount": c["restartCount"] + 1,
                "state": {"waiting": {"reason": BACKING_OFF}},
                "lastState": {"terminated": _terminated(c, code, reason, now)},
            }
            for c in pod["status"].get("containerStatuses") or ()
        ],
    }


def restarted_pod(pod: Object, now: str) -> Object:
    """The containers of a crashed pod run again."""
    ready = [condition(name, "True", now) for name in READY_CONDITIONS]
    return {
        **pod["status"],
        "conditions": with_conditions(pod["status"].get("conditions"), *ready),
        "containerStatuses": [
            {**c, "ready": True, "started": True, "state": {"running": {"startedAt": now}}}
            for c in pod["status"].get("containerStatuses") or ()
        ],
    }


def _not_ready(pod: Object, reason: str, now: str) -> list[dict[str, Any]]:
    conditions = [condition(name, "False", now, reason) for name in READY_CONDITIONS]
    return with_conditions(pod["status"].get("conditions"), *conditions)


# One dict for all equal containers that start in the same second; stored objects are never changed.
@lru_cache(maxsize=4096)
def _running(name: str, image: str, since: str, restarts: int) -> dict[str, Any]:
    return {
        "name": name,
        "image": image,
        "imageID": "",
        "ready": True,
        "started": True,
        "restartCount": restarts,
        "state": {"running": {"startedAt": since}},
    }


def _initialised(name: str, image: str, now: str) -> dict[str, Any]:
    return {
        "name": name,
        "image": image,
        "imageID": "",
        "ready": True,
        "restartCount": 0,
        "state": {"terminated": {"exitCode": CODE_COMPLETED, "reason": COMPLETED, "startedAt": now, "finishedAt": now}},
    }


def _terminated(container: dict[str, Any], code: int, reason: str, now: str) -> dict[str, Any]:
    started = ((container.get("state") or {}).get("running") or {}).get("startedAt", now)
    return {"exitCode": code, "reason": reason, "startedAt": started, "finishedAt": now}


def _pod_ip(pod: Object) -> str:
    """Derived from the number in the pod's uid, so that the same history gives the same address."""
    # The store's uids end in a count, those of an opened snapshot in any hex digits; both give an address.
    number = _number_of(uid_of(pod))
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


def _number_of(uid: str) -> int:
    """A number that stands for an object. A uid is any text: one in a file of a user may be no UUID."""
    last = uid[-12:]
    return int(last, 16) if _HEXADECIMAL.fullmatch(last) else zlib.crc32(last.encode())


def _host_ip(node: Object) -> str:
    for address in (node.get("status") or {}).get("addresses") or ():
        if address.get("type") == "InternalIP" and address.get("address"):  # the evidence filter removes it
            return str(address["address"])
    number = _number_of(uid_of(node))
    return f"172.16.{number >> 8 & 255}.{number & 255}"
