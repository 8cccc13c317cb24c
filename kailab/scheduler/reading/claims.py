"""What pods ask for through dynamic resource allocation. Source: KAI common/resources/dra.go, dynamicresources plugin.

Only claims on GPU classes count as GPUs (the class name contains "gpu"); a claim for all devices of a class counts as one.
Administrative access takes nothing, and counts for nothing. (KAI counts it, and allocates no claim that asks for it.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kailab.cluster.protocol import Object
from kailab.engine.snapshot.devices import DeviceId
from kailab.engine.snapshot.records import ResourceClaim
from kailab.model import labels as names
from kailab.model.device_selectors import Device
from kailab.model.validation.fields import MOST_AMOUNT
from kailab.scheduler.reading.devices import Inventory, read_requests

if TYPE_CHECKING:
    from kailab.engine.working.workingset import WorkingSet

_NOTHING: Mapping[str, Any] = {}
_EXTENDED = "resource.kubernetes.io/extended-resource-claim"


def is_gpu_class(name: str) -> bool:
    return "gpu" in name.lower()


def claim_record(claim: Object, classes: Mapping[str, Object] = _NOTHING) -> ResourceClaim:
    """A ResourceClaim object as the engine sees it. ``classes``: the DeviceClasses there are, for what it may be given."""
    metadata, spec, status = claim["metadata"], claim.get("spec") or _NOTHING, claim.get("status") or _NOTHING
    gpus = sum(gpus_of(spec).values())
    allocation = status.get("allocation")
    of_one_pod = any(owner.get("kind") == "Pod" for owner in metadata.get("ownerReferences") or ())
    return ResourceClaim(
        name=f"{metadata.get('namespace', '')}/{metadata['name']}",
        requests=read_requests(spec, classes),
        gpus=gpus,
        allocated=allocation is not None,
        held=held_devices(claim),
        node=_node_of(allocation or _NOTHING),
        reserved=tuple(user["uid"] for user in status.get("reservedFor") or () if user.get("uid")),
        queue=(metadata.get("labels") or _NOTHING).get(names.QUEUE, "") if gpus and not of_one_pod else None,
    )


def held_devices(claim: Object) -> tuple[DeviceId, ...]:
    """The devices that a claim has for itself."""
    allocation = (claim.get("status") or _NOTHING).get("allocation") or _NOTHING
    results = (allocation.get("devices") or _NOTHING).get("results") or ()
    return tuple((one["driver"], one["pool"], one["device"]) for one in results if not one.get("adminAccess"))


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
    """Device class -> devices, of a ResourceClaim's spec (the one inside a template, too). At most ``MOST_AMOUNT``: the API server takes
    any number, and no claim is ever given more than a few."""
    found: dict[str, int] = {}
    first = ""
    for request in (spec.get("devices") or _NOTHING).get("requests") or ():
        wish = request.get("exactly") or request
        name = wish.get("deviceClassName") or ""
        # KAI's test is the class's name; what it costs is that a class of other devices with "gpu" in its name counts.
        if not is_gpu_class(name) or wish.get("adminAccess"):
            continue
        mode = wish.get("allocationMode") or "ExactCount"
        if mode not in ("ExactCount", "All"):
            continue
        first = first or name
        # As in KAI's dra.go, the whole of a claim counts under the first GPU class that it names.
        count = max(1, int(wish.get("count") or 1)) if mode == "ExactCount" else 1
        found[first] = min(MOST_AMOUNT, found.get(first, 0) + count)
    return found


class Claims:
    """ResourceClaims, templates, classes and the devices of ResourceSlices. The claims are told to ``working``, if there is one."""

    def __init__(self, working: WorkingSet | None = None) -> None:
        self._working = working
        self._objects: dict[tuple[str, str], Object] = {}
        self._claims: dict[tuple[str, str], dict[str, int]] = {}
        self._templates: dict[tuple[str, str], dict[str, int]] = {}
        self._classes: dict[str, Object] = {}
        self._inventory = Inventory()
        self._slices: dict[str, tuple[str, int]] = {}  # name -> node, GPUs

    def take(self, kind: str, obj: Object, gone: bool) -> Iterable[str]:
        """Take in one change; gives the nodes whose devices may have changed."""
        metadata, spec = obj["metadata"], obj.get("spec") or _NOTHING
        if kind == "ResourceSlice":
            self._inventory.take(obj, gone)
            return self._slice(metadata["name"], spec, gone)
        if kind == "DeviceClass":
            self._class(obj, gone)
            return ()
        key = (metadata.get("namespace", ""), metadata["name"])
        table = self._claims if kind == "ResourceClaim" else self._templates
        if gone:
            table.pop(key, None)
        elif kind == "ResourceClaim":
            extended = (metadata.get("annotations") or _NOTHING).get(_EXTENDED) == "true"
            # Made by the API server for an extended resource: its GPUs count in the pod's containers already.
            table[key] = {} if extended else gpus_of(spec)
        else:
            table[key] = gpus_of(spec.get("spec") or _NOTHING)
        if kind == "ResourceClaim":
            self._tell(key, None if gone else obj)
        return ()

    def _class(self, device_class: Object, gone: bool) -> None:
        name = device_class["metadata"]["name"]
        self._classes.pop(name, None)
        if not gone:
            self._classes[name] = device_class
        # The selectors of a class are part of what claims of it ask for.
        for key, claim in self._objects.items():
            self._tell(key, claim)

    def _tell(self, key: tuple[str, str], claim: Object | None) -> None:
        if self._working is None:
            return
        if claim is None:
            self._objects.pop(key, None)
            self._working.remove_claim("/".join(key))
        else:
            self._objects[key] = claim
            self._working.set_claim(claim_record(claim, self._classes))

    def _slice(self, name: str, spec: Mapping[str, Any], gone: bool) -> Iterable[str]:
        before, _ = self._slices.pop(name, ("", 0))
        node = spec.get("nodeName") or ""
        if not gone and node:
            self._slices[name] = (node, len(spec.get("devices") or ()) if is_gpu_class(spec.get("driver") or "") else 0)
        # A slice may have moved to another node: both are to be refreshed.
        return {before, node} - {""}

    def gpus_on(self, node: str) -> int:
        return sum(count for at, count in self._slices.values() if at == node)

    def devices_on(self, node: str) -> tuple[Device, ...]:
        """What claims can be served from there."""
        return self._inventory.on(node)

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
            # Nothing is made from a template before the pod exists: until then the template says what it will ask for.
            if found is None and template:
                found = self._templates.get((namespace, template))
                if found is None:
                    missing.append(f'resourceclaimtemplate "{template}" not found')
                elif not name:
                    missing.append(f'resource claim {wanted["name"]} is still to be made from template "{template}"')
            elif found is None:
                missing.append(f'resourceclaim "{name}" not found')
            if name:
                names.append(f"{namespace}/{name}")
            for device_class, count in (found or {}).items():
                counts[device_class] = min(MOST_AMOUNT, counts.get(device_class, 0) + count)
        return tuple(sorted(counts.items())), tuple(sorted(names)), tuple(missing)
