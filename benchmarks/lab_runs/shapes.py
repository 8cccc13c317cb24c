"""Objects that benchmarks submit: queues with room for everything but what is measured, one-GPU Jobs and pods, gangs."""

from __future__ import annotations

from typing import Any

from kailab.cluster.protocol import Object
from kailab.model import labels
from kailab.model.kinds import api_version_of

PATIENT = 1_000_000
"""A backoffLimit that no number of evictions uses up: an evicted pod counts as a failure of its Job."""


def queue(name: str, parent: str = "", *, quota: float = -1, limit: float = -1, weight: float = 1) -> Object:
    """GPUs as given, CPU and memory without bound."""
    free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    spec: dict[str, Any] = {
        "resources": {"gpu": {"quota": quota, "limit": limit, "overQuotaWeight": weight}, "cpu": free, "memory": free}
    }
    if parent:
        spec["parentQueue"] = parent
    return {"apiVersion": api_version_of("Queue"), "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def job(
    name: str,
    queue_name: str,
    *,
    gpus: int = 1,
    pods: int = 1,
    annotations: dict[str, str] | None = None,
) -> Object:
    """A batch Job of pods with whole GPUs. With more than one pod it is a gang: all run or none."""
    notes = dict(annotations or {})
    if pods > 1:
        notes[labels.BATCH_MIN_MEMBER] = str(pods)
    metadata: dict[str, Any] = {"name": name, "namespace": "default", "labels": {labels.QUEUE: queue_name}}
    if notes:
        metadata["annotations"] = notes
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "backoffLimit": PATIENT,
            "template": {"metadata": {"labels": _labels(name, queue_name)}, "spec": _pod_spec(gpus)},
        },
    }


def pod(name: str, queue_name: str, *, app: str = "", annotations: dict[str, str] | None = None) -> Object:
    """A pod with one GPU that no Job made. ``app``: its label, the name unless given."""
    metadata: dict[str, Any] = {"name": name, "namespace": "default", "labels": _labels(app or name, queue_name)}
    if annotations:
        metadata["annotations"] = annotations
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": _pod_spec(1)}


def _labels(app: str, queue_name: str) -> dict[str, str]:
    return {labels.QUEUE: queue_name, "app": app}


def _pod_spec(gpus: int) -> dict[str, Any]:
    return {
        "schedulerName": labels.SCHEDULER_NAME,
        "restartPolicy": "Never",
        "tolerations": [{"key": labels.FAKE_NODE_TAINT, "operator": "Exists", "effect": "NoSchedule"}],
        "containers": [
            {
                "name": "main",
                "image": "registry.k8s.io/pause:3.10",
                "resources": {
                    "requests": {"cpu": "1", "memory": "1Gi"},
                    "limits": {labels.GPU_RESOURCE: str(gpus)},
                },
            }
        ],
    }
