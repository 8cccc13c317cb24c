"""Processes that outlive the command that started them: who of them lives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from kailab.cluster.controlplane.supervision import Supervision, processes_of, record
from kailab.cluster.waiting import wait_until


@pytest.fixture
def supervision(tmp_path: Path) -> Iterator[Supervision]:
    made = Supervision(tmp_path)
    yield made
    made.end_all()


def test_a_process_that_takes_up_its_program_has_not_ended(
    supervision: Supervision, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the kernel carries out execve nobody can read the environment, by which a process is known."""
    read = psutil.Process.environ
    unreadable: dict[int, int] = {}

    def late(process: psutil.Process) -> dict[str, str]:
        unreadable[process.pid] = unreadable.get(process.pid, 5) - 1
        return {} if unreadable[process.pid] > 0 else read(process)

    monkeypatch.setattr(psutil.Process, "environ", late)
    one = record("sleeper", ["/bin/sleep", "60"])
    supervision.start(one)
    assert supervision.look(one).running
    unreadable.clear()
    assert supervision.look(one).pid in {process.pid for process in processes_of(supervision.folder)}
    supervision.stop(["sleeper"])
    assert not supervision.look(one).running


def test_how_a_process_ended_is_known(supervision: Supervision) -> None:
    one = record("short", ["/bin/sh", "-c", "echo enough of this; exit 7"])
    supervision.start(one)
    assert wait_until(lambda: not supervision.look(one).running, 30)
    seen = supervision.look(one)
    assert seen.exit == 7
    assert seen.why == "it ended with exit code 7; its last words:\n  enough of this"
