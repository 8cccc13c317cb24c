"""A connection to a cluster, as a context manager."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kailab.cluster.kubernetes import KubernetesCluster


@contextmanager
def connect(
    kubeconfig: str | Path, context: str | None = None, name: str = "kubeconfig"
) -> Iterator[KubernetesCluster]:
    """``name``: the cluster's name in errors. Raises ConnectError, InputError."""
    # Imported here, so that checking whether there is a cluster loads no client.
    from kailab.cluster.kubernetes import Connection, KubernetesCluster

    cluster = KubernetesCluster(Connection.from_kubeconfig(kubeconfig, context), name)
    try:
        yield cluster
    finally:
        cluster.close()
