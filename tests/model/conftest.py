from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kailab.model.kinds import kind_key
from kailab.model.objects import Object
from kailab.model.validation import validate


def pod_spec(**more: Any) -> Object:
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": 1}, "requests": {"cpu": "100m"}}}
    return {"containers": [container], "schedulerName": "kai-scheduler", **more}


def pod(name: str = "p", spec: Object | None = None, **meta: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "lab", **meta},
        "spec": spec or pod_spec(),
    }


def deployment(replicas: Any = 2, labels: Object | None = None) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "d"}},
            "template": {"metadata": {"labels": labels or {"app": "d"}}, "spec": pod_spec()},
        },
    }


def job(**spec: Any) -> Object:
    template = {"metadata": {"labels": {"app": "j"}}, "spec": pod_spec(restartPolicy="Never")}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template, **spec}}


def queue(name: str = "team", parent: str = "", **amounts: Any) -> Object:
    """``queue("a", "root", gpu=(quota, limit, weight))``; resources not given are unlimited."""
    resources = {}
    for resource in ("gpu", "cpu", "memory"):
        quota, limit, weight = amounts.get(resource, (-1, -1, 1))
        resources[resource] = {"quota": quota, "limit": limit, "overQuotaWeight": weight}
    spec: Object = {"resources": resources}
    if parent:
        spec["parentQueue"] = parent
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def podgroup(**spec: Any) -> Object:
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "lab"},
        "spec": {"queue": "team", **spec},
    }


def topology(*levels: Object) -> Object:
    return {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "t"},
        "spec": {"levels": list(levels)},
    }


@pytest.fixture
def make() -> dict[str, Callable[..., Object]]:
    """Builders of objects, by kind."""
    return {
        "pod": pod,
        "pod_spec": pod_spec,
        "deployment": deployment,
        "job": job,
        "queue": queue,
        "podgroup": podgroup,
        "topology": topology,
    }


@pytest.fixture
def faults() -> Callable[[Object], dict[str, str]]:
    """What validation finds, by field."""
    return lambda obj: dict(validate(obj, kind_key(obj)))
