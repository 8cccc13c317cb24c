"""Check resource claims, templates, classes and slices (DRA) as the API server does: shapes, limits and selectors.

Source: resource.k8s.io/v1 and its validation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kailab.errors import InputError
from kailab.model.device_selectors import Semver, compile_selector
from kailab.model.quantities import parse
from kailab.model.validation import core
from kailab.model.validation.fields import LABEL_RULE, NAME_RULE, Faults, is_dns_label, is_dns_subdomain
from kailab.model.validation.shapes import record

MOST_REQUESTS = 32
MOST_CONSTRAINTS = 32
MOST_SELECTORS = 32
MOST_ALTERNATIVES = 8
MOST_TOLERATIONS = 16
MOST_DEVICES = 128
MOST_ATTRIBUTES = 32
_LARGEST = 2**63 - 1
_FLAT = ("v1alpha3", "v1beta1")
_MODES = ("ExactCount", "All")
_PLACES = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_KINDS = ("string", "int", "bool", "version")


def check_resource_claim(faults: Faults, obj: dict[str, Any]) -> None:
    spec = faults.mapping(obj, "spec", "spec", required=True)
    if spec is not None:
        _check_claim_spec(faults, spec, "spec", is_flat(obj))
    faults.found.extend(record({"status": core.shape("V1ResourceClaimStatus")})(obj) or ())


def check_resource_claim_template(faults: Faults, obj: dict[str, Any]) -> None:
    spec = faults.mapping(obj, "spec", "spec", required=True)
    inner = faults.mapping(spec or {}, "spec", "spec.spec", required=spec is not None)
    if inner is not None:
        _check_claim_spec(faults, inner, "spec.spec", is_flat(obj))


def is_flat(obj: dict[str, Any]) -> bool:
    """True for versions before resource.k8s.io/v1beta2: a request has its fields directly, a device has them below ``basic``."""
    version = obj.get("apiVersion")
    return isinstance(version, str) and version.rpartition("/")[2] in _FLAT


def admin_access(obj: dict[str, Any]) -> str | None:
    """The field in which a valid claim or template asks for administrative access, or None."""
    return next((f"{path}.adminAccess" for path, wish in _wishes(obj) if wish.get("adminAccess")), None)


def advise_claim(faults: Faults, obj: dict[str, Any]) -> None:
    """Advise on claims that KAI never allocates, because it enables none of the optional features of Kubernetes' allocator (v0.17)."""
    if (path := admin_access(obj)) is not None:
        faults.add(path, "KAI allocates no claim with administrative access: under it the pods wait for ever")
    for path, _ in _wishes(obj):
        if ".firstAvailable[" in path:
            faults.add(
                path.rpartition("[")[0], "KAI allocates no claim with alternatives: under it the pods wait for ever"
            )
            return


def _wishes(obj: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every well-formed request and alternative of a claim or a template, with its path."""
    path, spec = "spec", obj.get("spec")
    if isinstance(spec, dict) and isinstance(spec.get("spec"), dict):
        path, spec = "spec.spec", spec["spec"]
    # These faults are discarded, because only well-formed requests matter here.
    reader = Faults()
    devices = reader.mapping(spec if isinstance(spec, dict) else {}, "devices", "") or {}
    for at, request in reader.mappings(devices, "requests", f"{path}.devices.requests"):
        exactly = reader.mapping(request, "exactly", "")
        yield (f"{at}.exactly", exactly) if exactly is not None else (at, request)
        yield from reader.mappings(request, "firstAvailable", f"{at}.firstAvailable")


def check_device_class(faults: Faults, obj: dict[str, Any]) -> None:
    spec = faults.mapping(obj, "spec", "spec", required=True)
    if spec is not None:
        _check_selectors(faults, spec, "spec")


def check_resource_slice(faults: Faults, obj: dict[str, Any]) -> None:
    spec = faults.mapping(obj, "spec", "spec", required=True)
    if spec is None:
        return
    faults.text(spec, "driver", "spec.driver", required=True)
    pool = faults.mapping(spec, "pool", "spec.pool", required=True)
    if pool is not None:
        faults.text(pool, "name", "spec.pool.name", required=True)
        faults.integer(pool, "generation", "spec.pool.generation", most=_LARGEST)
        faults.integer(pool, "resourceSliceCount", "spec.pool.resourceSliceCount", least=1, most=_LARGEST)
    if sum(bool(spec.get(place)) for place in _PLACES) != 1:
        faults.add("spec", f"expected exactly one of {', '.join(_PLACES)}")
    seen: set[str] = set()
    for at, device in faults.mappings(spec, "devices", "spec.devices"):
        name = faults.text(device, "name", f"{at}.name", required=True)
        if name in seen:
            faults.add(f"{at}.name", f"{name!r} is there already")
        seen.add(name or "")
        inner = device.get("basic")
        if inner is not None and not is_flat(obj):
            faults.add(f"{at}.basic", "there is no such field: what a device has stands in the device itself")
        _check_device(faults, inner if isinstance(inner, dict) else device, at)
    _check_number(faults, spec, "devices", "spec.devices", MOST_DEVICES)


def _check_device(faults: Faults, device: dict[str, Any], path: str) -> None:
    attributes = faults.mapping(device, "attributes", f"{path}.attributes") or {}
    for name, value in attributes.items():
        at = f"{path}.attributes[{name}]"
        if not isinstance(value, dict) or len(value) != 1 or next(iter(value)) not in _KINDS:
            faults.add(at, f"expected exactly one of {', '.join(_KINDS)}")
            continue
        faults.text(value, "string", f"{at}.string")
        faults.integer(value, "int", f"{at}.int", least=-_LARGEST, most=_LARGEST)
        faults.boolean(value, "bool", f"{at}.bool")
        if "version" in value:
            faults.read(Semver.parse, value["version"], f"{at}.version")
    capacity = faults.mapping(device, "capacity", f"{path}.capacity") or {}
    for name, value in capacity.items():
        at = f"{path}.capacity[{name}]"
        if not isinstance(value, dict) or "value" not in value:
            faults.add(f"{at}.value", "is required")
        else:
            faults.read(parse, value["value"], f"{at}.value")
    if len(attributes) + len(capacity) > MOST_ATTRIBUTES:
        faults.add(path, f"at most {MOST_ATTRIBUTES} attributes and capacities in all")


def _check_claim_spec(faults: Faults, spec: dict[str, Any], path: str, flat: bool) -> None:
    devices = faults.mapping(spec, "devices", f"{path}.devices")
    if devices is None:
        return
    path = f"{path}.devices"
    known: set[str] = set()
    for at, request in faults.mappings(devices, "requests", f"{path}.requests"):
        name = faults.text(request, "name", f"{at}.name", required=True) or ""
        if name in known:
            faults.add(f"{at}.name", f"{name!r} is there already")
        if name and not is_dns_label(name):
            faults.wrong(f"{at}.name", name, LABEL_RULE)
        # A constraint may name a request or one of its alternatives.
        known.update((name, *_check_request(faults, request, at, name, flat)))
    _check_number(faults, devices, "requests", f"{path}.requests", MOST_REQUESTS)
    for at, constraint in faults.mappings(devices, "constraints", f"{path}.constraints"):
        attribute = faults.text(constraint, "matchAttribute", f"{at}.matchAttribute")
        if attribute is not None and "/" not in attribute:
            faults.wrong(f"{at}.matchAttribute", attribute, "a domain and a name: domain/name")
        elif attribute is None and constraint.get("distinctAttribute") is None:
            faults.add(f"{at}.matchAttribute", "is required")
        _check_named_requests(faults, constraint, at, known)
    _check_number(faults, devices, "constraints", f"{path}.constraints", MOST_CONSTRAINTS)
    for at, config in faults.mappings(devices, "config", f"{path}.config"):
        _check_named_requests(faults, config, at, known)
        opaque = faults.mapping(config, "opaque", f"{at}.opaque", required=True) or {}
        driver = opaque.get("driver")
        if isinstance(driver, str) and not is_dns_subdomain(driver):
            faults.wrong(f"{at}.opaque.driver", driver, NAME_RULE)


def _check_named_requests(faults: Faults, parent: dict[str, Any], path: str, known: set[str]) -> None:
    seen: set[str] = set()
    for named in faults.items(parent, "requests", f"{path}.requests") or ():
        if named not in known:
            faults.wrong(f"{path}.requests", named, "the name of a request")
        elif named in seen:
            faults.add(f"{path}.requests", f"{named!r} is given twice")
        else:
            seen.add(named)


def _check_request(faults: Faults, request: dict[str, Any], path: str, name: str, flat: bool) -> list[str]:
    """The names ``request/alternative`` of its alternatives."""
    exactly = faults.mapping(request, "exactly", f"{path}.exactly")
    alternatives = faults.items(request, "firstAvailable", f"{path}.firstAvailable")
    if exactly is not None and alternatives:
        faults.add(path, "expected exactly one of exactly and firstAvailable")
    elif exactly is not None:
        _check_wish(faults, exactly, f"{path}.exactly")
    elif not alternatives:
        if flat and "deviceClassName" in request:
            _check_wish(faults, request, path)
        else:
            below = "; deviceClassName stands below exactly" if "deviceClassName" in request else ""
            faults.add(path, f"expected exactly one of exactly and firstAvailable{below}")
    found = []
    for at, option in faults.mappings(request, "firstAvailable", f"{path}.firstAvailable"):
        called = f"{name}/{faults.text(option, 'name', f'{at}.name', required=True)}"
        if called in found:
            faults.add(f"{at}.name", f"{option.get('name')!r:.80} is there already")
        found.append(called)
        _check_wish(faults, option, at)
    _check_number(faults, request, "firstAvailable", f"{path}.firstAvailable", MOST_ALTERNATIVES)
    return found


def _check_wish(faults: Faults, wish: dict[str, Any], path: str) -> None:
    faults.text(wish, "deviceClassName", f"{path}.deviceClassName", required=True)
    mode = faults.one_of(wish, "allocationMode", f"{path}.allocationMode", _MODES)
    count = faults.integer(wish, "count", f"{path}.count", least=1, most=_LARGEST)
    if mode == "All" and count is not None:
        faults.add(f"{path}.count", "must not be given with allocationMode All")
    faults.boolean(wish, "adminAccess", f"{path}.adminAccess")
    for at, toleration in faults.mappings(wish, "tolerations", f"{path}.tolerations"):
        faults.one_of(toleration, "operator", f"{at}.operator", ("Exists", "Equal"))
    _check_number(faults, wish, "tolerations", f"{path}.tolerations", MOST_TOLERATIONS)
    _check_selectors(faults, wish, path)


def _check_selectors(faults: Faults, parent: dict[str, Any], path: str) -> None:
    for at, entry in faults.mappings(parent, "selectors", f"{path}.selectors"):
        cel = faults.mapping(entry, "cel", f"{at}.cel", required=True)
        expression = faults.text(cel or {}, "expression", f"{at}.cel.expression", required=cel is not None)
        if expression:
            try:
                compile_selector(expression)
            except InputError as error:
                # A cluster evaluates more than kailab does; claims of its objects wait here with this message.
                faults.ratchet(f"{at}.cel.expression", error.message)
    _check_number(faults, parent, "selectors", f"{path}.selectors", MOST_SELECTORS)


def _check_number(faults: Faults, parent: dict[str, Any], key: str, path: str, most: int) -> None:
    items = parent.get(key)
    if isinstance(items, list) and len(items) > most:
        faults.add(path, f"has {len(items)} items; {most} at most")
