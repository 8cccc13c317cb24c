"""Commands that end with everything they started."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kailab.cluster.polling import wait_until
from kailab.cluster.processes import find_process
from kailab.components.process_group import process_group

ENDINGS = (signal.SIGTERM, signal.SIGHUP)


def leave(script: str, ready: Callable[[subprocess.Popen[bytes]], object], error: BaseException) -> None:
    with process_group(["/bin/sh", "-c", script]) as process:
        ready(process)
        raise error


def test_what_a_command_started_ends_with_it(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"sleep 1000 & echo $! >{pids}; sleep 1000 & echo $! >>{pids}; wait"

    def both_run(_: object) -> None:
        assert wait_until(lambda: pids.exists() and len(pids.read_text().split()) == 2, 60)

    with pytest.raises(KeyboardInterrupt):
        leave(script, both_run, KeyboardInterrupt())
    started = [int(pid) for pid in pids.read_text().split()]
    assert wait_until(lambda: not any(map(find_process, started)), 60)


def test_an_interruption_is_told_though_the_command_has_ended() -> None:
    with pytest.raises(KeyboardInterrupt):
        leave("exit 0", lambda process: process.wait(), KeyboardInterrupt())


def test_an_interruption_while_the_last_of_it_ends() -> None:
    """Ctrl-C reaches who waits, and the wait takes note of the end before it goes on."""
    with pytest.raises(KeyboardInterrupt):
        leave(f"kill -INT {os.getpid()}; exit 1", lambda process: process.wait(60), AssertionError("it came too late"))


def test_what_outlives_its_command_ends_too(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    with pytest.raises(ValueError, match="any"):
        leave(f"sleep 1000 & echo $! >{pid}", lambda process: process.wait(), ValueError("any"))
    assert wait_until(lambda: find_process(int(pid.read_text())) is None, 60)


def test_a_command_that_ends_by_itself_is_left_alone() -> None:
    with process_group(["/bin/sh", "-c", "echo said; exit 3"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read() == b"said\n"
    assert process.returncode == 3


def test_who_hears_a_signal_hears_it_still(tmp_path: Path) -> None:
    heard: list[int] = []
    before = {number: signal.signal(number, lambda number, _: heard.append(number)) for number in ENDINGS}
    try:
        with process_group(["/bin/sh", "-c", f"kill -TERM {os.getpid()}; kill -HUP {os.getpid()}"]) as process:
            process.wait(60)
            assert wait_until(lambda: sorted(heard) == sorted(ENDINGS), 60)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with process_group(["/bin/sh", "-c", f"kill -HUP {os.getpid()}"]) as process:
            process.wait(60)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_signal_between_commands_ends_us_as_ever() -> None:
    # A lab of kailab's pytest plugin, opened earlier in this process, has a handler of its own.
    before = {number: signal.signal(number, signal.SIG_DFL) for number in ENDINGS}
    try:
        with process_group(["/bin/sh", "-c", "exit 0"]) as process:
            process.wait(60)
        assert all(signal.getsignal(number) is signal.SIG_DFL for number in ENDINGS)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
