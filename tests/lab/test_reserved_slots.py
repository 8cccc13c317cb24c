"""Nodes with few pod slots, and GPUs that are shared: the pod that reserves such a GPU takes a slot of its own."""

from __future__ import annotations

from typing import Any

import pytest

from kailab.fleet.fleet import Fleet, Pool
from kailab.lab import Lab, expect

Obj = dict[str, Any]


def queue(name: str, parent: str = "", quota: float = -1, limit: float = -1) -> Obj:
    free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    spec: Obj = {"resources": {"gpu": {**free, "quota": quota, "limit": limit}, "cpu": free, "memory": free}}
    if parent:
        spec["parentQueue"] = parent
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def app(name: str, queue: str, replicas: int, priority: str = "train", **annotations: str) -> Obj:
    labels = {"app": name, "kai.scheduler/queue": queue, "priorityClassName": priority}
    gpus = annotations.pop("gpus", "")
    container: Obj = {"name": "main", "image": "pause"}
    if gpus:
        container["resources"] = {"limits": {"nvidia.com/gpu": int(gpus)}}
    told = {key.replace("_", "-"): value for key, value in annotations.items()}
    spec = {"schedulerName": "kai-scheduler", "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": labels, "annotations": told}, "spec": spec},
        },
    }


def fleet(nodes: int, slots: int) -> Fleet:
    memory = {"memory": "512Gi", "gpu_memory_mib": 48 * 1024}
    pool = Pool(name="n", count=nodes, cpu="64", gpus=8, gpu_model="L40S", pods=slots, **memory)  # type: ignore[arg-type]
    return Fleet(name="few", pools=(pool,))


@pytest.mark.parametrize("shares", [{"gpu_memory": "4000"}, {"gpu_fraction": "0.2"}])
def test_of_three_slots_two_are_for_pods_that_share(shares):
    with Lab.open(fleet(1, 3)) as lab:
        lab.apply([queue("org"), queue("team", "org"), app("w", "team", 4, **shares)])
        lab.settle()
        expect(lab.app("w")).running(pods=2).pending(pods=2)
        lab.apply([app("w", "team", 1, **shares), app("whole", "team", 2, gpus="1")])
        lab.settle()
        expect(lab.app("w")).running(pods=1)
        expect(lab.app("whole")).running(pods=1).pending(pods=1)
        lab.apply([app("w", "team", 0, **shares)])
        lab.settle()
        expect(lab.app("whole")).running(pods=2)


def test_victims_that_share_leave_their_slot_and_not_that_of_the_reservation():
    """Two nodes of three slots: one is full with two shares and the pod that reserves their GPU, the other has one slot left."""
    with Lab.open(fleet(2, 3)) as lab:
        lab.apply([queue("org"), queue("other", "org", limit=2), queue("team", "org", quota=1, limit=2)])
        lab.apply([app("low", "team", 2, gpu_memory="20000")])
        lab.settle()
        lab.apply([app("beside", "other", 2, "inference", gpus="1")])
        lab.settle()
        lab.apply([app("high", "team", 2, "inference", gpu_memory="4000")])
        lab.settle()
        expect(lab.app("high")).running(pods=2)
        expect(lab.app("low")).running(pods=0)
        expect(lab.app("beside")).running(pods=2)
