"""Fleets of several kinds of nodes, and work that is particular about its nodes, in a few words each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import yaml

from kailab.explain.questions import ask
from kailab.fleet.reading import read_fleet
from kailab.lab import Lab
from tests.explain.building import queue
from tests.explain.situations import says

MODEL = "nvidia.com/gpu.product"
Objects = Sequence[dict[str, Any]]


def pool(name: str, count: int = 1, gpus: int = 8, **fields: Any) -> dict[str, Any]:
    """Nodes ``<name>-0``, ``<name>-1`` ...; without taints unless ``fields`` say otherwise."""
    return {"name": name, "count": count, "gpus": gpus, "cpu": 64, "memory": "256Gi", "taints": [], **fields}


def racks(count: int, each: int = 2, gpus: int = 8) -> dict[str, Any]:
    """``rack-0``, ``rack-1`` ... of ``each`` nodes."""
    return pool("n", count * each, gpus, layout=[{"label": "lab/rack", "nodes": each, "start": 0}])


FLOOR = {
    "apiVersion": "kai.scheduler/v1alpha1",
    "kind": "Topology",
    "metadata": {"name": "floor"},
    "spec": {"levels": [{"nodeLabel": "lab/rack"}, {"nodeLabel": "kubernetes.io/hostname"}]},
}


@contextmanager
def opened(*pools: Mapping[str, Any], config: Any = None) -> Iterator[Lab]:
    """With a queue ``team`` that owns all there is, and a topology ``floor`` of racks and hosts."""
    content = {
        "apiVersion": "kailab.dev/v1", "kind": "Fleet", "name": "small", "pools": list(pools),
    }  # fmt: skip
    with Lab.open(read_fleet(yaml.safe_dump(content)), config=config) as lab:
        put(lab, queue("team", quota=-1), FLOOR)
        yield lab


def put(lab: Lab, *objects: dict[str, Any]) -> None:
    lab.apply(list(objects))
    lab.settle()


def change_node(lab: Lab, name: str, patch: dict[str, Any]) -> None:
    """A merge patch; of a status as whoever reports it writes it."""
    if "status" in patch:
        lab.cluster.patch("Node", name, None, patch, "status")
    else:
        lab.patch("Node", name, patch)


def template(
    gpus: float = 1, cpu: str = "", memory: str = "", mig: str = "", annotations: Mapping[str, str] | None = None,
    queue: str = "team", priority: str = "train", labels: Mapping[str, str] | None = None, **spec: Any,
) -> dict[str, Any]:  # fmt: skip
    """A pod's metadata and spec. ``gpus``: below 1 a fraction; ``spec``: more of the spec."""
    notes = dict(annotations or {})
    limits: dict[str, Any] = {}
    if mig:
        limits[f"nvidia.com/mig-{mig}"] = 1
    elif 0 < gpus < 1:
        notes["gpu-fraction"] = str(gpus)
    elif gpus and "gpu-memory" not in notes:
        limits["nvidia.com/gpu"] = int(gpus)
    requests = {name: value for name, value in (("cpu", cpu), ("memory", memory)) if value}
    container = {"name": "work", "image": "busybox", "resources": {"limits": limits, "requests": requests}}
    containers = spec.pop("containers", [container])
    return {
        "metadata": {
            "labels": {"kai.scheduler/queue": queue, "priorityClassName": priority, **(labels or {})},
            "annotations": notes,
        },
        "spec": {"schedulerName": "kai-scheduler", "containers": containers, **spec},
    }


def pod(name: str, gpus: float = 1, **fields: Any) -> dict[str, Any]:
    made = template(gpus, **fields)
    return {"apiVersion": "v1", "kind": "Pod", **made, "metadata": {**made["metadata"], "name": name}}


def job(
    name: str, size: int, gpus: float = 1, least: int | None = None, level: str = "", **fields: Any
) -> dict[str, Any]:
    """A gang, of which ``least`` (all) start together; ``level``: in one domain of topology ``floor``."""
    notes = {"kai.scheduler/batch-min-member": str(least or size), **(fields.pop("notes", None) or {})}
    if level:
        notes |= {"kai.scheduler/topology": "floor", "kai.scheduler/topology-required-placement": level}
    made = template(gpus, restartPolicy="Never", **fields)
    own = {"parallelism": size, "completions": size, "template": made}
    labels = {"kai.scheduler/queue": made["metadata"]["labels"]["kai.scheduler/queue"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels, "annotations": notes},
        "spec": own,
    }


def deployment(name: str, size: int, gpus: float = 1, **fields: Any) -> dict[str, Any]:
    made = template(gpus, labels={"app": name, **fields.pop("labels", {})}, **fields)
    spec = {"replicas": size, "selector": {"matchLabels": {"app": name}}, "template": made}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def on(node: str) -> dict[str, str]:
    return {"kubernetes.io/hostname": node}


def apart(key: str = "kubernetes.io/hostname", **labels: str) -> dict[str, Any]:
    """Required anti-affinity against pods with these labels."""
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": key}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def near(**labels: str) -> dict[str, Any]:
    """Required affinity to pods with these labels, on the same node."""
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def told(lab: Lab, kind: str, name: str) -> tuple[str, str, str]:
    """Verdict, code and sentence of the first cause."""
    answer = ask(lab, kind, name, tried=False)
    cause = answer.cause
    return str(answer.verdict), str(cause.code) if cause else "", cause.sentence if cause else ""


def assert_told(lab: Lab, kind: str, name: str, verdict: str, code: str, names: Sequence[str]) -> None:
    """The verdict and the first cause's code; its sentence says all ``names``."""
    judged, found, sentence = told(lab, kind, name)
    assert (found, judged) == (code, verdict), sentence
    assert [one for one in names if not says(sentence, one)] == [], sentence
