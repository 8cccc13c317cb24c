"""Processes that outlive the command that started them: who of them lives."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from kailab.cluster import processes
from kailab.cluster.controlplane import ControlPlane, running
from kailab.cluster.controlplane import supervision as module
from kailab.cluster.controlplane.cluster_folder import ControlPlaneRecord
from kailab.cluster.controlplane.supervision import Supervision, new_process_record, processes_of
from kailab.cluster.polling import wait_until
from kailab.errors import StateError


@pytest.fixture
def supervision(tmp_path: Path) -> Iterator[Supervision]:
    made = Supervision(tmp_path)
    yield made
    made.end_all()


def test_a_process_that_takes_up_its_program_has_not_ended(
    supervision: Supervision, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the kernel carries out execve nobody can read the environment, by which a process is known, nor the command."""
    read = psutil.Process.environ, psutil.Process.cmdline
    unreadable: dict[int, int] = {}

    def late_environ(process: psutil.Process) -> dict[str, str]:
        unreadable[process.pid] = unreadable.get(process.pid, 5) - 1
        return {} if unreadable[process.pid] > 0 else read[0](process)

    def late_cmdline(process: psutil.Process) -> list[str]:
        return [] if unreadable.get(process.pid, 5) > 0 else read[1](process)

    one = new_process_record("sleeper", ["/bin/sleep", "60"])
    supervision.start(one)
    monkeypatch.setattr(psutil.Process, "environ", late_environ)
    monkeypatch.setattr(psutil.Process, "cmdline", late_cmdline)
    assert supervision.status(one).running
    unreadable.clear()
    assert supervision.status(one).pid in {process.pid for process in processes_of(supervision.folder)}
    monkeypatch.undo()
    supervision.stop(["sleeper"])
    assert not supervision.status(one).running


def test_a_process_whose_end_the_shell_above_has_not_seen_runs(
    supervision: Supervision, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it shows nothing of itself."""
    one = new_process_record("sleeper", ["/bin/sleep", "60"])
    supervision.start(one)
    pid, environ, cmdline = supervision.status(one).pid, psutil.Process.environ, psutil.Process.cmdline
    monkeypatch.setattr(psutil.Process, "environ", lambda asked: {} if asked.pid == pid else environ(asked))
    monkeypatch.setattr(psutil.Process, "cmdline", lambda asked: [] if asked.pid == pid else cmdline(asked))
    monkeypatch.setattr(processes, "EXEC_SECONDS", 0.05)
    monkeypatch.setattr(module, "LAST_WORD_SECONDS", 0.2)
    assert supervision.status(one).running
    os.kill(pid, signal.SIGKILL)
    seen = supervision.status(one)
    assert (seen.running, seen.exit) == (False, 128 + signal.SIGKILL)


def test_a_process_that_was_killed_with_the_shell_above_it(supervision: Supervision) -> None:
    one = new_process_record("sleeper", ["/bin/sleep", "60"])
    supervision.start(one)
    (shell,) = {process.pid for process in processes_of(supervision.folder)} - {supervision.status(one).pid}
    os.killpg(shell, signal.SIGKILL)
    assert wait_until(lambda: not supervision.status(one).running, 60)
    seen = supervision.status(one)
    assert (seen.exit, seen.why) == (
        None,
        "it was killed together with its parent shell, so its exit code is unknown; its log is empty",
    )


@pytest.mark.parametrize("answered", [True, False])
@pytest.mark.parametrize("question", ["environ", "cmdline", "status", "ppid", "create_time"])
def test_a_process_may_end_at_any_question(
    supervision: Supervision, monkeypatch: pytest.MonkeyPatch, question: str, answered: bool
) -> None:
    """As all do when a control plane goes down while somebody looks: each is a zombie right before a question or right after."""
    one = new_process_record("sleeper", ["/bin/sleep", "60"])
    supervision.start(one)
    mine = {process.pid for process in processes_of(supervision.folder)}
    if question == "cmdline":  # asked of the shell above, where it has not told yet how the process ended
        sleeper = supervision.status(one).pid
        (shell,) = mine - {sleeper}
        os.kill(shell, signal.SIGSTOP)
        supervision.signal("sleeper", signal.SIGKILL)
        assert wait_until(lambda: _ended(sleeper), 60, pause=0.001)  # on a busy machine it lives for a moment yet
    answer = getattr(psutil.Process, question)

    def its_last(process: psutil.Process) -> object:
        said = answer(process) if answered else None
        if process.pid in mine:
            mine.discard(process.pid)
            os.kill(process.pid, signal.SIGKILL)
            wait_until(lambda: _ended(process.pid), 60, pause=0.001)
        return said if answered else answer(process)

    monkeypatch.setattr(psutil.Process, question, its_last)
    running()
    supervision.status(one)
    monkeypatch.undo()
    seen = supervision.status(one)
    assert not seen.running
    assert processes_of(supervision.folder) == []


def _ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_signal_to_a_process_that_has_ended_does_nothing() -> None:
    child = subprocess.Popen(["/bin/sleep", "600"])
    held = psutil.Process(child.pid)
    child.kill()
    assert wait_until(lambda: held.status() == psutil.STATUS_ZOMBIE, 60)
    for _ in ("a zombie", "nobody"):
        processes.send_signal(held, signal.SIGTERM)
        assert processes.ask_process(held, lambda process: process.memory_info()) is None
        assert processes.environment(held) == {}
        assert processes.find_process(child.pid) is None
        child.wait()


def test_a_reused_process_id_is_a_stranger() -> None:
    pid, since = processes.this_process()
    assert processes.find_process(pid, since) == psutil.Process()
    assert processes.find_process(pid, since - 100) is None
    assert processes.find_process(0) is None


def test_a_start_whose_process_is_a_zombie_was_cut_short(tmp_path: Path) -> None:
    child = subprocess.Popen(["/bin/sleep", "600"])
    folder = tmp_path / "plane"
    folder.mkdir()
    known = ControlPlaneRecord(
        kubernetes="v1.35.4",
        ports={},
        binaries={},
        starter=(child.pid, psutil.Process(child.pid).create_time()),
        created=time.time(),
    )
    known.write(folder)
    with pytest.raises(StateError, match=f"being started here by process {child.pid}"):
        ControlPlane.attach(folder)
    child.kill()
    assert wait_until(lambda: _ended(child.pid), 60)
    with pytest.raises(StateError, match="was interrupted"):
        ControlPlane.attach(folder)
    child.wait()


def test_how_a_process_ended_is_known(supervision: Supervision) -> None:
    one = new_process_record("short", ["/bin/sh", "-c", "echo enough of this; exit 7"])
    supervision.start(one)
    assert wait_until(lambda: not supervision.status(one).running, 120)
    seen = supervision.status(one)
    assert seen.exit == 7
    assert seen.why == "it ended with exit code 7; the last lines of its log:\n  enough of this"
