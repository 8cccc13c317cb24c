"""A whole cluster in one file, written so that a killed command leaves the previous state whole.

The file is a line of JSON that says what follows (magic, format version, length, checksum), then the state as
MessagePack. It is written beside its place, flushed to disk, and renamed over the old one. While a command works on a lab it
holds a lock file with its process id, so that two of them do not interleave.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from kailab.errors import StateError
from kailab.model import typed

MAGIC = "kailab-state"
VERSION = 1
_LONGEST_HEADER = 4096


class Header(msgspec.Struct):
    """First line of a state file. ``sha256`` is of the ``length`` bytes after the line."""

    magic: str
    version: int
    length: int
    sha256: str


def write_state(path: Path, state: dict[str, Any]) -> None:
    """Put the state in place atomically. Raises StateError if it can't be written."""
    body = msgspec.msgpack.encode(state)
    header = Header(MAGIC, VERSION, len(body), hashlib.sha256(body).hexdigest())
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "wb") as file:
            file.write(msgspec.json.encode(header) + b"\n")
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise StateError(f"{path}: the state of the lab can't be written: {error.strerror or error}") from error


def read_state(path: Path) -> dict[str, Any]:
    """The state in a file, checked. Raises StateError saying what is wrong and what to do."""
    fresh = "start afresh with `kailab down` and `kailab up`"
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise StateError(f"{path}: no lab is here; start one with `kailab up`") from None
    except OSError as error:
        raise StateError(f"{path}: the state of the lab can't be read: {error.strerror or error}") from error
    line, newline, body = data.partition(b"\n") if b"\n" in data[:_LONGEST_HEADER] else (b"", b"", b"")
    try:
        header = typed.decode_json(line, Header)
    except msgspec.MsgspecError:
        header = Header("", 0, 0, "")
    if not newline or header.magic != MAGIC:
        raise StateError(f"{path}: not a state file of kailab, or its beginning is damaged; {fresh}")
    if header.version != VERSION:
        raise StateError(
            f"{path}: written in format {header.version}, this kailab reads format {VERSION}; "
            f"use the kailab that wrote it, or {fresh}"
        )
    if len(body) != header.length:
        raise StateError(f"{path}: damaged: {header.length} bytes expected, {len(body)} found; {fresh}")
    if hashlib.sha256(body).hexdigest() != header.sha256:
        raise StateError(f"{path}: damaged: its checksum does not match; {fresh}")
    try:
        state = msgspec.msgpack.decode(body)
    except msgspec.MsgspecError as error:
        raise StateError(f"{path}: damaged: {error}; {fresh}") from None
    if not isinstance(state, dict):
        raise StateError(f"{path}: damaged: holds no state; {fresh}")
    return state


@contextlib.contextmanager
def collection_paused() -> Iterator[None]:
    """No search for garbage while a state is taken in: millions of new dicts, none of them garbage, and looking for
    cycles among them again and again would take most of the time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


class StateLock:
    """Holds a lab for one process, as a context manager. Raises StateError where another process has it.

    The lock is the kernel's on ``<state file>.lock``: it goes with the process, however that ends.
    """

    def __init__(self, path: Path | str) -> None:
        self._path = Path(f"{path}.lock")
        self._file: int | None = None

    def __enter__(self) -> StateLock:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StateError(f"{self._path}: the lab can't be locked: {error.strerror or error}") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(file, 32, 0).decode(errors="replace").strip()
            os.close(file)
            pid = f"process {holder}" if holder.isdigit() else "another process"
            raise StateError(f"{self._path}: the lab is in use by {pid}; wait for it to end") from None
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        self._file = file
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = None
