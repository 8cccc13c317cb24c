"""A watchdog for policies that never return: policies of other distributions run inside the scheduler, and an endless loop would block it.

A watchdog thread looks once a second at the stack of the deciding thread. If the same policy call is on it for too long, the watchdog
raises PolicyTimeout in that thread. Single calls cost nothing extra. The watchdog counts its checks and not seconds, so a process that was
stopped for an hour causes no timeout.

In the main thread SIGALRM also interrupts a sleeping policy, unless other code handles that signal. In another thread a sleeping policy
ends when it wakes.
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
"""A policy call is ended after this many checks."""
CHECK_SECONDS = 1.0


class PolicyTimeout(PolicyError):
    """Raised in the thread of the policy call. Python makes it without arguments there, and with its message when it comes from another
    process."""

    def __init__(self, message: str = "the policy did not return in time") -> None:
        super().__init__(message)


class PolicyWatchdog:
    """Ends a policy call after ``looks`` checks, one every ``every`` seconds."""

    def __init__(self, looks: int = CHECKS_BEFORE_TIMEOUT, every: float = CHECK_SECONDS) -> None:
        self._looks, self._every = looks, every
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        """Start anew; also in a forked process, which has no watchdog thread."""
        self._changed = threading.Condition()
        self._watched: dict[int, tuple[CodeType, ...]] = {}
        self._thread: threading.Thread | None = None

    @contextmanager
    def ends(self, asks: CodeType) -> Iterator[None]:
        """Within this context, watch this thread for calls of the function with the code ``asks``."""
        own = threading.get_ident()
        with self._changed:
            outer = self._watched.get(own, ())
            self._watched[own] = (*outer, asks)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._watch, name="kailab-policy-watchdog", daemon=True)
                self._thread.start()
            self._changed.notify()
        try:
            with _interruptible():
                yield
        finally:
            with self._changed:
                if outer:
                    self._watched[own] = outer
                else:
                    del self._watched[own]

    def _watch(self) -> None:
        seen: dict[int, tuple[FrameType, int]] = {}
        while True:
            with self._changed:
                if not self._watched:
                    seen.clear()  # a frame keeps its locals alive
                    self._changed.wait_for(lambda: self._watched)
            sleep(self._every)
            with self._changed:
                seen = self._check(seen)

    def _check(self, seen: dict[int, tuple[FrameType, int]]) -> dict[int, tuple[FrameType, int]]:
        """Check each watched thread. Returns by thread the frame of its policy call and the number of checks that have seen it."""
        frames = sys._current_frames()
        calls: dict[int, tuple[FrameType, int]] = {}
        for thread, codes in self._watched.items():
            call = _watched_call(frames.get(thread), codes)
            if call is None:
                continue
            # ``seen`` holds the frame, so no new frame can have its identity.
            before, looks = seen.get(thread, (None, 0))
            looks = looks + 1 if before is call else 1
            calls[thread] = call, looks
            if looks > self._looks:
                _end(thread)
        return calls


def _watched_call(frame: FrameType | None, codes: tuple[CodeType, ...]) -> FrameType | None:
    while frame is not None and frame.f_code not in codes:
        frame = frame.f_back
    return frame


def _end(thread: int) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(PolicyTimeout))
    if thread == threading.main_thread().ident and signal.getsignal(signal.SIGALRM) is _wake:
        signal.pthread_kill(thread, signal.SIGALRM)


def _wake(number: int, frame: FrameType | None) -> None:
    """Do nothing: the signal only returns a sleeping thread to Python, where the exception is raised."""


@contextmanager
def _interruptible() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGALRM) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGALRM, _wake)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


WATCHDOG = PolicyWatchdog()
