"""The devices that ResourceSlices publish on nodes, and what claims ask for, as the engine sees both.

Left out, as KAI's allocator leaves them out: devices that draw on shared counters (parts of a GPU), and slices whose devices
name their nodes each. Devices that are not tied to one node, that can be shared as they are allocated, and constraints other
than ``matchAttribute`` are not known here. Source: resource.k8s.io/v1, KEP-4381.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kailab.cluster.protocol import Object
from kailab.engine.snapshot.devices import MOST_RESULTS, DeviceRequests, DeviceToleration, DeviceWish
from kailab.errors import InputError
from kailab.model.device_selectors import Device, Semver, selector
from kailab.model.quantities import parse

_NOTHING: Mapping[str, Any] = {}


class Inventory:
    """Devices by node, from ResourceSlices: of each pool its newest generation, once all slices of that are there."""

    def __init__(self) -> None:
        self._slices: dict[str, Object] = {}
        self._devices: dict[str, list[Device]] = {}  # by slice
        self._nodes: dict[str, tuple[Device, ...]] | None = None

    def take(self, slice_: Object, gone: bool) -> None:
        """One that can't be read raises, and is as good as gone."""
        name = slice_["metadata"]["name"]
        self._slices.pop(name, None)
        self._devices.pop(name, None)
        # Put together when somebody asks: slices come one by one, and a pool counts only once it is complete.
        self._nodes = None
        if not gone:
            self._devices[name] = _devices(slice_["spec"])
            self._slices[name] = slice_

    def on(self, node: str) -> tuple[Device, ...]:
        """Those of a node, by driver, pool and name."""
        if self._nodes is None:
            found: dict[str, list[Device]] = {}
            for slices in self._pools().values():
                for slice_ in slices:
                    found.setdefault(slice_["spec"]["nodeName"], []).extend(self._devices[slice_["metadata"]["name"]])
            self._nodes = {name: tuple(sorted(devices, key=_natural)) for name, devices in found.items()}
        return self._nodes.get(node, ())

    def _pools(self) -> dict[tuple[str, str], list[Object]]:
        pools: dict[tuple[str, str], list[Object]] = {}
        for slice_ in self._slices.values():
            spec = slice_["spec"]
            # Not tied to one node: not known here (see above).
            if not spec.get("nodeName"):
                continue
            key = spec["driver"], spec["pool"]["name"]
            known = pools.get(key, [])
            newest = max((_generation(one) for one in known), default=-1)
            if _generation(slice_) > newest:
                pools[key] = [slice_]
            # Slices of older generations are about to be deleted by their driver.
            elif _generation(slice_) == newest:
                known.append(slice_)
        return {
            key: slices
            for key, slices in pools.items()
            # A driver that replaces its slices is half-way through otherwise: its devices are neither all new nor all
            # old.
            if len(slices) >= int(slices[0]["spec"]["pool"].get("resourceSliceCount") or 1)
        }


def _devices(spec: Mapping[str, Any]) -> list[Device]:
    read = (_device(spec, entry) for entry in spec.get("devices") or ())
    return [device for device in read if device is not None]


def _generation(slice_: Object) -> int:
    return int(slice_["spec"]["pool"].get("generation") or 0)


def _natural(device: Device) -> tuple[str, str, int, str]:
    """gpu-2 before gpu-10."""
    # Shorter names first: within one prefix that is the order of the numbers.
    return device.driver, device.pool, len(device.name), device.name


def _device(spec: Mapping[str, Any], entry: Mapping[str, Any]) -> Device | None:
    """None for one that draws on shared counters."""
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
    """The one there is of ``string``, ``int``, ``bool`` and ``version``."""
    if "version" in value:
        return Semver.parse(value["version"])
    return next(iter(value.values()), None)


# --- what claims ask for ---------------------------------------------------------------------------------------------


def read_requests(spec: Mapping[str, Any], classes: Mapping[str, Object]) -> DeviceRequests:
    """What a ResourceClaim's spec asks for, with the selectors of its classes."""
    devices = spec.get("devices") or _NOTHING
    # Faults are kept, not raised: the claim is read all the same, and its pods are told why it can't be served.
    faults: list[str] = []
    same = []
    for constraint in devices.get("constraints") or ():
        if not constraint.get("matchAttribute"):
            faults.append("constraints other than matchAttribute are not known here")
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


def _wish(name: str, wish: Mapping[str, Any], classes: Mapping[str, Object], faults: list[str]) -> DeviceWish:
    class_name = wish.get("deviceClassName") or ""
    device_class = classes.get(class_name)
    if device_class is None:
        faults.append(f'deviceclass "{class_name}" not found')
    if wish.get("capacity"):
        faults.append(f"request {name} asks for a part of a device, which is not known here")
    expressions = [*_expressions((device_class or _NOTHING).get("spec") or _NOTHING), *_expressions(wish)]
    for expression in expressions:
        try:
            selector(expression)
        except InputError as error:
            faults.append(str(error))
    everything = (wish.get("allocationMode") or "ExactCount") == "All"
    return DeviceWish(
        name=name,
        device_class=class_name,
        expressions=tuple(expressions),
        count=0 if everything else max(1, int(wish.get("count") or 1)),
        admin=bool(wish.get("adminAccess")),
        tolerations=tuple(_toleration(one) for one in wish.get("tolerations") or ()),
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
