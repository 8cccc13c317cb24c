"""Read files that a user named: return their content, or raise InputError whatever the path leads to.

A path may lead to a folder, an endless device, a pipe without a writer, a file that is not text, or an archive that unpacks to more
than the memory holds. All such files are opened in this module (``tests/structure/test_reading.py`` checks that).
"""

from __future__ import annotations

import codecs
import errno
import os
import select
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from kailab.errors import InputError, Where

STDIN = "<stdin>"
"""The standard input as a file name in messages."""
LARGEST_FILE = 256 * 2**20  # bytes
PATIENCE_SECONDS = 5.0
"""How long to wait for the first data of a pipe."""
LONG_PATIENCE_SECONDS = 60.0
"""How long to wait for further data of a pipe."""
LARGEST_KEPT = 4 * 2**30  # bytes
LARGEST_UNPACKED = 2 * 2**30  # bytes
_DENSEST = 500
"""The largest accepted ratio of unpacked to packed size. No record of a lab reaches it; only zeros are packed twice as densely."""
_PIECE = 2**20
HEAD = 512
"""How many bytes at the beginning of a file tell its format."""


def read_bytes(path: str | Path, largest: int | None = LARGEST_FILE) -> bytes:
    """Read a whole file or pipe (such as a shell's ``<(...)``). Raises InputError. ``largest`` is the maximum size; None, for any size, excludes pipes."""
    place = Where(file=str(path))
    with _opened(path, pipe=largest is not None) as file:
        # Reading one byte more than allowed detects a file that is larger than its reported size.
        data = file.read() if largest is None else _read(file, largest + 1, place)
    if largest is not None and len(data) > largest:
        raise InputError(f"larger than {largest // 2**20} MiB", place)
    return data


@contextmanager
def open_file(path: str | Path) -> Iterator[BinaryIO]:
    """Open a large file to read it in pieces. Raises InputError, also for a pipe and for errors while reading."""
    with _opened(path, pipe=False) as file:
        yield file


@contextmanager
def _opened(path: str | Path, *, pipe: bool) -> Iterator[BinaryIO]:
    """Open a file; ``pipe``: accept a pipe. Raises InputError."""
    place = Where(file=str(path))
    try:
        # Without O_NONBLOCK, opening a pipe without a writer blocks for ever.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if stat.S_ISFIFO(mode) and not pipe:
                raise InputError("is a pipe; expected a file", place)
            # The null device counts as an empty file.
            null = os.path.samestat(os.fstat(file.fileno()), os.stat(os.devnull))
            if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or null):
                raise InputError("is a device or a socket; expected a file", place)
            yield file
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise InputError(f"can't be read: {reason}", place) from error


def _read(file: BinaryIO, most: int, place: Where) -> bytes:
    """Read up to ``most`` bytes. The wait for each piece of a pipe is limited, because its writer may never write."""
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
    """Unpack gzip or zlib data. Raises InputError if it is damaged, larger than ``largest`` bytes, or larger than a record of this packed size can be."""
    largest = min(largest, max(LARGEST_FILE, _DENSEST * len(data)))
    pieces: list[bytes] = []
    total = 0
    while data:
        try:
            # 32: detect gzip or zlib by the header.
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
        # gzip data may have several members in sequence; zeros after the last one are padding.
        data = unpacking.unused_data.lstrip(b"\0")
    return b"".join(pieces)


def file_bytes(path: str | Path, largest: int = LARGEST_KEPT) -> bytes:
    """Read a whole file that kailab is supposed to have written. Raises OSError, also if it is not a regular file or is larger than ``largest``."""
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


def read_stdin(largest: int = LARGEST_FILE) -> bytes:
    """Read the whole standard input. Raises InputError if it is larger than ``largest`` bytes."""
    # A program that runs commands in its own process may replace the standard input by a stream of text.
    if not hasattr(sys.stdin, "buffer"):
        return sys.stdin.read().encode()
    data = sys.stdin.buffer.read(largest + 1)
    if len(data) > largest:
        raise InputError(f"larger than {largest // 2**20} MiB", Where(file=STDIN))
    return data


def read_text(path: str | Path) -> str:
    """Read a text file. Raises InputError, with the line of the first invalid character."""
    return decode_text(read_bytes(path), str(path))


_FORMATS = (
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", "unpack it (`7z x`)"),
    (b"Rar!\x1a\x07", "a RAR archive", "unpack it (`unrar x`)"),
    (b"\x28\xb5\x2f\xfd", "packed with zstd", "unpack it (`zstd -d`)"),
    (b"\x04\x22\x4d\x18", "packed with lz4", "unpack it (`lz4 -d`)"),
    (b"\x5d\x00\x00", "packed with lzma", "unpack it (`unlzma`)"),
    (b"\x1f\x9d", "packed with compress", "unpack it (`uncompress`)"),
    (b"\x1f\x8b", "packed with gzip", "unpack it (`gunzip`)"),
    (b"BZh", "packed with bzip2", "unpack it (`bunzip2`)"),
    (b"\xfd7zXZ\x00", "packed with xz", "unpack it (`unxz`)"),
    (b"PK\x03\x04", "a zip archive", "unpack it (`unzip`)"),
    (codecs.BOM_UTF32_LE, "UTF-32 text", "write it as UTF-8"),
    (codecs.BOM_UTF32_BE, "UTF-32 text", "write it as UTF-8"),
)
"""The first bytes of formats that are not read as text, their name, and what to do. The mark of UTF-32 begins like that of UTF-16."""
TAR_MAGIC = slice(257, 262)
"""Where a tar archive has the text ustar."""


def foreign_format(start: bytes) -> str:
    """What a file is that begins with these bytes, and what to do; "" if it may be text.

    >>> foreign_format(b"BZh91AY"), foreign_format(b"kind: Pod")
    ('is packed with bzip2, not plain text; unpack it (`bunzip2`)', '')
    """
    for magic, name, remedy in _FORMATS:
        # Text may begin with the letters of a magic, but not with what follows in such a file.
        if start.startswith(magic) and (magic != b"BZh" or start[3:4].isdigit()):
            return f"is {name}, not plain text; {remedy}"
    if start[TAR_MAGIC] == b"ustar":
        return "is a tar archive, not plain text; unpack it (`tar -xf`)"
    if any(start[:4]) and b"\0\0" in (start[:4:2], start[1:4:2]):
        return "looks like UTF-16 text without a byte order mark; write it as UTF-8"
    return ""


def decode_text(data: bytes, file: str) -> str:
    """Decode UTF-8, with or without a byte order mark, or UTF-16 with one, as PowerShell writes what a command prints.
    Raises InputError, which names the format if the data are packed."""
    if problem := foreign_format(data[:HEAD]):
        raise InputError(problem, Where(file=file))
    try:
        return data.decode(encoding_of(data))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        encoding = "UTF-16" if "16" in error.encoding else "UTF-8"
        raise InputError(f"not {encoding} text", Where(file=file, line=line)) from None


def encoding_of(start: bytes) -> str:
    """The encoding of a text that starts with these bytes, of which the first two count.

    >>> encoding_of(b"\\xff\\xfea\\0"), encoding_of(b"a")
    ('utf-16', 'utf-8-sig')
    """
    return "utf-16" if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"


def _await_writer(pipe: int, place: Where, patience: float) -> None:
    waiting = select.poll()
    waiting.register(pipe, select.POLLIN | select.POLLHUP)
    if not waiting.poll(1000 * patience):
        raise InputError(f"is a pipe to which nobody has written for {patience:g} s; expected a file", place)
