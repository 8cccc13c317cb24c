"""A connection to a cluster, as a context manager."""

from __future__ import annotations

from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kailab.cluster.kubernetes import KubernetesCluster


def connect(
    kubeconfig: str | Path, context: str | None = None, name: str = "kubeconfig"
) -> AbstractContextManager[KubernetesCluster]:
    """``name``: the cluster's name in errors. Raises ConnectError, InputError."""
    # Imported here, so that checking whether there is a cluster loads no client.
    from kailab.cluster.kubernetes import Connection, KubernetesCluster

    return closing(KubernetesCluster(Connection.from_kubeconfig(kubeconfig, context), name))
