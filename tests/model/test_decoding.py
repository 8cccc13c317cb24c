"""Records are read from any thread, the first ones too."""

import subprocess
import sys

import pytest

FIRST_USE = """
import sys, threading
from kailab.model.validation import validate

sys.setswitchinterval(1e-6)
pod = {
    "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "default"},
    "spec": {"containers": [{"name": "a", "image": "b", "resources": {"limits": {"cpu": "1"}}}]},
}
together = threading.Barrier(4)

def first():
    together.wait()
    assert validate(pod, "Pod") == []

threads = [threading.Thread(target=first) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


@pytest.mark.parametrize("number", range(6))
def test_threads_that_use_a_type_for_the_first_time_together(number: int) -> None:
    """With msgspec alone, more than half of such processes end in a segmentation fault."""
    done = subprocess.run([sys.executable, "-c", FIRST_USE], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
