"""Case studies: the lab shows what their page says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kailab.fleet.reading import read_fleet
from kailab.lab import Lab, expect
from kailab.model.times import duration_seconds

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


def training(name: str, team: str, many: int, *, whole: bool = False) -> dict[str, Any]:
    template = pods(team)
    template["spec"]["restartPolicy"] = "Never"
    spec = {"parallelism": many, "completions": many, "backoffLimit": 1000, "template": template}
    gang = {"annotations": {"kai.scheduler/batch-min-member": str(many)}} if whole else {}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, **gang}, "spec": spec}


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


def pool(name: str, gpus: int) -> dict[str, Any]:
    return {"name": name, "count": 1, "gpus": gpus, "gpuModel": "A100", "cpu": 64, "memory": "500Gi"}


def single(name: str, team: str, node: str = "") -> dict[str, Any]:
    """A pod that can be taken away again, with two GPUs; bound beforehand where a node is given."""
    spec = pods(team)["spec"]
    spec["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": 2}}
    labels = {"kai.scheduler/queue": team, "priorityClassName": "train", "app": name}
    chosen = {"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": {**spec, **chosen}}


def ranked(name: str, quota: int, priority: int, parent: str) -> dict[str, Any]:
    found = queue(name, quota, parent)
    found["spec"]["priority"] = priority
    return found


def test_a_bystander_from_which_nothing_can_be_taken_stops_no_reclaim() -> None:
    """Issue 1750's tree: 7 GPUs, quotas of 6 and 4 at the top."""
    fleet = {
        "apiVersion": "kailab.dev/v1", "kind": "Fleet", "name": "seven",
        "pools": [pool("protected", 2), pool("batch-one", 2), pool("batch-two", 2), pool("spare", 1)],
    }  # fmt: skip
    with Lab.open(read_fleet(json.dumps(fleet))) as lab:
        lab.apply(
            [
                queue("root", 10),
                ranked("org", 6, 110, "root"),
                ranked("reclaimer", 4, 75, "org"),
                ranked("batch", 0, 25, "org"),
                ranked("bystander", 4, 100, "root"),
                single("stays", "bystander", "protected-0"),
                single("a", "batch", "batch-one-0"),
                single("b", "batch", "batch-two-0"),
            ]
        )
        expect(lab.queue("batch")).running(gpus=4)
        lab.apply(single("wants", "reclaimer"))
        expect(lab.queue("reclaimer")).running(gpus=2)
        expect(lab.queue("bystander")).running(gpus=2).not_evicted()
        expect(lab.queue("batch")).evicted(pods=1, by="reclaim", for_queue="reclaimer")
    case = told("A bystander that stopped every reclaim")
    assert "the queue takes both GPUs that it asks for from its sister" in case
    assert "v0.16.3" in case
    assert "v0.17.0" in case


def runtime(name: str, quota: int, parent: str, time: str = "") -> dict[str, Any]:
    found = queue(name, quota, parent)
    found["spec"] |= {"reclaimMinRuntime": time} if time else {}
    return found


@pytest.mark.parametrize(
    ("owner", "safe", "gone"), [("neighbour", "9m", "2m"), ("sister", "59m", "2m")], ids=["neighbour", "sister"]
)
def test_whose_minimum_runtime_holds_depends_on_who_reclaims(lab: Lab, owner: str, safe: str, gone: str) -> None:
    """As the second question of the lesson on it has it: a department with 10 minutes, a team of it with an hour."""
    lab.apply(
        [
            queue("root", 32),
            runtime("ours", 16, "root", "10m"),
            runtime("borrower", 0, "ours", "1h"),
            queue("sister", 16, "ours"),
            queue("theirs", 16, "root"),
            queue("neighbour", 16, "theirs"),
            training("first", "borrower", 32, whole=True),
        ]
    )
    expect(lab.queue("borrower")).running(gpus=32)
    lab.apply(training("second", owner, 16))
    lab.advance(duration_seconds(safe) - lab.now + lab.opened)
    expect(lab.queue("borrower")).running(gpus=32)
    lab.advance(duration_seconds(gone))
    expect(lab.queue(owner)).running(gpus=16)
