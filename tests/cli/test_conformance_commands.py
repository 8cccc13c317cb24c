"""Conformance on the command line: a line per case, the tally last, 0 or 1."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

STEP = {
    "apply": [
        {
            "apiVersion": "scheduling.run.ai/v2",
            "kind": "Queue",
            "metadata": {"name": "q"},
            "spec": {
                "resources": {
                    "gpu": {"quota": 4, "limit": -1},
                    "cpu": {"quota": -1, "limit": -1},
                    "memory": {"quota": -1, "limit": -1},
                }
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "labels": {"app": "p", "kai.scheduler/queue": "q"}},
            "spec": {
                "schedulerName": "kai-scheduler",
                "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": 1}}}],
            },
        },
    ],
    "expect": {"apps": {"p": {"Running": 1}}},
}


def _scenario(name: str, running: int) -> dict:
    expect = {"apps": {"p": {"Running": running}}}
    return {"name": name, "fleet": "lesson", "steps": [{**STEP, "expect": expect}]}


@pytest.fixture
def file(home: Path) -> Path:
    path = home / "own.json"
    path.write_text(json.dumps([_scenario("right", 1), _scenario("wrong", 2)]))
    return path


def test_scenarios(kailab, file: Path) -> None:
    done = kailab("conformance", "scenarios", str(file))
    assert done.code == 1
    lines = done.out.splitlines()
    assert lines[0] == "agrees  own/right"
    assert lines[1] == "DIFFERS own/wrong"
    assert "1 Running, KAI had 2" in lines[2]
    assert lines[-1] == "1 passed, 1 failed"
    right = kailab("conformance", "scenarios", str(file), "-k", "right")
    assert right.code == 0
    assert right.out.splitlines()[-1] == "1 passed, 0 failed"


def test_for_programs(kailab, file: Path) -> None:
    data = json.loads(kailab("conformance", "scenarios", str(file), "-o", "json").out)
    assert (data["passed"], data["failed"]) == (1, 1)


def test_fuzz(kailab) -> None:
    done = kailab("conformance", "fuzz", "--cases", "3", "--seed", "5")
    assert done.code == 0
    assert done.out.splitlines()[-1] == "3 passed, 0 failed"


@pytest.mark.parametrize(
    "wrong",
    [
        ("scenarios", "missing.json"),
        ("scenarios", "own.json", "-k", "ghost"),
        ("scenarios", "own.json", "--scheduler", "chance"),
        ("cases", "missing.json"),
        ("cases", "own.json"),
        ("cases", "own.json", "--level", "chance"),
        ("fairshare", "missing.json"),
        ("grouping", "missing.json"),
        ("scenarios", "own.json", "-k", "not"),
        ("odd", "--cases", "0"),
        ("odd", "--minutes", "-1"),
        ("fuzz", "--cases", "many"),
        ("fuzz", "--cases", "0"),
        ("fuzz", "--seed", "-1"),
    ],
)
def test_wrong_use(kailab, file: Path, wrong: tuple[str, ...]) -> None:
    done = kailab("conformance", *wrong)
    assert done.code == 2
    assert "error: " in done.err.lower()
    assert "Traceback" not in done.err


def test_odd_manifests_from_the_command_line(kailab) -> None:
    done = kailab("conformance", "odd", "--cases", "5", "--seed", "3")
    assert (done.code, done.out) == (0, "5 passed, 0 failed\n")
    timed = kailab("conformance", "odd", "--minutes", "0", "-o", "json")
    assert timed.code == 0
