"""What of a cluster enters a snapshot: the kinds that decisions and controllers read, and the rights that reading them takes."""

from __future__ import annotations

from kailab.cluster.protocol import Object
from kailab.model.kinds import KINDS, register_installed

_READ = (
    "Namespace", "PriorityClass", "Topology", "DeviceClass", "ResourceSlice", "ResourceClaim", "ResourceClaimTemplate", "ConfigMap",
    "PersistentVolumeClaim", "PersistentVolume", "StorageClass", "CSIStorageCapacity", "RuntimeClass", "ResourceQuota", "LimitRange",
    "NodeResourceTopology", "Node", "Queue", "BindRequest", "PodGroup", "Pod",
)  # fmt: skip

NEEDED = frozenset({"Namespace", "Node", "Queue", "PodGroup", "Pod", "PriorityClass"})
"""Without these there is nothing to decide on."""

NAMES_ONLY = frozenset({"ConfigMap"})
"""Of which the server is asked for the metadata alone."""


def kinds_taken() -> tuple[str, ...]:
    """Keys of the kinds: what owns pods first, pods last, so that of what is made meanwhile owners are missed rather than pods
    counted without them."""
    register_installed()
    owners = [key for key, kind in KINDS.items() if kind.owns_pods]
    return (*dict.fromkeys((*owners, "ReplicationController")), *_READ)


def rights() -> Object:
    """The ClusterRole that taking a snapshot needs: get and list, nothing else."""
    groups: dict[str, set[str]] = {}
    for key in kinds_taken():
        groups.setdefault(KINDS[key].group, set()).add(KINDS[key].plural)
    rules = [
        {"apiGroups": [group], "resources": sorted(plurals), "verbs": ["get", "list"]}
        for group, plurals in sorted(groups.items())
    ]
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "kailab-snapshot"},
        "rules": rules,
    }
