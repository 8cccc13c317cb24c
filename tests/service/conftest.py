"""Schedulers as services over one embedded cluster, and the few objects that show what they do."""

from __future__ import annotations

from typing import Any

import pytest

from kailab.cluster.embedded import EmbeddedCluster
from kailab.scheduler.service import Election, Service, Settings, Terms

Obj = dict[str, Any]


def node(name: str, gpus: int = 8) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {
            "allocatable": {"cpu": "96", "memory": "1000Gi", "pods": "110", "nvidia.com/gpu": str(gpus)},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def queue(name: str, **more: Any) -> Obj:
    unlimited = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    resources = {"gpu": unlimited, "cpu": unlimited, "memory": unlimited}
    spec = {"resources": resources, **more}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def pod(name: str, gpus: int = 1, queue: str = "team", annotations: dict[str, str] | None = None, **spec: Any) -> Obj:
    limits = {"nvidia.com/gpu": gpus} if gpus else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"kai.scheduler/queue": queue},
            "annotations": dict(annotations or {}),
        },
        "spec": {
            "schedulerName": "kai-scheduler",
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "pause", "resources": {"limits": limits}}],
            **spec,
        },
    }


class Candidate:
    """A scheduler and its election over a cluster in this process, on the cluster's clock."""

    def __init__(self, cluster: EmbeddedCluster, identity: str, **more: Any) -> None:
        self.cluster = cluster
        self.cut = Cut(cluster)
        self.election = Election(self.cut, identity, "kai-scheduler", "kailab-scheduler", Terms(), cluster.now)
        settings = Settings(identity=identity, lease="kailab-scheduler", **more)
        self.service = Service(
            cluster, settings, self.election, clock=cluster.now, rest=lambda seconds: cluster.advance(seconds)
        )
        self.next_step = cluster.now()

    def elect(self) -> None:
        """A step of the election, if one is due."""
        if self.cluster.now() >= self.next_step:
            self.next_step = self.cluster.now() + self.election.step()


class Cut:
    """A connection that can be cut: requests then fail as they do when a server can't be reached."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster
        self.off = False

    def __getattr__(self, name: str) -> Any:
        from kailab.errors import Unavailable

        if self.off and name in ("get", "create", "update"):
            raise Unavailable("the server can't be reached")
        return getattr(self._cluster, name)


class World:
    """Time goes on for all of them together."""

    def __init__(self) -> None:
        self.cluster = EmbeddedCluster()
        self.cluster.create(node("n1"))
        self.cluster.create(queue("team"))
        self.candidates: list[Candidate] = []

    def candidate(self, identity: str, **more: Any) -> Candidate:
        one = Candidate(self.cluster, identity, **more)
        self.candidates.append(one)
        return one

    def run(self, seconds: float) -> None:
        """Let time pass, in steps of a tenth of a second; nobody leads beside another at any of them."""
        for _ in range(round(seconds * 10)):
            for one in self.candidates:
                one.elect()
            for one in self.candidates:
                one.service.turn()
            leaders = [one.election.identity for one in self.candidates if one.election.leading]
            assert len(leaders) <= 1, leaders
            self.cluster.advance(0.1)

    def node_of(self, name: str) -> str:
        return str(self.cluster.get("Pod", name, "default")["spec"].get("nodeName") or "")


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def build() -> Any:
    import sys

    return sys.modules[__name__]
