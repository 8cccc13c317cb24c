"""What is refused of resource claims, classes and slices, with the field: as an API server refuses it at create."""

from __future__ import annotations

from copy import deepcopy
from itertools import pairwise
from typing import Any

import pytest

from kailab.errors import InputError
from kailab.model.device_selectors import Device, SelectorUndecided, Semver, compile_selector
from kailab.model.quantities import parse
from kailab.model.validation import validate

CLAIM: dict[str, Any] = {
    "metadata": {"name": "c"},
    "spec": {
        "devices": {
            "requests": [
                {
                    "name": "gpus",
                    "exactly": {"deviceClassName": "gpu.example.com", "selectors": [{"cel": {"expression": "true"}}]},
                }
            ],
            "constraints": [{"matchAttribute": "gpu.example.com/numa", "requests": ["gpus"]}],
        }
    },
}
SLICE: dict[str, Any] = {
    "metadata": {"name": "s"},
    "spec": {
        "driver": "gpu.example.com",
        "nodeName": "n",
        "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
        "devices": [
            {
                "name": "g",
                "attributes": {"v": {"version": "1.2.3"}, "n": {"int": -1}},
                "capacity": {"memory": {"value": "80Gi"}},
            }
        ],
    },
}


def faults(obj: dict[str, Any], kind: str, path: str = "", value: Any = None) -> list[tuple[str, str]]:
    """Of the object with one field set; the path is dotted, numbers are positions."""
    changed = deepcopy(obj)
    at: Any = changed
    *way, last = path.split(".") if path else [""]
    for step in way:
        at = at[int(step) if step.isdigit() else step]
    if last:
        at[int(last) if last.isdigit() else last] = value
    return [(fault.field, fault.message) for fault in validate(changed, kind)]


REQUEST = "spec.devices.requests.0"


def test_what_is_right_passes() -> None:
    assert faults(CLAIM, "ResourceClaim") == []
    assert faults({"metadata": {"name": "t"}, "spec": {"spec": CLAIM["spec"]}}, "ResourceClaimTemplate") == []
    assert faults(SLICE, "ResourceSlice") == []
    assert faults({"metadata": {"name": "d"}, "spec": {}}, "DeviceClass") == []


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("spec", None, "spec"),
        (f"{REQUEST}.name", "", "spec.devices.requests[0].name"),
        (f"{REQUEST}.exactly", None, "spec.devices.requests[0]"),
        (f"{REQUEST}.exactly.deviceClassName", None, "spec.devices.requests[0].exactly.deviceClassName"),
        (f"{REQUEST}.exactly.count", 0, "spec.devices.requests[0].exactly.count"),
        (f"{REQUEST}.exactly.count", "two", "spec.devices.requests[0].exactly.count"),
        (f"{REQUEST}.exactly.allocationMode", "Some", "spec.devices.requests[0].exactly.allocationMode"),
        (f"{REQUEST}.exactly.adminAccess", "yes", "spec.devices.requests[0].exactly.adminAccess"),
        (f"{REQUEST}.exactly.selectors.0", {}, "spec.devices.requests[0].exactly.selectors[0].cel"),
        (
            f"{REQUEST}.exactly.selectors.0.cel.expression",
            "device.driver ==",
            "spec.devices.requests[0].exactly.selectors[0].cel.expression",
        ),
        (
            f"{REQUEST}.exactly.selectors",
            [{"cel": {"expression": "true"}}] * 33,
            "spec.devices.requests[0].exactly.selectors",
        ),
        (f"{REQUEST}.firstAvailable", [{"name": "a", "deviceClassName": "c"}], "spec.devices.requests[0]"),
        ("spec.devices.constraints.0.matchAttribute", "numa", "spec.devices.constraints[0].matchAttribute"),
        ("spec.devices.constraints.0.requests", ["others"], "spec.devices.constraints[0].requests"),
    ],
)
def test_claims_are_refused_with_the_field(path: str, value: Any, field: str) -> None:
    assert field in [where for where, _ in faults(CLAIM, "ResourceClaim", path, value)]


@pytest.mark.parametrize(
    ("version", "right"), [("v1", False), ("v1beta2", False), ("v1beta1", True), ("v1alpha3", True)]
)
def test_a_device_has_its_parts_below_basic_in_old_versions_only(version: str, right: bool) -> None:
    below = [{"name": "g", "basic": {"attributes": {"n": {"int": 1}}}}]
    found = faults({**SLICE, "apiVersion": f"resource.k8s.io/{version}"}, "ResourceSlice", "spec.devices", below)
    assert [where for where, _ in found] == ([] if right else ["spec.devices[0].basic"])


def test_a_claim_has_32_requests_at_most() -> None:
    many = [{**CLAIM["spec"]["devices"]["requests"][0], "name": f"gpus{n}"} for n in range(33)]
    found = faults({**CLAIM, "spec": {"devices": {"requests": many}}}, "ResourceClaim")
    assert found == [("spec.devices.requests", "has 33 items; 32 at most")]


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("spec.driver", None, "spec.driver"),
        ("spec.pool", None, "spec.pool"),
        ("spec.nodeName", None, "spec"),
        ("spec.allNodes", True, "spec"),
        ("spec.devices.0.name", None, "spec.devices[0].name"),
        ("spec.devices.0.attributes.v", {"version": "one"}, "spec.devices[0].attributes[v].version"),
        ("spec.devices.0.attributes.v", {"string": "a", "int": 1}, "spec.devices[0].attributes[v]"),
        ("spec.devices.0.capacity.memory", {"value": "much"}, "spec.devices[0].capacity[memory].value"),
        ("spec.devices", [{"name": f"g{n}"} for n in range(129)], "spec.devices"),
        ("spec.devices", [{"name": "g"}, {"name": "g"}], "spec.devices[1].name"),
    ],
)
def test_slices_are_refused_with_the_field(path: str, value: Any, field: str) -> None:
    assert field in [where for where, _ in faults(SLICE, "ResourceSlice", path, value)]


DEVICE = Device(
    "gpu.example.com",
    "n",
    "g",
    {"gpu.example.com": {"model": "H100", "index": 3, "big": True, "version": Semver.parse("1.10.0-rc.1")}},
    {"gpu.example.com": {"memory": parse("80Gi")}},
)
OWN = "device.attributes['gpu.example.com']"


@pytest.mark.parametrize(
    ("expression", "means"),
    [
        (f"{OWN}.big", True),
        (f"{OWN}['index'] == 3", True),
        (f"has({OWN}.nosuch) && {OWN}.nosuch == 1", False),
        (f"{OWN}.nosuch == 1 || {OWN}.big", True),
        (f"{OWN}.nosuch == 1 && !{OWN}.big", False),
        (f"{OWN}.index > 2 ? {OWN}.model == 'H100' : false", True),
        (f"cel.bind(own, {OWN}, own.big && own.model.startsWith('H'))", True),
        (f"'model' in {OWN}", True),
        ("'model' in device.attributes['other.example.com']", False),
        (f"{OWN}.version.isLessThan(semver('1.10.0'))", True),
        (f"{OWN}.version.compareTo(semver('1.9.9')) > 0 && {OWN}.version.minor() == 10", True),
        ("device.capacity['gpu.example.com'].memory == quantity('81920Mi')", True),
        ("device.capacity['gpu.example.com'].memory.sub(quantity('1Gi')).isLessThan(quantity('80Gi'))", True),
        ("isQuantity('many') || isSemver('1.0')", False),
        ("size(device.driver) == 15", True),
    ],
)
def test_what_selectors_mean(expression: str, means: bool) -> None:
    assert compile_selector(expression)(DEVICE) is means


@pytest.mark.parametrize("expression", [f"{OWN}.nosuch == 1", f"{OWN}.model", f"{OWN}.model > 3"])
def test_what_has_no_value_is_an_error_as_in_cel(expression: str) -> None:
    with pytest.raises(SelectorUndecided):
        compile_selector(expression)(DEVICE)


@pytest.mark.parametrize(
    "expression",
    [
        "device.driver", "1", "device.driver == 3", "quantity('1Gi') < quantity('2Gi')", "quantity('much') == quantity('1')",
        "device.capacity['a'].memory == '80Gi'", "device.driver.isGreaterThan(quantity('1'))", "!device.driver",
        "semver('one') == semver('1.0.0')", "has(device)", "true || 'yes'", "x.y",
    ],
)  # fmt: skip
def test_what_an_api_server_refuses_is_refused(expression: str) -> None:
    with pytest.raises(InputError):
        compile_selector(expression)


def test_versions_are_ordered_as_semver_orders_them() -> None:
    texts = [
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-alpha.beta",
        "1.0.0-rc.2",
        "1.0.0-rc.10",
        "1.0.0",
        "1.2.0",
        "1.10.0",
    ]
    versions = [Semver.parse(text) for text in texts]
    assert all(low < high for low, high in pairwise(versions))
    assert Semver.parse("1.0.0+a") == Semver.parse("1.0.0+b")
