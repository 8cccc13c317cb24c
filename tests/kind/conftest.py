"""kind clusters for the tests of this folder, where there is a Docker engine with a node image."""

import os
from collections.abc import Iterator

import pytest

from kailab.cluster.kind import KindPlane, kind_reason
from kailab.cluster.kind.options import choose_options
from kailab.cluster.kubernetes import KubernetesCluster
from kailab.components import ComponentSet, MissingComponents, find_components
from tests.planes import connected, image_reason, taken_down

REQUIRED = "KAILAB_REQUIRE_KIND"


def _give_up(reason: str) -> None:
    if os.environ.get(REQUIRED) == "1":
        pytest.fail(f"{REQUIRED}=1, but {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def kind_here() -> None:
    reason = kind_reason()
    if reason is not None:
        _give_up(f"no kind cluster can be made here: {reason}")
    reason = image_reason(choose_options().image)
    if reason is not None:
        _give_up(reason)


@pytest.fixture(scope="session")
def components(kind_here: None) -> ComponentSet:
    try:
        return find_components()
    except MissingComponents as error:
        _give_up(f"KWOK is not here: {error}")
        raise


@pytest.fixture(scope="session")
def plane(components: ComponentSet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KindPlane]:
    with taken_down(KindPlane.up(tmp_path_factory.mktemp("kind") / "plane", components=components)) as made:
        yield made


@pytest.fixture
def cluster(plane: KindPlane) -> Iterator[KubernetesCluster]:
    with connected(plane.kubeconfig, "kind") as found:
        yield found
