"""The command line of the checks: a line per case, the totals last, exit code 0 or 1."""

from __future__ import annotations

import json
import os
from copy import deepcopy
from pathlib import Path

import pytest

from checks.fuzzing.odd_manifests import OddCase
from kailab.model import files
from tests.checks.test_cases import small_case

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


def test_scenarios(checks, file: Path) -> None:
    done = checks("scenarios", str(file))
    assert done.code == 1
    lines = done.out.splitlines()
    assert lines[0] == "agrees  own/right"
    assert lines[1] == "DIFFERS own/wrong"
    assert "1 Running, KAI had 2" in lines[2]
    assert lines[-1] == "1 passed, 1 failed"
    right = checks("scenarios", str(file), "-k", "right")
    assert right.code == 0
    assert right.out.splitlines()[-1] == "1 passed, 0 failed"


def test_for_programs(checks, file: Path) -> None:
    data = json.loads(checks("scenarios", str(file), "-o", "json").out)
    assert (data["passed"], data["failed"]) == (1, 1)


def test_fuzz(checks) -> None:
    done = checks("fuzz", "--cases", "3", "--seed", "5")
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
def test_wrong_use(checks, file: Path, wrong: tuple[str, ...]) -> None:
    done = checks(*wrong)
    assert done.code == 2
    assert "error: " in done.err.lower()
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("command", "content"),
    [
        ("scenarios", "{}"),
        *(
            ("cases", odd)
            for odd in ("{", '{"a": 1}', "[1]", '[{"jobs": []}]', '[{"id": "x", "jobs": 3, "nodes": []}]')
        ),
        *(
            ("fairshare", odd)
            for odd in ("{", "[]", "{}", '{"cases": 1}', '{"cases": [1]}', '{"cases": [{"id": "a"}]}')
        ),
    ],
)
def test_a_file_of_another_form_is_refused(checks, home: Path, command: str, content: str) -> None:
    (home / "odd.json").write_text(content)
    done = checks(command, "odd.json")
    assert done.code == 2
    assert "odd.json" in done.err


def test_cases_decided_and_only_loaded(checks, home: Path) -> None:
    case = small_case()
    (home / "small.json").write_text(json.dumps([case]))
    report = json.loads(checks("cases", "small.json", "-o", "json").out)
    assert [result["id"] for result in report["results"]] == ["small"]
    assert checks("cases", "small.json", "-k", "no such case").code == 2
    without = checks("cases", "small.json", "--loading")
    assert (without.code, "case small: KAI's opening state is not recorded" in without.err) == (2, True)

    case["config"]["plugins"] = []
    case["nodes"][0]["initial"] = {"idle": dict(case["nodes"][0]["allocatable"]), "releasing": {"gpus": 0}}
    other = deepcopy(case) | {"id": "off"}
    other["nodes"][0]["initial"]["idle"]["gpus"] = 1
    (home / "small.json").write_text(json.dumps([case, other]))
    loaded = checks("cases", "small.json", "--loading")
    assert loaded.code == 1
    assert loaded.out.splitlines()[-1] == "1 passed, 1 failed"


def test_odd_manifests_from_the_command_line(checks) -> None:
    done = checks("odd", "--cases", "5", "--seed", "3")
    assert (done.code, done.out) == (0, "5 passed, 0 failed\n")
    shown = checks("odd", "--show", "--seed", "3")
    assert (shown.code, shown.out.strip()) == (0, OddCase(3).manifest().strip())
    timed = checks("odd", "--minutes", "0", "-o", "json")
    assert timed.code == 0


@pytest.mark.parametrize(
    "command", ["scenarios", "cases", "fairshare", "grouping", "fuzz", "odd", "walk", "explain", "hunt"]
)
def test_each_command_has_help(checks, command: str) -> None:
    done = checks(command, "--help")
    assert done.code == 0
    assert done.out.startswith("Usage: ")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--labs", "2"), "--labs: the backend embedded"),
        (("--context", "x"), "--context: the backend embedded"),
        (("--backend", "minikube"), "there is no backend 'minikube'"),
    ],
)
def test_scenarios_refuse_options_of_another_backend(checks, option: tuple[str, ...], message: str) -> None:
    refused = checks("scenarios", *option)
    assert refused.code == 2
    assert message in refused.err


ODD_FILES = {
    "a folder": lambda path: path.mkdir(),
    "nothing": lambda path: None,
    "a pipe": lambda path: os.mkfifo(path),
    "bytes": lambda path: path.write_bytes(bytes(range(256)) * 40),
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "itself": lambda path: path.symlink_to(path),
    "odd text": lambda path: path.write_text("[" * 100_000),
}


@pytest.mark.parametrize("thing", ODD_FILES)
@pytest.mark.parametrize("command", ["cases", "fairshare", "grouping", "scenarios"])
def test_a_path_to_something_else_is_an_error(checks, home: Path, monkeypatch, command: str, thing: str) -> None:
    monkeypatch.setattr(files, "PATIENCE_SECONDS", 0.01)
    path = home / "odd"
    ODD_FILES[thing](path)
    done = checks(command, str(path))
    assert done.code == 2, done.out + done.err
    assert "odd" in done.err or "matches" in done.err, "the file is named, or nothing was found in the folder"
    assert "internal error" not in done.err
