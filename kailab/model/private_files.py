"""Write files that only their owner may read: labs, records, evidence, snapshots, studies, course work. They hold a cluster's objects.

Files get mode 0600 and folders 0700, independent of the umask. Files that a user names in order to share them, such as a report, are not
written here and follow the umask.
"""

from __future__ import annotations

import errno
import glob
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

FILE_MODE = 0o600
FOLDER_MODE = 0o700
PARTIAL = ".partial-"
"""The prefix of incomplete files."""


def make_folder(path: Path, *, new: bool = False) -> None:
    """Make a folder and its missing parents. An existing folder keeps its mode, because another user may own it. ``new``: raise
    FileExistsError if it exists. Raises OSError."""
    if new and path.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    missing = []
    while not path.is_dir():
        missing.append(path)
        if path == path.parent:
            break
        path = path.parent
    for folder in reversed(missing):
        try:
            folder.mkdir(FOLDER_MODE)
        except FileExistsError:
            # Another process may have made the folder. Anything else at this path is an error.
            if not folder.is_dir():
                raise
        else:
            folder.chmod(FOLDER_MODE)  # a umask may have taken the owner's own rights away


def open_private(path: Path, mode: str) -> IO[Any]:
    """Open a file as ``open`` does, and make it private if it exists. Raises OSError."""
    file = open(path, mode, opener=lambda name, flags: os.open(name, flags, FILE_MODE))  # noqa: SIM115
    try:
        make_private(file.fileno())
    except BaseException:
        file.close()
        raise
    return file


def make_private(file: int) -> None:
    """Make an open file private, by its descriptor, if it is a regular file of this user. Raises OSError."""
    status = os.fstat(file)
    own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
    if own and stat.S_IMODE(status.st_mode) != FILE_MODE:
        os.fchmod(file, FILE_MODE)


def write_bytes(path: Path, content: bytes) -> None:
    """Raises OSError."""
    with open_private(path, "wb") as file:
        file.write(content)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text. Raises OSError."""
    write_bytes(path, text.encode())


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file atomically. Raises OSError."""
    with replacing(path) as partial:
        write_bytes(partial, content)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield the path of a file beside ``path`` that replaces it at the end of the block, unless the block raises. Incomplete files that killed
    processes left of the same file are deleted. Raises OSError, also for a device, a pipe or a socket: root could replace even /dev/null."""
    if path.is_dir():
        raise OSError(errno.EISDIR, "is a folder; expected the name of a file", str(path))
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "is a device, a pipe or a socket; expected the name of a file", str(path))
    for left in path.parent.glob(f"{PARTIAL}*-{glob.escape(path.name)}"):
        pid = left.name.removeprefix(PARTIAL).split("-")[0]
        if pid.isdigit() and not _is_running(int(pid)):
            left.unlink(missing_ok=True)
    partial = path.with_name(f"{PARTIAL}{os.getpid()}-{path.name}")
    try:
        yield partial
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # the process exists and belongs to another user
    return True
