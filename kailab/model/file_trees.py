"""Read the files of a folder or an archive one by one, within bounds: YAML and JSON that a user collected or got from somebody else.

Nothing of an archive is written to disk, so its paths are only names: an absolute path, or one with ``..``, leads nowhere. In a folder, links
to files below the same folder are followed. All other links, and pipes, sockets and devices, are skipped, and ``read_tree`` reports them.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from enum import Enum
from functools import partial
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple

from kailab.errors import InputError, Where
from kailab.model.files import HEAD, STDIN, TAR_MAGIC, open_file, read_bytes, read_stdin

SUFFIXES = (".yaml", ".yml", ".json")
LARGEST_FILE = 2**30  # bytes
LARGEST_TREE = 4 * 2**30  # bytes of the files that are read
LEAST_LIMIT = 64 * 2**20  # bytes
MOST_RATIO = 400
"""An archive may unpack to this many times its size, or to ``LEAST_LIMIT`` bytes."""
MOST_FILES = 500_000
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_PACKED = (".gz", ".bz2", ".xz", ".zst", ".lz4", ".lzma", ".z")
_ARCHIVES = (".tar", ".tgz", ".tzst", ".zip", ".7z", ".rar", *(f".tar{packed}" for packed in _PACKED))
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
    return head.startswith((*_ZIP, *(magic for magic, _ in _PACKERS))) or head[TAR_MAGIC] == b"ustar"


class Skip(Enum):
    """Why something in a folder or an archive is not read. The value completes "1 link ..."."""

    NOWHERE = "that leads nowhere"
    OUT = "that leads out of the folder"
    TO_FOLDER = "to a folder"
    IN_ARCHIVE = "in an archive"
    NO_FILE = "pipe, socket or device"
    ARCHIVE = "archive in it"


_EXPECTED = {
    Skip.NOWHERE: "is a link that leads nowhere; remove it, or add its target",
    Skip.OUT: "is a link that leads out of the folder, and is not followed; put a copy of its target in its place",
    Skip.IN_ARCHIVE: "is a link in an archive, and is not followed; pack the file itself",
    Skip.NO_FILE: "is a pipe, a socket or a device; expected a file",
    Skip.ARCHIVE: "is an archive within the folder or archive; unpack it",
}
"""What to do about each of them that may stand for data. The files of a linked folder are read where they are."""

OnSkipped = Callable[[str, Skip], None]
OnFault = Callable[[InputError], None]


def read_tree(path: Path, on_skipped: OnSkipped | None = None, on_fault: OnFault | None = None) -> Iterator[TreeFile]:
    """The YAML and JSON files below a folder or in an archive (tar, zip; gzip, bzip2, xz), sorted as far as they can be. Of any other path,
    and of ``-`` (stdin), the one file itself.

    ``on_skipped``: receives the path of each link, pipe, socket or device that is not read; without it, one that may stand for data is an
    error. ``on_fault``: receives the error of each file that can't be read, and the rest is read; without it, the error is raised. Raises
    InputError, in any case if a bound is exceeded."""
    reading = _Reading(str(path), on_skipped, on_fault)
    try:
        for file in _files(path, reading):
            reading.add(file)
            yield file
    except _Fault as fault:
        reading.fail(fault.error)


class _Fault(Exception):
    """A fault at which an archive or a file can't be read any further."""

    def __init__(self, error: InputError) -> None:
        super().__init__(error)
        self.error = error


class _Reading:
    """What was read so far, and where to report what is not read."""

    def __init__(self, path: str, on_skipped: OnSkipped | None, on_fault: OnFault | None) -> None:
        self._where = Where(file=path)
        self._on_skipped, self._on_fault = on_skipped, on_fault
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

    def skip(self, name: str, why: Skip) -> None:
        if self._on_skipped is not None:
            self._on_skipped(_printable(name), why)
        elif why in _EXPECTED:
            self.fail(InputError(_EXPECTED[why], Where(file=_printable(name))))

    def fail(self, error: InputError) -> None:
        if self._on_fault is None:
            raise error
        self._on_fault(error)


def _files(path: Path, reading: _Reading) -> Iterator[TreeFile]:
    if str(path) == "-":
        yield TreeFile(STDIN, read_stdin(LARGEST_FILE))
        return
    if path.is_dir():
        yield from _in_folder(path, reading)
        return
    if path.is_fifo():
        yield TreeFile(str(path), read_bytes(path, LARGEST_FILE))
        return
    with open_file(path) as file:
        head = file.read(HEAD)
        file.seek(0)
        if head.startswith(_ZIP):
            yield from _in_zip(path, file, reading)
        elif unpack := next((unpack for magic, unpack in _PACKERS if head.startswith(magic)), None):
            limit = max(LEAST_LIMIT, MOST_RATIO * path.stat().st_size)
            yield from _packed(path, _Limited(unpack(file), limit, path), reading)
        elif head[TAR_MAGIC] == b"ustar":
            yield from _in_tar(path, file, reading)
        else:
            yield TreeFile(str(path), _bounded(file, str(path)))


def _bounded(file: IO[bytes] | io.BufferedReader, name: str) -> bytes:
    data = file.read(LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        raise InputError(f"larger than {LARGEST_FILE // 2**20} MiB; give it in several files", Where(file=name))
    return data


def _in_folder(folder: Path, reading: _Reading) -> Iterator[TreeFile]:
    def fail(error: OSError) -> None:
        reading.fail(InputError(f"can't be read: {error.strerror or error}", Where(file=str(error.filename or folder))))

    root = os.path.realpath(folder)
    for at, folders, files in os.walk(folder, onerror=fail):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in folders:
            file = Path(at, name)
            if file.is_symlink():
                reading.skip(str(file), Skip.TO_FOLDER if _is_below(file, root) else Skip.OUT)
        for name in sorted(files):
            reading.see()
            file = Path(at, name)
            if _is_archive(name):
                reading.skip(str(file), Skip.ARCHIVE)
            if not _is_wanted(name):
                # os.walk lists a link to nothing among the files, even one that led to a folder.
                if _may_be_folder(name) and file.is_symlink() and not file.exists():
                    reading.skip(str(file), Skip.NOWHERE)
                continue
            if (why := _why_skipped(file, root)) is not None:
                reading.skip(str(file), why)
                continue
            try:
                data = read_bytes(file, LARGEST_FILE)
            except InputError as error:
                reading.fail(error)
                continue
            yield TreeFile(_printable(str(file)), data)


def _is_below(link: Path, root: str) -> bool:
    target = os.path.realpath(link)
    return target == root or target.startswith(os.path.join(root, ""))


def _why_skipped(file: Path, root: str) -> Skip | None:
    try:
        mode = file.stat().st_mode
    except FileNotFoundError:
        return Skip.NOWHERE if file.is_symlink() else None
    except OSError:
        # A link to itself, and one whose target may not be looked at, may stand for data: reading it is an error.
        return None
    if file.is_symlink() and not _is_below(file, root):
        return Skip.OUT
    return None if stat.S_ISREG(mode) else Skip.NO_FILE


def _may_be_folder(name: str) -> bool:
    return "." not in name.rpartition("/")[2]


def _is_wanted(name: str) -> bool:
    # ``._nodes.yaml`` holds the file attributes of macOS.
    return name.lower().endswith(SUFFIXES) and not name.rpartition("/")[2].startswith(".")


def _is_archive(name: str) -> bool:
    """Whether a file may hold packed YAML. Logs are packed in other forms."""
    stem = name.lower()
    return stem.endswith(_ARCHIVES) or stem.endswith(
        tuple(f"{suffix}{packed}" for suffix in SUFFIXES for packed in _PACKED)
    )


def _is_hidden(member: str) -> bool:
    """Whether a file of an archive is in a hidden folder."""
    return any(part.startswith(".") and part not in (".", "..") for part in member.split("/")[:-1])


def _printable(name: str) -> str:
    return name.encode("utf-8", "replace").decode()


def _in_zip(path: Path, file: BinaryIO, reading: _Reading) -> Iterator[TreeFile]:
    place = Where(file=str(path))
    limit = max(LEAST_LIMIT, MOST_RATIO * path.stat().st_size)
    total = 0
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            for member in sorted(members, key=lambda member: member.filename):
                reading.see()
                # Some programs of Windows write their own separator.
                inner = member.filename.replace("\\", "/")
                if inner.endswith("/") or _is_skipped(f"{path}:", inner, _kind_in_zip(member), reading):
                    continue
                name = f"{path}:{_printable(inner)}"
                try:
                    with archive.open(member) as inside:
                        data = _bounded(inside, name)
                except InputError as error:
                    reading.fail(error)
                    continue
                except _DAMAGED as error:
                    reading.fail(InputError(f"is damaged or encrypted: {error}", Where(file=name)))
                    continue
                total += len(data)
                if total > limit:
                    raise _too_dense(path, limit)
                yield TreeFile(name, data)
    except _DAMAGED as error:
        raise _Fault(InputError(f"is a damaged or encrypted archive: {error}", place)) from None


def _kind_in_zip(member: zipfile.ZipInfo) -> int:
    # The mode of Unix; 0 if the archive is of another system.
    return stat.S_IFMT(member.external_attr >> 16) or stat.S_IFREG


def _is_skipped(archive: str, member: str, kind: int, reading: _Reading) -> bool:
    """Whether a file of an archive is not read. A link or special file that may stand for data is reported."""
    if _is_hidden(member):
        return True
    wanted = _is_wanted(member)
    if kind == stat.S_IFREG:
        if _is_archive(member):
            reading.skip(archive + member, Skip.ARCHIVE)
        return not wanted
    if kind == stat.S_IFLNK and (wanted or _may_be_folder(member)):
        reading.skip(archive + member, Skip.IN_ARCHIVE if wanted else Skip.TO_FOLDER)
    elif wanted and kind != stat.S_IFDIR:
        reading.skip(archive + member, Skip.NO_FILE)
    return True


def _packed(path: Path, unpacked: _Limited, reading: _Reading) -> Iterator[TreeFile]:
    """A packed archive, or a packed file."""
    file = io.BufferedReader(unpacked, 2**20)
    try:
        head = file.peek(HEAD)[:HEAD]
        if head and not any(head):
            raise InputError("is an empty archive, or holds zeros only", Where(file=str(path)))
        if head[TAR_MAGIC] == b"ustar":
            yield from _in_tar(path, file, reading)
        else:
            yield TreeFile(str(path), _bounded(file, str(path)))
    except _DAMAGED as error:
        raise _Fault(InputError(f"can't be unpacked, it may be incomplete: {error}", Where(file=str(path)))) from None


def _in_tar(path: Path, file: BinaryIO | io.BufferedReader, reading: _Reading) -> Iterator[TreeFile]:
    try:
        # A stream, because nothing is read twice.
        with tarfile.open(fileobj=file, mode="r|", errorlevel=1) as archive:
            for member in archive:
                reading.see()
                archive.members = []  # type: ignore[attr-defined]  # tarfile keeps every member that it has seen
                if _is_skipped(f"{path}:", member.name, _kind_in_tar(member), reading):
                    continue
                name = f"{path}:{_printable(member.name)}"
                inside = archive.extractfile(member)
                if inside is None:
                    continue
                try:
                    data = _bounded(inside, name)
                except InputError as error:
                    reading.fail(error)
                    continue
                if len(data) < member.size:
                    raise _Fault(InputError("the archive ends within this file: it is incomplete", Where(file=name)))
                yield TreeFile(name, data)
    except _DAMAGED as error:
        raise _Fault(InputError(f"is a damaged or incomplete archive: {error}", Where(file=str(path)))) from None


def _kind_in_tar(member: tarfile.TarInfo) -> int:
    if member.isreg():
        return stat.S_IFREG
    if member.issym() or member.islnk():
        return stat.S_IFLNK
    return stat.S_IFDIR if member.isdir() else stat.S_IFIFO


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
