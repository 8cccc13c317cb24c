"""Commands that start processes of their own: all of them end with this process, and with the command."""

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

_LOOK_SECONDS = 2.0
_ENDINGS = (signal.SIGTERM, signal.SIGHUP)
"""Signals that end a process by default. They reach only this process, because the command has a group of its own."""


@contextmanager
def process_group(command: Sequence[str], **how: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command in a process group of its own. An exception that leaves the block ends the whole group; SIGTERM and
    SIGHUP to this process raise KeyboardInterrupt, unless it has handlers for them. ``how``: see subprocess.Popen."""
    with (
        _Endings() as endings,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, **how) as process,
    ):
        try:
            endings.heed()
            yield process
        except BaseException:
            # The group may be empty; macOS reports zombies by another error.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            raise


def wait_for_end(process: subprocess.Popen[bytes], seconds: float, look: Callable[[], None] = lambda: None) -> bool:
    """Wait for a command, at most ``seconds``; True if it ended. ``look``: called repeatedly meanwhile; its exceptions
    pass through."""
    until = time.monotonic() + seconds
    while True:
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_LOOK_SECONDS)
            return True
        look()
        if time.monotonic() > until:
            return False


class _Endings:
    """Records a signal that ends this process, and raises it as KeyboardInterrupt once the command's process is known,
    so that code which cleans up after Ctrl-C does so after these signals, too."""

    def __init__(self) -> None:
        self._came = 0
        self._heeded = False
        self._taken: list[int] = []

    def __enter__(self) -> _Endings:
        # Only the main thread may set handlers. An ignored signal, as under nohup, stays ignored.
        if threading.current_thread() is threading.main_thread():
            self._taken = [number for number in _ENDINGS if signal.getsignal(number) is signal.SIG_DFL]
        for number in self._taken:
            signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number in self._taken:
            signal.signal(number, signal.SIG_DFL)

    def heed(self) -> None:
        self._heeded = True
        if self._came:
            self._end()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came = number
        if self._heeded:
            self._end()

    def _end(self) -> None:
        raise KeyboardInterrupt(signal.Signals(self._came).name)
