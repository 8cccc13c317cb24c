"""What a node has once: its local storage, where it tells of it, and the ports of its network."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from kailab.errors import InputError
from kailab.fleet.reading import read_fleet
from kailab.lab import Lab, expect

SCHEDULERS = ("kailab", "kube-scheduler")
QUEUE = {
    "apiVersion": "scheduling.run.ai/v2",
    "kind": "Queue",
    "metadata": {"name": "team"},
    "spec": {"resources": {name: {"quota": -1, "limit": -1} for name in ("gpu", "cpu", "memory")}},
}


def pool(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "count": 1, "gpus": 4, "gpuModel": "A100", "cpu": 64, "memory": "256Gi", **fields}


@pytest.fixture(params=SCHEDULERS)
def opened(request: pytest.FixtureRequest) -> Iterator[Any]:
    labs = []

    def with_pools(*pools: dict[str, Any]) -> Lab:
        content = {"apiVersion": "kailab.dev/v1", "kind": "Fleet", "name": "small", "pools": list(pools)}
        labs.append(Lab.open(read_fleet(yaml.safe_dump(content)), scheduler=request.param))
        labs[-1].apply(QUEUE)
        return labs[-1]

    yield with_pools
    for lab in labs:
        lab.close()


def spec(lab: Lab, requests: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    name = "kai-scheduler" if lab.scheduler == "kailab" else "default-scheduler"
    container = {"name": "main", "image": "pause", "resources": {"requests": requests or {}}}
    container |= {"ports": fields.pop("ports")} if "ports" in fields else {}
    return {"schedulerName": name, "containers": [container], **fields}


def pod(lab: Lab, name: str, requests: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, "labels": {"kai.scheduler/queue": "team", "app": "work"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec(lab, requests, **fields)}


def deployment(lab: Lab, replicas: int, **fields: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"kai.scheduler/queue": "team", "app": "work"}}, "spec": spec(lab, **fields)}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "work"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "work"}}, "template": template},
    }


STORAGE = "ephemeral-storage"


def test_local_storage_that_a_node_tells_of_is_given_out_once(opened) -> None:
    lab = opened(pool("n", resources={STORAGE: "20Gi"}))
    lab.apply(*(pod(lab, name, {STORAGE: "15Gi"}) for name in ("a", "b")), pod(lab, "c", {STORAGE: "30Gi"}))
    expect(lab.app("work")).running(pods=1).pending(pods=2)
    lab.apply(pod(lab, "d", {STORAGE: "5Gi"}))
    expect(lab.pod("d")).running()


def test_local_storage_of_which_a_node_tells_nothing_keeps_nobody_off(opened) -> None:
    lab = opened(pool("told", resources={STORAGE: "1Gi"}), pool("untold"))
    lab.apply(*(pod(lab, name, {STORAGE: "500Gi"}) for name in ("a", "b")))
    expect(lab.app("work")).running(pods=2)
    assert {one["spec"]["nodeName"] for one in lab.cluster.list("Pod")} == {"untold-0"}


def test_local_storage_that_is_short_is_named() -> None:
    content = {
        "apiVersion": "kailab.dev/v1", "kind": "Fleet", "name": "small", "pools": [pool("n", resources={STORAGE: "20Gi"})],
    }  # fmt: skip
    with Lab.open(read_fleet(yaml.safe_dump(content))) as lab:
        lab.apply(QUEUE, pod(lab, "a", {STORAGE: "15Gi"}), pod(lab, "b", {STORAGE: "15Gi"}))
        lab.apply(pod(lab, "large", {STORAGE: "30Gi"}))
        expect(lab.pod("b")).pending(pods=1).says(STORAGE)
        for name, words in (("b", "5Gi"), ("large", "30Gi")):
            cause = lab.explain("pod", name).cause
            assert STORAGE in cause.sentence
            assert words in cause.sentence


PORT = [{"containerPort": 29500}]


def test_pods_in_the_network_of_their_node_do_not_share_a_port(opened) -> None:
    lab = opened(pool("a"), pool("b"))
    lab.apply(deployment(lab, 3, hostNetwork=True, ports=PORT))
    expect(lab.app("work")).running(pods=2).pending(pods=1).spread_over(2, "node")
    (port,) = lab.cluster.list("Pod")[0]["spec"]["containers"][0]["ports"]
    assert port["hostPort"] == 29500
    (made,) = lab.cluster.list("Deployment")
    assert "hostPort" not in made["spec"]["template"]["spec"]["containers"][0]["ports"][0]


def test_pods_in_a_network_of_their_own_share_any_port(opened) -> None:
    lab = opened(pool("a"))
    lab.apply(deployment(lab, 3, ports=PORT))
    expect(lab.app("work")).running(pods=3)


@pytest.mark.parametrize(("restart", "running"), [({"restartPolicy": "Always"}, 1), ({}, 2)])
def test_ports_of_sidecars_count_and_those_of_containers_that_end_do_not(opened, restart, running) -> None:
    lab = opened(pool("a"))
    first = {"name": "first", "image": "pause", "ports": [{"containerPort": 80, "hostPort": 8080}], **restart}
    lab.apply(*(pod(lab, name, initContainers=[first]) for name in ("a", "b")))
    expect(lab.app("work")).running(pods=running).pending(pods=2 - running)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"hostNetwork": True, "ports": [{"containerPort": 80, "hostPort": 8080}]}, r"ports\[0\].hostPort: 8080 .* 80, its containerPort"),
        ({"ports": [{"containerPort": port, "hostPort": 8080} for port in (80, 81)]}, r"ports\[1\].hostPort: 8080 is taken"),
    ],
)  # fmt: skip
def test_host_ports_that_an_api_server_refuses_are_refused(opened, fields, words) -> None:
    lab = opened(pool("a"))
    with pytest.raises(InputError, match=words):
        lab.apply(pod(lab, "a", **fields))
    with pytest.raises(InputError, match=words):
        lab.apply(deployment(lab, 1, **fields))
    lab.apply(pod(lab, "b", hostNetwork=True, ports=[{"containerPort": 80, "hostPort": 80}, {"containerPort": 81}]))
    expect(lab.pod("b")).running()
