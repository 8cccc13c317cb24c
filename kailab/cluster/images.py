"""Images that a cluster can't have: waiting for a pod that needs one would not help."""

from __future__ import annotations

from kailab.cluster.protocol import Object

_REFUSED = ("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName")
_LONGEST = 300


def without_image(pod: Object) -> str:
    """``pod NAME has no image IMAGE: why``; empty where each container has its own, or has not asked for it yet."""
    status = pod.get("status") or {}
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in _REFUSED:
            told = " ".join(str(waiting.get("message") or waiting["reason"]).split())[:_LONGEST]
            return f"pod {pod['metadata']['name']} has no image {container.get('image')}: {told}"
    return ""
