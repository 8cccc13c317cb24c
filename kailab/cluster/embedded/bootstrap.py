"""What is in a cluster from the start: namespaces and priority classes, KAI's four among them."""

from __future__ import annotations

from kailab.cluster.protocol import Object

NAMESPACES = ("default", "kube-system", "kai-scheduler", "kai-resource-reservation")

PRIORITY_CLASSES: dict[str, int] = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
    "train": 50,
    "build-preemptible": 75,
    "build": 100,
    "inference": 125,
}


def base_objects() -> list[Object]:
    """Objects to create in a new cluster, in order."""
    namespaces = [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
        }
        for name in NAMESPACES
    ]
    classes = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in PRIORITY_CLASSES.items()
    ]
    return namespaces + classes
