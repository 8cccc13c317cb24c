"""Prepares a new kind cluster for a lab: real nodes are Ready, and kept free for the cluster's own pods.

A lab's pods belong on fake nodes. The only real node of a cluster has no taint, so the pods could be placed there and
would wait for images that don't exist. The cluster's own DaemonSets would put a pod on each fake node, and some of
those ask for CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kailab.cluster.polling import poll_until
from kailab.cluster.protocol import Cluster, object_exists
from kailab.errors import ApiError, ConnectError
from kailab.model.objects import annotations_of, is_ready, labels_of, name_of, namespace_of

CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
FAKE = ("kwok.x-k8s.io/node", "fake")
READY_SECONDS = 180.0
_PAUSE_SECONDS = 0.5
# The namespaces of what kind installs: kindnet, kube-proxy, the storage provisioner.
_SYSTEM_NAMESPACES = ("kube-system", "local-path-storage")


def prepare_nodes(cluster: Cluster) -> list[str]:
    """Wait until the real nodes are Ready and pods can be created; then keep the lab's pods off the control plane and
    the system's pods off fake nodes. Returns the names of the real nodes. Raises ConnectError if that takes too
    long."""
    _await(lambda: _not_ready(cluster))
    _await(lambda: _no_account(cluster))
    names = [name_of(node) for node in real_nodes(cluster)]
    for node in real_nodes(cluster):
        _taint_control_plane(cluster, node)
    for daemons in cluster.list("DaemonSet"):
        # Before there are fake nodes, so that no pod must be removed from one.
        if namespace_of(daemons) in _SYSTEM_NAMESPACES:
            _keep_to(cluster, daemons, names)
    return names


def await_kube_scheduler(cluster: Cluster) -> None:
    """Return when kubeadm's kube-scheduler is Ready. Raises ConnectError."""

    def lacking() -> str | None:
        pods = cluster.list("Pod", "kube-system", {"component": "kube-scheduler"})
        return None if any(map(is_ready, pods)) else "its kube-scheduler is not Ready"

    _await(lacking)


def real_nodes(cluster: Cluster) -> list[dict[str, Any]]:
    """The nodes that are containers, not fake ones."""
    key, value = FAKE
    return [node for node in cluster.list("Node") if annotations_of(node).get(key) != value]


def _await(reason: Callable[[], str | None]) -> None:
    """Wait until ``reason`` is None."""

    def reason_or_error() -> str | None:
        try:
            return reason()
        except ApiError as error:
            return f"the API server did not answer: {error}"

    if why := poll_until(reason_or_error, lambda current: current is None, READY_SECONDS, pause=_PAUSE_SECONDS):
        raise ConnectError(f"the kind cluster was not ready after {READY_SECONDS:.0f} s: {why}")


def _not_ready(cluster: Cluster) -> str | None:
    nodes = real_nodes(cluster)
    if not nodes:
        return "it has no nodes yet"
    waiting = [name_of(node) for node in nodes if not is_ready(node)]
    return f"not Ready: {', '.join(waiting)}" if waiting else None


def _no_account(cluster: Cluster) -> str | None:
    """A namespace without its default account, which comes a moment after the nodes, refuses pods."""
    there = object_exists(cluster, "ServiceAccount", "default", "default")
    return None if there else "namespace default has no ServiceAccount default yet"


def _taint_control_plane(cluster: Cluster, node: dict[str, Any]) -> None:
    taints = list((node.get("spec") or {}).get("taints") or ())
    is_control_plane = CONTROL_PLANE in labels_of(node)
    if is_control_plane and not any(taint.get("key") == CONTROL_PLANE for taint in taints):
        taints.append({"key": CONTROL_PLANE, "effect": "NoSchedule"})
        cluster.patch("Node", name_of(node), None, {"spec": {"taints": taints}})


def _keep_to(cluster: Cluster, daemons: dict[str, Any], names: list[str]) -> None:
    # By name, because real nodes have no label that fake ones lack.
    wanted = {"key": "kubernetes.io/hostname", "operator": "In", "values": names}
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}
        }
    }
    patch = {"spec": {"template": {"spec": {"affinity": affinity}}}}
    cluster.patch("DaemonSet", name_of(daemons), namespace_of(daemons), patch)
