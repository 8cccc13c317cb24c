"""The cluster protocol over a real Kubernetes API.

    cluster        ``KubernetesCluster``, which implements the protocol
    informer       lists and watches one kind
    cache          watch events and answers to own writes, in one order
    writer         writes, and what happens when an answer is lost
    eventwriter    Kubernetes Events, sent in the background
    apiclient      connections, requests with their retries and refusals, discovery, lists

A write goes from ``KubernetesCluster.write_all`` or ``hand_over`` through ``Writer``, ``apiclient.requests`` and
``apiclient.transport``; its answer goes into the cache.
"""

from kailab.model.optional_imports import require_extra

# Before the imports that need them, so that whoever lacks them is told what to install.
require_extra("cluster", ("aiohttp", "cryptography"), "a real cluster")

from kailab.cluster.kubernetes.apiclient.connection import Connection  # noqa: E402
from kailab.cluster.kubernetes.cluster import KubernetesCluster  # noqa: E402

__all__ = ["Connection", "KubernetesCluster"]
