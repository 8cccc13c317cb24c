"""A folder of `kubectl get -o yaml` and a snapshot of the same cluster give the same answers, embedded and on a real control plane."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from kailab.cluster.kubernetes import Connection
from kailab.cluster.kubernetes.apiclient.transport import Transport
from kailab.evidence.decision_file import SchedulerDecisions
from kailab.lab.lab import Lab
from kailab.lab.venues import open_venue
from kailab.model.kinds import KINDS
from kailab.model.objects import Object
from kailab.model.times import format_time
from kailab.snapshots import opening, taking
from kailab.snapshots.snapshot import ClusterSnapshot
from kailab.snapshots.taking import kinds_taken
from tests.snapshots.test_dump import Objects, answers, as_printed, text_of

Collected = tuple[Objects, ClusterSnapshot]


def queue(name: str, parent: str, quota: int, limit: int = -1) -> Object:
    free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    gpu = {"quota": quota, "limit": limit, "overQuotaWeight": 1}
    spec = {"resources": {"gpu": gpu, "cpu": free, "memory": free}, **({"parentQueue": parent} if parent else {})}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def pod_spec(gpus: int = 1, resources: Object | None = None, **spec: Any) -> Object:
    limits = {"nvidia.com/gpu": gpus} if gpus else {}
    container = {
        "name": "main",
        "image": "train",
        "resources": resources or {"limits": limits},
        **spec.pop("container", {}),
    }
    return {"schedulerName": "kai-scheduler", "containers": [container], **spec}


def labels(name: str, to: str, **more: str) -> Object:
    return {"app": name, **({"kai.scheduler/queue": to} if to else {}), **more}


def job(
    name: str, to: str = "free", pods: int = 1, notes: Object | None = None, more: Object | None = None, **spec: Any
) -> Object:
    template = {"metadata": {"labels": labels(name, to)}, "spec": {"restartPolicy": "Never", **pod_spec(**spec)}}
    if notes:
        template["metadata"]["annotations"] = notes
    meta = {"name": name, "labels": labels(name, to), "annotations": notes or {}}
    body = {"parallelism": pods, "completions": pods, "template": template, **(more or {})}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": body}


def service(name: str, to: str, replicas: int, kind: str = "Deployment", **spec: Any) -> Object:
    template = {"metadata": {"labels": labels(name, to)}, "spec": pod_spec(**spec)}
    body = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    if kind == "StatefulSet":
        body |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": body}


def bare_pod(name: str, to: str, notes: Object | None = None, **spec: Any) -> Object:
    meta = {"name": name, "labels": labels(name, to), "annotations": notes or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"restartPolicy": "Never", **pod_spec(**spec)}}


APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "apart"}}}
        ]
    }
}
PINNED = {"nvidia.com/gpu.product": "NO-SUCH-MODEL-7"}
QUOTING = {
    "args": ["--key=kubernetes.io/hostname", "--queue=capped", "--model=NO-SUCH-MODEL-7"],
    "env": [{"name": "AMOUNT", "value": "scheduling.run.ai/v2"}],
}
SETTINGS = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "b"}}
ODD: list[Object] = [
    SETTINGS,
    queue("org", "", 24), queue("free", "org", 8), queue("capped", "org", 8, 4), queue("owner", "org", 8),
    job("runs", pods=4),
    service("serves", "owner", 2),
    service("keeps", "owner", 2, "StatefulSet"),
    job("larger-than-any-node", gpus=16),
    job("pinned", nodeSelector=PINNED),
    job("over-the-limit", "capped", pods=6),
    job("without-a-queue", ""),
    job("queue-that-is-not-there", "nobody"),
    bare_pod("part", "free", {"gpu-fraction": "0.5"}, gpus=0),
    bare_pod("part-by-memory", "free", {"gpu-memory": "2000"}, gpus=0),
    bare_pod("slice", "free", resources={"limits": {"nvidia.com/mig-1g.10gb": 1}}),
    service("without-its-volume", "free", 1, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "lost"}}]),
    bare_pod("without-its-settings", "free", container={"envFrom": [{"configMapRef": {"name": "lost-settings"}}]}),
    job("suspended", more={"suspend": True}),
    job("gang", pods=40, notes={"kai.scheduler/batch-min-member": "40"}),
    service("beyond-its-quota", "capped", 6),
    job("tolerant", tolerations=[{"key": "lab/reserved", "operator": "Exists"}], nodeSelector={"lab/rack": "rack-3"}),
    service("apart", "free", 30, affinity=APART),
    bare_pod("gated", "free", schedulingGates=[{"name": "example.com/later"}]),
    job("cpu-alone", gpus=0),
    job("much-cpu", gpus=1, resources={"requests": {"cpu": "900"}, "limits": {"nvidia.com/gpu": 1}}),
    job("quotes", container=QUOTING),
    bare_pod("of-another-scheduler", "free", schedulerName="somebody-else"),
]  # fmt: skip


def run(lab: Lab) -> None:
    lab.apply(ODD)
    lab.settle()


@pytest.fixture(scope="module")
def embedded() -> Iterator[Collected]:
    with Lab.open(fleet="mixed") as lab:
        run(lab)
        # As of a cluster: nobody knows what its scheduler decided last, nor that the controllers were those of a lab.
        yield as_printed(lab), structs.replace(taking.of_lab(lab), embedded=False, decided=SchedulerDecisions())


def as_the_server_lists(kubeconfig: Path) -> Objects:
    """All lists of a server as `kubectl get --show-managed-fields` prints them: with the kind in each object."""
    found: Objects = {}
    transport = Transport(Connection.from_kubeconfig(kubeconfig))
    try:
        for key in kinds_taken():
            kind = KINDS[key]
            base = f"/apis/{kind.api_version}" if "/" in kind.api_version else f"/api/{kind.api_version}"
            answer = transport.call(transport.request("GET", f"{base}/{kind.plural}"))
            # The server has no kinds of operators and of addons.
            items = [] if answer.code == 404 else json.loads(answer.body)["items"]
            found[key] = [{"apiVersion": kind.api_version, "kind": kind.kind, **item} for item in items]
    finally:
        transport.close()
    return found


@pytest.fixture(scope="module")
def control_plane(components: object) -> Iterator[Collected]:
    venue = open_venue("controlplane")
    try:
        with Lab.open(fleet="mixed", backend="controlplane", venue=venue) as lab:
            run(lab)
            assert venue.place is not None
            kubeconfig = Path(venue.place.kubeconfig)
            yield as_the_server_lists(kubeconfig), taking.of_cluster(kubeconfig)
    finally:
        venue.close()


@pytest.mark.parametrize("backend", ["embedded", pytest.param("control_plane", marks=pytest.mark.slow)])
def test_a_folder_gives_the_answers_of_a_snapshot(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    printed, taken = request.getfixturevalue(backend)
    for kind, objects in printed.items():
        (tmp_path / f"{kind.lower()}.yaml").write_text(text_of(objects))
    read = opening.read_snapshot_source(tmp_path, at=format_time(taken.taken + 0.999))
    assert {kind: len(several) for kind, several in read.snapshot.objects.items()} == {
        kind: len(several) for kind, several in taken.objects.items()
    }
    same_time = structs.replace(taken, taken=read.snapshot.taken, opened=read.snapshot.taken)
    with opening.lab_of(read.snapshot) as one, opening.lab_of(same_time) as other:
        first, second = answers(one), answers(other)
    assert len(first) > 20
    assert first == second
