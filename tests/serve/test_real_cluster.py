"""The page of a lab on a real API server: what changes there by itself is pushed; what such a lab does not allow says why."""

from __future__ import annotations

import gzip
import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.serve.conftest import PATIENCE_SECONDS, TEXTS, Served

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("components")]


def kailab(*arguments: str) -> None:
    command = [sys.executable, "-m", "kailab", *arguments]
    subprocess.run(command, check=True, capture_output=True, timeout=5 * PATIENCE_SECONDS)


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Path]:
    state = tmp_path / "lab.state"
    try:
        kailab("up", "--backend", "controlplane", "--state", str(state))
        yield state
    finally:
        kailab("down", "--state", str(state))


def news(served: Served) -> Iterator[dict[str, Any]]:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE_SECONDS)
    connection.request("GET", "/events", headers=served.let_in)
    for line in connection.getresponse():
        if line.startswith(b'data: {"version"'):
            yield json.loads(line[6:])


def borrower(served: Served, version: int) -> tuple[int, int | None] | None:
    """Its pods that run, and its replicas; None where that view is not the latest any more."""
    answer = served.get(f"/data/{version}/editable")
    if answer.code != 200:
        return None
    workloads = json.loads(gzip.decompress(answer.body))["workloads"]
    return next(((one["running"], one["replicas"]) for one in workloads if one["name"] == "borrower"), None)


def test_what_the_cluster_does_by_itself_is_pushed(plane: Path) -> None:
    served = Served(plane)
    told = news(served)
    controls = next(told)["controls"]
    assert all("its clock and its scheduler" in controls[name]["why"] for name in ("pause", "step", "advance"))
    assert "can't be undone" in controls["undo"]["why"]
    for order in ("pause", "step", "undo", "go-on"):
        assert served.order(order).code == 400
    served.done({"do": "submit", "text": TEXTS["10-two-teams"]})
    assert "24 pods running" in served.done({"do": "submit", "text": TEXTS["20-borrower"]})
    # Nobody waits for it: the file of the lab stays as it is.
    kailab("scale", "deployment", "borrower", "--replicas", "5", "--no-settle", "--state", str(plane))
    assert any(borrower(served, one["version"]) == (5, 5) for one in told)
    assert served.end()[0] == 0
