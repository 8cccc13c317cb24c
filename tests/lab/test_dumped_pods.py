"""Pods out of a file of a running cluster: on a node from the first, with owners, PodGroups or nodes that the file leaves out."""

from __future__ import annotations

from typing import Any

import pytest

from kailab.lab import Lab

OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "0b6f2a34", "controller": True}


def dumped(name: str, gpus: int, node: str, owned: bool = True, group: str = "", **metadata: Any) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": name, "labels": {"kai.scheduler/queue": "team"}, **metadata}
    if owned:
        meta["ownerReferences"] = [OWNER]
    if group:
        meta["annotations"] = {"pod-group-name": group}
    limits = {"nvidia.com/gpu": gpus}
    spec = {
        "schedulerName": "kai-scheduler",
        "containers": [{"name": "c", "image": "x", "resources": {"limits": limits}}],
    }
    placed = {"nodeName": node} if node else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {**spec, **placed},
        "status": {"phase": "Running"},
    }


@pytest.fixture
def lab(queue):
    with Lab.open("lesson") as lab:
        lab.apply(queue("org", -1), queue("team", 8, 8, "org"))
        yield lab


def node(lab: Lab) -> str:
    """One with eight GPUs free."""
    found = [one for one in lab.cluster.list("Node") if str(one["status"]["allocatable"].get("nvidia.com/gpu")) == "8"]
    return str(found[0]["metadata"]["name"])


def held(lab: Lab) -> float:
    lab.settle()
    return lab.picture().shares["team"].allocated / 1000


@pytest.mark.parametrize("owned", [True, False])
@pytest.mark.parametrize("group", ["", "pg-web"])
def test_one_that_runs_counts_in_its_queue(lab, job, owned, group):
    lab.apply(dumped("web-1", 6, node(lab), owned, group), job("fill", "team", 1, 4))
    assert held(lab) == 6
    phases = {pod["metadata"]["name"].partition("-")[0]: pod["status"]["phase"] for pod in lab.cluster.list("Pod")}
    assert phases == {"web": "Running", "fill": "Pending"}
    assert all(event["reason"] != "PodGrouperWarning" for event in lab.cluster.list("Event"))
    with lab.fork() as fork:
        assert held(fork) == 6


def test_those_that_name_one_pod_group_share_it_and_keep_it(lab):
    where = node(lab)
    lab.apply(dumped("web-1", 2, where, group="pg-web"), dumped("web-2", 2, where, group="pg-web"))
    assert held(lab) == 4
    assert [one["metadata"]["name"] for one in lab.cluster.list("PodGroup")] == ["pg-web"]
    lab.delete("Pod", "web-1")
    assert held(lab) == 2
    lab.delete("PodGroup", "pg-web")
    assert held(lab) == 2


def test_a_pod_group_of_the_file_is_left_as_it_is(lab):
    group = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "pg-web", "namespace": "default"},
        "spec": {"minMember": 2, "queue": "team", "priorityClassName": "inference"},
    }
    # Whichever comes first in the file.
    lab.apply(dumped("web-1", 2, node(lab), group="pg-web"), group)
    assert held(lab) == 2
    assert lab.cluster.get("PodGroup", "pg-web", "default")["spec"] == group["spec"]


def test_an_owner_that_is_not_there_is_told_when_it_is_applied(lab):
    where = node(lab)
    running = lab.apply(dumped("web-1", 2, where), dumped("web-2", 2, where), dumped("web-0", 2, "")).warnings
    (told, waits) = [text for text in running if "ownerReferences" in text]
    assert "Pod/web-0" in waits
    assert "it stays pending" in waits
    assert "Pod/web-1: metadata.ownerReferences[0]: there is no ReplicaSet 'web' with this uid" in told
    assert "counts in its queue" in told
    (told,) = [text for text in lab.apply(dumped("web-3", 2, "")).warnings if "ownerReferences" in text]
    assert "it stays pending" in told


@pytest.mark.parametrize("gone", [False, True])
def test_one_whose_node_never_was_is_deleted_after_a_while(lab, gone):
    warnings = lab.apply(dumped("lost", 8, "ghost", owned=False)).warnings
    assert any("spec.nodeName: there is no node 'ghost'" in text for text in warnings)
    assert held(lab) == 8
    lab.advance(30)
    assert held(lab) == 8
    if gone:
        with lab.fork() as fork:
            fork.advance(15)
            assert fork.cluster.list("Pod") == []
    lab.advance(15)
    assert lab.cluster.list("Pod") == []
    assert held(lab) == 0


def test_one_whose_node_comes_in_time_stays(lab):
    lab.apply(dumped("early", 2, "late-node", owned=False))
    lab.advance(20)
    like = lab.cluster.get("Node", node(lab))
    lab.apply({**like, "metadata": {"name": "late-node", "labels": {"kubernetes.io/hostname": "late-node"}}})
    lab.advance(600)
    assert [pod["status"]["phase"] for pod in lab.cluster.list("Pod")] == ["Running"]
