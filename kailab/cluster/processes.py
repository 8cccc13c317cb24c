"""Inspects processes of this machine, any of which may end at any time.

Functions return None or an empty value, and do not raise, for a process that has ended, is a zombie, or may not be
inspected.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from kailab.cluster.polling import poll_until

if TYPE_CHECKING:
    import psutil

T = TypeVar("T")
EXEC_SECONDS = 5.0
_POLL_SECONDS = 0.02
_KERNEL = 2  # parent of the kernel's own threads, which have neither environment nor command line


def processors() -> int:
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def find_process(pid: int, since: float | None = None) -> psutil.Process | None:
    """The living process of this id, or None. ``since`` (seconds since the epoch): only if it started at that time."""
    import psutil

    try:
        process = psutil.Process(pid or -1)  # process 0 is the system itself, on some systems
    except (psutil.Error, ValueError):
        return None
    # Process ids are reused; an id with its start time is unique.
    born = ask_process(process, psutil.Process.create_time)
    return process if born is not None and since in (None, born) else None


def this_process() -> tuple[int, float]:
    """The id and start time of this process, which identify it."""
    import psutil

    return os.getpid(), psutil.Process().create_time()


def ask_process(process: psutil.Process, question: Callable[[psutil.Process], T]) -> T | None:
    """What a living process answers; None: it has ended, or may not be asked."""
    import psutil

    try:
        # The status comes last: the process may end while it answers.
        answer = question(process)
        return None if process.status() == psutil.STATUS_ZOMBIE else answer
    except (psutil.Error, OSError):
        return None


def environment(process: psutil.Process) -> dict[str, str]:
    """The environment of a living process; empty: it has none, or does not answer.

    During execve, which takes a while on a busy machine, a process shows neither environment nor command line. This
    function waits for that to end: the process is no stranger, and has not ended.
    """

    def read(asked_process: psutil.Process) -> dict[str, str] | None:
        # A command line without an environment: ask again, execve may have ended between the two questions.
        return asked_process.environ() or (asked_process.environ() if asked_process.cmdline() else None)

    def known(asked_process: psutil.Process) -> dict[str, str] | None:
        if _KERNEL in (asked_process.pid, asked_process.ppid()):
            return None
        return poll_until(lambda: read(asked_process), lambda seen: seen is not None, EXEC_SECONDS, pause=_POLL_SECONDS)

    return ask_process(process, known) or {}


def send_signal(process: psutil.Process, number: int) -> None:
    """Send a signal, if the process is still there."""
    ask_process(process, lambda target: target.send_signal(number))
