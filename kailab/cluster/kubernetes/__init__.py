"""The cluster protocol over a real Kubernetes API."""

from kailab.cluster.kubernetes.apiclient.connection import Connection
from kailab.cluster.kubernetes.cluster import KubernetesCluster

__all__ = ["Connection", "KubernetesCluster"]
