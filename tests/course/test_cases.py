"""Case studies that can be tried here: what the lab shows is what their page says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kailab.lab import Lab, expect

PAGE = Path(__file__).parents[2] / "docs" / "course" / "cases.md"
UNLIMITED = {"quota": -1, "limit": -1, "overQuotaWeight": 1}


@pytest.fixture
def lab() -> Iterator[Lab]:
    with Lab.open("lesson") as opened:
        yield opened


def queue(name: str, quota: int, parent: str = "", limit: int = -1) -> dict[str, Any]:
    gpus = {"quota": quota, "limit": limit, "overQuotaWeight": 1}
    spec = {"resources": {"gpu": gpus, "cpu": UNLIMITED, "memory": UNLIMITED}}
    head = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}}
    return {**head, "spec": {**spec, **({"parentQueue": parent} if parent else {})}}


def pods(queue: str) -> dict[str, Any]:
    container = {"name": "work", "image": "x", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    spec = {"schedulerName": "kai-scheduler", "containers": [container]}
    return {"metadata": {"labels": {"kai.scheduler/queue": queue}}, "spec": spec}


def training(name: str, team: str, many: int) -> dict[str, Any]:
    template = pods(team)
    template["spec"]["restartPolicy"] = "Never"
    spec = {"parallelism": many, "completions": many, "backoffLimit": 1000, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def told(heading: str) -> str:
    """A case's text, in one line."""
    [case] = [part for part in PAGE.read_text(encoding="utf-8").split("\n## ") if part.startswith(heading)]
    return " ".join(case.split())


def test_who_comes_second_gets_its_share_and_not_its_quota_alone(lab: Lab) -> None:
    """Issue 1934's tree, with 4 for its Q."""
    users = [queue("alice", 4, "shared"), queue("bob", 4, "shared")]
    lab.apply([queue("root", 32), queue("priority", 1_000_000, "root"), queue("shared", 0, "root"), *users])
    lab.apply(training("first", "alice", 32))
    expect(lab.queue("alice")).running(gpus=32)
    lab.apply(training("second", "bob", 32))
    expect(lab.queue("bob")).running(gpus=16)
    expect(lab.queue("alice")).running(gpus=16).evicted(pods=16, by="reclaim")
    assert "the second has 16 of 32 GPUs at once" in told("A share that only time gives")


def test_a_ray_cluster_of_several_hosts_waits_whole(lab: Lab) -> None:
    """Issue 500: a head and two workers of three hosts each, where there is room for four."""
    lab.apply(queue("team", 4, limit=4))
    workers = {"groupName": "w", "replicas": 2, "minReplicas": 2, "maxReplicas": 2, "numOfHosts": 3}
    ray = {
        "apiVersion": "ray.io/v1", "kind": "RayCluster",
        "metadata": {"name": "ray", "labels": {"kai.scheduler/queue": "team"}},
        "spec": {"headGroupSpec": {"template": pods("team")}, "workerGroupSpecs": [{**workers, "template": pods("team")}]},
    }  # fmt: skip
    lab.apply(ray)
    expect(lab.queue("team")).running(pods=0).pending(pods=7)
    [group] = lab.get("PodGroup")
    assert group["spec"]["minMember"] == 7
    assert "all seven pods wait, `minMember` 7" in told("Half a Ray cluster")
    lab.patch("Queue", "team", {"spec": {"resources": {"gpu": {"quota": 7, "limit": 7}}}})
    expect(lab.queue("team")).running(pods=7)
