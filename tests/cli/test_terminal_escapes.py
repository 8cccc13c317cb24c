"""Texts of objects, of files and of other programs can hold sequences that steer a terminal. None of them leaves kailab."""

from __future__ import annotations

import json
import os
import pty
import re
from pathlib import Path

import pytest
import yaml

from kailab.cli import terminal
from kailab.lab import Lab
from tests.cli.conftest import MANIFESTS, Kailab
from tests.cli.test_top import drawn

TITLE = "\x1b]0;TITLE\x07"
LINK = "\x1b]8;;https://evil.example\x1b\\LINK\x1b]8;;\x1b\\"
EVIL = f"here {TITLE}{LINK}\x9b2J\x9d0;C1\x9c\x7f\x08\x08\r\x1b[31mRED\u202etxt\x00."
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "odd", "annotations": {"note": EVIL}, "labels": {"kubernetes.io/hostname": "odd"}},
    "spec": {"taints": [{"key": "odd", "effect": "NoSchedule"}]},
    "status": {
        "capacity": {"cpu": "64", "memory": "256Gi", "pods": "110"},
        "allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110"},
        "conditions": [
            {"type": "Ready", "status": "True"},
            {"type": "KernelDeadlock", "status": "True", "reason": "Odd", "message": EVIL},
        ],
    },
}
EVENT = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "odd", "namespace": "default"},
    "involvedObject": {"kind": "Pod", "namespace": "default", "name": "train-0"},
    "type": "Warning",
    "reason": "Odd",
    "message": EVIL,
    "source": {"component": "odd"},
}
COMMANDS = [
    ("status",),
    ("describe", "node", "odd"),
    ("describe", "pods"),
    ("describe", "job", "train"),
    ("describe", "queue", "team-a"),
    ("get", "nodes", "odd", "-o", "json"),
    ("get", "nodes", "odd", "-o", "yaml"),
    ("get", "nodes", "-o", "wide", "--show-labels"),
    ("get", "node", "odd", "-o", "jsonpath={.status.conditions[1].message}"),
    ("get", "nodes", "-o", "custom-columns=NAME:.metadata.name,NOTE:.metadata.annotations.note"),
    ("get", "events"),
    ("get", "events", "-o", "yaml"),
    ("explain", "job", "train"),
    ("explain", "job", "train", "-o", "json"),
    ("timeline", "job", "train"),
    ("audit",),
    ("health",),
    ("top", "--once"),
    ("evidence", "capture"),
    ("report",),
    ("evidence", "show"),
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def evil(kailab: Kailab, home: Path) -> Kailab:
    if not (home / ".kailab").exists():
        assert kailab("up").code == 0
        pods = MANIFESTS.replace("image: busybox", f"image: {json.dumps(EVIL)}")
        done = kailab("apply", "-f", "-", input=pods)
        assert done.code == 0, done.err
        for one in (NODE, EVENT):
            done = kailab("apply", "-f", "-", input=yaml.safe_dump(one))
            assert done.code == 0, done.err
    return kailab


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_command_passes_on_what_steers_a_terminal(evil: Kailab, command: tuple[str, ...]) -> None:
    done = evil(*command)
    assert done.code in (0, 1), done.err
    assert STEERING.findall(done.out + done.err) == []


def test_what_was_escaped_can_still_be_read(evil: Kailab) -> None:
    for command in (("describe", "node", "odd"), ("get", "events"), ("top", "--once")):
        assert r"here \u001b]0;TITLE\u0007" in evil(*command).out
    node = json.loads(evil("get", "node", "odd", "-o", "json").out)
    assert node["metadata"]["annotations"]["note"] == EVIL


@pytest.mark.parametrize("name", [EVIL, f"pod/{EVIL}", f"{EVIL}/x"])
def test_errors_quote_without_passing_on(evil: Kailab, name: str) -> None:
    for command in (
        ("get", "pod", name),
        ("describe", name),
        ("explain", name),
        ("apply", "-f", name),
        ("fleet", "show", name),
    ):
        done = evil(*[part.replace("\x00", "") for part in command])
        assert done.code in (1, 2)
        assert STEERING.findall(done.out + done.err) == []


@pytest.mark.parametrize(
    "command",
    [(TITLE,), (f"--{TITLE}",), ("get", "pods", f"--{TITLE}"), ("up", "--fleet", TITLE), ("run", "--for", TITLE)],
)
def test_errors_of_the_command_line_pass_nothing_on(kailab: Kailab, command: tuple[str, ...]) -> None:
    done = kailab(*command)
    assert done.code == 2
    assert STEERING.findall(done.out + done.err) == []
    assert "TITLE" in done.err


def test_colours_of_kailab_itself_pass_and_no_others(
    evil: Kailab, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "uses_colour", lambda stream: True)
    leader, follower = pty.openpty()
    with os.fdopen(follower, "w") as screen:
        monkeypatch.setattr("sys.stdout", screen)
        terminal.say(f"{terminal.paint('Running', 'green', screen)} {terminal.paint(EVIL, 'red', screen)}")
        screen.flush()
        written = os.read(leader, 65536).decode()
    os.close(leader)
    assert written.startswith("\x1b[32mRunning\x1b[0m \x1b[31mhere ")
    assert re.findall("\x1b.{4}", written.rstrip()) == ["\x1b[32m", "\x1b[0m ", "\x1b[31m"]


def test_a_screen_of_the_lab_is_as_wide_as_the_terminal_whatever_names_hold() -> None:
    with Lab.open("lesson") as lab:
        lab.apply(MANIFESTS)
        lab.cluster.create({**EVENT, "reason": EVIL[:40]})
        lines = drawn(lab, 100)
    assert STEERING.findall("\n".join(lines)) == []
    assert max(map(len, lines)) <= 100


def test_a_failed_expectation_passes_nothing_on() -> None:
    from kailab.errors import ExpectationFailed

    assert STEERING.findall(str(ExpectationFailed(f"expected {EVIL}"))) == []
