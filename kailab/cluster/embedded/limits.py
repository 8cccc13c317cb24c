"""LimitRanges, as the LimitRanger admission plugin applies them: defaults of containers, and bounds of containers, pods and claims.

The defaults and bounds hold for new pods only, as in Kubernetes: a pod that exists is not judged again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

from kailab.cluster.embedded.storage.store import ObjectStore
from kailab.cluster.protocol import Object
from kailab.model.objects import namespace_of
from kailab.model.pod_resources import (
    Amounts,
    container_amounts,
    containers_of,
    format_amount,
    parsed,
    pod_limits,
    pod_requests,
)

LimitType: TypeAlias = Literal["Container", "Pod", "PersistentVolumeClaim"]


class LimitRanges:
    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def of(self, namespace: str, type: LimitType) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The limits of one type in a namespace, each with the name of its LimitRange."""
        for (space, name), limit_range in self._store.table("LimitRange").objects.items():
            if space == namespace:
                for item in (limit_range.get("spec") or {}).get("limits") or ():
                    if item.get("type") == type:
                        yield name, item

    def with_defaults(self, spec: Object, namespace: str) -> Object:
        """The pod spec with requests and limits where containers have none; the same object if nothing is missing."""
        if not self._store.table("LimitRange").objects:
            return spec
        items = [item for _, item in self.of(namespace, "Container")]
        # As in the plugin, which keeps what the first LimitRange has set.
        requests = _first([item.get("defaultRequest") or {} for item in items])
        limits = _first([item.get("default") or {} for item in items])
        if not requests and not limits:
            return spec
        changed = {
            field: [_with_defaults(container, requests, limits) for container in spec[field]]
            for field in ("containers", "initContainers")
            if spec.get(field)
        }
        same = all(
            new is old for field, filled in changed.items() for new, old in zip(filled, spec[field], strict=True)
        )
        return spec if same else {**spec, **changed}

    def faults(self, kind: str, obj: Object) -> list[str]:
        """What a new object breaks, one sentence for each bound."""
        if not self._store.table("LimitRange").objects or kind not in ("Pod", "PersistentVolumeClaim"):
            return []
        namespace, spec = namespace_of(obj), obj.get("spec") or {}
        faults: list[str] = []
        if kind == "PersistentVolumeClaim":
            asked = parsed((spec.get("resources") or {}).get("requests") or {})
            for _, item in self.of(namespace, "PersistentVolumeClaim"):
                faults += _bounds(item, "PersistentVolumeClaim", asked, asked)
            return faults
        for _, item in self.of(namespace, "Container"):
            for container in containers_of(spec):
                faults += _bounds(
                    item, "Container", container_amounts(container, "requests"), container_amounts(container, "limits")
                )
        for _, item in self.of(namespace, "Pod"):
            faults += _bounds(item, "Pod", pod_requests(spec), pod_limits(spec))
        return faults


def _first(mappings: list[Mapping[str, Any]]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for mapping in mappings:
        for name, amount in mapping.items():
            merged.setdefault(name, amount)
    return merged


def _with_defaults(container: Object, requests: Mapping[str, Any], limits: Mapping[str, Any]) -> Object:
    resources = container.get("resources") or {}
    own = {"requests": resources.get("requests") or {}, "limits": resources.get("limits") or {}}
    wanted = {"requests": {**requests, **own["requests"]}, "limits": {**limits, **own["limits"]}}
    if wanted == own:
        return container
    return {**container, "resources": {**resources, **{field: value for field, value in wanted.items() if value}}}


def _bounds(item: Mapping[str, Any], type: LimitType, requests: Amounts, limits: Amounts) -> Iterator[str]:
    """Each broken bound in a sentence. Source: Kubernetes limitranger minConstraint, maxConstraint, limitRequestRatioConstraint."""
    for name, least in parsed(item.get("min") or {}).items():
        text = f"minimum {name} usage per {type} is {format_amount(name, least)}"
        if name not in requests:
            yield f"{text}, and no request is specified"
        elif requests[name] < least:
            yield f"{text}, but the request is {format_amount(name, requests[name])}"
        elif name in limits and limits[name] < least:
            yield f"{text}, but the limit is {format_amount(name, limits[name])}"
    for name, most in parsed(item.get("max") or {}).items():
        text = f"maximum {name} usage per {type} is {format_amount(name, most)}"
        if name not in limits:
            yield f"{text}, and no limit is specified"
        elif limits[name] > most:
            yield f"{text}, but the {'request' if limits is requests else 'limit'} is {format_amount(name, limits[name])}"
        elif name in requests and requests[name] > most:
            yield f"{text}, but the request is {format_amount(name, requests[name])}"
    for name, ratio in parsed(item.get("maxLimitRequestRatio") or {}).items():
        text = f"{name} max limit to request ratio per {type} is {format_amount('', ratio)}"
        if not requests.get(name) or not limits.get(name):
            yield f"{text}, and no {'limit' if requests.get(name) else 'request'} is specified, or it is 0"
        elif limits[name] > ratio * requests[name]:
            yield f"{text}, but the ratio is {float(limits[name] / requests[name]):.6f}"
