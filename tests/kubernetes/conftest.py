"""A real API server for the tests of the client: etcd and kube-apiserver with the controllers, one for all of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kailab.cluster.controlplane import ControlPlane
from kailab.cluster.kubernetes import Connection, KubernetesCluster
from kailab.components import ComponentSet

NODE = {
    "allocatable": {"cpu": "8", "memory": "8Gi", "pods": "100", "nvidia.com/gpu": "8"},
    "conditions": [{"type": "Ready", "status": "True"}],
}


@pytest.fixture(scope="session")
def plane(components: ComponentSet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    plane = ControlPlane.up(tmp_path_factory.mktemp("plane"), components)
    yield plane
    plane.down()


@pytest.fixture(scope="session")
def kubeconfig(plane: ControlPlane) -> Path:
    return plane.kubeconfig


@pytest.fixture
def cluster(kubeconfig: Path) -> Iterator[KubernetesCluster]:
    """A connection of its own for each test, to a cluster without pods and with one node, ``n1``."""
    cluster = KubernetesCluster(Connection.from_kubeconfig(kubeconfig), "controlplane")
    cluster.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": NODE})
    yield cluster
    cluster.delete_all("Pod", "default")
    cluster.delete_all("ConfigMap", "default")
    cluster.close()


@pytest.fixture
def other(kubeconfig: Path) -> Iterator[KubernetesCluster]:
    """Somebody else at the same server."""
    other = KubernetesCluster(Connection.from_kubeconfig(kubeconfig), "other")
    yield other
    other.close()
