"""What is in a cluster from the start: the namespaces and priority classes of Kubernetes, and those of KAI."""

from __future__ import annotations

from kailab.cluster.base import KAI_NAMESPACES, KAI_PRIORITY_CLASSES, namespace, priority_class
from kailab.cluster.protocol import Object
from kailab.model.validation.scheduling import SYSTEM_CLASSES

NAMESPACES = ("default", "kube-system", *KAI_NAMESPACES)

PRIORITY_CLASSES: dict[str, int] = {
    **SYSTEM_CLASSES,
    **KAI_PRIORITY_CLASSES,
}


def base_objects() -> list[Object]:
    """Objects to create in a new cluster, in order."""
    classes = [priority_class(name, value) for name, value in PRIORITY_CLASSES.items()]
    # Always in this order: uids and versions are counted from here.
    return [*(namespace(name) for name in NAMESPACES), *classes]
