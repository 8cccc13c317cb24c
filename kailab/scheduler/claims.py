"""What pods ask for through dynamic resource allocation. Source: KAI common/resources/dra.go, dynamicresources plugin.

Only claims on GPU classes count as GPUs (the class name contains "gpu"); a claim for all devices of a class counts as one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kailab.cluster.protocol import Object
from kailab.engine.records import ResourceClaim
from kailab.model import labels as names

_NOTHING: Mapping[str, Any] = {}
_EXTENDED = "resource.kubernetes.io/extended-resource-claim"


def is_gpu_class(name: str) -> bool:
    return "gpu" in name.lower()


def claim_record(claim: Object) -> ResourceClaim:
    """A ResourceClaim object as the engine sees it."""
    metadata, status = claim["metadata"], claim.get("status") or _NOTHING
    requests = ((claim.get("spec") or _NOTHING).get("devices") or _NOTHING).get("requests") or ()
    wishes = [request.get("exactly") or request for request in requests]
    devices = sum(_count(wish) for wish in wishes)
    gpus = sum(_count(wish) for wish in wishes if is_gpu_class(wish.get("deviceClassName") or ""))
    allocation = status.get("allocation")
    of_one_pod = any(owner.get("kind") == "Pod" for owner in metadata.get("ownerReferences") or ())
    return ResourceClaim(
        name=f"{metadata.get('namespace', '')}/{metadata['name']}",
        devices=devices,
        gpus=gpus,
        allocated=allocation is not None,
        node=_node_of(allocation or _NOTHING),
        reserved=tuple(user["uid"] for user in status.get("reservedFor") or () if user.get("uid")),
        queue=(metadata.get("labels") or _NOTHING).get(names.QUEUE, "") if gpus and not of_one_pod else None,
    )


def _count(wish: Mapping[str, Any]) -> int:
    return max(1, int(wish.get("count") or 1)) if wish.get("allocationMode", "ExactCount") == "ExactCount" else 1


def _node_of(allocation: Mapping[str, Any]) -> str:
    """The one node that an allocation is bound to; "" if it is bound to none, or to several."""
    terms = (allocation.get("nodeSelector") or _NOTHING).get("nodeSelectorTerms") or []
    fields = terms[0].get("matchFields") if len(terms) == 1 else None
    for field in fields or ():
        if (
            field.get("key") == "metadata.name"
            and field.get("operator") == "In"
            and len(field.get("values") or ()) == 1
        ):
            return str(field["values"][0])
    return ""


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
        self._slices: dict[str, tuple[str, int, bool]] = {}  # name -> node, devices, whether they are GPUs

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
        before = self._slices.pop(name, ("", 0, False))
        node = spec.get("nodeName") or ""
        if not gone and node:
            self._slices[name] = (node, len(spec.get("devices") or ()), is_gpu_class(spec.get("driver") or ""))
        return {before[0], node} - {""}

    def gpus_on(self, node: str) -> int:
        return sum(count for at, count, gpu in self._slices.values() if gpu and at == node)

    def devices_on(self, node: str) -> int | None:
        """All devices that claims can be served from there; None if no driver tells of any."""
        return sum((count for at, count, _ in self._slices.values() if at == node), 0) or None

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
