"""The status that the kubelet writes for a pod when it starts, ends, crashes and is restarted.

Nothing here has a state: a pod and a moment in, a status out. ``now`` is a time as Kubernetes writes it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from kailab.cluster.embedded.podwrites import condition, ready_conditions, with_conditions
from kailab.cluster.lifecycle import (
    BACKING_OFF,
    CODE_COMPLETED,
    COMPLETED,
    DONE_REASONS,
    NOT_READY,
    READY_CONDITIONS,
)
from kailab.cluster.protocol import Object


def started(pod: Object, node: Object, now: str) -> Object:
    """Running and ready, the init containers over."""
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


def ended(pod: Object, phase: str, code: int, reason: str, now: str) -> Object:
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


def crashed(pod: Object, code: int, reason: str, now: str) -> Object:
    """Running still: the containers wait to be started again (CrashLoopBackOff)."""
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


def restarted(pod: Object, now: str) -> Object:
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


# One dict for all containers alike that start in the same second; stored objects are never changed.
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
    """Made from the number in the pod's uid, so that the same history gives the same address."""
    # The store's uids end in a count, and an opened snapshot's in any hex digits; both give an address.
    number = int(pod["metadata"]["uid"][-12:], 16)
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


def _host_ip(node: Object) -> str:
    for address in (node.get("status") or {}).get("addresses") or ():
        if address.get("type") == "InternalIP" and address.get("address"):  # the filter of the evidence leaves it out
            return str(address["address"])
    number = int(node["metadata"]["uid"][-12:], 16)
    return f"172.16.{number >> 8 & 255}.{number & 255}"
