from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kailab.cluster.controlplane import ControlPlane
from kailab.cluster.kubernetes import Connection, KubernetesCluster
from kailab.components import ComponentSet


@pytest.fixture(scope="session")
def real(components: ComponentSet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A real API server, with nothing installed."""
    plane = ControlPlane.up(Path(tmp_path_factory.mktemp("install")) / "plane", components)
    cluster = KubernetesCluster(Connection.from_kubeconfig(plane.kubeconfig), "controlplane")
    yield cluster
    cluster.close()
    plane.down()
