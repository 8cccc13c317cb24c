"""Reading a file that a person named, or that came from a stranger: whatever it turns out to be, the answer is its content or an InputError.

A folder, a device without end, a pipe that nobody writes to, a file that is not text and one that unpacks to more than there is memory are all things
that a path can lead to. So such files are opened here and nowhere else (``tests/structure/test_reading.py``).
"""

from __future__ import annotations

import errno
import os
import select
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from kailab.errors import InputError, Where

LARGEST_FILE = 256 * 2**20  # bytes
PATIENCE_SECONDS = 5.0
"""How long a pipe is waited for to which nobody has written yet."""
LONG_PATIENCE_SECONDS = 60.0
"""And for more of what somebody has begun to write."""
LARGEST_KEPT = 4 * 2**30  # bytes
LARGEST_UNPACKED = 2 * 2**30  # bytes
_DENSEST = 500
"""No record of a lab is so many times as large as it is when packed; nothing but zeros is twice as dense."""
_PIECE = 2**20


def read_bytes(path: str | Path, largest: int | None = LARGEST_FILE) -> bytes:
    """All of a file, or of a pipe (as a shell's ``<(...)`` is one). Raises InputError. ``largest``: None for a file of any size, which can't be a pipe."""
    place = Where(file=str(path))
    with _opened(path, pipe=largest is not None) as file:
        # One byte more than allowed shows that it is too large, whatever size it says it has.
        data = file.read() if largest is None else _read(file, largest + 1, place)
    if largest is not None and len(data) > largest:
        raise InputError(f"larger than {largest // 2**20} MiB", place)
    return data


@contextmanager
def open_file(path: str | Path) -> Iterator[BinaryIO]:
    """A file to be read piece by piece, for what may be large. Raises InputError, also for a pipe, and for what comes up while it is read."""
    with _opened(path, pipe=False) as file:
        yield file


@contextmanager
def _opened(path: str | Path, *, pipe: bool) -> Iterator[BinaryIO]:
    """``pipe``: it may be one. Raises InputError."""
    place = Where(file=str(path))
    try:
        # Opening a pipe to which nobody writes would block for ever, before anything could be asked of it.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if stat.S_ISFIFO(mode) and not pipe:
                raise InputError("is a pipe; expected a file", place)
            # The null device is a file without content to those who name it.
            null = os.path.samestat(os.fstat(file.fileno()), os.stat(os.devnull))
            if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or null):
                raise InputError("is a device or a socket; expected a file", place)
            yield file
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(f"can't be read: {reason}", place) from error


def _read(file: BinaryIO, most: int, place: Where) -> bytes:
    """So many bytes, or all that there are. Of a pipe each piece is waited for no longer than patience lasts: whoever has it open may never write."""
    if not stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
        return file.read(most)
    pieces: list[bytes] = []
    missing = most
    while missing > 0:
        _await_writer(file.fileno(), place, PATIENCE_SECONDS if not pieces else LONG_PATIENCE_SECONDS)
        piece = os.read(file.fileno(), min(missing, _PIECE))
        if not piece:
            break
        pieces.append(piece)
        missing -= len(piece)
    return b"".join(pieces)


def unpacked(data: bytes, place: Where, largest: int = LARGEST_UNPACKED) -> bytes:
    """What was packed with gzip or zlib. Raises InputError where it is damaged, or more than ``largest`` bytes, or than any record would be that packs so small."""
    largest = min(largest, max(LARGEST_FILE, _DENSEST * len(data)))
    pieces: list[bytes] = []
    total = 0
    while data:
        try:
            # 32: whichever of the two its head says.
            unpacking = zlib.decompressobj(32 + zlib.MAX_WBITS)
            piece = unpacking.decompress(data, largest + 1 - total)
        except zlib.error as error:
            raise InputError(f"can't be unpacked: {error}", place) from None
        pieces.append(piece)
        total += len(piece)
        if total > largest:
            raise InputError(f"larger than {largest // 2**20} MiB once it is unpacked", place)
        if not unpacking.eof:
            raise InputError("can't be unpacked: it is cut short", place)
        # Of several members one after the other; zeros behind the last are padding.
        data = unpacking.unused_data.lstrip(b"\0")
    return b"".join(pieces)


def file_bytes(path: str | Path, largest: int = LARGEST_KEPT) -> bytes:
    """All of a file that kailab wrote, or of which somebody says so. Raises OSError, also for what is no file, or is larger."""
    if not Path(path).exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    try:
        with open_file(path) as file:
            data = file.read(largest + 1)
    except InputError as error:
        if isinstance(error.__cause__, OSError):
            raise error.__cause__ from None
        raise OSError(errno.EINVAL, error.message, str(path)) from None
    if len(data) > largest:
        raise OSError(errno.EFBIG, f"larger than {largest // 2**20} MiB", str(path))
    return data


def read_text(path: str | Path) -> str:
    """The text of a file. Raises InputError, with the line of the first character that is none."""
    return decode_text(read_bytes(path), str(path))


def decode_text(data: bytes, file: str) -> str:
    """UTF-8, with or without a byte order mark. Raises InputError."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError("not UTF-8 text", Where(file=file, line=line)) from None


def _await_writer(pipe: int, place: Where, patience: float) -> None:
    waiting = select.poll()
    waiting.register(pipe, select.POLLIN | select.POLLHUP)
    if not waiting.poll(1000 * patience):
        raise InputError(f"is a pipe to which nobody has written for {patience:g} s; expected a file", place)
