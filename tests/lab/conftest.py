"""Objects for labs, in the few shapes that these tests need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Build = Callable[..., dict[str, Any]]


@pytest.fixture
def queue() -> Build:
    def build(name: str, quota: int, limit: int = -1, parent: str = "", weight: int = 1) -> dict[str, Any]:
        free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
        spec: dict[str, Any] = {
            "resources": {
                "gpu": {"quota": quota, "limit": limit, "overQuotaWeight": weight},
                "cpu": free,
                "memory": free,
            }
        }
        if parent:
            spec["parentQueue"] = parent
        return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}

    return build


@pytest.fixture
def job() -> Build:
    def build(name: str, queue: str, pods: int, gpus: int = 1, gang: bool = False, **extra: Any) -> dict[str, Any]:
        labels = {"app": name, "kai.scheduler/queue": queue, **extra.get("labels", {})}
        annotations = {"kai.scheduler/batch-min-member": str(pods)} if gang else {}
        annotations |= extra.get("annotations", {})
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "labels": labels, "annotations": annotations},
            "spec": {
                "parallelism": pods,
                "completions": pods,
                "backoffLimit": 1000,
                "template": {
                    "metadata": {"labels": labels, "annotations": annotations},
                    "spec": {
                        "schedulerName": "kai-scheduler",
                        "restartPolicy": "Never",
                        "terminationGracePeriodSeconds": 0,
                        "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}],
                        "containers": [
                            {"name": "c", "image": "pause", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
                        ],
                    },
                },
            },
        }

    return build
