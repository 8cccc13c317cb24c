"""Pods of the documents' tests, where their nodes are looked at."""

from __future__ import annotations

from typing import Any

from kailab.lab import Lab

HOUR = 3600


def pod(name: str, queue: str, gpus: int = 1, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """``gpus``: whole ones; 0 where annotations ask for a part of one."""
    container = {"name": "c", "image": "x", **({"resources": {"limits": {"nvidia.com/gpu": gpus}}} if gpus else {})}
    labels = {"kai.scheduler/queue": queue, "app": name.rstrip("-0123456789")}
    kept = {"schedulerName": "kai-scheduler", "terminationGracePeriodSeconds": 0, "containers": [container], **spec}
    metadata = {"name": name, "labels": labels, **({"annotations": annotations} if annotations else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": kept}


def classes(**values: int) -> list[dict[str, Any]]:
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return [{**head, "metadata": {"name": name}, "value": value} for name, value in values.items()]


def nodes_of(lab: Lab, prefix: str) -> dict[str, str]:
    """Of the pods whose names begin so; "" for one that has none."""
    return {
        one["metadata"]["name"]: one["spec"].get("nodeName", "")
        for one in lab.get("Pod")
        if one["metadata"]["name"].startswith(prefix)
    }
