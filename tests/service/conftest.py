"""Schedulers as services over one embedded cluster, and small objects for them."""

from __future__ import annotations

import http.client
import re
import signal
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kailab.cluster.controlplane import ControlPlane
from kailab.cluster.embedded import EmbeddedCluster
from kailab.cluster.install import install
from kailab.cluster.kubernetes import Connection, KubernetesCluster
from kailab.components import ComponentSet
from kailab.errors import NotFound, Unavailable
from kailab.fleet.reading import load_fleet
from kailab.scheduler.service.election import Election, LeaseTerms
from kailab.scheduler.service.service_loop import SchedulerService, ServiceSettings
from kailab.workloads import ResourceClaimController
from tests.planes import connected, taken_down
from tests.waiting import eventually

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
    metadata = {"name": name, "namespace": "default", "labels": {"kai.scheduler/queue": queue}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "annotations": dict(annotations or {})},
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
        self.election = Election(self.cut, identity, "kai-scheduler", "kailab-scheduler", LeaseTerms(), cluster.now)
        settings = ServiceSettings(identity=identity, lease="kailab-scheduler", **more)
        self.service = SchedulerService(
            cluster, settings, self.election, clock=cluster.now, rest=lambda seconds: cluster.advance(seconds)
        )
        self.next_step = cluster.now()

    def elect(self) -> None:
        """A step of the election, if one is due."""
        if self.cluster.now() >= self.next_step:
            self.next_step = self.cluster.now() + self.election.step()


class Cut:
    """A connection that can be cut: requests then fail as if the server could not be reached."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster
        self.off = False

    def __getattr__(self, name: str) -> Any:
        if self.off and name in ("get", "create", "update"):
            raise Unavailable("the server can't be reached")
        return getattr(self._cluster, name)


class World:
    """Let time pass for all of them."""

    def __init__(self) -> None:
        self.cluster = EmbeddedCluster()
        self.cluster.create(node("n1"))
        self.cluster.create(queue("team"))
        self.claims = ResourceClaimController(self.cluster)
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
            self.claims.step()
            self.cluster.advance(0.1)

    def node_of(self, name: str) -> str:
        return str(self.cluster.get("Pod", name, "default")["spec"].get("nodeName") or "")


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def build() -> Any:
    return sys.modules[__name__]


# --- real processes ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def plane(components: ComponentSet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with the lesson fleet's nodes, KAI's kinds, and a queue."""
    with taken_down(ControlPlane.up(tmp_path_factory.mktemp("service") / "plane", components)) as made:
        with connected(made.kubeconfig) as cluster:
            install(cluster)
            for obj in (*load_fleet("lesson").objects(), queue("team")):
                cluster.apply(obj)
        yield made


@pytest.fixture
def live(plane: ControlPlane) -> Iterator[KubernetesCluster]:
    """The plane's cluster; objects that a test leaves in the namespace default are deleted."""
    cluster = KubernetesCluster(Connection.from_kubeconfig(plane.kubeconfig))
    try:
        yield cluster
        for kind in ("Deployment", "Pod", "ResourceClaim", "ResourceClaimTemplate", "PodGroup"):
            for obj in cluster.list(kind, "default"):
                with suppress(NotFound):
                    cluster.delete(kind, obj["metadata"]["name"], "default", *((0,) if kind == "Pod" else ()))
        eventually(lambda: not cluster.list("Pod", "default"))
    finally:
        cluster.close()


class Running:
    """One ``kailab scheduler run`` beside a control plane."""

    def __init__(self, plane: ControlPlane, name: str, *options: str, kubeconfig: Path | None = None) -> None:
        self.plane = plane
        self.name = name
        command = [sys.executable, "-m", "kailab.cli.main", "scheduler", "run"]
        known = ["--kubeconfig", str(kubeconfig or plane.kubeconfig)]
        known += [] if "--no-leader-elect" in options else ["--identity", name]
        plane.spawn(name, [*command, *known, *options])
        eventually(lambda: " at http://" in self.log() or not self.process.running)
        found = re.search(r"health and metrics at (\S+)", self.log())
        assert found, self.log()
        self.url = found[1]

    @property
    def process(self) -> Any:
        return next(one for one in self.plane.processes() if one.name == self.name)

    def log(self) -> str:
        path = self.plane.log(self.name)
        return path.read_text() if path.exists() else ""

    def ask(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(self.url + path, timeout=30) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except (
            OSError,
            http.client.HTTPException,
        ) as error:  # nobody there, or killed in the middle of an answer
            return 0, str(error)

    def metrics(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        code, text = self.ask("/metrics")
        assert code == 200, text
        families = text_string_to_metric_families(text)
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in families
            for sample in family.samples
        }

    def metric(self, of: str, /, **labels: str) -> float:
        return self.metrics().get((of, tuple(sorted(labels.items()))), 0.0)

    def is_ready(self, text: str) -> bool:
        return self.ask("/readyz") == (200, f"ok: {text}\n")

    def end(self, number: int = signal.SIGTERM) -> int | None:
        """The exit code."""
        self.plane.kill(self.name, number)
        eventually(lambda: not self.process.running)
        return self.process.exit


# Shorter than a test has patience for, and long enough for a busy machine to renew it.
LEASE_SECONDS = 15
SHORT = ("--lease-duration", str(LEASE_SECONDS), "--renew-deadline", "12", "--retry-period", "1")


@pytest.fixture
def start(plane: ControlPlane) -> Iterator[Callable[..., Running]]:
    """Runs schedulers until the test ends."""
    made: list[Running] = []

    def started(name: str, *options: str, **more: Any) -> Running:
        made.append(Running(plane, f"{name}-{len(made)}-{uuid.uuid4().hex[:6]}", *options, **more))
        return made[-1]

    yield started
    for one in made:
        if one.process.running:
            plane.kill(one.name, signal.SIGCONT)
            plane.stop(one.name)


def live_pod(name: str, gpus: int = 1, **more: Any) -> Obj:
    """As ``pod``, for fleets whose nodes have taints."""
    return pod(name, gpus, tolerations=[{"operator": "Exists"}], **more)


def bound(cluster: Any, *names: str) -> bool:
    return all(cluster.get("Pod", name, "default")["spec"].get("nodeName") for name in names)
