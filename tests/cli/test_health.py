"""``kailab health``: its lines, its data and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


def test_a_healthy_lab(busy) -> None:
    done = busy("health")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == "kailab: healthy"
    assert lines[1].startswith("Last cycle: number ")
    assert lines[1].endswith("1 group left waiting")
    assert lines[2].startswith("Evictions: 0 in ")
    assert "not known: how long the last cycle took" in done.err


def test_an_unhealthy_lab(busy, home: Path) -> None:
    (home / "queue.yaml").write_text(
        "apiVersion: scheduling.run.ai/v2\nkind: Queue\n"
        "metadata: {name: other, labels: {kai.scheduler/node-pool: h100}}\nspec: {}\n"
    )
    busy("apply", "-f", "queue.yaml")
    done = busy("health")
    assert done.code == 1
    assert done.out.splitlines()[:2] == [
        "kailab: not healthy",
        "  nobody serves the node pool of these Queues: h100 (1)",
    ]
    data = json.loads(busy("health", "-o", "json").out)
    assert data["healthy"] is False
    assert data["unserved"] == {"Queue": {"h100": 1}}
    assert data["cycle"]["waiting"] == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--window", "soon"), "--window"),
        (("--window", "0s"), "expected more than 0 seconds"),
        (("--decisions", "nowhere.json"), "nowhere.json: there are no decisions"),
        ((), "no lab is here"),
    ],
)
def test_bad_input(kailab, arguments: tuple[str, ...], told: str) -> None:
    done = kailab("health", *arguments)
    assert done.code == 2
    assert told in done.err
