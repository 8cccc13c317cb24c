"""Small labs for questions: nodes of one kind, queues, pods and gangs, in a few words each."""

from __future__ import annotations

from typing import Any

from kailab.explain.cause_groups import first_causes, waiting_groups
from kailab.explain.subject import SubjectRef
from kailab.fleet.reading import read_fleet
from kailab.lab import Lab
from kailab.lab.answer import Cause

OPEN = {"quota": -1, "limit": -1, "overQuotaWeight": 1}


def lab(nodes: int = 1, gpus: int = 8, cpu: int = 64, **options: Any) -> Lab:
    return Lab.open(
        read_fleet(
            "{apiVersion: kailab.dev/v1, kind: Fleet, name: small, pools: [{name: n, "
            f"count: {nodes}, gpus: {gpus}, cpu: {cpu}, memory: 256Gi, taints: []}}]}}"
        ),
        **options,
    )


def queue(
    name: str, quota: float = 0, limit: float = -1, weight: float = 1, parent: str = "", **fields: Any
) -> dict[str, Any]:
    """Of GPUs; CPU and memory are open unless ``fields`` say otherwise (``cpu``, ``memory``; other fields are the spec's)."""
    resources = {"gpu": {"quota": quota, "limit": limit, "overQuotaWeight": weight}}
    for resource in ("cpu", "memory"):
        resources[resource] = fields.pop(resource, OPEN)
    spec = {"resources": resources, **({"parentQueue": parent} if parent else {}), **fields}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def pod(name: str, queue: str, gpus: float = 1, priority: str = "train", cpu: str = "", **annotations: str) -> Any:
    """``priority``: a priority class; ``build`` and ``inference`` are non-preemptible."""
    resources: dict[str, Any] = {"limits": {"nvidia.com/gpu": gpus}} if gpus else {}
    if cpu:
        resources["requests"] = {"cpu": cpu}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {"kai.scheduler/queue": queue, "priorityClassName": priority},
            "annotations": {f"kai.scheduler/{key.replace('_', '-')}": value for key, value in annotations.items()},
        },
        "spec": {
            "schedulerName": "kai-scheduler",
            "containers": [{"name": "work", "image": "busybox", "resources": resources}],
        },
    }


def pods(count: int, name: str, queue: str, **fields: Any) -> list[Any]:
    return [pod(f"{name}-{number}", queue, **fields) for number in range(count)]


def gang(name: str, queue: str, size: int, gpus: int = 1, priority: str = "train", least: int | None = None) -> Any:
    """A Job of so many pods, of which ``least`` (all) start together."""
    made = pod(name, queue, gpus, priority)
    spec = made["spec"] | {"restartPolicy": "Never"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": made["metadata"] | {"annotations": {"kai.scheduler/batch-min-member": str(least or size)}},
        "spec": {"parallelism": size, "completions": size, "template": {"spec": spec}},
    }


def settled(lab: Lab, *objects: Any) -> None:
    lab.apply(list(objects))
    lab.settle()


def causes(lab: Lab, kind: str, name: str) -> tuple[Cause, ...]:
    """Of what waits of a subject, the first first."""
    state = SubjectRef.of(lab, kind, name).state(lab)
    return () if state.runs else first_causes(state, waiting_groups(state))
