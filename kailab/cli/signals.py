"""Ctrl-C and SIGTERM: a command ends what it has started before it exits, and says that it was interrupted."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(KeyboardInterrupt):
    """The process received SIGTERM, from a service manager, a CI runner or ``timeout``."""


class Interrupts:
    """Records whether Ctrl-C was pressed since the command began.

    The exception alone is no reliable sign. Python raises KeyboardInterrupt wherever the main thread is: in a callback or in C code that
    drops exceptions, or in an import that turns it into another one (a class statement makes it a RuntimeError)."""

    def __init__(self) -> None:
        self.came = False

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Record Ctrl-C while the block runs, and raise KeyboardInterrupt as before."""
        # Python handles signals in the main thread only. An ignored signal, as under nohup, and a caller's own handler stay.
        main = threading.current_thread() is threading.main_thread()
        if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return
        signal.signal(signal.SIGINT, self._record)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self.came = False  # a later command of this process may have a handler of its own

    def check(self) -> None:
        """Raise KeyboardInterrupt if Ctrl-C was pressed: before something is made to last."""
        if self.came:
            raise KeyboardInterrupt

    def _record(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        signal.default_int_handler(number, frame)


interrupts = Interrupts()
"""Of this process: it has one main thread and runs one command at a time."""


@contextmanager
def terminate_in_order() -> Iterator[None]:
    """Raise ``Terminated`` on SIGTERM, as KeyboardInterrupt is raised on Ctrl-C."""
    # Python handles signals in the main thread only.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def defer_interrupts() -> Iterator[Callable[[], BaseException | None]]:
    """Record the first SIGTERM or Ctrl-C instead of raising it, so that the caller can end at a safe point; a second one acts at once.
    Yields a function that returns the exception to raise; None if there was no signal."""
    pending: list[BaseException] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def record(number: int, frame: FrameType | None) -> None:
        pending.append(Terminated() if number == signal.SIGTERM else KeyboardInterrupt())
        restore()

    for number in before:
        signal.signal(number, record)
    try:
        yield lambda: pending[0] if pending else None
    finally:
        restore()


def _end(number: int, frame: FrameType | None) -> None:
    # A second SIGTERM must not interrupt the clean-up.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Terminated
