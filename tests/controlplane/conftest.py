"""Real control planes for tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from kailab.cluster.controlplane import ControlPlane
from kailab.cluster.controlplane.supervision import MARK
from kailab.cluster.kubernetes import Connection, KubernetesCluster
from kailab.components import ComponentSet


@pytest.fixture(scope="module")
def control_plane(components: ComponentSet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """One with KWOK, for all tests of a module."""
    made = ControlPlane.up(tmp_path_factory.mktemp("controlplane") / "plane", components)
    yield made
    made.down()


@pytest.fixture
def connect() -> Iterator[Callable[[Path], KubernetesCluster]]:
    """Connects to the cluster of a kubeconfig, until the test ends."""
    made: list[KubernetesCluster] = []

    def connected(kubeconfig: Path) -> KubernetesCluster:
        made.append(KubernetesCluster(Connection.from_kubeconfig(kubeconfig), "controlplane"))
        return made[-1]

    yield connected
    for cluster in made:
        cluster.close()


@pytest.fixture
def left_over() -> Callable[[Path], list[psutil.Process]]:
    """Finds what is left of the control plane of a folder."""
    return processes_of


@pytest.fixture
def config_map() -> Callable[[str], dict[str, Any]]:
    """Something small that the store keeps."""

    def named(name: str) -> dict[str, Any]:
        metadata = {"name": name, "namespace": "default"}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": "kept"}}

    return named


def processes_of(folder: Path) -> list[psutil.Process]:
    """Living processes whose environment or command names a folder."""
    found = []
    for process in psutil.process_iter():
        try:
            named = process.environ().get(MARK) == str(folder) or any(str(folder) in part for part in process.cmdline())
            if named and process.status() != psutil.STATUS_ZOMBIE and process.pid != os.getpid():
                found.append(process)
        except psutil.Error:
            continue
    return found
