"""Paths that lead to something else than what a command expects, and state files that were damaged."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest

from kailab.errors import StateError
from kailab.lab import Lab
from kailab.model import files

COMMANDS = {
    "get": ("get", "pods", "--state", "{}"),
    "status": ("status", "--state", "{}"),
    "explain": ("explain", "pod", "x", "--state", "{}"),
    "run": ("run", "--for", "10s", "--state", "{}"),
    "apply": ("apply", "-f", "{}"),
    "delete": ("delete", "-f", "{}"),
    "fleet validate": ("fleet", "validate", "{}"),
    "fleet show": ("fleet", "show", "{}"),
    "up --fleet": ("up", "--fresh", "--fleet", "{}"),
    "up --scheduler-config": ("up", "--fresh", "--scheduler-config", "{}"),
    "evidence show": ("evidence", "show", "{}"),
    "evidence diff": ("evidence", "diff", "{}", "{}"),
    "evidence verify": ("evidence", "verify", "{}"),
}
THINGS = {
    "a folder": lambda path: path.mkdir(),
    "nothing": lambda path: None,
    "a pipe": lambda path: os.mkfifo(path),
    "bytes": lambda path: path.write_bytes(bytes(range(256)) * 40),
    "zeros": lambda path: path.write_bytes(bytes(10_000)),
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "itself": lambda path: path.symlink_to(path),
    "odd text": lambda path: path.write_text("[" * 100_000),
}


@pytest.mark.parametrize("thing", THINGS)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_path_to_something_else_is_told(kailab, home: Path, monkeypatch, command: str, thing: str) -> None:
    monkeypatch.setattr(files, "PATIENCE_SECONDS", 0.01)
    assert kailab("up").code == 0
    path = home / "odd"
    THINGS[thing](path)
    done = kailab(*(word.format(path) for word in COMMANDS[command]))
    assert done.code == 2, done.out + done.err
    assert "odd" in done.err or "matches" in done.err, "the file is named, or nothing was found in the folder"
    assert "internal error" not in done.err
    assert len(done.err) < 5_000
    assert kailab("get", "nodes").code == 0


REPLAY_FILES = (
    "--fleet",
    "--queues",
    "--prices",
    "--failures",
    "--speeds",
    "--services",
    "--clusters",
    "--scheduler-config",
)


@pytest.mark.parametrize("option", ["", *REPLAY_FILES])
def test_a_replay_of_a_link_to_itself_is_told(kailab, home: Path, option: str) -> None:
    odd = home / "odd"
    odd.symlink_to(odd)
    (home / "trace.csv").write_text("submit,seconds,gpus\n0,60,1\n")
    fleet = () if option in ("--fleet", "--clusters") else ("--fleet", "lesson")
    done = kailab("replay", "trace.csv" if option else "odd", *fleet, *((option, "odd") if option else ()))
    assert done.code == 2
    assert "odd" in done.err
    assert "internal error" not in done.err


def test_columns_of_a_foreign_trace_are_not_listed_without_end(kailab, home: Path) -> None:
    (home / "trace.csv").write_text(",".join(f"column{number}" for number in range(5_000)) + "\n1\n")
    done = kailab("replay", "trace.csv", "--fleet", "lesson")
    assert done.code == 2
    assert "column0" in done.err
    assert "--columns" in done.err
    assert len(done.err) < 2_000


@pytest.mark.parametrize("number", ["nan", "inf", "1e400", "-1"])
def test_a_number_that_is_none_is_refused(kailab, home: Path, number: str) -> None:
    (home / "trace.csv").write_text("submit,seconds,gpus\n0,60,1\n")
    done = kailab("replay", "trace.csv", "--fleet", "lesson", "--estimates", number)
    assert done.code == 2
    assert "--estimates" in done.err
    assert "internal error" not in done.err


@pytest.mark.parametrize("option", ["--lease-duration", "--renew-deadline", "--retry-period", "--schedule-period"])
@pytest.mark.parametrize("number", ["nan", "inf", "-1"])
def test_times_of_the_scheduler_are_finite(kailab, home: Path, option: str, number: str) -> None:
    done = kailab("scheduler", "run", option, number)
    assert done.code == 2
    assert option in done.err
    assert "internal error" not in done.err


def test_a_deleted_current_folder_is_told(kailab, home: Path, monkeypatch) -> None:
    gone = home / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    done = kailab("replay", "trace.csv", "--fleet", "lesson")
    assert done.code == 2
    assert "the current folder was deleted" in done.err


def test_a_snapshot_does_not_replace_a_device(started, home: Path) -> None:
    """Root could: the file is renamed to its name."""
    os.mkfifo(home / "pipe")
    done = started("snapshot", "take", "pipe", "--force")
    assert done.code == 2
    assert "pipe: the snapshot can't be written: is a device, a pipe or a socket" in done.err
    assert (home / "pipe").is_fifo()


def test_output_to_a_full_disk_is_told(process) -> None:
    with open("/dev/full", "wb") as full:
        command = process("fleet", "list", stdout=full, stderr=subprocess.PIPE)
        _, err = command.communicate()
    assert command.returncode == 2
    assert b"the output can't be written: No space left on device" in err
    assert b"internal error" not in err


def test_doctor_of_a_state_behind_a_link_to_itself(kailab, home: Path) -> None:
    odd = home / "odd"
    odd.symlink_to(odd)
    done = kailab("doctor", "--state", "odd/lab.state")
    assert done.code in (0, 1)
    assert "internal error" not in done.err


@pytest.mark.parametrize("text", ["created: 2020-13-45\n", f"number: {'9' * 6_000}\n"])
@pytest.mark.parametrize(
    "command",
    [
        ("snapshot", "take", "--kubeconfig", "{}", "x.snap"),
        ("trace", "record", "--once", "--kubeconfig", "{}", "x.csv"),
    ],
)
def test_a_kubeconfig_with_values_that_python_cannot_hold_is_told(kailab, home: Path, command, text: str) -> None:
    odd = home / "odd.yaml"
    odd.write_text(text)
    done = kailab(*(word.format(odd) for word in command))
    assert done.code == 2
    assert "odd.yaml: no YAML" in done.err
    assert "internal error" not in done.err
    assert not list(home.glob("x.*"))


def test_an_empty_file(kailab, home: Path) -> None:
    kailab("up")
    empty = home / "empty.yaml"
    empty.write_text("")
    assert "no objects in" in kailab("apply", "-f", empty).err
    assert kailab("status", "--state", empty).code == 2
    assert kailab("up", "--fresh", "--fleet", empty).code == 2
    assert kailab("up", "--fresh", "--scheduler-config", empty).code == 0


def test_a_damaged_state_is_refused_or_is_the_same(busy, state: Path) -> None:
    """Flipped bytes, cut and doubled parts: whatever is left, StateError or the same lab."""
    sound = state.read_bytes()
    with Lab.resume(state) as lab:
        whole = lab.cluster.dump()
    source = random.Random(5)
    refused = 0
    for number in range(250):
        data = bytearray(sound)
        at = source.randrange(len(data) if number % 2 else 200)
        kind = number % 5
        if kind == 0:
            del data[at:]
        elif kind == 1:
            del data[at : at + source.randrange(1, 40)]
        elif kind == 2:
            data[at:at] = bytes(source.randrange(256) for _ in range(source.randrange(1, 8)))
        else:
            data[at] ^= 1 << source.randrange(8) if kind == 3 else 0xFF
        state.write_bytes(bytes(data))
        try:
            with Lab.resume(state) as lab:
                assert lab.cluster.dump() == whole, f"case {number}"
        except StateError:
            refused += 1
    assert refused > 200
