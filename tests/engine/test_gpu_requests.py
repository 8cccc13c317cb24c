"""The forms of requests for GPUs: their JSON, their claims, and how each counts."""

from __future__ import annotations

import msgspec
import pytest

from kailab.engine.snapshot import jsonform
from kailab.engine.snapshot.gpu_requests import (
    NO_GPU,
    ClaimedGpus,
    GpuFraction,
    GpuMemory,
    GpuRequest,
    MigInstances,
    WholeGpus,
    gpu_request_from,
)
from kailab.engine.snapshot.records import Shape
from kailab.errors import InputError

PROFILE = "nvidia.com/mig-2g.10gb"
CLAIM = (("gpu.example.com", 2),)

FORMS = [
    (NO_GPU, b"{}"),
    (WholeGpus(devices=2), b'{"devices":2}'),
    (GpuFraction(devices=1, portion=500), b'{"devices":1,"portion":500}'),
    (GpuMemory(devices=2, memory_mib=10_000), b'{"devices":2,"memory_mib":10000}'),
    (MigInstances(profiles=((PROFILE, 3),)), b'{"mig":[["nvidia.com/mig-2g.10gb",3]]}'),
    (ClaimedGpus(claimed=CLAIM), b'{"dra":[["gpu.example.com",2]]}'),
    (WholeGpus(devices=2, claimed=CLAIM), b'{"devices":2,"dra":[["gpu.example.com",2]]}'),
    (GpuFraction(devices=1, portion=500, claimed=CLAIM), b'{"devices":1,"portion":500,"dra":[["gpu.example.com",2]]}'),
]


@pytest.mark.parametrize(("request_", "text"), FORMS)
def test_the_json_of_a_form_is_its_own_amounts(request_: GpuRequest, text: bytes) -> None:
    assert msgspec.json.encode(request_) == text
    assert gpu_request_from(msgspec.json.decode(text)) == request_
    shape = Shape(cpu=1, gpu=request_)
    assert jsonform.decode(jsonform.encode(shape), Shape) == shape


def test_a_fraction_of_a_whole_device_is_the_request_for_the_device() -> None:
    assert GpuFraction.of(3, 1000) == gpu_request_from({"devices": 3, "portion": 1000}) == WholeGpus(devices=3)
    assert GpuFraction.of(0, 500) is gpu_request_from({}) is NO_GPU


@pytest.mark.parametrize(
    "value",
    [
        {"mig": [[PROFILE, 1]], "devices": 1},
        {"mig": [[PROFILE, 1]], "memory_mib": 5},
        {"devices": 1, "portion": 500, "memory_mib": 5},
        {"devices": -1},
        {"memory_mib": 5},
        {"devices": "two"},
        {"slices": 2},
    ],
)
def test_amounts_of_two_forms_and_unknown_ones_are_refused(value: dict) -> None:
    with pytest.raises(InputError, match=r"\$\.gpu"):
        jsonform.decode(jsonform.encode({"gpu": value}), Shape)


@pytest.mark.parametrize("request_", [form for form, _ in FORMS])
def test_claims_come_and_go_beside_every_form(request_: GpuRequest) -> None:
    own = request_.with_claims(())
    both = own.with_claims(CLAIM)
    assert both.claimed == CLAIM
    assert both.with_claims(()) == own
    assert both.fixed_gpus() == own.fixed_gpus() + 2000
    assert both.most_devices == own.most_devices + 2
    assert not both.nothing
    assert own.nothing == (own is NO_GPU)


def test_each_form_counts_in_its_own_way() -> None:
    on_40_gib = {form: (form.wanted_gpus(20_000), form.held_gpus(40_000), form.whole_gpus()) for form, _ in FORMS[:6]}
    assert list(on_40_gib.values()) == [
        (0, 0, 0),
        (2000, 2000, 2000),
        (500, 500, 0),
        (1000, 500, 0),
        (6000, 6000, 0),
        (2000, 2000, 2000),
    ]
    assert GpuFraction(devices=1, portion=333).share_memory(40_000) == 13_320
    assert GpuMemory(devices=1, memory_mib=7).share_counted(1000) == 10


def test_each_form_has_words() -> None:
    assert [form.text() for form, _ in FORMS[1:6]] == [
        "2 whole GPUs",
        "0.5 of a GPU",
        "10000 MiB on each of 2 GPUs",
        "3 nvidia.com/mig-2g.10gb",
        "2 whole GPUs",
    ]
