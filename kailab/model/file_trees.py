"""Read the files of a folder or an archive one by one, within bounds: YAML and JSON that a user collected or got from somebody else.

Nothing of an archive is written to disk, so its paths are only names: an absolute path, or one with ``..``, leads nowhere. Links, devices and
pipes in an archive are skipped; links to folders are not followed.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple

from kailab.errors import InputError, Where
from kailab.model.files import STDIN, open_file, read_bytes, read_stdin

SUFFIXES = (".yaml", ".yml", ".json")
LARGEST_FILE = 2**30  # bytes
LARGEST_TREE = 4 * 2**30  # bytes of the files that are read
LEAST_LIMIT = 64 * 2**20  # bytes
MOST_RATIO = 400
"""An archive may unpack to this many times its size, or to ``LEAST_LIMIT`` bytes."""
MOST_FILES = 500_000
_TAR_MAGIC = slice(257, 262)
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_HEAD = 512
# An InputError is none of these, and passes through.
_DAMAGED = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError, NotImplementedError, RuntimeError,
)  # fmt: skip


class TreeFile(NamedTuple):
    """``name``: the path, for one in an archive ``ARCHIVE:PATH``."""

    name: str
    data: bytes


_PACKERS: tuple[tuple[bytes, Callable[..., Any]], ...] = (
    (b"\x1f\x8b", partial(gzip.GzipFile, "", "rb", 9)),
    (b"BZh", bz2.BZ2File),
    (b"\xfd7zXZ\x00", lzma.LZMAFile),
)
"""The first bytes of packed data, and what reads it from a file."""


def is_packed(head: bytes) -> bool:
    """Whether a file that begins with these 512 bytes is an archive, or packed."""
    return head.startswith((*_ZIP, *(magic for magic, _ in _PACKERS))) or head[_TAR_MAGIC] == b"ustar"


def read_tree(path: Path, on_dangling: Callable[[str], None] | None = None) -> Iterator[TreeFile]:
    """The YAML and JSON files below a folder or in an archive (tar, zip; gzip, bzip2, xz), sorted as far as they can be. Of any other path,
    and of ``-`` (stdin), the one file itself. ``on_dangling``: is told the path of each link in a folder whose target does not exist, and the
    rest is read. Raises InputError; without ``on_dangling``, for such a link, too."""
    counted = _Bounds(str(path))
    for file in _files(path, counted, on_dangling):
        counted.add(file)
        yield file


class _Bounds:
    def __init__(self, path: str) -> None:
        self._where = Where(file=path)
        self._bytes = self._files = 0

    def add(self, file: TreeFile) -> None:
        self._bytes += len(file.data)
        if self._bytes > LARGEST_TREE:
            raise InputError(
                f"has more than {LARGEST_TREE // 2**30} GiB of YAML and JSON; give fewer files", self._where
            )

    def see(self) -> None:
        """Count a file, whether it is read or not."""
        self._files += 1
        if self._files > MOST_FILES:
            raise InputError(f"has more than {MOST_FILES:,} files", self._where)


def _files(path: Path, bounds: _Bounds, on_dangling: Callable[[str], None] | None) -> Iterator[TreeFile]:
    if str(path) == "-":
        yield TreeFile(STDIN, read_stdin(LARGEST_FILE))
        return
    if path.is_dir():
        yield from _in_folder(path, bounds, on_dangling)
        return
    if path.is_fifo():
        yield TreeFile(str(path), read_bytes(path, LARGEST_FILE))
        return
    with open_file(path) as file:
        head = file.read(_HEAD)
        file.seek(0)
        if head.startswith(_ZIP):
            yield from _in_zip(path, file, bounds)
        elif unpack := next((unpack for magic, unpack in _PACKERS if head.startswith(magic)), None):
            limit = max(LEAST_LIMIT, MOST_RATIO * path.stat().st_size)
            yield from _packed(path, _Limited(unpack(file), limit, path), bounds)
        elif head[_TAR_MAGIC] == b"ustar":
            yield from _in_tar(path, file, bounds)
        else:
            yield TreeFile(str(path), _bounded(file, str(path)))


def _bounded(file: IO[bytes] | io.BufferedReader, name: str) -> bytes:
    data = file.read(LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        raise InputError(f"larger than {LARGEST_FILE // 2**20} MiB; give it in several files", Where(file=name))
    return data


def _in_folder(folder: Path, bounds: _Bounds, on_dangling: Callable[[str], None] | None) -> Iterator[TreeFile]:
    def fail(error: OSError) -> None:
        raise InputError(f"can't be read: {error.strerror or error}", Where(file=str(error.filename or folder)))

    for at, folders, files in os.walk(folder, onerror=fail):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            bounds.see()
            if _is_wanted(name):
                file = Path(at, name)
                if on_dangling and _is_dangling(file):
                    on_dangling(_printable(str(file)))
                    continue
                yield TreeFile(_printable(str(file)), read_bytes(file, LARGEST_FILE))


def _is_dangling(file: Path) -> bool:
    # A link to itself, and one whose target may not be looked at, may stand for data: they are errors.
    try:
        file.stat()
    except FileNotFoundError:
        return file.is_symlink()
    except OSError:
        return False
    return False


def _is_wanted(name: str) -> bool:
    # ``._nodes.yaml`` holds the file attributes of macOS.
    return name.lower().endswith(SUFFIXES) and not name.rpartition("/")[2].startswith(".")


def _printable(name: str) -> str:
    return name.encode("utf-8", "replace").decode()


def _in_zip(path: Path, file: BinaryIO, bounds: _Bounds) -> Iterator[TreeFile]:
    place = Where(file=str(path))
    limit = max(LEAST_LIMIT, MOST_RATIO * path.stat().st_size)
    total = 0
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            for member in sorted(members, key=lambda member: member.filename):
                bounds.see()
                if member.is_dir() or not _is_wanted(member.filename):
                    continue
                name = f"{path}:{_printable(member.filename)}"
                with archive.open(member) as inside:
                    data = _bounded(inside, name)
                total += len(data)
                if total > limit:
                    raise _too_dense(path, limit)
                yield TreeFile(name, data)
    except _DAMAGED as error:
        raise InputError(f"is a damaged or encrypted archive: {error}", place) from None


def _packed(path: Path, unpacked: _Limited, bounds: _Bounds) -> Iterator[TreeFile]:
    """A packed archive, or a packed file."""
    file = io.BufferedReader(unpacked, 2**20)
    try:
        head = file.peek(_HEAD)[:_HEAD]
        if head and not any(head):
            raise InputError("is an empty archive", Where(file=str(path)))
        if head[_TAR_MAGIC] == b"ustar":
            yield from _in_tar(path, file, bounds)
        else:
            yield TreeFile(str(path), _bounded(file, str(path)))
    except _DAMAGED as error:
        raise InputError(f"can't be unpacked, it may be incomplete: {error}", Where(file=str(path))) from None


def _in_tar(path: Path, file: BinaryIO | io.BufferedReader, bounds: _Bounds) -> Iterator[TreeFile]:
    try:
        # A stream, because nothing is read twice.
        with tarfile.open(fileobj=file, mode="r|", errorlevel=1) as archive:
            for member in archive:
                bounds.see()
                archive.members = []  # type: ignore[attr-defined]  # tarfile keeps every member that it has seen
                if not member.isreg() or not _is_wanted(member.name):
                    continue
                name = f"{path}:{_printable(member.name)}"
                inside = archive.extractfile(member)
                if inside is not None:
                    data = _bounded(inside, name)
                    if len(data) < member.size:
                        raise InputError("the archive ends within this file: it is incomplete", Where(file=name))
                    yield TreeFile(name, data)
    except _DAMAGED as error:
        raise InputError(f"is a damaged or incomplete archive: {error}", Where(file=str(path))) from None


class _Limited(io.RawIOBase):
    """Unpacked data, up to a limit."""

    def __init__(self, source: BinaryIO, limit: int, path: Path) -> None:
        self._source, self._left, self._limit, self._path = source, limit, limit, path

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        data = self._source.read(len(view))
        view[: len(data)] = data
        self._left -= len(data)
        if self._left < 0:
            raise _too_dense(self._path, self._limit)
        return len(data)


def _too_dense(path: Path, limit: int) -> InputError:
    return InputError(
        f"unpacks to more than {limit // 2**20} MiB, which is not plausible for the files of a cluster",
        Where(file=str(path)),
    )
