"""The cluster protocol over a real Kubernetes API."""

from kailab.model.optional_imports import require_extra

# Before the imports that need them, so that whoever lacks them is told what to install.
require_extra("cluster", ("aiohttp", "cryptography"), "a real cluster")

from kailab.cluster.kubernetes.apiclient.connection import Connection  # noqa: E402
from kailab.cluster.kubernetes.cluster import KubernetesCluster  # noqa: E402

__all__ = ["Connection", "KubernetesCluster"]
