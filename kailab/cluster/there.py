"""Whether a cluster has an object."""

from __future__ import annotations

from kailab.cluster.protocol import Cluster
from kailab.errors import NotFound


def is_there(cluster: Cluster, kind: str, name: str, namespace: str | None = None) -> bool:
    """``kind``: its kind key; ``namespace`` None: of none."""
    try:
        cluster.get(kind, name, namespace)
    except NotFound:
        return False
    return True
