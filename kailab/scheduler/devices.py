"""The devices that ResourceSlices publish on nodes, and choosing some of them for a claim.

Known: requests for a number of devices of a class or for all of them, alternatives (``firstAvailable``), selectors of classes
and requests, ``matchAttribute``, taints and tolerations. Devices that are not tied to one node, that can be shared or split
as they are allocated, and constraints of other kinds are refused. Source: resource.k8s.io/v1, KEP-4381.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from kailab.cluster.protocol import Object
from kailab.errors import InputError, Invalid
from kailab.model.quantities import parse
from kailab.scheduler.device_selectors import Device, selector

DeviceId: TypeAlias = tuple[str, str, str]
"""Driver, pool, name."""

MOST_STEPS = 20_000
"""Devices tried for one claim before it counts as impossible: constraints can make the search long."""

_NOTHING: Mapping[str, Any] = {}
_KEEPS_OFF = ("NoSchedule", "NoExecute")


def device_id(device: Device) -> DeviceId:
    return device.driver, device.pool, device.name


class Choice(NamedTuple):
    """A device for a request (``name``, or ``name/alternative``). ``admin``: it looks in on one that others may hold."""

    request: str
    device: Device
    admin: bool = False


class Inventory:
    """Devices by node, from ResourceSlices: of each pool its newest generation, once all slices of that are there."""

    def __init__(self) -> None:
        self._slices: dict[str, Object] = {}
        self._nodes: dict[str, list[Device]] | None = None

    def take(self, slice_: Object, gone: bool) -> None:
        name = slice_["metadata"]["name"]
        self._slices.pop(name, None)
        if not gone:
            self._slices[name] = slice_
        self._nodes = None

    def on(self, node: str) -> list[Device]:
        """Those of a node, by driver, pool and name."""
        if self._nodes is None:
            self._nodes = {}
            for slices in self._pools().values():
                for slice_ in slices:
                    devices = [_device(slice_["spec"], entry) for entry in slice_["spec"].get("devices") or ()]
                    self._nodes.setdefault(slice_["spec"]["nodeName"], []).extend(devices)
            for devices in self._nodes.values():
                devices.sort(key=_natural)
        return self._nodes.get(node, [])

    def _pools(self) -> dict[tuple[str, str], list[Object]]:
        pools: dict[tuple[str, str], list[Object]] = {}
        for slice_ in self._slices.values():
            spec = slice_["spec"]
            if not spec.get("nodeName"):
                continue
            key = spec["driver"], spec["pool"]["name"]
            known = pools.get(key, [])
            newest = max((_generation(one) for one in known), default=-1)
            if _generation(slice_) > newest:
                pools[key] = [slice_]
            elif _generation(slice_) == newest:
                known.append(slice_)
        return {
            key: slices
            for key, slices in pools.items()
            if len(slices) >= int(slices[0]["spec"]["pool"].get("resourceSliceCount") or 1)
        }


def _generation(slice_: Object) -> int:
    return int(slice_["spec"]["pool"].get("generation") or 0)


def _natural(device: Device) -> tuple[str, str, int, str]:
    """gpu-2 before gpu-10."""
    return device.driver, device.pool, len(device.name), device.name


def _device(spec: Mapping[str, Any], entry: Mapping[str, Any]) -> Device:
    body = entry.get("basic") or entry  # resource.k8s.io/v1beta1 has one level more
    driver = spec["driver"]

    def key(name: str) -> tuple[str, str]:
        domain, slash, short = name.partition("/")
        return (domain, short) if slash else (driver, name)

    attributes = {
        key(name): next(iter(value.values())) for name, value in (body.get("attributes") or _NOTHING).items() if value
    }
    capacity = {key(name): parse(str(value["value"])) for name, value in (body.get("capacity") or _NOTHING).items()}
    return Device(driver, spec["pool"]["name"], entry["name"], attributes, capacity, tuple(body.get("taints") or ()))


class _Wish(NamedTuple):
    """One request, or one alternative of it, with the devices that it could have."""

    name: str
    number: int
    devices: list[Device]
    admin: bool


def choose(
    claim: Object, classes: Mapping[str, Object], devices: Sequence[Device], taken: Callable[[DeviceId], bool]
) -> list[Choice]:
    """Devices for all requests of a claim. Raises Invalid, saying what is missing or not known here."""
    spec = (claim.get("spec") or _NOTHING).get("devices") or _NOTHING
    same = []
    for constraint in spec.get("constraints") or ():
        if not constraint.get("matchAttribute"):
            raise Invalid("constraints other than matchAttribute are not known here")
        same.append((constraint["matchAttribute"], frozenset(constraint.get("requests") or ())))
    told = ""
    for wishes in _alternatives(spec.get("requests") or (), classes, devices, taken):
        if isinstance(wishes, str):
            told = wishes
            continue
        found = _Search(wishes, same).run()
        if found is not None:
            return found
        told = "the free devices do not go together as its constraints say" if same else told or "too few free devices"
    raise Invalid(told or "it has no requests that can be met")


def _alternatives(
    requests: Sequence[Mapping[str, Any]],
    classes: Mapping[str, Object],
    devices: Sequence[Device],
    taken: Callable[[DeviceId], bool],
) -> Iterator[list[_Wish] | str]:
    """Every way to read the requests, first choices first; a text where one of them has too few devices."""
    ways: list[list[tuple[str, Mapping[str, Any]]]] = [[]]
    for request in requests:
        name = request["name"]
        if request.get("firstAvailable"):
            options = [(f"{name}/{option['name']}", option) for option in request["firstAvailable"]]
        else:
            options = [(name, request.get("exactly") or request)]
        ways = [[*way, option] for way in ways for option in options]
    for way in ways:
        wishes: list[_Wish] = []
        for name, wish in way:
            read = _wish(name, wish, classes, devices, taken)
            if isinstance(read, str):
                yield read
                break
            wishes.append(read)
        else:
            yield wishes


def _wish(
    name: str,
    wish: Mapping[str, Any],
    classes: Mapping[str, Object],
    devices: Sequence[Device],
    taken: Callable[[DeviceId], bool],
) -> _Wish | str:
    if wish.get("capacity"):
        return f"request {name} asks for a part of a device, which is not known here"
    class_name = wish.get("deviceClassName") or ""
    device_class = classes.get(class_name)
    if device_class is None:
        return f'deviceclass "{class_name}" not found'
    try:
        tests = [
            selector(entry["cel"]["expression"])
            for source in (device_class.get("spec") or _NOTHING, wish)
            for entry in source.get("selectors") or ()
            if entry.get("cel")
        ]
    except InputError as error:
        return str(error)
    admin = bool(wish.get("adminAccess"))
    meant = [device for device in devices if all(test(device) for test in tests)]
    free = [device for device in meant if (admin or not taken(device_id(device))) and _tolerated(device, wish)]
    if (wish.get("allocationMode") or "ExactCount") == "All":
        if not meant or len(free) < len(meant):
            return f"request {name} wants all devices of class {class_name}: {len(free)} of {len(meant)} are free"
        return _Wish(name, len(meant), free, admin)
    count = int(wish.get("count") or 1)
    if len(free) < count:
        return f"request {name} wants {count} of class {class_name}: {len(free)} of {len(meant)} are free"
    return _Wish(name, count, free, admin)


def _tolerated(device: Device, wish: Mapping[str, Any]) -> bool:
    return all(
        any(_tolerates(toleration, taint) for toleration in wish.get("tolerations") or ())
        for taint in device.taints
        if taint.get("effect") in _KEEPS_OFF
    )


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    exists = (toleration.get("operator") or "Equal") == "Exists"
    return exists or (toleration.get("value") or "") == (taint.get("value") or "")


class _Search:
    """Devices for all wishes at once, no device twice, constraints kept: depth first, in order."""

    def __init__(self, wishes: Sequence[_Wish], same: Iterable[tuple[str, frozenset[str]]]) -> None:
        self._places = [(wish, number) for wish in wishes for number in range(wish.number)]
        self._same = list(same)
        self._chosen: list[tuple[int, Choice]] = []
        self._steps = 0

    def run(self) -> list[Choice] | None:
        return [choice for _, choice in self._chosen] if self._place(0) else None

    def _place(self, at: int) -> bool:
        if at == len(self._places):
            return True
        wish, number = self._places[at]
        # Devices of one wish are interchangeable: each set of them is tried in one order only.
        first = self._chosen[-1][0] + 1 if number else 0
        used = {device_id(choice.device) for _, choice in self._chosen if not choice.admin}
        for index in range(first, len(wish.devices)):
            self._steps += 1
            if self._steps > MOST_STEPS:
                return False
            choice = Choice(wish.name, wish.devices[index], wish.admin)
            if (wish.admin or device_id(choice.device) not in used) and self._goes_with(choice):
                self._chosen.append((index, choice))
                if self._place(at + 1):
                    return True
                self._chosen.pop()
        return False

    def _goes_with(self, choice: Choice) -> bool:
        for attribute, requests in self._same:
            if not _meant(choice.request, requests):
                continue
            value = _value(choice.device, attribute)
            if value is None:
                return False
            for _, other in self._chosen:
                if _meant(other.request, requests) and _value(other.device, attribute) != value:
                    return False
        return True


def _meant(request: str, requests: frozenset[str]) -> bool:
    return not requests or request in requests or request.partition("/")[0] in requests


def _value(device: Device, attribute: str) -> Any:
    domain, _, name = attribute.partition("/")
    return device.attributes.get((domain, name))
