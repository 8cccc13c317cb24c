"""A control plane of real processes for the tests of this folder, one for all of them."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kailab.cluster.controlplane import ControlPlane
from kailab.cluster.kubernetes import KubernetesCluster
from kailab.cluster.protocol import Object
from kailab.components import ComponentSet
from kailab.lab import Lab
from kailab.undertest.kai.folder import BINARIES_ENV
from tests.planes import connected, taken_down


@pytest.fixture(scope="session")
def plane(components: ComponentSet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with taken_down(ControlPlane.up(tmp_path_factory.mktemp("undertest") / "plane", components)) as made:
        yield made


@pytest.fixture
def cluster(plane: ControlPlane) -> Iterator[KubernetesCluster]:
    with connected(plane.kubeconfig) as found:
        yield found


@pytest.fixture
def lab() -> Iterator[Lab]:
    """The lesson fleet's 32 GPUs, and nothing in it yet."""
    with Lab.open() as opened:
        yield opened


@pytest.fixture
def kai_folder() -> Path:
    if not os.environ.get(BINARIES_ENV):
        pytest.skip(f"no real KAI here: {BINARIES_ENV} names no folder of its binaries")
    return Path(os.environ[BINARIES_ENV])


@pytest.fixture
def pod() -> Callable[[str], Object]:
    """Makes a pod of one GPU in the queue team-a, by its name."""
    return lambda name: {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "work", "kai.scheduler/queue": "team-a"}},
        "spec": {
            "schedulerName": "kai-scheduler",
            "containers": [{"name": "main", "image": "busybox", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
        },
    }
