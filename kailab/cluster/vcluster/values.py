"""What the vcluster chart is told, so that a scheduler under test decides in a virtual cluster, and nothing of a lab leaves it.

Nodes and pods of a lab are inside alone: KWOK plays them against the virtual API server. The host has the pod of the virtual control plane,
and nothing else. Source: values.schema.json and pkg/controllers/resources/nodes of the pinned version.
"""

from __future__ import annotations

from typing import Any

NO_NODE = {"kailab.dev/node-of-the-host": "none"}
"""No node of a host has this label. Nodes are synced all the same, by it: without that the syncer makes and deletes nodes of its own
accord (its fake nodes), those of a lab too."""

_TO_HOST = (
    "services", "endpoints", "endpointSlices", "persistentVolumeClaims", "configMaps", "secrets", "pods", "ingresses",
    "priorityClasses", "networkPolicies", "volumeSnapshots", "volumeSnapshotContents", "podDisruptionBudgets", "serviceAccounts",
    "storageClasses", "persistentVolumes", "namespaces",
)  # fmt: skip
_FROM_HOST = (
    "events", "configMaps", "csiDrivers", "csiNodes", "csiStorageCapacities", "storageClasses", "ingressClasses", "runtimeClasses",
    "priorityClasses", "secrets", "volumeSnapshotClasses",
)  # fmt: skip
_SLICES = {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["get", "list", "watch"]}
_MEMORY = "2Gi"
"""Of the control plane's pod: an API server, its store and controllers, with some hundreds of pods."""


def values(kubernetes: str, image: str = "") -> dict[str, Any]:
    """``kubernetes``: the version of the virtual API server, with its ``v``. ``image``: the one for both containers, with its tag; empty: the
    chart's own."""
    off = {"enabled": False}
    repository, _, tag = image.rpartition(":")
    own = {"registry": "", "repository": repository, "tag": tag}
    return {
        "controlPlane": {
            "distro": {
                # kube-scheduler decides inside, not on the host, so that it is there for whoever compares with it.
                "k8s": {
                    "enabled": True,
                    "scheduler": {"enabled": True},
                    **({"image": own} if image else {"version": kubernetes}),
                },
            },
            "coredns": off,
            "statefulSet": {
                # The build that is all in the public repository.
                "image": own if image else {"repository": "loft-sh/vcluster-oss"},
                # Thrown away in the end: no volume outlives it.
                "persistence": {"volumeClaim": off},
                "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": _MEMORY}},
                # A host may have no other node; fake ones have taints of their own.
                "scheduling": {
                    "tolerations": [
                        {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}
                    ]
                },
            },
        },
        "sync": {
            "toHost": dict.fromkeys(_TO_HOST, off),
            "fromHost": {
                **dict.fromkeys(_FROM_HOST, off),
                "nodes": {"enabled": True, "selector": {"all": False, "labels": NO_NODE}},
            },
        },
        # The syncer reads them whether they are synced or not, and does not begin before it has; the chart lets it where they are synced.
        "rbac": {"role": {"extraRules": [_SLICES]}},
        "telemetry": off,
    }
