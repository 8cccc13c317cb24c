"""Settings for all tests."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from kailab.cli.faults import DEBUG

# Property tests look for new counterexamples on a developer's machine, and repeat the same search where a run has to mean
# the same thing each time.
settings.register_profile("ci", derandomize=True, print_blob=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


@pytest.fixture(autouse=True)
def _no_debugging_left_on() -> Iterator[None]:
    """``--debug`` is for the process that it is given to; here that is the one of all tests."""
    yield
    os.environ.pop(DEBUG, None)
