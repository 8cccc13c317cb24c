"""Small manifests for situations: fleets, queues, pods and what makes pods."""

from __future__ import annotations

from typing import Any

import yaml

from kailab.fleet.fleet import Fleet
from kailab.fleet.reading import read_fleet
from kailab.model.objects import Object


def fleet(*pools: Object, topologies: list[Object] | None = None) -> Fleet:
    """Pools with 4 nodes of 4 GPUs where they say nothing else."""
    usual: Object = {"count": 4, "gpus": 4, "gpuModel": "A100", "cpu": 32, "memory": "128Gi", "taints": []}
    given = [{"name": f"p{place}", **usual, **pool} for place, pool in enumerate(pools or ({},))]
    content: Object = {"apiVersion": "kailab.dev/v1", "kind": "Fleet", "name": "small", "pools": given}
    return read_fleet(yaml.safe_dump(content | ({"topologies": topologies} if topologies else {})))


def queue(
    name: str, parent: str = "", *, quota: float = 16, limit: float = -1, weight: float = 1, **spec: Any
) -> Object:
    free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    gpu = {"quota": quota, "limit": limit, "overQuotaWeight": weight}
    own: Object = {"resources": {"gpu": gpu, "cpu": free, "memory": free}, **spec}
    if parent:
        own["parentQueue"] = parent
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": own}


def podspec(gpus: int = 1, requests: Object | None = None, resource: str = "", **spec: Any) -> Object:
    resources: Object = {"limits": {"nvidia.com/gpu": gpus}} if gpus else {}
    if resource:
        resources["limits"] = {resource: 1}
    if requests:
        resources["requests"] = requests
    container = {"name": "main", "image": "pause", "resources": resources}
    return {"schedulerName": "kai-scheduler", "containers": [container], **spec}


def metadata(name: str, queue: str = "", labels: Object | None = None, annotations: Object | None = None) -> Object:
    marks = {**({"kai.scheduler/queue": queue} if queue else {}), **(labels or {})}
    return {
        "name": name,
        **({"labels": marks} if marks else {}),
        **({"annotations": annotations} if annotations else {}),
    }


def pod(name: str, queue: str = "", gpus: int = 1, *, labels: Object | None = None, annotations: Object | None = None, **spec: Any) -> Object:  # fmt: skip
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata(name, queue, labels, annotations), "spec": podspec(gpus, **spec),
    }  # fmt: skip


def job(name: str, queue: str = "", pods: int = 1, gpus: int = 1, *, gang: bool = False, annotations: Object | None = None, run: float = 0, suspend: bool = False, **spec: Any) -> Object:  # fmt: skip
    notes = {**({"kai.scheduler/batch-min-member": str(pods)} if gang else {}), **(annotations or {})}
    template: Object = {"spec": podspec(gpus, restartPolicy="Never", **spec)}
    if run:
        template["metadata"] = {"annotations": {"kailab.dev/run-seconds": str(run)}}
    own: Object = {"parallelism": pods, "completions": pods, "template": template}
    if suspend:
        own["suspend"] = True
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata(name, queue, annotations=notes), "spec": own}


def deployment(name: str, queue: str = "", replicas: int = 1, gpus: int = 1, *, priority: str = "train", labels: Object | None = None, annotations: Object | None = None, **spec: Any) -> Object:  # fmt: skip
    marks = {"app": name, **({"priorityClassName": priority} if priority else {}), **(labels or {})}
    inner = metadata(name, queue, marks, annotations)
    del inner["name"]
    return {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": inner, "spec": podspec(gpus, **spec)},
        },
    }  # fmt: skip


def podgroup(name: str, queue: str, least: int, **spec: Any) -> Object:
    own = {"queue": queue, "minMember": least, "priorityClassName": "train", **spec}
    return {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": name}, "spec": own}
