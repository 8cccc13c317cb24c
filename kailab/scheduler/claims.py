"""What pods ask for through dynamic resource allocation: GPUs per device class. Source: KAI common/resources/dra.go.

Only claims on GPU classes count (the class name contains "gpu"); a claim for all devices of a class counts as one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kailab.cluster.protocol import Object

_NOTHING: Mapping[str, Any] = {}
_EXTENDED = "resource.kubernetes.io/extended-resource-claim"


def is_gpu_class(name: str) -> bool:
    return "gpu" in name.lower()


def gpus_of(spec: Mapping[str, Any]) -> dict[str, int]:
    """Device class -> devices, of a ResourceClaim's spec (the one inside a template, too)."""
    found: dict[str, int] = {}
    first = ""
    for request in (spec.get("devices") or _NOTHING).get("requests") or ():
        wish = request.get("exactly") or request
        name = wish.get("deviceClassName") or ""
        if not is_gpu_class(name):
            continue
        mode = wish.get("allocationMode") or "ExactCount"
        if mode not in ("ExactCount", "All"):
            continue
        first = first or name
        found[first] = found.get(first, 0) + (max(1, int(wish.get("count") or 1)) if mode == "ExactCount" else 1)
    return found


class Claims:
    """ResourceClaims, templates and the devices of ResourceSlices, as far as GPUs are concerned."""

    def __init__(self) -> None:
        self._claims: dict[tuple[str, str], dict[str, int]] = {}
        self._templates: dict[tuple[str, str], dict[str, int]] = {}
        self._slices: dict[str, tuple[str, int]] = {}

    def take(self, kind: str, obj: Object, gone: bool) -> Iterable[str]:
        """Take in one change; gives the nodes whose GPU count may have changed."""
        metadata, spec = obj["metadata"], obj.get("spec") or _NOTHING
        if kind == "ResourceSlice":
            return self._slice(metadata["name"], spec, gone)
        key = (metadata.get("namespace", ""), metadata["name"])
        table = self._claims if kind == "ResourceClaim" else self._templates
        if gone:
            table.pop(key, None)
        elif kind == "ResourceClaim":
            extended = (metadata.get("annotations") or _NOTHING).get(_EXTENDED) == "true"
            table[key] = {} if extended else gpus_of(spec)
        else:
            table[key] = gpus_of(spec.get("spec") or _NOTHING)
        return ()

    def _slice(self, name: str, spec: Mapping[str, Any], gone: bool) -> Iterable[str]:
        before = self._slices.pop(name, ("", 0))
        node = spec.get("nodeName") or ""
        if not gone and node and is_gpu_class(spec.get("driver") or ""):
            self._slices[name] = (node, len(spec.get("devices") or ()))
        return {before[0], node} - {""}

    def devices_on(self, node: str) -> int:
        return sum(count for at, count in self._slices.values() if at == node)

    def of_pod(self, pod: Object) -> tuple[tuple[tuple[str, int], ...], tuple[str, ...], tuple[str, ...]]:
        """(device class, count) wanted; names ``namespace/name`` of the claims; what is missing, a sentence each.

        A claim that is still to be made from its template counts with what the template says.
        """
        namespace = pod["metadata"].get("namespace", "")
        made = {
            entry["name"]: entry.get("resourceClaimName")
            for entry in (pod.get("status") or _NOTHING).get("resourceClaimStatuses") or ()
        }
        counts: dict[str, int] = {}
        names, missing = [], []
        for wanted in pod["spec"].get("resourceClaims") or ():
            name = wanted.get("resourceClaimName") or made.get(wanted.get("name"))
            template = wanted.get("resourceClaimTemplateName")
            found = self._claims.get((namespace, name)) if name else None
            if found is None and template:
                found = self._templates.get((namespace, template))
                if found is None:
                    missing.append(f'resourceclaimtemplate "{template}" not found')
            elif found is None:
                missing.append(f'resourceclaim "{name}" not found')
            if name:
                names.append(f"{namespace}/{name}")
            for device_class, count in (found or {}).items():
                counts[device_class] = counts.get(device_class, 0) + count
        return tuple(sorted(counts.items())), tuple(sorted(names)), tuple(missing)
