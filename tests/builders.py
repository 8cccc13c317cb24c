"""Objects as tests apply them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def job(
    name: str,
    queue: str,
    pods: int,
    gpus: int = 1,
    gang: bool = False,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A batch Job of so many pods at a time, each with ``gpus`` whole GPUs. ``gang``: all of them or none."""
    own = {"app": name, "kai.scheduler/queue": queue, **(labels or {})}
    notes = {"kai.scheduler/batch-min-member": str(pods)} if gang else {}
    notes |= annotations or {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": own, "annotations": notes},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "backoffLimit": 1000,
            "template": {
                "metadata": {"labels": own, "annotations": notes},
                "spec": {
                    "schedulerName": "kai-scheduler",
                    "restartPolicy": "Never",
                    "terminationGracePeriodSeconds": 0,
                    "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}],
                    "containers": [{"name": "c", "image": "pause", "resources": {"limits": {"nvidia.com/gpu": gpus}}}],
                },
            },
        },
    }
