"""How Kueue runs here: its Configuration. Source: Kueue v0.19's API config.kueue.x-k8s.io/v1beta2, and the one that it is published
with (config/components/manager/controller_manager_config.yaml).

Fair Sharing is on, as KAI divides what nobody owns by weight; a resource for which a queue has no quota is not held against it.
"""

from __future__ import annotations

from pathlib import Path

from kailab.cluster.controlplane.ports import LOOPBACK
from kailab.cluster.protocol import Object
from kailab.model import labels

NAMESPACE = "kueue-system"
SERVICE = "kueue-webhook-service"
SECRET = "kueue-webhook-server-cert"
AUTHORITY = "kueue-ca"
SKIPPED = ("kube-system", NAMESPACE, labels.RESERVATION_NAMESPACE)
"""Namespaces whose work is none of Kueue's."""
FRAMEWORKS = ("batch/job", "pod", "deployment")

AT_ONCE = {
    "Job.batch": 5,
    "Pod": 5,
    "Workload.kueue.x-k8s.io": 10,
    "LocalQueue.kueue.x-k8s.io": 5,
    "Cohort.kueue.x-k8s.io": 1,
    "ClusterQueue.kueue.x-k8s.io": 5,
    "ResourceFlavor.kueue.x-k8s.io": 1,
}
"""How many objects of a kind it acts on at once, as published; by itself it takes one."""


def configuration(certificates: Path, webhook: int, health: int, metrics: int) -> Object:
    """``certificates``: the folder of its webhook server's. The rest are ports."""
    selector = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(SKIPPED)}
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": NAMESPACE,
        "health": {"healthProbeBindAddress": f"{LOOPBACK}:{health}"},
        "metrics": {"bindAddress": f"{LOOPBACK}:{metrics}"},
        "webhook": {"host": LOOPBACK, "port": webhook, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        "controller": {"groupKindConcurrency": AT_ONCE},
        # As fast as the API server allows: the usual bounds are for clusters with other users.
        "clientConnection": {"qps": 1000, "burst": 2000},
        # Off, it demands certificates for its metrics, too.
        "internalCertManagement": {"enable": True, "webhookServiceName": SERVICE, "webhookSecretName": SECRET},
        "managedJobsNamespaceSelector": {"matchExpressions": [selector]},
        "integrations": {"frameworks": list(FRAMEWORKS)},
        "fairSharing": {"preemptionStrategies": ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]},
        "resources": {"quotaCheckStrategy": "IgnoreUndeclared"},
        # It wants to be a pod of the cluster.
        "featureGates": {"VisibilityOnDemand": False},
    }
