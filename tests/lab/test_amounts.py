"""What is shown of GPUs is what the engine counts: rows, tables, expectations and explanations, for pods of any kind."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kailab.cli.object_tables import TableContext, column_cell, columns_of
from kailab.cluster.embedded import EmbeddedCluster
from kailab.engine.config import EngineConfig
from kailab.engine.session import Session
from kailab.engine.snapshot.records import ALLOCATED, ON_NODE, Status
from kailab.errors import Invalid
from kailab.evidence.cluster_state import read_cluster_state
from kailab.evidence.decision_log import DecisionLog, NameIndex
from kailab.explain.questions import ask
from kailab.lab import Lab, expect
from kailab.lab.picture import Picture
from kailab.model.labels import RESERVATION_NAMESPACE
from kailab.scheduler.mirror import Mirror
from kailab.scheduler.scheduling_state import SchedulingStateReader

Obj = dict[str, Any]
GPU = "nvidia.com/gpu"
NODES = {
    "a100-80": {"nvidia.com/gpu.memory": "81559"},
    "a100-40": {"nvidia.com/gpu.memory": "40960"},
    "untold": {},
    "mig": {"nvidia.com/mig.strategy": "mixed", "nvidia.com/gpu.memory": "40960"},
    "claimed": {},
}
FREE = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
QUEUE = {
    "apiVersion": "scheduling.run.ai/v2",
    "kind": "Queue",
    "metadata": {"name": "team"},
    "spec": {"resources": {"gpu": FREE, "cpu": FREE, "memory": FREE}},
}


def node(name: str, labels: dict[str, str]) -> Obj:
    if name == "mig":
        gpus = {"nvidia.com/mig-1g.5gb": "16", "nvidia.com/mig-3g.40gb": "8"}
    else:
        gpus = {GPU: "0" if name == "claimed" else "16"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "spec": {},
        "status": {
            "allocatable": {"cpu": "500", "memory": "4000Gi", "pods": "400", **gpus},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def podgroup(name: str) -> Obj:
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"queue": "team", "minMember": 1, "priorityClassName": "train"},
    }


CLUSTERS = int(os.environ.get("KAILAB_AMOUNT_CLUSTERS", "80"))
"""Random clusters of 5 to 30 pods. With KAILAB_AMOUNT_CLUSTERS=1200 they are more than 10,000 pods."""


@st.composite
def containers(draw: st.DrawFn, resource: str, name: str, most: int) -> Obj:
    amount = draw(st.integers(0, most))
    where = draw(st.sampled_from([("limits",), ("requests", "limits")]))
    resources: dict[str, dict[str, str]] = {"requests": {"cpu": "10m"}}
    for part in where if amount else ():
        resources.setdefault(part, {})[resource] = str(amount)
    return {"name": name, "image": "pause", "resources": resources}


DRIVER = "gpu.nvidia.com"


def claims() -> list[Obj]:
    """A class of devices, a claim that pods can share, a template, and devices on one node."""
    wanted = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": DRIVER, "count": 2}}]}}
    common = {"name": "two", "namespace": "default", "labels": {"kai.scheduler/queue": "team"}}
    pool = {"name": "claimed", "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"gpu-{number}"} for number in range(16)]
    spec = {"driver": DRIVER, "nodeName": "claimed", "pool": pool, "devices": devices}
    told: dict[str, tuple[Obj, Obj]] = {
        "DeviceClass": ({"name": DRIVER}, {}),
        "ResourceClaim": (common, wanted),
        "ResourceClaimTemplate": (common, {"spec": wanted}),
        "ResourceSlice": ({"name": "claimed"}, spec),
    }
    return [
        {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}
        for kind, (metadata, spec) in told.items()
    ]


@st.composite
def pods(draw: st.DrawFn) -> Obj:
    """A pod's spec and annotations: whole devices, MIG, a share by fraction or memory, of one device or several, through
    claims, or none."""
    kind = draw(st.sampled_from(["whole", "whole", "mig", "fraction", "memory", "claim", "cpu"]))
    annotations: dict[str, str] = {}
    resource, most = GPU, 4 if kind == "whole" else 0
    if kind == "mig":
        resource, most = draw(st.sampled_from(["nvidia.com/mig-1g.5gb", "nvidia.com/mig-3g.40gb"])), 2
    elif kind == "fraction":
        annotations["gpu-fraction"] = draw(st.sampled_from(["0.3336", "0.5", "0.1", "0.999", "0.0004"]))
    elif kind == "memory":
        annotations["gpu-memory"] = draw(st.sampled_from(["20000", "1", "333", "40000"]))
    if kind in ("fraction", "memory") and draw(st.booleans()):
        annotations["gpu-fraction-num-devices"] = draw(st.sampled_from(["1", "2", "3"]))
    spec: Obj = {
        "schedulerName": "kai-scheduler",
        "terminationGracePeriodSeconds": 3600,
        "containers": [draw(containers(resource, f"c{i}", most)) for i in range(draw(st.integers(1, 2)))],
    }
    init = [draw(containers(resource, f"i{i}", most)) for i in range(draw(st.integers(0, 2)))]
    for container in init:
        if draw(st.booleans()):
            container["restartPolicy"] = "Always"
    if init:
        spec["initContainers"] = init
    if draw(st.booleans()):
        spec |= {"runtimeClassName": "kata", "overhead": OVERHEAD}
    if kind == "claim":
        named = draw(st.sampled_from(["resourceClaimName", "resourceClaimTemplateName"]))
        spec["resourceClaims"] = [{"name": "devices", named: "two"}]
    return {"annotations": annotations, "spec": spec}


OVERHEAD = {"cpu": "50m", "memory": "10Mi"}
RUNTIME_CLASS: Obj = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "kata"},
    "handler": "kata",
    "overhead": {"podFixed": OVERHEAD},
}

LIVES = ("waiting", "starting", "running", "leaving", "succeeded", "failed", "lost", "leaving when done")
PHASES = {"succeeded": "Succeeded", "failed": "Failed", "lost": "Unknown", "leaving when done": "Succeeded"}


def put(cluster: EmbeddedCluster, number: int, pod: Obj, life: str, place: str) -> bool:
    """False where admission refuses it."""
    metadata = {
        "name": f"p{number}",
        "namespace": "default",
        "annotations": {**pod["annotations"], "pod-group-name": "work"},
        "labels": {"runai-gpu-group": f"g{number}"} if pod["annotations"] and life != "waiting" else {},
        "finalizers": ["example.com/keep"],
    }
    spec = dict(pod["spec"]) if life == "waiting" else {**pod["spec"], "nodeName": place}
    try:
        cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    except Invalid:
        return False
    if life not in ("waiting", "starting"):
        phase = {"status": {"phase": PHASES.get(life, "Running")}}
        cluster.patch("Pod", f"p{number}", "default", phase, "status")
    if life.startswith("leaving"):
        cluster.delete("Pod", f"p{number}", "default")
    return True


@given(st.lists(st.tuples(pods(), st.sampled_from(LIVES), st.sampled_from(sorted(NODES))), min_size=5, max_size=30))
@settings(max_examples=CLUSTERS, deadline=None)
def test_every_row_is_as_the_engine_counts(drawn):
    cluster = EmbeddedCluster()
    for name, labels in NODES.items():
        cluster.create(node(name, labels))
    cluster.create(QUEUE)
    cluster.create(RUNTIME_CLASS)
    cluster.create(podgroup("work"))
    for obj in claims():
        cluster.create(obj)
    for number, (pod, life, place) in enumerate(drawn):
        put(cluster, number, pod, life, place)
    shown = read_cluster_state(cluster)
    rows = {row.name: row for row in shown.pods}
    mirror = Mirror(cluster)
    mirror.update()
    session = Session(mirror.working, EngineConfig(), cluster.now())
    # What stands in for the reservation of a shared GPU is no pod, and has no row.
    tasks = [task for task in mirror.working.tasks.values() if task.record.namespace != RESERVATION_NAMESPACE]
    try:
        for task in tasks:
            row = rows[f"default/{task.record.name}"]
            waits = task.status == Status.PENDING
            counted = session.wants([task], session.table.min_gpu_memory) if waits else session.accepted(task)
            if waits or ON_NODE[task.status]:
                assert row.milli_gpus == counted[2]
                amounts = (
                    session.requested_amounts(task) if waits else session.held_amounts(task, task.node)
                )  # what decisions tell
                assert (amounts.cpu, amounts.memory, amounts.gpu) == counted
        held = {row.name for row in shown.pods if row.holds}
        assert held == {f"default/{t.record.name}" for t in tasks if ON_NODE[t.status]}
        team = session.tree.queues["team"]
        allocated = [t for t in tasks if ALLOCATED[t.status]]
        assert team.allocated[2] == sum(rows[f"default/{t.record.name}"].milli_gpus for t in allocated)
        assert sum(row.gpus for row in shown.nodes) * 1000 == session.table.total()[2]
        sharers = {
            f"default/p{number}"
            for number, (pod, *_) in enumerate(drawn)
            if any("resourceClaimName" in one for one in pod["spec"].get("resourceClaims", ()))
        }
        for row in shown.nodes:
            here = [pod for pod in shown.pods if pod.holds and pod.node == row.name]
            again = max(0, sum(pod.name in sharers for pod in here) - 1)  # their claim's devices count once
            assert row.milli_gpus_used == sum(pod.milli_gpus for pod in here) - again * 2000
    finally:
        session.close()
    looking = SchedulingStateReader(cluster, EngineConfig(), None, ["kai-scheduler"])
    picture = Picture(cluster, DecisionLog(NameIndex(cluster), cluster.now()), looking.scheduling_state)
    assert picture.shares["team"].allocated == team.allocated[2]
    assert picture.shares["team"].requested == team.request[2]


def test_amounts_that_were_told_differently():
    cluster = EmbeddedCluster()
    cluster.create(node("a100-80", {"nvidia.com/gpu.memory": "49152"}))

    def amount(annotations: Obj | None = None, **spec: Any) -> int:
        metadata = {"name": "p", "namespace": "default", "annotations": annotations or {}}
        plain = {"containers": [{"name": "c", "image": "pause"}]}
        cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**plain, **spec}})
        (row,) = read_cluster_state(cluster).pods
        cluster.delete("Pod", "p", "default", 0)
        return row.milli_gpus

    def asks(name: str, resource: str, number: int) -> Obj:
        return {"name": name, "image": "pause", "resources": {"limits": {resource: number}}}

    assert amount(initContainers=[asks("i", GPU, 4)], containers=[asks("c", GPU, 1)]) == 4000
    assert amount(containers=[asks("c", "nvidia.com/mig-3g.40gb", 1)]) == 3000
    assert amount({"gpu-memory": "20000"}) == 407
    assert amount({"gpu-memory": "20000"}, nodeName="a100-80") == 410
    assert amount({"gpu-fraction": "0.3336"}) == 334


def test_a_reserved_gpu_counts_once():
    """The pod that reserves a shared GPU counts through those that share it, and by itself once they are gone."""
    cluster = EmbeddedCluster()
    cluster.create(node("a100-80", {}))
    group = {"runai-gpu-group": "g"}
    whole = {"resources": {"limits": {GPU: 1}}}
    for name, space, told, asked in (
        ("half", "default", {"gpu-fraction": "0.5"}, {}),
        ("reservation", "kai-resource-reservation", {}, whole),
    ):
        metadata = {"name": name, "namespace": space, "labels": group, "annotations": told}
        spec = {"nodeName": "a100-80", "containers": [{"name": "c", "image": "pause", **asked}]}
        cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    assert read_cluster_state(cluster).nodes[0].milli_gpus_used == 500
    cluster.patch("Pod", "half", "default", {"status": {"phase": "Succeeded"}}, "status")
    assert read_cluster_state(cluster).nodes[0].milli_gpus_used == 1000
    mirror = Mirror(cluster)
    mirror.update()
    assert int(mirror.working.table.idle[2, 0]) == 15_000


@given(st.lists(st.tuples(pods(), st.booleans()), min_size=1, max_size=12))
@settings(max_examples=12, deadline=None)
def test_every_face_shows_the_same(drawn):
    with Lab.open() as lab:
        for name, labels in NODES.items():
            lab.cluster.create(node(name, labels))
        lab.cluster.create(QUEUE)
        lab.cluster.create(RUNTIME_CLASS)
        for number, (pod, _) in enumerate(drawn):
            metadata = {
                "name": f"p{number}",
                "namespace": "default",
                "labels": {"kai.scheduler/queue": "team"},
                "annotations": pod["annotations"],
            }
            try:
                lab.cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod["spec"]})
            except Invalid:
                continue
        lab.settle()
        for number, (_, leaves) in enumerate(drawn):
            if leaves and any(row.name == f"default/p{number}" for row in lab.picture().rows):
                lab.cluster.delete("Pod", f"p{number}", "default")
        picture = lab.picture()
        view = TableContext(lab)
        column = next(column for column in columns_of("Pod", True) if column.header == "GPUS")
        for pod, row in zip(picture.pods, picture.rows, strict=True):
            shown = float(column_cell(column, view, pod))
            assert shown * 1000 == pytest.approx(row.milli_gpus)
            name = pod["metadata"]["name"]
            assert ask(lab, "Pod", name, tried=False, picture=picture).data()["milli_gpus"] == row.milli_gpus
        allocated = sum(row.milli_gpus for row in picture.rows if row.holds and row.phase == "Running")
        lab._activity.unsettled = False  # as it stands, pods that are leaving included
        expect(lab.queue("team")).holding(allocated / 1000)
        assert ask(lab, "Queue", "team", tried=False).data()["allocated"] == allocated
        columns = {column.header: column for column in columns_of("Node", False)}
        for there in picture.nodes.values():
            name = there["metadata"]["name"]
            used = picture.accounts.used[name]
            expect(lab.node(name)).holding(used / 1000)
            assert column_cell(columns["GPUS"], view, there).startswith(f"{used / 1000:g}/")
