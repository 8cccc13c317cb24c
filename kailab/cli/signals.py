"""SIGTERM is handled as Ctrl-C, so that a command ends what it has started before it exits."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(KeyboardInterrupt):
    """The process received SIGTERM, from a service manager, a CI runner or ``timeout``."""


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
