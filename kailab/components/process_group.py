"""Commands: short ones, and those that start processes of their own, which all end with this process and with the command."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

_CHECK_SECONDS = 2.0
_END_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
"""Signals that end a process by default. They reach only this process, because the command has a group of its own."""


def run_command(command: Sequence[str], seconds: float) -> subprocess.CompletedProcess[str]:
    """Run a short command without input to its end, and return it with its output. Raises OSError, subprocess.TimeoutExpired."""
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=seconds,
        check=False,
        stdin=subprocess.DEVNULL,
    )


@contextmanager
def process_group(command: Sequence[str], **how: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command in a process group of its own. An exception that leaves the block ends the whole group; SIGTERM and
    SIGHUP to this process raise KeyboardInterrupt, unless it has handlers for them. ``how``: see subprocess.Popen."""
    with (
        _EndSignals() as signals,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, **how) as process,
    ):
        try:
            signals.raise_from_now_on()
            yield process
        except BaseException:
            # The group may be empty; macOS reports zombies by another error.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            raise


def wait_for_end(process: subprocess.Popen[bytes], seconds: float, check: Callable[[], None] = lambda: None) -> bool:
    """Wait for a command, at most ``seconds``; True if it ended. ``check``: called repeatedly meanwhile; its exceptions
    pass through."""
    until = time.monotonic() + seconds
    while True:
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_CHECK_SECONDS)
            return True
        check()
        if time.monotonic() > until:
            return False


class _EndSignals:
    """Records a signal that ends this process, and raises it as KeyboardInterrupt once the command's process is known,
    so that code which cleans up after Ctrl-C does so after these signals, too."""

    def __init__(self) -> None:
        self._received = 0
        self._raising = False
        self._taken: list[int] = []

    def __enter__(self) -> _EndSignals:
        # Only the main thread may set handlers. An ignored signal, as under nohup, stays ignored.
        if threading.current_thread() is threading.main_thread():
            self._taken = [number for number in _END_SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
        for number in self._taken:
            signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number in self._taken:
            signal.signal(number, signal.SIG_DFL)

    def raise_from_now_on(self) -> None:
        self._raising = True
        if self._received:
            self._end()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._received = number
        if self._raising:
            self._end()

    def _end(self) -> None:
        raise KeyboardInterrupt(signal.Signals(self._received).name)
