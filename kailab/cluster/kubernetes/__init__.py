"""The cluster protocol over a real Kubernetes API."""

from kailab.cluster.kubernetes.cluster import KubernetesCluster
from kailab.cluster.kubernetes.connection import Connection

__all__ = ["Connection", "KubernetesCluster"]
