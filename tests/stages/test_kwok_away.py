"""What is due while KWOK is away is done when it is back."""

from __future__ import annotations

from typing import Any

import pytest

from kailab.cluster.controlplane import ControlPlane

pytestmark = pytest.mark.slow


def test_lives_go_on_where_a_killed_kwok_left_them(real: Any, plane: ControlPlane) -> None:
    real.start("to-the-end", {"kailab.dev/run-seconds": "4"}, restartPolicy="Never")
    real.start("to-be-gone")
    for name in ("to-the-end", "to-be-gone"):
        real.until(name, lambda pod: pod["status"]["phase"] == "Running")
    plane.kill("kwok")
    real.cluster.delete("Pod", "to-be-gone", "default", 20)
    real.start("unseen", {"kailab.dev/ready-seconds": "0"})
    plane.restart("kwok")
    done = real.until("to-the-end", lambda pod: pod["status"]["phase"] == "Succeeded")
    assert real.spans(done)[1] >= 4
    real.gone("to-be-gone")
    real.until("unseen", lambda pod: pod["status"]["phase"] == "Running")
