"""The contents of a snapshot: the kinds that decisions and controllers read, and the rights that reading them needs."""

from __future__ import annotations

from kailab.cluster.protocol import Object
from kailab.model.kinds import KINDS, register_installed

_READ = (
    "Namespace", "PriorityClass", "Topology", "DeviceClass", "ResourceSlice", "ResourceClaim", "ResourceClaimTemplate", "ConfigMap",
    "PersistentVolumeClaim", "PersistentVolume", "StorageClass", "CSIStorageCapacity", "RuntimeClass", "ResourceQuota", "LimitRange",
    "NodeResourceTopology", "Node", "Queue", "BindRequest", "PodGroup", "Pod",
)  # fmt: skip

NEEDED = frozenset({"Namespace", "Node", "Queue", "PodGroup", "Pod", "PriorityClass"})
"""Without these kinds there is nothing to decide."""

NAMES_ONLY = frozenset({"ConfigMap"})
"""Kinds of which only the metadata is requested."""


def kinds_taken() -> tuple[str, ...]:
    """Kind keys in the order of reading: owners of pods first, pods last, so that of objects made meanwhile an owner may be missing but no
    pod is counted without its owner."""
    register_installed()
    owners = [key for key, kind in KINDS.items() if kind.owns_pods]
    return (*dict.fromkeys((*owners, "ReplicationController")), *_READ)


def cluster_role() -> Object:
    """The ClusterRole for taking a snapshot: get and list, nothing else."""
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
