"""The requests of pods, and their shapes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kailab.engine.snapshot.gpu_requests import GpuFraction, GpuMemory, GpuRequest, MigInstances, WholeGpus
from kailab.scheduler.reading import requests
from kailab.scheduler.reading.shapes import ShapeCache, gpu_request


def container(cpu: str | None = None, restart: str | None = None, **limits: object) -> dict:
    resources: dict = {}
    if cpu:
        resources["requests"] = {"cpu": cpu}
    if limits:
        resources["limits"] = {name.replace("gpu", "nvidia.com/gpu"): value for name, value in limits.items()}
    found: dict = {"name": "c", "resources": resources}
    if restart:
        found["restartPolicy"] = restart
    return found


def test_containers_add_up_and_limits_stand_in_for_requests() -> None:
    spec = {"containers": [container("100m", gpu=1), container("1.5", memory="1Gi", gpu="2")]}
    assert requests.pod_amounts(spec) == {"cpu": 1600, "nvidia.com/gpu": 3, "memory": 1 << 30}


def test_an_init_container_counts_by_its_peak() -> None:
    spec = {"initContainers": [container("4"), container("2")], "containers": [container("1"), container("2")]}
    assert requests.pod_amounts(spec) == {"cpu": 4000}


def test_a_sidecar_adds_to_containers_and_to_later_init_containers() -> None:
    spec = {
        "initContainers": [container("1"), container("500m", restart="Always"), container("3")],
        "containers": [container("2")],
    }
    assert requests.pod_amounts(spec) == {"cpu": 3500}


def test_overhead_is_added() -> None:
    assert requests.pod_amounts({"containers": [container("1")], "overhead": {"cpu": "250m"}}) == {"cpu": 1250}


def test_text_that_is_no_quantity_counts_as_nothing() -> None:
    assert requests.pod_amounts({"containers": [container("lots")]}) == {"cpu": 0}


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, WholeGpus(devices=2)),
        ({"gpu-fraction": "0.5"}, GpuFraction(devices=1, portion=500)),
        ({"gpu-fraction": "0.1", "gpu-fraction-num-devices": "3"}, GpuFraction(devices=3, portion=100)),
        ({"gpu-fraction": "1.5"}, WholeGpus(devices=2)),
        ({"gpu-fraction": "half"}, WholeGpus(devices=2)),
        ({"gpu-fraction": "500m"}, WholeGpus(devices=2)),
        ({"gpu-fraction": "1"}, WholeGpus(devices=1)),
        ({"gpu-memory": "9" * 18}, GpuMemory(devices=1, memory_mib=2**31 - 1)),
        ({"gpu-memory": "2000"}, GpuMemory(devices=1, memory_mib=2000)),
        ({"gpu-memory": "2000", "gpu-fraction-num-devices": "2"}, GpuMemory(devices=2, memory_mib=2000)),
        ({"gpu-memory": "-5"}, WholeGpus(devices=2)),
        ({"nvidia.com/mig-1g.5gb": "2"}, MigInstances(profiles=(("nvidia.com/mig-1g.5gb", 2),))),
    ],
)
def test_gpu_annotations_replace_whole_devices_where_they_can_be_read(annotations: dict, expected: GpuRequest) -> None:
    assert gpu_request(2, {}, annotations) == expected


@given(
    st.dictionaries(st.sampled_from(["gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"]), st.text(max_size=6))
)
def test_any_text_in_gpu_annotations_gives_a_sane_request(annotations: dict) -> None:
    request = gpu_request(1, {}, annotations)
    assert request.devices >= 1
    assert 0 < request.portion <= 1000
    assert request.memory_mib >= 0


def test_equal_pods_share_one_shape(build) -> None:
    shapes = ShapeCache()
    first = shapes.of(build.pod("a", 1, "team-a"))
    assert all(shapes.of(build.pod(f"b{i}", 1, f"team-{i}")) is first for i in range(10))
    assert shapes.of(build.pod("c", 2)) is not first
    assert len(shapes) == 2


def test_a_shape_carries_what_restricts_nodes(build) -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}
    affinity = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}},
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
            ]
        },
    }
    spec = {"nodeSelector": {"disk": "ssd"}, "affinity": affinity, "tolerations": [{"operator": "Exists"}]}
    shape = ShapeCache().of(build.pod("a", **spec))
    assert shape.selector[0].key == "disk"
    assert shape.terms[0].requirements[0].values == ("a", "b")
    assert shape.anti_affinity[0].namespaces == ("default",)
    assert shape.tolerations[0].operator == "Exists"


def test_kube_scheduler_does_not_know_fractions(build) -> None:
    fraction = build.pod("a", 0, annotations={"gpu-fraction": "0.5"})
    assert ShapeCache().of(fraction).gpu.shared
    assert ShapeCache(sharing=False).of(fraction).gpu.devices == 0


def test_pods_with_equal_containers_differ_by_their_other_fields(build) -> None:
    shapes = ShapeCache()
    first = build.pod("a", 0, annotations={"gpu-fraction": "0.5"})
    containers = first["spec"]["containers"]

    def like(annotations: dict | None, **spec: object) -> dict:
        metadata = {**first["metadata"], "annotations": annotations}
        return {**first, "metadata": metadata, "spec": {**first["spec"], "containers": containers, **spec}}

    half = shapes.of(first)
    assert shapes.of(like({"gpu-fraction": "0.5", "other": "x"}, nodeName="n")) is half
    assert shapes.of(like({"gpu-fraction": "0.25"})).gpu.portion == 250
    assert not shapes.of(like(None)).gpu.shared
    assert shapes.of(like({"gpu-fraction": "0.5"}, nodeSelector={"disk": "ssd"})).selector[0].key == "disk"
    assert shapes.of(like({"gpu-fraction": "0.5"}, tolerations=[{"operator": "Exists"}])).tolerations
    assert shapes.of(like({"gpu-fraction": "0.5"}, overhead={"cpu": "1"})).cpu == half.cpu + 1000
    assert shapes.of(like({"gpu-fraction": "0.5"}, initContainers=[container(cpu="9")])).cpu == 9000
    assert shapes.of(like({"gpu-fraction": "0.5"})) is half
