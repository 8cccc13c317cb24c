"""Settings for all tests."""

import os
import signal
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from kailab.cli.error_messages import DEBUG
from kailab.cluster.unreadable_objects import STRICT
from kailab.components import ComponentSet, MissingComponents, find_components
from tests import browser as browsers
from tests import waiting

REQUIRED = "KAILAB_REQUIRE_CONTROLPLANE"

# What may be skipped where everything is asked for: what needs programs, rights or data that not every machine has. A test that is
# skipped anywhere else would be missed by nobody.
MAY_SKIP = (
    "tests/kind/",
    "tests/metrics/test_alerts.py",
    "tests/operators/",
    "tests/undertest/",
    "tests/components/test_addons.py",
    "tests/components/test_build.py",
    "tests/cli/test_options.py::test_kind_is_looked_for",
    "tests/controlplane/test_faults.py",
    "tests/checks/test_hunt_history.py::test_a_real_kai_decides_a_history_as_kailab_does",
    "tests/course/test_site_in_a_browser.py",
    "tests/course/test_slides_in_a_browser.py",
    "tests/documents/test_making_images.py",
    "tests/evidence/test_signing.py",
    "tests/pytest_plugin/test_kind.py",
    "tests/report/test_large_page.py",
    "tests/report/test_viewer.py",
    "tests/report/test_without_colour.py",
    "tests/serve/test_live_page.py",
    "tests/service/test_monitored.py::test_it_is_as_the_operators_own_schema_says",
    "tests/snapshots/test_beside_kai.py",
    "tests/tools/test_node_images.py::test_an_image_in_the_engine",
    "tests/trials/test_viewer_runs.py::test_contenders_stand_side_by_side",
    "tests/trials/test_upgrade.py",
    "tests/vcluster/",
)
DATA = "KAILAB_SHARED"

os.environ[STRICT] = "1"  # an object that a controller can't read is a fault of kailab here, not of the object

# How long an example takes says something about the machine alone. Property tests look for new counterexamples on a developer's
# machine, and repeat the same search where a run has to mean the same thing each time.
settings.register_profile("kailab", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("kailab"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "kailab")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get(REQUIRED) == "1":
        reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        if not item.nodeid.startswith(MAY_SKIP) and DATA not in reason:
            report.outcome = "failed"
            report.longrepr = f"{item.nodeid} may not be skipped where {REQUIRED}=1: {reason}"
    return report


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


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with browsers.launched() as found:
        yield found


@pytest.fixture(scope="session", autouse=True)
def _signals_as_ever() -> Iterator[None]:
    """A shell's background ignores SIGINT, nohup ignores SIGHUP, and every process that is started inherits it: commands that are to end by
    them would never end."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL}
    ignored = [number for number in usual if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, usual[number])
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture(autouse=True)
def _no_debugging_left_on() -> Iterator[None]:
    """``--debug`` is for the process that it is given to; here that is the one of all tests."""
    yield
    os.environ.pop(DEBUG, None)


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], None]:
    return waiting.eventually
