"""Two schedulers in one lab: whose pods are whose, what is said of it, and where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from kailab.cluster.backends import BACKENDS
from kailab.errors import InputError
from kailab.lab import Lab, expect

BOTH = "kailab+kube-scheduler"
MANIFESTS = Path(__file__).parents[2] / "exercises" / "twoschedulers" / "manifests"


def test_pods_of_both_are_placed_and_nobody_is_told_that_they_wait() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "plain"}}
    pod["spec"] = {"containers": [{"name": "work", "image": "busybox:1.36"}], "tolerations": [{"operator": "Exists"}]}
    with Lab.open(scheduler="kailab") as lab:
        assert any("scheduler" in one for one in lab.apply(pod).warnings)
        expect(lab.pod("plain")).pending(pods=1)
    with Lab.open(scheduler=BOTH) as lab:
        assert lab.apply(pod, MANIFESTS / "queues.yaml", MANIFESTS / "owner.yaml").warnings == []
        expect(lab.pod("plain")).running(pods=1)
        expect(lab.deployment("owner")).running(pods=16)


def test_it_is_the_same_each_time() -> None:
    placed = []
    for _ in range(2):
        with Lab.open(scheduler=BOTH) as lab:
            lab.apply(MANIFESTS / "queues.yaml", MANIFESTS / "borrower.yaml")
            lab.settle()
            lab.apply(MANIFESTS / "lurker.yaml", MANIFESTS / "owner.yaml")
            lab.settle()
            placed.append({one["metadata"]["name"]: one["spec"].get("nodeName") for one in lab.cluster.list("Pod")})
    assert placed[0] == placed[1]


@pytest.mark.parametrize("backend", sorted(set(BACKENDS.own) - {"embedded"}))
def test_elsewhere_it_is_refused(backend: str) -> None:
    with pytest.raises(InputError, match="for the embedded cluster"):
        Lab.open(scheduler=BOTH, backend=backend)
