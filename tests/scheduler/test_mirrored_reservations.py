"""The mirror of pods that share GPUs, and of their reservation pods."""

from __future__ import annotations

from typing import Any

import pytest

from kailab.cluster.embedded import EmbeddedCluster
from kailab.engine.snapshot.gpu_requests import NO_GPU
from kailab.engine.snapshot.records import Status
from kailab.engine.working.layout import GPUS, PODS
from kailab.scheduler.mirror import Mirror


@pytest.fixture
def cluster() -> EmbeddedCluster:
    return EmbeddedCluster()


def mirrored(cluster: EmbeddedCluster) -> Mirror:
    mirror = Mirror(cluster)
    mirror.update()
    return mirror


def tasks(mirror: Mirror) -> dict[str, Any]:
    return {task.name: task for task in mirror.tasks.values()}


def test_gpu_groups_are_read_back_from_labels(cluster, build) -> None:
    cluster.create(build.node("n"))
    cluster.create(build.podgroup("g", "q"))
    one = {"runai-gpu-group": "g1"}
    two = {"runai-gpu-group/g2": "g2", "runai-gpu-group/g1": "g1"}
    cluster.create(build.member("one", "g", 0, labels=one, annotations={"gpu-fraction": "0.5"}))
    many = {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"}
    cluster.create(build.member("two", "g", 0, labels=two, annotations=many))
    cluster.create(build.member("whole", "g", 1, labels=one))
    found = tasks(mirrored(cluster))
    assert found["one"].gpu_groups == ("g1",)
    assert found["two"].gpu_groups == ("g1", "g2")
    assert found["whole"].gpu_groups == ()


def test_a_reserved_gpu_counts_through_those_who_share_it_and_by_itself_without_them(cluster, build) -> None:
    cluster.create(build.node("n"))
    cluster.create(build.podgroup("g", "q"))
    group = {"runai-gpu-group": "g1"}
    cluster.create(build.pod("reservation", namespace="kai-resource-reservation", labels=group, nodeName="n"))
    half = {"labels": group, "annotations": {"gpu-fraction": "0.5"}}
    mirror = mirrored(cluster)
    # Nobody shares it: its place can be waited for, not taken.
    assert tasks(mirror)["reservation"].status is Status.RELEASING
    cluster.create(build.member("a", "g", 0, **half))
    cluster.create(build.member("b", "g", 0, **half))
    mirror.update()
    assert set(tasks(mirror)) == {"reservation", "a", "b"}, "a label alone is no share"
    for name in ("a", "b"):
        cluster.bind("default", name, "n")
        mirror.update()
        assert tasks(mirror)["reservation"].shape.gpu == NO_GPU
        assert tasks(mirror)["reservation"].status is not Status.RELEASING
    assert int(mirror.working.table.idle[GPUS, 0]) == 7_000
    cluster.delete("Pod", "a", "default", 0)
    mirror.update()
    assert set(tasks(mirror)) == {"reservation", "b"}
    cluster.delete("Pod", "b", "default", 0)
    mirror.update()
    assert set(tasks(mirror)) == {"reservation"}
    cluster.delete("Pod", "reservation", "kai-resource-reservation", 0)
    mirror.update()
    assert not mirror.tasks


def test_a_shared_gpu_takes_a_pod_slot_whether_its_reservation_is_there_or_not(cluster, build) -> None:
    cluster.create(build.node("n"))
    cluster.create(build.podgroup("g", "q"))
    mirror = mirrored(cluster)

    def free() -> int:
        mirror.update()
        late = mirrored(cluster)
        assert late.agrees(mirror)
        assert late.working.table.idle.tolist() == mirror.working.table.idle.tolist()
        return int(mirror.working.table.idle[PODS, 0])

    def reserved(name: str) -> None:
        space = "kai-resource-reservation"
        cluster.create(build.pod(name, namespace=space, labels={"runai-gpu-group": "g1"}, nodeName="n"))

    assert free() == 110
    for name, group in (("a", "g1"), ("b", "g1"), ("c", "g2")):
        labels, half = {"runai-gpu-group": group}, {"gpu-fraction": "0.5"}
        cluster.create(build.member(name, "g", 0, labels=labels, annotations=half))
        cluster.bind("default", name, "n")
    assert free() == 105, "three pods, two shared GPUs"
    reserved("of-g1")
    assert free() == 105
    cluster.delete("Pod", "a", "default", 0)
    assert free() == 106
    cluster.patch("Pod", "of-g1", "kai-resource-reservation", {"status": {"phase": "Failed"}}, "status")
    assert free() == 106, "it is to be made anew"
    for name in ("b", "c"):
        cluster.delete("Pod", name, "default", 30)
    assert free() == 106, "they are still there"
    for name in ("b", "c"):
        cluster.delete("Pod", name, "default", 0)
    assert free() == 110
