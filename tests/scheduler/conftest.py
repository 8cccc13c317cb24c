"""Builders of objects as users write them, and a small lab: embedded cluster, pod grouper, scheduler."""

from __future__ import annotations

from typing import Any

import pytest

from kailab.cluster.embedded import EmbeddedCluster
from kailab.grouping import PodGrouper
from kailab.scheduler.baseline import Baseline
from kailab.scheduler.loop import Scheduler
from kailab.scheduler.observers import Observer
from kailab.scheduler.status.queue_status import QueueStatus

Obj = dict[str, Any]
GI = 1 << 30


def node(name: str, gpus: int = 8, labels: dict[str, str] | None = None, **more: Any) -> Obj:
    allocatable = {"cpu": "96", "memory": "1000Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    allocatable.update(more.pop("allocatable", {}))
    obj: Obj = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": more.pop("spec", {}),
        "status": {
            "allocatable": allocatable,
            "conditions": more.pop("conditions", [{"type": "Ready", "status": "True"}]),
        },
    }
    assert not more
    return obj


def pod(
    name: str,
    gpus: int = 1,
    queue: str = "",
    *,
    namespace: str = "default",
    scheduler: str = "kai-scheduler",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    cpu: str = "100m",
    **spec: Any,
) -> Obj:
    resources: Obj = {"requests": {"cpu": cpu}}
    if gpus:
        resources["limits"] = {"nvidia.com/gpu": gpus}
    labels = dict(labels or {})
    if queue:
        labels["kai.scheduler/queue"] = queue
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels, "annotations": dict(annotations or {})},
        "spec": {
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "pause", "resources": resources}],
            **spec,
        },
    }


def share(quota: float = -1, limit: float = -1, weight: float = 1) -> Obj:
    return {"quota": quota, "limit": limit, "overQuotaWeight": weight}


def queue(name: str, parent: str = "", gpu: Obj | None = None, **spec: Any) -> Obj:
    resources = {"gpu": gpu or share(), "cpu": share(), "memory": share()}
    body: Obj = {"resources": resources, **spec}
    if parent:
        body["parentQueue"] = parent
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": body}


def team(gpu: Obj | None = None) -> list[Obj]:
    """Queue ``team`` under ``org``, with a quota of 4 GPUs and no limit."""
    return [queue("org"), queue("team", "org", gpu or share(4, -1, 1))]


def podgroup(name: str, queue: str, minimum: int = 1, *, annotations: dict[str, str] | None = None, **spec: Any) -> Obj:
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default", "annotations": dict(annotations or {})},
        "spec": {"queue": queue, "minMember": minimum, "priorityClassName": "train", **spec},
    }


def member(name: str, group: str, gpus: int = 1, **more: Any) -> Obj:
    """A pod of a PodGroup that a user made, which the pod grouper does not change."""
    annotations = {"pod-group-name": group, "kai.scheduler/skip-podgrouper": "true", **more.pop("annotations", {})}
    return pod(name, gpus, annotations=annotations, **more)


class Keeping(Observer):
    """Keeps the records of all cycles in a list."""

    def __init__(self, records: list[Any]) -> None:
        self.on_cycle = records.append  # type: ignore[method-assign]


class SmallLab:
    """Real controllers over an embedded cluster, stepped until nothing changes."""

    def __init__(self, nodes: int = 2, gpus: int = 8) -> None:
        self.cluster = EmbeddedCluster()
        for index in range(nodes):
            self.cluster.create(node(f"node-{index}", gpus))
        self.records: list[Any] = []
        self.grouper = PodGrouper(self.cluster)
        self.status = QueueStatus(self.cluster)
        self.scheduler = Scheduler(self.cluster, observer=Keeping(self.records))

    def restart(self, **config: Any) -> None:
        """New controllers over the same cluster."""
        self.grouper = PodGrouper(self.cluster)
        self.status = QueueStatus(self.cluster)
        self.scheduler = Scheduler(self.cluster, observer=Keeping(self.records), **config)

    def apply(self, *objects: Obj) -> None:
        for obj in objects:
            self.cluster.apply(obj)

    def fill(self, count: int, name: str = "p", queue: str = "team", **more: Any) -> None:
        """Pods of one GPU, numbered."""
        for index in range(count):
            self.apply(pod(f"{name}{index:02}", 1, queue, **more))

    def settle(self, rounds: int = 40) -> None:
        for _ in range(rounds):
            wrote = self.grouper.step()
            wrote |= self.scheduler.step()
            wrote |= self.status.step()
            self.cluster.advance(1)
            if not wrote and self.cluster.next_prompt() is None:
                return
        raise AssertionError("does not settle")

    def node_of(self, name: str) -> str:
        return self.cluster.get("Pod", name, "default")["spec"].get("nodeName", "")

    def placed(self) -> dict[str, str]:
        return {obj["metadata"]["name"]: obj["spec"].get("nodeName", "") for obj in self.cluster.list("Pod")}

    def running(self) -> list[str]:
        return [p["metadata"]["name"] for p in self.cluster.list("Pod") if p["status"].get("phase") == "Running"]

    def condition(self, name: str, type: str = "PodScheduled") -> Obj:
        conditions = self.cluster.get("Pod", name, "default")["status"].get("conditions") or []
        return next((c for c in conditions if c["type"] == type), {})

    def group_of(self, name: str) -> Obj:
        group = self.cluster.get("Pod", name, "default")["metadata"]["annotations"]["pod-group-name"]
        return self.cluster.get("PodGroup", group, "default")

    def group_condition(self, name: str) -> Obj:
        conditions = (self.group_of(name).get("status") or {}).get("schedulingConditions") or [{}]
        return conditions[-1]

    def events(self, name: str, kind: str = "Pod") -> list[tuple[str, str]]:
        return [
            (event["reason"], event["message"])
            for event in self.cluster.list("Event")
            if event["involvedObject"]["name"] == name and event["involvedObject"]["kind"] == kind
        ]


@pytest.fixture
def lab() -> SmallLab:
    return SmallLab()


@pytest.fixture
def build() -> Any:
    """The builders, by name."""
    from types import SimpleNamespace

    return SimpleNamespace(
        node=node, pod=pod, share=share, queue=queue, team=team, podgroup=podgroup, member=member, lab=SmallLab,
        baseline=Baseline,
    )  # fmt: skip
