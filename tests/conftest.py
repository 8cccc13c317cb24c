"""Settings for all tests."""

import os

from hypothesis import settings

# Property tests look for new counterexamples on a developer's machine, and repeat the same search where a run has to mean
# the same thing each time.
settings.register_profile("ci", derandomize=True, print_blob=True)
if os.environ.get("CI"):
    settings.load_profile("ci")
