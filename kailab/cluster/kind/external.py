"""A kind cluster that somebody else made, pytest-kind's fixture above all, made fit for labs for a while."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kailab.cluster.connected import connected
from kailab.cluster.controlplane.kwok import arguments
from kailab.cluster.controlplane.ports import free_ports
from kailab.cluster.controlplane.supervision import Process, Supervision, record
from kailab.cluster.kind import kwok, nodes

if TYPE_CHECKING:
    from kailab.components import ComponentSet


@contextmanager
def with_fake_nodes(kubeconfig: Path, components: ComponentSet, context: str | None = None) -> Iterator[Process]:
    """Its nodes are Ready and kept free for the cluster's own pods, and KWOK plays the fake nodes, until the block ends. Then KWOK
    is gone; the taint of the control plane and where system pods may run stay as they are.

        def test_mine(kind_cluster):
            with with_fake_nodes(kind_cluster.kubeconfig_path, find_components()):
                with Lab.open(backend="kubeconfig", kubeconfig=kind_cluster.kubeconfig_path) as lab: ...

    Raises ConnectError."""
    kubeconfig = Path(kubeconfig).resolve()
    # Only to prepare: tests open connections of their own.
    with connected(kubeconfig, context) as cluster:
        nodes.prepare(cluster)
    with tempfile.TemporaryDirectory(prefix="kailab-kwok-") as made:
        # Processes are marked with the resolved path, which may differ where the temporary folder is a link.
        folder = Path(made).resolve()
        supervision = Supervision(folder)
        kwok.prepare(folder, None)
        (port,) = free_ports(1)
        own = record(kwok.NAME, [components.path("kwok"), *arguments(kubeconfig, port)], port=port)
        try:
            supervision.start(own)
            kwok.await_healthy(port, lambda: supervision.look(own).why)
            yield supervision.look(own)
        finally:
            supervision.end_all()
