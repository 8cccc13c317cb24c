"""Snapshots of a real API server: read and nothing else, with the rights that are printed, and named where one is missing."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kailab.cluster.controlplane import ControlPlane
from kailab.cluster.install import install
from kailab.cluster.kubernetes import Connection, KubernetesCluster
from kailab.cluster.kubernetes.apiclient.transport import AnswerCounts
from kailab.components import ComponentSet
from kailab.errors import Forbidden, InputError
from kailab.scheduler.reading.podgroups import DEFAULT_NODE_POOL
from kailab.snapshots import snapshot, taking
from kailab.snapshots.opening import lab_of
from kailab.snapshots.taking import cluster_role, kinds_taken
from tests.evidence.test_secrets import QUEUE, Secrets, around
from tests.snapshots.conftest import body_of

pytestmark = pytest.mark.slow

CONFIG = """actions: allocate, reclaim
tiers:
- plugins: [{name: predicates}, {name: proportion}, {name: nodeplacement, arguments: {gpu: spread, cpu: spread}}]
"""


LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def template(secrets: Secrets) -> dict[str, Any]:
    """A pod template that a real server takes, with secrets wherever they may be."""
    container = {
        "name": "main",
        "image": "registry.example/team/main:1",
        "command": ["run", f"--password={secrets('command')}"],
        "args": [secrets("args")],
        "env": [
            {"name": "TOKEN", "value": secrets("env")},
            {"name": "URL", "value": f"postgres://me:{secrets('URL')}@db/x"},
        ],
        "resources": {"limits": {"nvidia.com/gpu": 1}},
    }
    notes = {"example.com/token": secrets("annotation"), LAST_APPLIED: secrets("last applied")}
    volumes = [{"name": "keys", "secret": {"secretName": secrets("secretName").lower(), "optional": True}}]
    spec = {"schedulerName": "kai-scheduler", "containers": [container], "volumes": volumes}
    return {"metadata": {"labels": {"app": "work", "kai.scheduler/queue": "team"}, "annotations": notes}, "spec": spec}


def kai(secrets: Secrets) -> dict[str, Any]:
    """The pod template of a scheduler of KAI's, with its configuration in a ConfigMap."""
    container = {
        "name": "scheduler",
        "image": "registry/kai/scheduler:v0.16.8",
        "args": [
            "--scheduler-conf=/etc/config/config.yaml",
            "--max-consolidation-preemptees=3",
            f"--kubeconfig={secrets('flag')}",
        ],
    }
    volumes = [{"name": "config", "configMap": {"name": "conf"}}]
    return {"metadata": {"labels": {"app": "kai"}}, "spec": {"containers": [container], "volumes": volumes}}


@pytest.fixture(scope="module")
def plane(components: ComponentSet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    made = ControlPlane.up(tmp_path_factory.mktemp("snapshots") / "plane", components)
    yield made
    made.down()


@pytest.fixture(scope="module")
def secrets() -> Secrets:
    return Secrets()


@pytest.fixture(scope="module")
def busy(plane: ControlPlane, secrets: Secrets) -> Iterator[KubernetesCluster]:
    """With nodes, workloads with secrets in them, and a Deployment that runs KAI's scheduler with a configuration."""
    cluster = KubernetesCluster(Connection.from_kubeconfig(plane.kubeconfig), "controlplane")
    install(cluster)
    node = {
        "allocatable": {"cpu": "8", "memory": "8Gi", "pods": "100", "nvidia.com/gpu": "8"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    cluster.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": node})
    cluster.apply(yaml.safe_load(QUEUE))
    for obj in around(secrets):
        cluster.create({**obj, "metadata": {**obj["metadata"], "namespace": "default"}})
    selected = {"selector": {"matchLabels": {"app": "work"}}}
    once = template(secrets)
    once["spec"]["restartPolicy"] = "Never"
    # In parallel: else a second pod comes once the first runs, and which four of the pods run under the limit is open.
    two_at_once = {"replicas": 2, "serviceName": "s", "podManagementPolicy": "Parallel"}
    for kind, version, spec in (
        ("Deployment", "apps/v1", {"replicas": 2, "template": template(secrets), **selected}),
        ("StatefulSet", "apps/v1", {**two_at_once, "template": template(secrets), **selected}),
        ("Job", "batch/v1", {"parallelism": 2, "completions": 2, "template": once}),
        (
            "Deployment",
            "apps/v1",
            {"replicas": 0, "selector": {"matchLabels": {"app": "kai"}}, "template": kai(secrets)},
        ),
    ):
        name = "kai-scheduler-default" if spec.get("replicas") == 0 else kind.lower()
        metadata = {"name": name, "namespace": "default", "annotations": {LAST_APPLIED: secrets("last applied")}}
        cluster.create({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec})
    conf = {"name": "conf", "namespace": "default"}
    cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": conf, "data": {"config.yaml": CONFIG}})
    for _ in range(300):
        owners = [one["metadata"]["ownerReferences"][0]["kind"] for one in cluster.list("Pod")]
        if sorted(owners) == sorted(["ReplicaSet", "StatefulSet", "Job"] * 2):
            break
        cluster.wait(0.2)
    else:
        pytest.fail(f"the controllers made pods for {owners} in 60 s")
    yield cluster
    cluster.close()


Waits = Callable[[Callable[[], bool]], None]


def refused_to(kubeconfig: Path) -> set[str]:
    """Kinds of a snapshot that a user may not list."""
    cluster = KubernetesCluster(Connection.from_kubeconfig(kubeconfig))
    found = set()
    for kind in kinds_taken():
        try:
            cluster.list(kind)
        except Forbidden:
            found.add(kind)
    cluster.close()
    return found


@pytest.fixture
def looker(plane: ControlPlane, busy: KubernetesCluster, eventually: Waits) -> Path:
    """The kubeconfig of a user with the rights that are printed, and no other."""
    role = cluster_role()
    busy.apply(role)
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "looker"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role["metadata"]["name"]},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "looker"}],
    }
    busy.apply(binding)
    kubeconfig = plane.kubeconfig_for("looker")
    # The server learns of roles by a watch of its own, some time after it took them.
    eventually(lambda: refused_to(kubeconfig) == set())
    return kubeconfig


def test_it_reads_with_the_rights_that_are_printed(
    looker: Path, busy: KubernetesCluster, secrets: Secrets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int]] = []
    monkeypatch.setattr(AnswerCounts, "count", lambda self, method, code: asked.append((method, code)))
    found = taking.of_cluster(looker)
    monkeypatch.undo()
    assert {method for method, _ in asked} == {"GET"}
    assert 403 not in {code for _, code in asked}
    assert (found.facts.nodes, found.facts.gpus, found.node_pool) == (1, 8, DEFAULT_NODE_POOL)
    engine = found.facts.settings.engine
    assert (engine.actions, engine.gpu_placement, engine.max_consolidation_victims) == (
        ("allocate", "reclaim"),
        "spread",
        3,
    )
    assert found.facts.scheduler == "kai v0.16.8"
    assert any(one.startswith("plugin dynamicresources is not listed") for one in found.notices)
    path = tmp_path / "live.snap"
    snapshot.write_snapshot(path, found)
    body = body_of(path)
    planted = secrets.planted.items()
    assert [place for text, place in planted if text.encode() in body or base64.b64encode(text.encode()) in body] == []
    assert b"managedFields" not in body
    assert "Secret" not in json.loads(body)["objects"]


def test_its_workloads_are_left_as_they_are(looker: Path, busy: KubernetesCluster) -> None:
    """They were made by Kubernetes' own controllers, which name templates otherwise and hold pods by finalizers."""
    with lab_of(taking.of_cluster(looker)) as lab:
        there = {one["metadata"]["uid"]: one["metadata"]["name"] for one in busy.list("Pod")}
        before = {one["metadata"]["uid"]: one["metadata"]["name"] for one in lab.get("pods")}
        assert before == there
        lab.settle()
        assert {one["metadata"]["uid"]: one["metadata"]["name"] for one in lab.get("pods")} == before
        assert sum(row.phase == "Running" for row in lab.picture().rows) > 0
        lab.delete("Job", lab.get("jobs")[0]["metadata"]["name"])
        lab.settle()
        assert {row.owner.partition("/")[0] for row in lab.picture().rows} == {"ReplicaSet", "StatefulSet"}


def test_a_right_that_is_missing_is_named(
    plane: ControlPlane, looker: Path, busy: KubernetesCluster, eventually: Waits
) -> None:
    role = cluster_role()
    for rule in role["rules"]:
        rule["resources"] = [one for one in rule["resources"] if one not in ("queues", "persistentvolumeclaims")]
    busy.apply(role)
    eventually(lambda: refused_to(looker) == {"Queue", "PersistentVolumeClaim"})
    with pytest.raises(
        InputError, match=r"persistentvolumeclaims: .*queues\.scheduling\.run\.ai: .*--rights"
    ) as refused:
        taking.of_cluster(looker)
    assert "looker" in str(refused.value)
    with pytest.raises(InputError, match=r"list that are missing: queues\.scheduling\.run\.ai"):
        taking.of_cluster(looker, partial=True)
    role["rules"].append({"apiGroups": ["scheduling.run.ai"], "resources": ["queues"], "verbs": ["get", "list"]})
    busy.apply(role)
    eventually(lambda: refused_to(looker) == {"PersistentVolumeClaim"})
    found = taking.of_cluster(looker, partial=True)
    assert list(found.left_out) == ["persistentvolumeclaims"]


def test_a_user_without_any_right_is_told_all(plane: ControlPlane, busy: KubernetesCluster) -> None:
    with pytest.raises(InputError) as refused:
        taking.of_cluster(plane.kubeconfig_for("nobody"))
    assert all(name in str(refused.value) for name in ("nodes: ", "pods: ", "queues.scheduling.run.ai: "))
    assert "Secret" not in kinds_taken()
