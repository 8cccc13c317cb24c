"""Commands as processes: killed, interrupted, cut off, without colour."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kailab.lab import Lab
from tests.cli.conftest import read_terminal

Start = Callable[..., "subprocess.Popen[bytes]"]


def _locked_by(state: Path, process: subprocess.Popen[bytes]) -> bool:
    lock = Path(f"{state}.lock")
    return lock.exists() and lock.read_text().strip() == str(process.pid)


def _wait_for(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.01)


@pytest.mark.timeout(600)
def test_killed_while_it_reads(busy, state: Path, process: Start) -> None:
    before = state.read_bytes()
    command = process("apply", "-f", "-", stdin=subprocess.PIPE)
    _wait_for(lambda: _locked_by(state, command))
    command.send_signal(signal.SIGKILL)
    command.wait()
    assert state.read_bytes() == before
    assert busy("delete", "job", "train").code == 0  # the lock went with the process


@pytest.mark.timeout(600)
def test_killed_at_any_moment_the_state_is_whole(busy, state: Path, process: Start) -> None:
    """Old or new, never in between."""
    before = state.read_bytes()
    outcomes = set()
    for delay in (0.0, 0.05, 0.1, 0.2, 0.4):
        state.write_bytes(before)
        command = process("delete", "job", "train")
        _wait_for(lambda command=command: _locked_by(state, command) or command.poll() is not None)
        time.sleep(delay)
        command.kill()
        command.communicate()
        with Lab.resume(state) as lab:
            pods = len(lab.get("Pod"))
        assert pods in (0, 20)
        assert (state.read_bytes() == before) == (pods == 20)
        outcomes.add(pods)
    assert 20 in outcomes


@pytest.mark.timeout(600)
def test_interrupted(busy, state: Path, process: Start) -> None:
    before = state.read_bytes()
    command = process("apply", "-f", "-", stdin=subprocess.PIPE)
    _wait_for(lambda: _locked_by(state, command))
    time.sleep(0.2)
    command.send_signal(signal.SIGINT)
    _, err = command.communicate()
    assert command.returncode == 130
    assert b"interrupted" in err
    assert b"Traceback" not in err
    assert state.read_bytes() == before


LATE = """
import runpy
from kailab.cli import main
def interrupted():
    try:
        exec("raise KeyboardInterrupt")
    except KeyboardInterrupt:
        raise SystemExit(130)
main.main = interrupted
runpy.run_module("kailab", run_name="__main__", alter_sys=True)
"""


def test_an_interrupt_that_met_executed_code_has_the_exit_code_too(tmp_path: Path) -> None:
    """CPython alone would end such a process by the signal, however late and however well it was caught."""
    (tmp_path / "late.py").write_text(LATE)
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])])
    done = subprocess.run([sys.executable, "-m", "late"], env={**os.environ, "PYTHONPATH": path}, check=False)
    assert done.returncode == 130


@pytest.mark.timeout(600)
def test_nobody_reads_on(busy, process: Start) -> None:
    command = process("get", "pods,events,jobs,nodes", "-o", "yaml")
    assert command.stdout is not None
    command.stdout.close()  # long before anything is written
    assert command.stderr is not None
    err = command.stderr.read()
    assert command.wait() == 141
    assert err == b""


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("setting", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_colour_only_where_it_is_wanted(busy, process: Start, setting: dict[str, str], coloured: bool) -> None:
    leader, terminal = pty.openpty()
    env = {**os.environ, "TERM": "xterm"}
    env.pop("NO_COLOR", None)
    command = process("get", "podgroups", stdout=terminal, env={**env, **setting})
    os.close(terminal)
    said = read_terminal(leader)
    assert command.wait() == 0
    assert (b"\x1b[" in said) == coloured
    assert b"OverLimit" in said


@pytest.mark.timeout(600)
def test_no_colour_into_a_pipe(busy, process: Start) -> None:
    out, err = process("get", "pods").communicate()
    assert b"\x1b" not in out + err
    out, err = process("get", "ghosts").communicate()
    assert err.startswith(b"error: ")
    assert b"\x1b" not in err


@pytest.mark.timeout(600)
def test_help_needs_little(process: Start) -> None:
    """Help imports neither the lab nor numpy: what makes it quick."""
    out, _ = process(
        "--help", env={**os.environ, "PYTHONPROFILEIMPORTTIME": "1"}, stderr=subprocess.STDOUT
    ).communicate()
    imported = {line.rpartition(b"|")[2].strip() for line in out.splitlines() if line.startswith(b"import time:")}
    assert b"kailab.cli.main" in imported
    assert not imported & {b"numpy", b"kailab.lab", b"kailab.engine", b"rich", b"yaml", b"kubernetes", b"jinja2"}
    assert b"Usage: kailab" in out
