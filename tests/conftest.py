"""Settings for all tests."""

import os
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, settings

from kailab.cli.error_messages import DEBUG
from kailab.cluster.unreadable import STRICT
from kailab.components import ComponentSet, MissingComponents, find_components
from tests import waiting

REQUIRED = "KAILAB_REQUIRE_CONTROLPLANE"

os.environ[STRICT] = "1"  # an object that a controller can't read is a fault of kailab here, not of the object

# How long an example takes says something about the machine alone. Property tests look for new counterexamples on a developer's
# machine, and repeat the same search where a run has to mean the same thing each time.
settings.register_profile("kailab", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("kailab"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "kailab")


@pytest.fixture(scope="session")
def components() -> ComponentSet:
    """The programs of a control plane, found and never got here. Where they are not, tests that need them are skipped, or fail
    where that is asked for."""
    try:
        return find_components()
    except MissingComponents as missing:
        if os.environ.get(REQUIRED) == "1":
            pytest.fail(f"{REQUIRED}=1, but {missing}", pytrace=False)
        pytest.skip(str(missing))


@pytest.fixture(autouse=True)
def _no_debugging_left_on() -> Iterator[None]:
    """``--debug`` is for the process that it is given to; here that is the one of all tests."""
    yield
    os.environ.pop(DEBUG, None)


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], None]:
    return waiting.eventually
