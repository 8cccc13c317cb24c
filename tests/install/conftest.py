from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kailab.cluster.controlplane import ControlPlane
from kailab.cluster.kubernetes import Connection, KubernetesCluster
from kailab.components import MissingComponents, find_components


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A real API server, with nothing installed."""
    try:
        components = find_components()
    except MissingComponents as missing:
        if os.environ.get("KAILAB_REQUIRE_CONTROLPLANE") == "1":
            raise
        pytest.skip(str(missing))
    plane = ControlPlane.up(Path(tmp_path_factory.mktemp("install")) / "plane", components)
    cluster = KubernetesCluster(Connection.from_kubeconfig(plane.kubeconfig), "controlplane")
    yield cluster
    cluster.close()
    plane.down()
