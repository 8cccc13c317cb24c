"""Writing what only its owner may read: labs, their records, evidence, snapshots, studies, course work. They hold the objects of a cluster.

Every such file and folder is written here, whatever the process's umask says: files with mode 0600, folders with 0700. Files that somebody
names in order to pass them on, such as a report, are written otherwise: their mode is the umask's.
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
"""What names of files begin with that are not whole yet."""


def make_folder(path: Path, *, new: bool = False) -> None:
    """Make a folder, and those above it that are missing. One that is there keeps its mode: it may be somebody else's. ``new``: raise
    FileExistsError where it is there. Raises OSError."""
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
            # Another process may have made it meanwhile. Anything that is no folder is in the way.
            if not folder.is_dir():
                raise
        else:
            folder.chmod(FOLDER_MODE)  # a umask may have taken the owner's own rights away


def open_file(path: Path, mode: str) -> IO[Any]:
    """As ``open`` does. A file that is there becomes private. Raises OSError."""
    file = open(path, mode, opener=lambda name, flags: os.open(name, flags, FILE_MODE))  # noqa: SIM115
    try:
        make_private(file.fileno())
    except BaseException:
        file.close()
        raise
    return file


def make_private(file: int) -> None:
    """An open file, by its descriptor; not one of somebody else's, nor /dev/null. Raises OSError."""
    found = os.fstat(file)
    own = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
    if own and stat.S_IMODE(found.st_mode) != FILE_MODE:
        os.fchmod(file, FILE_MODE)


def write_bytes(path: Path, content: bytes) -> None:
    """Raises OSError."""
    with open_file(path, "wb") as file:
        file.write(content)


def write_text(path: Path, text: str) -> None:
    """In UTF-8. Raises OSError."""
    write_bytes(path, text.encode())


def replace_file(path: Path, content: bytes) -> None:
    """Write a file, whole or not at all: one that is there stays as it is until then. Raises OSError."""
    with replacing(path) as partial:
        write_bytes(partial, content)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """The path of a file to write beside ``path``, which takes its place at the end of the block, unless that raises. What a process that was
    killed has left of the same file goes."""
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
        pass  # it is there, and somebody else's
    return True
