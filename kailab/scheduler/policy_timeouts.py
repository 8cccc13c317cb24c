"""An end to policies that never answer: code of others runs within the scheduler, and a loop without an end in it would hold the scheduler for ever.

A thread looks once a second at what the thread that decides is at. Where one and the same question to a policy is under way for too
long, an exception is raised in the thread that asked; it becomes the PolicyError of that question. Nothing is spent on single questions.
Looks are counted, not seconds: a process that was stopped for an hour is not taken for a policy that took one.

In the main thread a policy is also woken where it sleeps or waits, by SIGALRM, unless somebody else handles that signal. In another
thread such a policy is ended once it wakes.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import sleep
from types import CodeType, FrameType

from kailab.errors import PolicyError

CHECKS_BEFORE_TIMEOUT = 30
"""After so many looks at one question its policy is given up."""
CHECK_SECONDS = 1.0


class PolicyTimeout(PolicyError):
    """Raised in the thread that asked. Python makes it without arguments there, and with its message where it comes from another process."""

    def __init__(self, message: str = "no answer came, and it was given up") -> None:
        super().__init__(message)


class PolicyWatchdog:
    """``looks`` at one question, each ``every`` seconds."""

    def __init__(self, looks: int = CHECKS_BEFORE_TIMEOUT, every: float = CHECK_SECONDS) -> None:
        self._looks, self._every = looks, every
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        """Also in a process that was forked: threads do not come along."""
        self._changed = threading.Condition()
        self._asking: dict[int, tuple[CodeType, ...]] = {}
        self._thread: threading.Thread | None = None

    @contextmanager
    def ends(self, asks: CodeType) -> Iterator[None]:
        """Within it, this thread's questions end: a question is a call of the function with this code."""
        own = threading.get_ident()
        with self._changed:
            before = self._asking.get(own, ())
            self._asking[own] = (*before, asks)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._watch, name="kailab-patience", daemon=True)
                self._thread.start()
            self._changed.notify()
        try:
            with _woken():
                yield
        finally:
            with self._changed:
                if before:
                    self._asking[own] = before
                else:
                    del self._asking[own]

    def _watch(self) -> None:
        seen: dict[int, tuple[FrameType, int]] = {}
        while True:
            with self._changed:
                if not self._asking:
                    seen.clear()  # a frame that is held keeps what it knows alive
                    self._changed.wait_for(lambda: self._asking)
            sleep(self._every)
            with self._changed:
                seen = self._look(seen)

    def _look(self, seen: dict[int, tuple[FrameType, int]]) -> dict[int, tuple[FrameType, int]]:
        """By thread: the question that is under way, and at how many looks one after the other it was."""
        frames = sys._current_frames()
        found: dict[int, tuple[FrameType, int]] = {}
        for thread, codes in self._asking.items():
            question = _question(frames.get(thread), codes)
            if question is None:
                continue
            before, looks = seen.get(thread, (None, 0))
            # As long as a frame is held, no other is at its place.
            looks = looks + 1 if before is question else 1
            found[thread] = question, looks
            if looks > self._looks:
                _end(thread)
        return found


def _question(frame: FrameType | None, codes: tuple[CodeType, ...]) -> FrameType | None:
    while frame is not None and frame.f_code not in codes:
        frame = frame.f_back
    return frame


def _end(thread: int) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(PolicyTimeout))
    if thread == threading.main_thread().ident and signal.getsignal(signal.SIGALRM) is _wake:
        signal.pthread_kill(thread, signal.SIGALRM)


def _wake(number: int, frame: FrameType | None) -> None:
    """Nothing: a sleeping thread comes back to Python for it, and meets the exception there."""


@contextmanager
def _woken() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGALRM) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGALRM, _wake)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


WATCHDOG = PolicyWatchdog()
