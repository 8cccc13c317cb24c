"""Reading a file that a person named: whatever it turns out to be, the answer is its content or an InputError.

A folder, a device without end, a pipe that nobody writes to and a file that is not text are all things that a path can lead to.
"""

from __future__ import annotations

import os
import select
import stat
from pathlib import Path

from kailab.errors import InputError, Where

LARGEST_FILE = 256 * 2**20  # bytes
PATIENCE_SECONDS = 5.0
"""How long a pipe is waited for to which nobody has written yet."""


def read_bytes(path: str | Path, largest: int | None = LARGEST_FILE) -> bytes:
    """All of a file, or of a pipe (as a shell's ``<(...)`` is one). Raises InputError. ``largest``: None for any size."""
    place = Where(file=str(path))
    try:
        # Opening a pipe to which nobody writes would block for ever, before anything could be asked of it.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if stat.S_ISFIFO(mode):
                _await_writer(file.fileno(), place)
            # The null device is a file without content to those who name it.
            elif not stat.S_ISREG(mode) and not os.path.samestat(os.fstat(file.fileno()), os.stat(os.devnull)):
                raise InputError("is a device or a socket; expected a file", place)
            os.set_blocking(file.fileno(), True)
            # One byte more than allowed shows that it is too large, whatever size it says it has.
            data = file.read() if largest is None else file.read(largest + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(f"can't be read: {reason}", place) from error
    if largest is not None and len(data) > largest:
        raise InputError(f"larger than {largest // 2**20} MiB", place)
    return data


def read_text(path: str | Path) -> str:
    """The text of a file. Raises InputError, with the line of the first character that is none."""
    return decoded(read_bytes(path), str(path))


def decoded(data: bytes, file: str) -> str:
    """UTF-8, with or without a byte order mark. Raises InputError."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError("not UTF-8 text", Where(file=file, line=line)) from None


def _await_writer(pipe: int, place: Where) -> None:
    waiting = select.poll()
    waiting.register(pipe, select.POLLIN | select.POLLHUP)
    if not waiting.poll(1000 * PATIENCE_SECONDS):
        raise InputError(f"is a pipe to which nobody has written for {PATIENCE_SECONDS:g} s; expected a file", place)
