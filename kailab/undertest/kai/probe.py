"""Test whether KAI schedules, with a pod of minimal requests in queues of its own, and find out how far it got. Readiness of its programs
proves nothing.
"""

from __future__ import annotations

from typing import Any

from kailab.cluster.protocol import Cluster
from kailab.errors import NotFound
from kailab.model import labels
from kailab.model.kinds import api_version_of
from kailab.model.objects import annotations_of, node_of, spec_of
from kailab.model.queues import share


def probe_queues(above: str, own: str) -> list[dict[str, Any]]:
    """The probe's queue with its parent: they request no GPU and take no part in what other queues share."""
    free = share()
    none = {"quota": 0, "limit": 0, "overQuotaWeight": 0}
    resources = {"gpu": none, "cpu": free, "memory": free}
    return [
        {"apiVersion": api_version_of("Queue"), "kind": "Queue", "metadata": {"name": name}, "spec": spec}
        for name, spec in ((above, {"resources": resources}), (own, {"parentQueue": above, "resources": resources}))
    ]


def probe_pod(name: str, namespace: str, queue: str, node: str = "") -> dict[str, Any]:
    """``node``: the only node that it may run on; "": any."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {labels.QUEUE: queue, "app": name}},
        "spec": {
            "schedulerName": labels.SCHEDULER_NAME,
            **({"nodeSelector": {labels.HOSTNAME: node}} if node else {}),
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "probe", "image": "probe", "resources": {"requests": {"cpu": "10m"}}}],
        },
    }


def is_bound(cluster: Cluster, name: str, namespace: str) -> bool:
    try:
        return bool(node_of(cluster.get("Pod", name, namespace)))
    except NotFound:
        return False


def stuck_stage(cluster: Cluster, name: str, namespace: str) -> str:
    """The KAI program that has not handled the pod yet, found by the objects that the programs exchange; "" if the pod is bound."""
    if is_bound(cluster, name, namespace):
        return ""
    pod = cluster.get("Pod", name, namespace)
    if not annotations_of(pod).get(labels.POD_GROUP):
        return "podgrouper: the pod has no PodGroup"
    if not any(spec_of(request).get("podName") == name for request in cluster.list("BindRequest", namespace)):
        return "scheduler: the pod has a PodGroup, and no BindRequest"
    return "binder: the pod has a BindRequest, and no node"
