"""Labs on real control planes, as people use them."""

import os

import pytest

from kailab.components import ComponentSet, MissingComponents, find_components


@pytest.fixture(scope="session")
def components() -> ComponentSet:
    try:
        return find_components()
    except MissingComponents as error:
        if os.environ.get("KAILAB_REQUIRE_CONTROLPLANE") == "1":
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
