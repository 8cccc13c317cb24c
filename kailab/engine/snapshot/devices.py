"""Devices for resource claims (DRA): which devices a claim could have on a node, and the choice among them.

Supported: requests for a number of devices of a class or for all of them, alternatives (``firstAvailable``), selectors
of classes and requests, ``matchAttribute``, administrative access, taints and tolerations. Source: resource.k8s.io/v1,
KEP-4381, the allocator of k8s.io/dynamic-resource-allocation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice, product
from typing import Any, NamedTuple, TypeAlias

import msgspec

from kailab.model.device_selectors import Device, SelectorUndecided, compile_selector

DeviceId: TypeAlias = tuple[str, str, str]
"""Driver, pool, name."""

MOST_RESULTS = 32
"""The most devices that one claim can be given. Source: resource.k8s.io/v1 AllocationResultsMaxSize."""

MOST_STEPS = 20_000
"""Devices tried for one claim before it counts as impossible, because constraints can make the search long."""

MOST_COMBINATIONS = 1000
"""Combinations of alternatives that are tried for one claim."""

_KEEPS_OFF = ("NoSchedule", "NoExecute")


class DeviceToleration(msgspec.Struct, frozen=True):
    """A toleration of device taints; empty fields match all."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class DeviceRequest(msgspec.Struct, frozen=True):
    """One request, or one alternative of it (``request/alternative``). ``expressions``: the selectors of the class,
    then its own. ``count`` 0: all devices of the node. ``admin``: administrative access, also to devices that others
    hold.
    """

    name: str = "request"
    device_class: str = ""
    expressions: tuple[str, ...] = ()
    count: int = 1
    admin: bool = False
    tolerations: tuple[DeviceToleration, ...] = ()


class DeviceRequests(msgspec.Struct, frozen=True):
    """What a claim requests: for each request its alternatives, the first choice first. ``same``: attributes
    (``domain/name``) that all devices of these requests (none named: all requests) must have in common. ``fault``: why
    the claim can be allocated nowhere.
    """

    requests: tuple[tuple[DeviceRequest, ...], ...] = ()
    same: tuple[tuple[str, tuple[str, ...]], ...] = ()
    fault: str = ""


class DeviceChoice(NamedTuple):
    """A device chosen for a request (``name``, or ``name/alternative``). ``admin``: administrative access, which takes
    nothing from others.
    """

    request: str
    device: Device
    admin: bool = False


IsTaken: TypeAlias = Callable[[DeviceId], bool]


def any_devices(count: int) -> DeviceRequests:
    """A request for this number of devices of any kind."""
    return DeviceRequests(requests=((DeviceRequest(count=count),),)) if count else DeviceRequests()


def device_id(device: Device) -> DeviceId:
    return device.driver, device.pool, device.name


def matching_devices(wish: DeviceRequest, devices: Iterable[Device]) -> list[Device] | str:
    """The devices that match a request, taken or not. A text if a selector cannot be evaluated for one of them."""
    tests = [(expression, compile_selector(expression)) for expression in wish.expressions]
    matching = []
    for device in devices:
        for expression, test in tests:
            try:
                if not test(device):
                    break
            except SelectorUndecided as error:
                return f"{_wish_text(wish)}: selector {expression!r} has no value for device {device.name} ({error})"
        else:
            matching.append(device)
    return matching


def tolerates_taints(wish: DeviceRequest, device: Device) -> bool:
    """True if the request tolerates all taints of the device."""
    return all(_tolerated(taint, wish.tolerations) for taint in device.taints)


def choose_devices(wanted: DeviceRequests, devices: Sequence[Device], taken: IsTaken) -> list[DeviceChoice] | str:
    """Choose devices of one node for all requests of a claim. A text with the reason if that is impossible."""
    if wanted.fault:
        return wanted.fault
    reason = ""
    # In product order, the first choices of all requests come first.
    for combination in islice(product(*wanted.requests), MOST_COMBINATIONS):
        offers = _offers(combination, devices, taken)
        if isinstance(offers, str):
            # The first reason is returned, because it concerns the first choices.
            reason = reason or offers
            continue
        if (number := sum(offer.number for offer in offers)) > MOST_RESULTS:
            reason = reason or f"it wants {number} devices; {MOST_RESULTS} are the most that a claim can have"
            continue
        choice = _Search(offers, wanted.same).run()
        if choice is not None:
            return choice
        reason = reason or (
            f"no free devices agree in {', '.join(attribute for attribute, _ in wanted.same)}"
            if wanted.same
            else "its requests want the same devices"
        )
    return reason or "it has no requests"


class _Offer(NamedTuple):
    """What a node offers for a wish: ``number`` of these devices are to be chosen."""

    wish: DeviceRequest
    number: int
    devices: list[Device]


def _offers(combination: Iterable[DeviceRequest], devices: Sequence[Device], taken: IsTaken) -> list[_Offer] | str:
    offers = []
    for wish in combination:
        of_node = matching_devices(wish, devices)
        if isinstance(of_node, str):
            return of_node
        free = [
            device
            for device in of_node
            if (wish.admin or not taken(device_id(device))) and tolerates_taints(wish, device)
        ]
        if (lack := lack_of(wish, len(free), len(of_node))) is not None:
            return lack
        # "All" means every matching device, so one taken device is one too few (``lack_of``).
        offers.append(_Offer(wish, wish.count or len(of_node), free))
    return offers


def lack_of(wish: DeviceRequest, free: int, of: int) -> str | None:
    """Why ``free`` of ``of`` matching devices are too few for a request; None if they are enough."""
    if of and free >= (wish.count or of):
        return None
    if of:
        return f"{_wish_text(wish)}: {free} of {of} are free"
    selectors = " and ".join(repr(expression) for expression in wish.expressions)
    return f"{_wish_text(wish)}: the node has none" + (f" (selector {selectors})" if selectors else "")


def _wish_text(wish: DeviceRequest) -> str:
    number = f"{wish.count}" if wish.count else "all devices"
    of = f" of class {wish.device_class}" if wish.device_class else ""
    return f"request {wish.name} wants {number}{of}"


def _tolerated(taint: Any, tolerations: Iterable[DeviceToleration]) -> bool:
    return taint.get("effect") not in _KEEPS_OFF or any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: DeviceToleration, taint: Any) -> bool:
    if toleration.effect and toleration.effect != taint.get("effect"):
        return False
    if toleration.key and toleration.key != taint.get("key"):
        return False
    return toleration.operator == "Exists" or toleration.value == (taint.get("value") or "")


class _Search:
    """Choose devices for all wishes at once, each device once, under the constraints: depth first, in order."""

    def __init__(self, offers: Sequence[_Offer], same: Iterable[tuple[str, tuple[str, ...]]]) -> None:
        self._places = [(offer, number) for offer in offers for number in range(offer.number)]
        self._same = list(same)
        self._chosen: list[tuple[int, DeviceChoice]] = []
        self._steps = 0

    def run(self) -> list[DeviceChoice] | None:
        return [choice for _, choice in self._chosen] if self._place(0) else None

    def _place(self, at: int) -> bool:
        if at == len(self._places):
            return True
        offer, number = self._places[at]
        wish = offer.wish
        # Devices of one wish are interchangeable, so each set of them is tried in one order only.
        first = self._chosen[-1][0] + 1 if number else 0
        used = {device_id(choice.device) for _, choice in self._chosen if not choice.admin}
        for index in range(first, len(offer.devices)):
            self._steps += 1
            # A cycle must end, so the claim counts as impossible here.
            if self._steps > MOST_STEPS:
                return False
            choice = DeviceChoice(wish.name, offer.devices[index], wish.admin)
            if (wish.admin or device_id(choice.device) not in used) and self._meets_constraints(choice):
                self._chosen.append((index, choice))
                if self._place(at + 1):
                    return True
                self._chosen.pop()
        return False

    def _meets_constraints(self, choice: DeviceChoice) -> bool:
        for attribute, requests in self._same:
            if not _applies_to(choice.request, requests):
                continue
            value = _value(choice.device, attribute)
            # As in Kubernetes' allocator, a device without the attribute matches no other.
            if value is None:
                return False
            for _, other in self._chosen:
                if _applies_to(other.request, requests) and _value(other.device, attribute) != value:
                    return False
        return True


def _applies_to(request: str, requests: tuple[str, ...]) -> bool:
    # A constraint may name a request, which means all its alternatives, or one alternative as request/alternative.
    return not requests or request in requests or request.partition("/")[0] in requests


def _value(device: Device, attribute: str) -> Any:
    domain, _, name = attribute.partition("/")
    return device.attributes.get(domain, {}).get(name)


def plain_request(wanted: DeviceRequests) -> DeviceRequest | None:
    """The single wish of a claim that counting free devices decides; None if the claim takes a search."""
    if wanted.same or wanted.fault or len(wanted.requests) != 1 or len(wanted.requests[0]) != 1:
        return None
    wish = wanted.requests[0][0]
    # A wish for more can never be served; the search reports that.
    return wish if wish.count <= MOST_RESULTS else None
