"""Fleets to fill and work to fill them with.

``filling``: three queues. Two own the fleet's quota by gangs and single pods; the third owns nothing and floods whatever is
free, so that a full fleet means that all which fits runs, and gangs that come late have to take their place back from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kailab.fleet.fleet import Fleet
from kailab.fleet.reading import load_fleet, read_fleet
from tests.faults.api import Obj


def _alike(name: str, pool: str, count: int, gpus: int, model: str) -> Fleet:
    """A fleet of one pool."""
    return read_fleet(
        f"apiVersion: kailab.dev/v1\nkind: Fleet\nname: {name}\npools:\n"
        f"  - {{name: {pool}, count: {count}, gpus: {gpus}, gpuModel: {model}, gpuMemory: 80Gi, cpu: 96, memory: 1000Gi}}\n"
    )


def lesson() -> Fleet:
    """32 GPUs on 5 nodes."""
    return load_fleet("lesson")


def twenty() -> Fleet:
    """160 GPUs on 20 nodes."""
    return _alike("twenty", "gpu", 20, 8, "H100")


def claimed() -> Fleet:
    """8 GPUs on 2 nodes, to be offered for claims."""
    return _alike("claimed", "claimed", 2, 4, "A100")


def queue(name: str, quota: int, parent: str = "org") -> Obj:
    unlimited = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    resources = {"gpu": {**unlimited, "quota": quota}, "cpu": unlimited, "memory": unlimited}
    spec = {"resources": resources, **({"parentQueue": parent} if parent else {})}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def queues(total: int, *names: str) -> list[Obj]:
    """``names`` share a quota of ``total`` equally; ``spare`` has none."""
    return [
        queue("org", total, ""),
        *(queue(name, total // len(names)) for name in names),
        queue("spare", 0),
    ]


def _template(app: str, queue: str, gpus: int, **spec: Any) -> Obj:
    asked = {"cpu": "100m", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    return {
        "metadata": {"labels": {"app": app, "kai.scheduler/queue": queue}},
        "spec": {
            "schedulerName": "kai-scheduler",
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}],
            "containers": [
                {"name": "work", "image": "busybox:1.36", "resources": {"limits": asked, "requests": asked}}
            ],
            **spec,
        },
    }


def pod(name: str, queue: str, gpus: int = 1, *, app: str = "", annotations: Obj | None = None) -> Obj:
    made = _template(app or name, queue, gpus)
    metadata = {**made["metadata"], "name": name, "namespace": "default", "annotations": annotations or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": made["spec"]}


def gang(name: str, queue: str, size: int, gpus: int = 1, *, grace: str = "60s") -> list[Obj]:
    """Pods that start together or not at all, and come again at once when they are lost: a Job would wait for minutes."""
    template = _template(name, queue, gpus)
    template["metadata"]["annotations"] = {"pod-group-name": name, "kai.scheduler/skip-podgrouper": "true"}
    labels = {"app": name, "kai.scheduler/queue": queue}
    return [
        {
            "apiVersion": "scheduling.run.ai/v2alpha2",
            "kind": "PodGroup",
            "metadata": {
                "name": name,
                "namespace": "default",
                "labels": labels,
                "annotations": {"kai.scheduler/staleness-grace-period": grace},
            },
            "spec": {"minMember": size, "queue": queue, "priorityClassName": "train"},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": name, "namespace": "default", "labels": labels},
            "spec": {"replicas": size, "selector": {"matchLabels": {"app": name}}, "template": template},
        },
    ]


def job(name: str, queue: str, size: int) -> Obj:
    """A gang as a Job: kailab makes its PodGroup."""
    labels = {"app": name, "kai.scheduler/queue": queue}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": labels,
            "annotations": {"kai.scheduler/batch-min-member": str(size)},
        },
        "spec": {
            "parallelism": size,
            "completions": size,
            "backoffLimit": 1000,
            "template": _template(name, queue, 1, restartPolicy="Never"),
        },
    }


def singles(name: str, queue: str, replicas: int, gpus: int = 1, *, annotations: Obj | None = None) -> Obj:
    """Pods that each run by themselves, and come again when they are evicted: to pack the fleet a scheduler may move any."""
    template = _template(name, queue, gpus, priorityClassName="train")
    template["metadata"]["annotations"] = annotations or {}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name, "kai.scheduler/queue": queue}},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template},
    }


def flood(name: str, replicas: int) -> Obj:
    """Single pods that may run while nobody else wants their place."""
    return singles(name, "spare", replicas)


@dataclass
class Work:
    """Objects in the order in which they come. ``owed``: app -> pods that run in the end; ``full``: GPUs in use then."""

    objects: list[Obj]
    owed: dict[str, int] = field(default_factory=dict)
    full: int = 0


def filling() -> Work:
    """For the lesson fleet: 26 GPUs of work that is owed its place, two of them shared, and a flood for the other 6."""
    objects = [
        *queues(32, "team-a", "team-b"),
        flood("flood", 40),
        *gang("eight", "team-a", 8),
        *gang("pairs", "team-a", 4, 2),
        *gang("six", "team-b", 6),
        singles("one", "team-b", 1),
        singles("other", "team-b", 1),
        singles("half", "team-b", 4, 0, annotations={"gpu-fraction": "0.5"}),
    ]
    # Whoever shares a GPU has it held by a pod of the scheduler's, which counts as the one that uses it.
    owed = {"eight": 8, "pairs": 4, "six": 6, "one": 1, "other": 1, "half": 4, "flood": 6}
    return Work(objects, owed, 32)
