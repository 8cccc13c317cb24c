"""What is due while KWOK is away is done when it is back."""

from __future__ import annotations

from typing import Any

import pytest

from kailab.cluster.controlplane import ControlPlane
from kailab.cluster.writes import CreateWrite
from tests.stages.conftest import NODE

pytestmark = pytest.mark.slow


def test_lives_go_on_where_a_killed_kwok_left_them(real: Any, plane: ControlPlane) -> None:
    real.start("to-the-end", {"kailab.dev/run-seconds": "20"}, restartPolicy="Never")
    real.start("to-be-gone")
    for name in ("to-the-end", "to-be-gone"):
        real.until(name, lambda pod: pod["status"]["phase"] == "Running")
    plane.kill("kwok")
    real.cluster.delete("Pod", "to-be-gone", "default", 20)
    real.start("unseen", {"kailab.dev/ready-seconds": "0"})
    plane.restart("kwok")
    done = real.until("to-the-end", lambda pod: pod["status"]["phase"] == "Succeeded")
    assert real.spans(done)[1] >= 20
    real.gone("to-be-gone")
    real.until("unseen", lambda pod: pod["status"]["phase"] == "Running")


def test_a_store_that_dies_under_kwoks_hands(real: Any, plane: ControlPlane) -> None:
    """KWOK gives up a change that is cut off: it must not be left at that."""
    names = [f"many-{number}" for number in range(300)]
    spec = {
        "nodeName": NODE,
        "containers": [{"name": "main", "image": "pause"}],
        "tolerations": [{"operator": "Exists"}],
    }
    notes = {"kailab.dev/ready-seconds": "2"}
    pods = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": notes}, "spec": spec}
        for name in names
    ]
    failed = [
        outcome.error for outcome in real.cluster.write_all([[CreateWrite(pod)] for pod in pods]) if outcome.error
    ]
    assert failed == []
    real.until(names[0], lambda pod: pod["status"]["phase"] == "Running")  # and the others are about to
    plane.kill("etcd")
    plane.restart("etcd")
    for name in names:
        real.until(name, lambda pod: pod["status"]["phase"] == "Running")
