"""What KAI expects to find in a cluster: its namespaces and its priority classes. Source: KAI's Helm chart."""

from __future__ import annotations

from kailab.cluster.protocol import Object

KAI_NAMESPACES = ("kai-scheduler", "kai-resource-reservation")
KAI_PRIORITY_CLASSES: dict[str, int] = {"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}


def namespace(name: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
    }


def priority_class(name: str, value: int) -> Object:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
