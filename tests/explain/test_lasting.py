"""What never runs is explained by what keeps it from running where nothing else is."""

from __future__ import annotations

import pytest

from kailab.fleet import read_fleet
from kailab.lab import Lab
from kailab.lab.explain.answer import Verdict
from kailab.lab.explain.cause import Code

FLEET = """
apiVersion: kailab.dev/v1
kind: Fleet
name: two
pools: [{name: a100, count: 2, gpus: 8, gpuModel: A100, cpu: 64, memory: 512Gi, taints: []}]
"""


def queue(name: str, limit: int = -1) -> dict:
    free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    amounts = {"gpu": {"quota": 8, "limit": limit, "overQuotaWeight": 1}, "cpu": free, "memory": free}
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"resources": amounts},
    }


def replicas(kind: str, name: str, queue: str, count: int, gpus: int) -> dict:
    labels = {"app": name, "kai.scheduler/queue": queue, "priorityClassName": "train"}
    container = {"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    pod = {"metadata": {"labels": labels}, "spec": {"schedulerName": "kai-scheduler", "containers": [container]}}
    spec = {"replicas": count, "selector": {"matchLabels": {"app": name}}, "template": pod}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "labels": labels}, "spec": spec}


@pytest.fixture
def lab():
    with Lab.open(read_fleet(FLEET)) as lab:
        lab.apply([queue("a"), queue("b", limit=4)])
        yield lab


def test_a_replica_beyond_the_limit_never_runs_whoever_holds_the_gpus_now(lab):
    lab.apply([replicas("Deployment", "full", "a", 16, 1)])
    lab.apply([replicas("Deployment", "web", "b", 2, 4)])
    lab.patch("Queue", "a", {"spec": {"resources": {"gpu": {"quota": 16}}}})
    lab.settle()
    answer = lab.explain("Deployment", "web")
    assert (answer.verdict, answer.cause.code) == (Verdict.NEVER, Code.OVER_LIMIT)
    assert "limit" in answer.cause.sentence


def test_a_statefulset_is_judged_with_the_pods_that_are_still_to_come(lab):
    lab.apply([replicas("Deployment", "full", "a", 16, 1)])
    lab.settle()
    lab.apply([replicas("StatefulSet", "store", "a", 5, 8)])
    lab.settle()
    assert lab.explain("StatefulSet", "store").verdict == Verdict.NEVER
    lab.scale("StatefulSet", "store", 2)
    lab.settle()
    assert lab.explain("StatefulSet", "store").verdict == Verdict.LATER
