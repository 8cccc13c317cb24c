"""How long workloads run of which nothing says so: for ever, or for a time that is assumed.

A cluster does not tell when a training job will end. What never ends anyway (a service, whose containers are started again) is left
as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kailab.cluster.protocol import Object
from kailab.model.labels import RUN_SECONDS

Assumed = float
"""Seconds from the start of a pod."""


def assuming(seconds: Assumed) -> Callable[[Object], Object]:
    """A change of an object: pods that may end, and the templates of such pods, say that they run for so long if they say nothing."""

    def changed(obj: Object) -> Object:
        new: Object = _noted(obj, seconds)
        return new

    return changed


def _noted(value: Any, seconds: float) -> Any:
    """Every pod and pod template in a structure; itself where there is none."""
    if isinstance(value, list):
        items = [_noted(item, seconds) for item in value]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    if not isinstance(value, dict):
        return value
    spec = value.get("spec")
    if isinstance(spec, dict) and isinstance(spec.get("containers"), list):
        return _pod(value, spec, seconds)
    new = {key: _noted(inside, seconds) if isinstance(inside, dict | list) else inside for key, inside in value.items()}
    return value if all(new[key] is inside for key, inside in value.items()) else new


def _pod(pod: Mapping[str, Any], spec: Mapping[str, Any], seconds: float) -> Any:
    meta = pod.get("metadata") or {}
    notes = meta.get("annotations") or {}
    if spec.get("restartPolicy", "Always") == "Always" or RUN_SECONDS in notes:
        return pod
    return {**pod, "metadata": {**meta, "annotations": {**notes, RUN_SECONDS: f"{seconds:g}"}}}
