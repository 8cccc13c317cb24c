"""The objects that every cluster has from the start: namespaces and priority classes of Kubernetes and of KAI.

Source: KAI's Helm chart.
"""

from __future__ import annotations

from kailab.cluster.protocol import Object
from kailab.model.kinds import KINDS
from kailab.model.labels import DEFAULT_PARENT_QUEUE, DEFAULT_QUEUE
from kailab.model.validation.scheduling import SYSTEM_CLASSES

KAI_NAMESPACES = ("kai-scheduler", "kai-resource-reservation")
KAI_PRIORITY_CLASSES: dict[str, int] = {"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}


def namespace_object(name: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
    }


def priority_class(name: str, value: int) -> Object:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}


def runtime_class(name: str, overhead: Object | None = None) -> Object:
    """A RuntimeClass. ``overhead``: the amounts that it adds to the requests of its pods."""
    added = {"overhead": {"podFixed": overhead}} if overhead else {}
    # A handler is a label, which has no dots.
    handler = name.replace(".", "-")
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": name},
        "handler": handler,
        **added,
    }


def default_queues() -> list[Object]:
    """The two queues that KAI's chart makes: nothing is guaranteed, everything may be borrowed."""
    amounts = {"quota": 0, "limit": -1, "overQuotaWeight": 1}
    resources = {name: dict(amounts) for name in ("cpu", "gpu", "memory")}
    parents: tuple[tuple[str, Object], ...] = (
        (DEFAULT_PARENT_QUEUE, {}),
        (DEFAULT_QUEUE, {"parentQueue": DEFAULT_PARENT_QUEUE}),
    )
    return [
        {
            "apiVersion": KINDS["Queue"].api_version,
            "kind": "Queue",
            "metadata": {"name": name},
            "spec": {**parent, "resources": resources},
        }
        for name, parent in parents
    ]


NAMESPACES = ("default", "kube-system", *KAI_NAMESPACES)

PRIORITY_CLASSES: dict[str, int] = {
    **SYSTEM_CLASSES,
    **KAI_PRIORITY_CLASSES,
}


def base_objects() -> list[Object]:
    """Objects to create in a new cluster, in order."""
    classes = [priority_class(name, value) for name, value in PRIORITY_CLASSES.items()]
    # The order is fixed: uids and resource versions count from here.
    return [*(namespace_object(name) for name in NAMESPACES), *classes]
