"""Each shared GPU has a reservation pod while it is shared, so that sums of requests count it."""

from __future__ import annotations

from collections import Counter

import pytest

from kailab.errors import Conflict, Unavailable
from kailab.scheduler.baseline import Baseline
from kailab.scheduler.binding.reservation_pods import reservation_name

SPACE = "kai-resource-reservation"
GROUP = "runai-gpu-group"


def half(build, name, part="0.5", **more):
    return build.pod(name, 0, annotations={"gpu-fraction": part, **more})


def reserving(world):
    return world.cluster.list("Pod", SPACE)


def requested(world, node="n1"):
    """The GPUs that active pods on a node request, as any other scheduler counts them."""
    return sum(
        int(container["resources"].get("limits", {}).get("nvidia.com/gpu", 0))
        for pod in world.cluster.list("Pod")
        for container in pod["spec"]["containers"]
        if pod["spec"].get("nodeName") == node and pod["status"]["phase"] not in ("Succeeded", "Failed")
    )


@pytest.fixture
def led(world):
    world.leader = world.candidate("a")
    world.run(1)
    return world


def test_one_pod_reserves_the_gpu_that_two_share(led, build) -> None:
    for name in ("a", "b"):
        led.cluster.create(half(build, name))
    led.run(2)
    groups = {led.cluster.get("Pod", name, "default")["metadata"]["labels"][GROUP] for name in ("a", "b")}
    (pod,) = reserving(led)
    assert groups == {pod["metadata"]["labels"][GROUP]}
    assert pod["metadata"]["labels"]["app"] == SPACE
    assert pod["metadata"]["name"] == reservation_name("n1", groups.pop())
    assert pod["spec"]["nodeName"] == "n1"
    assert requested(led) == 1


def test_each_device_of_a_pod_on_several_is_reserved(led, build) -> None:
    led.cluster.create(half(build, "wide", **{"gpu-fraction-num-devices": "3"}))
    led.run(2)
    assert len(reserving(led)) == 3
    assert requested(led) == 3


def test_the_reservation_goes_with_the_last_pod_of_the_group(led, build) -> None:
    for name in ("a", "b"):
        led.cluster.create(half(build, name))
    led.run(2)
    led.cluster.delete("Pod", "a", "default")
    led.run(2)
    assert len(reserving(led)) == 1
    led.cluster.delete("Pod", "b", "default")
    led.run(2)
    assert reserving(led) == []


def test_a_pod_that_has_ended_shares_no_more(led, build) -> None:
    obj = half(build, "a", **{"kailab.dev/run-seconds": "5"})
    obj["spec"]["restartPolicy"] = "Never"
    led.cluster.create(obj)
    led.run(3)
    assert len(reserving(led)) == 1
    led.run(5)
    assert led.cluster.get("Pod", "a", "default")["status"]["phase"] == "Succeeded"
    assert reserving(led) == []


def test_orphans_are_cleared_at_the_start_and_those_of_others_left_alone(world, build) -> None:
    ours = {"app": SPACE, GROUP: "gone", "app.kubernetes.io/managed-by": "kailab"}
    for name, labels in (("ours", ours), ("theirs", {"app": SPACE, GROUP: "also-gone"})):
        obj = build.pod(name, 1, nodeName="n1")
        obj["metadata"] |= {"namespace": SPACE, "labels": labels}
        world.cluster.create(obj)
    world.candidate("a")
    world.run(1)
    assert [pod["metadata"]["name"] for pod in reserving(world)] == ["theirs"]


def test_a_lost_reservation_is_made_anew(led, build) -> None:
    led.cluster.create(half(build, "a"))
    led.run(2)
    (pod,) = reserving(led)
    led.cluster.delete("Pod", pod["metadata"]["name"], SPACE)
    led.run(2)
    (again,) = reserving(led)
    assert again["metadata"]["name"] == pod["metadata"]["name"]
    assert again["metadata"]["uid"] != pod["metadata"]["uid"]


def test_a_pod_is_not_bound_where_its_gpu_can_not_be_reserved(led, build, monkeypatch) -> None:
    cluster = led.cluster
    create = cluster.create

    def refuse(obj):
        if obj["metadata"].get("namespace") == SPACE:
            raise Unavailable("no reservations today")
        return create(obj)

    monkeypatch.setattr(cluster, "create", refuse)
    cluster.create(half(build, "a"))
    led.run(3)
    assert led.node_of("a") == ""
    assert GROUP not in cluster.get("Pod", "a", "default")["metadata"]["labels"]
    monkeypatch.undo()
    led.run(3)
    assert led.node_of("a") == "n1"
    assert len(reserving(led)) == 1


def test_a_reservation_that_does_not_go_keeps_its_gpu_and_costs_nobody_a_place(led, build, monkeypatch) -> None:
    """The pod is gone but its reservation can't be deleted, so the server still counts the GPU."""
    cluster = led.cluster
    delete = cluster.delete

    def refuse(kind, name, namespace=None, grace=None):
        if namespace == SPACE:
            raise Conflict("not today")
        delete(kind, name, namespace, grace)

    cluster.create(half(build, "a"))
    led.run(2)
    monkeypatch.setattr(cluster, "delete", refuse)
    delete("Pod", "a", "default", 0)
    for number in range(9):
        cluster.create(build.pod(f"whole-{number}"))
    led.run(20)
    assert len(reserving(led)) == 1
    assert requested(led) == 8
    placed = [name for name in (f"whole-{number}" for number in range(9)) if led.node_of(name)]
    assert len(placed) == 7
    monkeypatch.undo()
    led.run(40)  # it is tried again after a pause
    assert reserving(led) == []
    assert requested(led) == 8
    assert all(led.node_of(name) for name in placed)


def test_a_binding_that_fails_gives_its_gpu_back(led, build, monkeypatch) -> None:
    cluster = led.cluster
    bind = cluster.bind

    def refuse(namespace, pod, node, *rest):
        if pod == "a":
            raise Conflict("not this one")
        bind(namespace, pod, node, *rest)

    monkeypatch.setattr(cluster, "bind", refuse)
    cluster.create(half(build, "a"))
    for _ in range(30):
        led.run(0.1)
        assert requested(led) <= 1
    for number in range(8):
        cluster.create(build.pod(f"whole-{number}"))
    for _ in range(30):
        led.run(0.1)
        assert requested(led) <= 8
    assert reserving(led) == []
    assert requested(led) == 8


def test_a_label_left_on_a_pod_reserves_nothing(led, build) -> None:
    """The state after a scheduler ended between writing the label and the binding."""
    ours = {"app": SPACE, GROUP: "left", "app.kubernetes.io/managed-by": "kailab"}
    reservation = build.pod("left", 1, nodeName="n1")
    reservation["metadata"] |= {"namespace": SPACE, "labels": ours}
    waiting = half(build, "a")
    waiting["metadata"]["labels"][GROUP] = "left"
    waiting["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]
    led.cluster.create(waiting)
    led.cluster.create(reservation)
    led.run(2)
    assert reserving(led) == []


def test_another_scheduler_fills_what_is_left_and_no_more(led, build) -> None:
    """As kube-scheduler counts: with reservations, requests never exceed the node's capacity."""
    other = Baseline(led.cluster)
    for name in ("a", "b", "c"):
        led.cluster.create(half(build, name))  # two GPUs
    led.run(2)
    for number in range(10):
        obj = build.pod(f"plain-{number}", 1)
        obj["spec"]["schedulerName"] = "default-scheduler"
        led.cluster.create(obj)
    for _ in range(5):
        other.step()
        led.run(1)
    placed = Counter(
        bool(pod["spec"].get("nodeName"))
        for pod in led.cluster.list("Pod", "default")
        if pod["metadata"]["name"].startswith("plain-")
    )
    assert placed == {True: 6, False: 4}
    assert requested(led) == 8
    # And ours sees the same: no room for one more whole GPU, room for the half that is left of a shared one.
    led.cluster.create(build.pod("whole", 1))
    led.cluster.create(half(build, "d"))
    led.run(2)
    assert led.node_of("whole") == ""
    assert led.node_of("d") == "n1"
    assert requested(led) == 8
