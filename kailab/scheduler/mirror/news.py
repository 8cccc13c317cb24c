"""Which news of an object change no record: most are of its status alone, much of it written by the scheduler itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kailab.cluster.protocol import Object

_NOTHING: Mapping[str, Any] = {}


def same_but_status(before: Object, after: Object) -> bool:
    """True if certainly nothing but the status differs. Clusters share what a write leaves alone, so identity tells."""
    old, new = before["metadata"], after["metadata"]
    return (
        before.get("spec") is after.get("spec")
        and old.get("labels") is new.get("labels")
        and old.get("annotations") is new.get("annotations")
    )


def state(pod: Object) -> tuple[Any, ...]:
    """What of a pod's life matters here, beside its spec, labels and annotations."""
    status = pod.get("status") or _NOTHING
    return (
        status.get("phase"),
        status.get("nominatedNodeName"),
        pod["metadata"].get("deletionTimestamp"),
        status.get("resourceClaimStatuses"),
    )
