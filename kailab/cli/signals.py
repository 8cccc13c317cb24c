"""SIGTERM as Ctrl-C: whoever has brought something up takes it down and waits for that, however politely the end was asked for."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(KeyboardInterrupt):
    """By SIGTERM, as a service manager, a CI runner and ``timeout`` send it."""


@contextmanager
def terminate_in_order() -> Iterator[None]:
    """Within it SIGTERM is raised as ``Terminated`` where Ctrl-C is as KeyboardInterrupt."""
    # Python has signals for its main thread alone.
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
    """Within it the first SIGTERM or Ctrl-C is only noted, for who ends once it is right to; a second one has its way. Yields what tells: what to
    raise then, None while nobody asked."""
    asked: list[BaseException] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def back() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def note(number: int, frame: FrameType | None) -> None:
        asked.append(Terminated() if number == signal.SIGTERM else KeyboardInterrupt())
        back()

    for number in before:
        signal.signal(number, note)
    try:
        yield lambda: asked[0] if asked else None
    finally:
        back()


def _end(number: int, frame: FrameType | None) -> None:
    # A second one must not tear the taking down apart.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Terminated
