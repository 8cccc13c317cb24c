"""Resource claims as the engine sees them: the devices that ResourceSlices publish and what claims ask for.

``ClaimIndex`` follows ResourceSlices, DeviceClasses, ResourceClaims and ResourceClaimTemplates. It says which devices a node has and
what a pod's claims request.

Devices that draw on shared counters (parts of a GPU) and slices whose devices each name their nodes are left out, as KAI's allocator
leaves them out. Devices that belong to no single node, devices that can be shared after allocation, and constraints other than
``matchAttribute`` are not supported. Source: resource.k8s.io/v1, KEP-4381.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kailab.cluster.protocol import Object
from kailab.engine.snapshot.devices import MOST_RESULTS, DeviceId, DeviceRequest, DeviceRequests, DeviceToleration
from kailab.engine.snapshot.records import ResourceClaim
from kailab.errors import InputError
from kailab.model import labels as names
from kailab.model.device_selectors import Device, Semver, compile_selector
from kailab.model.objects import (
    annotations_of,
    labels_of,
    metadata_of,
    name_of,
    namespace_of,
    owner_references,
    spec_of,
    status_of,
)
from kailab.model.quantities import parse
from kailab.model.validation.fields import MOST_AMOUNT

if TYPE_CHECKING:
    from kailab.engine.working.workingset import WorkingSet


_NOTHING: Mapping[str, Any] = {}


class DeviceInventory:
    """The devices of each node, from ResourceSlices: the newest complete generation of each pool."""

    def __init__(self) -> None:
        self._slices: dict[str, Object] = {}
        self._devices: dict[str, list[Device]] = {}  # by slice
        self._nodes: dict[str, tuple[Device, ...]] | None = None

    def process_slice(self, slice_: Object, deleted: bool) -> None:
        """Process a slice. A slice that can't be read raises an error and counts as deleted."""
        name = name_of(slice_)
        self._slices.pop(name, None)
        self._devices.pop(name, None)
        # Computed on demand: slices arrive one by one, and a pool counts only once it is complete.
        self._nodes = None
        if not deleted:
            self._devices[name] = _devices(slice_["spec"])
            self._slices[name] = slice_

    def on(self, node: str) -> tuple[Device, ...]:
        """The devices of a node, ordered by driver, pool and name."""
        if self._nodes is None:
            by_node: dict[str, list[Device]] = {}
            for slices in self._pools().values():
                for slice_ in slices:
                    by_node.setdefault(slice_["spec"]["nodeName"], []).extend(self._devices[name_of(slice_)])
            self._nodes = {name: tuple(sorted(devices, key=_natural_order)) for name, devices in by_node.items()}
        return self._nodes.get(node, ())

    def _pools(self) -> dict[tuple[str, str], list[Object]]:
        pools: dict[tuple[str, str], list[Object]] = {}
        for slice_ in self._slices.values():
            spec = slice_["spec"]
            # Devices that belong to no single node are not supported.
            if not spec.get("nodeName"):
                continue
            key = spec["driver"], spec["pool"]["name"]
            known = pools.get(key, [])
            newest = max(map(_generation, known), default=-1)
            if _generation(slice_) > newest:
                pools[key] = [slice_]
            # The driver is about to delete slices of older generations.
            elif _generation(slice_) == newest:
                known.append(slice_)
        return {
            key: slices
            for key, slices in pools.items()
            # Otherwise the driver is still replacing its slices.
            if len(slices) >= int(slices[0]["spec"]["pool"].get("resourceSliceCount") or 1)
        }


def _devices(spec: Mapping[str, Any]) -> list[Device]:
    devices = (_device(spec, entry) for entry in spec.get("devices") or ())
    return [device for device in devices if device is not None]


def _generation(slice_: Object) -> int:
    return int(slice_["spec"]["pool"].get("generation") or 0)


def _natural_order(device: Device) -> tuple[str, str, int, str]:
    """A sort key that puts gpu-2 before gpu-10: shorter names first."""
    return device.driver, device.pool, len(device.name), device.name


def _device(spec: Mapping[str, Any], entry: Mapping[str, Any]) -> Device | None:
    """The device of an entry; None if it draws on shared counters."""
    body = entry.get("basic") or entry  # resource.k8s.io/v1beta1 has one level more
    if body.get("consumesCounters"):
        return None
    driver = spec["driver"]
    attributes: dict[str, dict[str, Any]] = {}
    capacity: dict[str, dict[str, Any]] = {}
    for name, value in (body.get("attributes") or _NOTHING).items():
        domain, short = _qualified(name, driver)
        attributes.setdefault(domain, {})[short] = _value(value)
    for name, value in (body.get("capacity") or _NOTHING).items():
        domain, short = _qualified(name, driver)
        capacity.setdefault(domain, {})[short] = parse(str(value["value"]))
    return Device(driver, spec["pool"]["name"], entry["name"], attributes, capacity, tuple(body.get("taints") or ()))


def _qualified(name: str, driver: str) -> tuple[str, str]:
    domain, slash, short = name.partition("/")
    return (domain, short) if slash else (driver, name)


def _value(value: Mapping[str, Any]) -> Any:
    """The value under ``string``, ``int``, ``bool`` or ``version``."""
    if "version" in value:
        return Semver.parse(value["version"])
    return next(iter(value.values()), None)


# --- requests of claims -----------------------------------------------------------------------------------------------


def read_device_requests(spec: Mapping[str, Any], classes: Mapping[str, Object]) -> DeviceRequests:
    """The device requests of a ResourceClaim's spec, with the selectors of its classes."""
    devices = spec.get("devices") or _NOTHING
    # Faults are recorded, not raised: the pods of the claim then report why it can't be allocated.
    faults: list[str] = []
    same = []
    for constraint in devices.get("constraints") or ():
        if not constraint.get("matchAttribute"):
            faults.append("constraints other than matchAttribute are not supported")
            continue
        same.append((constraint["matchAttribute"], tuple(constraint.get("requests") or ())))
    requests = []
    for request in devices.get("requests") or ():
        wishes = [_wish(name, wish, classes, faults) for name, wish in _options(request)]
        requests.append(tuple(wishes))
    least = sum(min((wish.count for wish in wishes), default=0) for wishes in requests)
    if least > MOST_RESULTS:
        faults.append(f"it wants {least} devices; {MOST_RESULTS} are the most that a claim can have")
    return DeviceRequests(requests=tuple(requests), same=tuple(same), fault=faults[0] if faults else "")


def _options(request: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(name, request) of each alternative; resource.k8s.io/v1beta1 has one level less."""
    if not request.get("firstAvailable"):
        yield request["name"], request.get("exactly") or request
    for option in request.get("firstAvailable") or ():
        yield f"{request['name']}/{option['name']}", option


def _wish(name: str, wish: Mapping[str, Any], classes: Mapping[str, Object], faults: list[str]) -> DeviceRequest:
    class_name = wish.get("deviceClassName") or ""
    device_class = classes.get(class_name)
    if device_class is None:
        faults.append(f'deviceclass "{class_name}" not found')
    if wish.get("capacity"):
        faults.append(f"request {name} asks for a part of a device, which is not supported")
    expressions = [*_expressions(spec_of(device_class or _NOTHING)), *_expressions(wish)]
    for expression in expressions:
        try:
            compile_selector(expression)
        except InputError as error:
            faults.append(str(error))
    everything = (wish.get("allocationMode") or "ExactCount") == "All"
    return DeviceRequest(
        name=name,
        device_class=class_name,
        expressions=tuple(expressions),
        count=0 if everything else max(1, int(wish.get("count") or 1)),
        admin=bool(wish.get("adminAccess")),
        tolerations=tuple(map(_toleration, wish.get("tolerations") or ())),
    )


def _expressions(source: Mapping[str, Any]) -> Sequence[str]:
    return [entry["cel"]["expression"] for entry in source.get("selectors") or () if entry.get("cel")]


def _toleration(toleration: Mapping[str, Any]) -> DeviceToleration:
    return DeviceToleration(
        key=toleration.get("key") or "",
        operator=toleration.get("operator") or "Equal",
        value=toleration.get("value") or "",
        effect=toleration.get("effect") or "",
    )


_EXTENDED = "resource.kubernetes.io/extended-resource-claim"


def is_gpu_class(name: str) -> bool:
    return "gpu" in name.lower()


def claim_record(claim: Object, classes: Mapping[str, Object] = _NOTHING) -> ResourceClaim:
    """The engine's record of a ResourceClaim. ``classes``: all DeviceClasses by name."""
    metadata, spec, status = metadata_of(claim), spec_of(claim), status_of(claim)
    gpus = sum(requested_gpu_devices(spec).values())
    allocation = status.get("allocation")
    of_one_pod = any(owner.get("kind") == "Pod" for owner in owner_references(claim))
    return ResourceClaim(
        name=f"{metadata.get('namespace', '')}/{metadata['name']}",
        requests=read_device_requests(spec, classes),
        gpus=gpus,
        allocated=allocation is not None,
        held=held_devices(claim),
        node=_allocated_node(allocation or _NOTHING),
        reserved=tuple(user["uid"] for user in status.get("reservedFor") or () if user.get("uid")),
        queue=labels_of(claim).get(names.QUEUE, "") if gpus and not of_one_pod else None,
    )


def held_devices(claim: Object) -> tuple[DeviceId, ...]:
    """The devices allocated to a claim, except those with admin access."""
    allocation = status_of(claim).get("allocation") or _NOTHING
    results = (allocation.get("devices") or _NOTHING).get("results") or ()
    return tuple(
        (result["driver"], result["pool"], result["device"]) for result in results if not result.get("adminAccess")
    )


def _allocated_node(allocation: Mapping[str, Any]) -> str:
    """The single node of an allocation, or ""."""
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


def requested_gpu_devices(spec: Mapping[str, Any]) -> dict[str, int]:
    """Device class -> GPU devices that a ResourceClaim's spec requests, capped at ``MOST_AMOUNT``: the API server accepts any number."""
    counts: dict[str, int] = {}
    first = ""
    for request in (spec.get("devices") or _NOTHING).get("requests") or ():
        wish = request.get("exactly") or request
        name = wish.get("deviceClassName") or ""
        # As in KAI, any class with "gpu" in its name counts.
        if not is_gpu_class(name) or wish.get("adminAccess"):
            continue
        mode = wish.get("allocationMode") or "ExactCount"
        if mode not in ("ExactCount", "All"):
            continue
        first = first or name
        # As in KAI's dra.go, the whole claim counts under its first GPU class.
        count = max(1, int(wish.get("count") or 1)) if mode == "ExactCount" else 1
        counts[first] = min(MOST_AMOUNT, counts.get(first, 0) + count)
    return counts


def made_claims(pod: Object) -> dict[str, str | None]:
    """The claims made from templates for a pod: the name in the pod -> the name of the ResourceClaim; None if the pod needs none."""
    return {
        entry["name"]: entry.get("resourceClaimName") for entry in status_of(pod).get("resourceClaimStatuses") or ()
    }


class ClaimIndex:
    """ResourceClaims, templates, classes and the devices of ResourceSlices. Keeps the claims of ``working`` up to date, if given."""

    def __init__(self, working: WorkingSet | None = None) -> None:
        self._working = working
        self._objects: dict[tuple[str, str], Object] = {}
        self._claims: dict[tuple[str, str], dict[str, int]] = {}
        self._templates: dict[tuple[str, str], dict[str, int]] = {}
        self._classes: dict[str, Object] = {}
        self._inventory = DeviceInventory()
        self._slices: dict[str, tuple[str, int]] = {}  # name -> node, GPUs

    def process_object(self, kind: str, obj: Object, deleted: bool) -> Iterable[str]:
        """Process one change. Returns the nodes whose devices may have changed."""
        metadata, spec = metadata_of(obj), spec_of(obj)
        if kind == "ResourceSlice":
            self._inventory.process_slice(obj, deleted)
            return self._slice(metadata["name"], spec, deleted)
        if kind == "DeviceClass":
            self._class(obj, deleted)
            return ()
        key = (metadata.get("namespace", ""), metadata["name"])
        table = self._claims if kind == "ResourceClaim" else self._templates
        if deleted:
            table.pop(key, None)
        elif kind == "ResourceClaim":
            # The API server makes such a claim for an extended resource, which the containers of the pod request already.
            extended = annotations_of(obj).get(_EXTENDED) == "true"
            table[key] = {} if extended else requested_gpu_devices(spec)
        else:
            table[key] = requested_gpu_devices(spec_of(spec))
        if kind == "ResourceClaim":
            self._update(key, None if deleted else obj)
        return ()

    def _class(self, device_class: Object, deleted: bool) -> None:
        name = name_of(device_class)
        self._classes.pop(name, None)
        if not deleted:
            self._classes[name] = device_class
        # The requests of claims include the selectors of their classes.
        for key, claim in self._objects.items():
            self._update(key, claim)

    def _update(self, key: tuple[str, str], claim: Object | None) -> None:
        if self._working is None:
            return
        if claim is None:
            self._objects.pop(key, None)
            self._working.remove_claim("/".join(key))
        else:
            self._objects[key] = claim
            self._working.set_claim(claim_record(claim, self._classes))

    def _slice(self, name: str, spec: Mapping[str, Any], deleted: bool) -> Iterable[str]:
        before, _ = self._slices.pop(name, ("", 0))
        node = spec.get("nodeName") or ""
        if not deleted and node:
            self._slices[name] = (node, len(spec.get("devices") or ()) if is_gpu_class(spec.get("driver") or "") else 0)
        # A slice may move to another node: both nodes change.
        return {before, node} - {""}

    def gpus_on(self, node: str) -> int:
        return sum(count for at, count in self._slices.values() if at == node)

    def devices_on(self, node: str) -> tuple[Device, ...]:
        """The devices of a node that claims can be allocated from."""
        return self._inventory.on(node)

    def of_pod(self, pod: Object) -> tuple[tuple[tuple[str, int], ...], tuple[str, ...], tuple[str, ...]]:
        """Requested counts by device class, ``namespace/name`` of the pod's claims, and messages about missing ones.

        A claim that does not exist yet counts with the requests of its template.
        """
        namespace = namespace_of(pod)
        claim_names = made_claims(pod)
        counts: dict[str, int] = {}
        names, missing = [], []
        for wanted in pod["spec"].get("resourceClaims") or ():
            name = wanted.get("resourceClaimName") or claim_names.get(wanted.get("name"))
            template = wanted.get("resourceClaimTemplateName")
            requested = self._claims.get((namespace, name)) if name else None
            if requested is None and template:
                requested = self._templates.get((namespace, template))
                if requested is None:
                    missing.append(f'resourceclaimtemplate "{template}" not found')
                elif not name:
                    missing.append(f'resource claim {wanted["name"]} is still to be made from template "{template}"')
            elif requested is None:
                missing.append(f'resourceclaim "{name}" not found')
            if name:
                names.append(f"{namespace}/{name}")
            for device_class, count in (requested or {}).items():
                counts[device_class] = min(MOST_AMOUNT, counts.get(device_class, 0) + count)
        return tuple(sorted(counts.items())), tuple(sorted(names)), tuple(missing)
