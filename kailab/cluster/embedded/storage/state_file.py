"""The state file: a whole cluster in one file, written atomically, and the lock that keeps two commands apart.

The file is sealed (``storage.sealed_file``). Its body is the state as MessagePack, with large parts packed one by one.
A packed part is unpacked on demand: a command that shows one queue of a large lab needs none of its pods. A command
holds a lock file with its process id while it works on a lab.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import msgspec

from kailab.cluster.embedded.storage.sealed_file import DamagedFile, WrongMagic, check_body, header_of, seal
from kailab.errors import InputError, NoLabHere, NoStateFile, StateError, os_errors_as
from kailab.model import decoding
from kailab.model.files import read_bytes
from kailab.model.private_files import FILE_MODE, make_folder, make_private

T = TypeVar("T")
MAGIC = "kailab-state"
VERSION = 2

PACKED = ("objects", "events", "looks")
_FRESH = "start afresh with `kailab down` and `kailab up`"
_LEVEL = 1  # the fastest level: pods of one workload are nearly equal and shrink to a twentieth


class _Metadata(msgspec.Struct):
    name: str
    namespace: str = ""


class _FormatHeader(msgspec.Struct):
    """The part of an object that identifies it."""

    metadata: _Metadata


class PackedSection:
    """An encoded part of a state. ``data``: compressed MessagePack."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    @classmethod
    def of(cls, value: Any) -> PackedSection:
        return cls(zlib.compress(msgspec.msgpack.encode(value), _LEVEL))

    def __bytes__(self) -> bytes:
        return self._data

    def unpack(self) -> Any:
        """Raises StateError for content that no kailab wrote."""
        return self._read(Any)

    def unpack_as(self, type: type[T]) -> T:
        """Decoded as a type. Raises StateError as ``unpack``."""
        return self._read(type)

    def by_name(self) -> dict[tuple[str, str], msgspec.Raw]:
        """A list of objects, each still encoded, by (namespace, name). Raises StateError as ``unpack``."""
        with _damage_as_state_error():
            heads = (
                (decoding.decode_msgpack(raw, _FormatHeader).metadata, raw) for raw in self._read(list[msgspec.Raw])
            )
            return {(head.namespace, head.name): raw for head, raw in heads}

    def _read(self, type: Any) -> Any:
        with _damage_as_state_error():
            return decoding.decode_msgpack(zlib.decompress(self._data), type)


@contextlib.contextmanager
def _damage_as_state_error() -> Iterator[None]:
    """Turn errors of decoding into StateError."""
    try:
        yield
    except (msgspec.MsgspecError, UnicodeDecodeError, zlib.error) as error:
        raise StateError(f"the state of the lab is damaged: {error}; {_FRESH}") from None


def write_state(path: Path, state: dict[str, Any]) -> None:
    """Write the state atomically. ``state``: by section; sections in ``PACKED`` are mappings whose entries are packed
    one by one. Raises StateError if it can't be written.
    """
    sections = {
        name: {key: bytes(PackedSection.of(value)) for key, value in section.items()} if name in PACKED else section
        for name, section in state.items()
    }
    with os_errors_as(StateError, f"{path}: the state of the lab can't be written"):
        seal(path, MAGIC, VERSION, msgspec.msgpack.encode(sections))


def read_state(path: Path) -> dict[str, Any]:
    """The state in a file, checked; entries of the sections in ``PACKED`` are ``PackedSection``. Raises StateError with
    the fault and the cure."""
    try:
        data = read_bytes(path, None)
    except InputError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise NoLabHere(f"{path}: no lab is here; start one with `kailab up`") from None
        raise StateError(f"{path}: the state of the lab {error.message}") from error
    try:
        # The version before the checksum: a file of a newer kailab is intact, and gets another message than a damaged
        # one.
        header, body = header_of(data, MAGIC)
    except WrongMagic:
        raise NoStateFile(f"{path}: not a state file of kailab, or its beginning is damaged; {_FRESH}") from None
    if header.version != VERSION:
        raise StateError(
            f"{path}: written in format {header.version}, this kailab reads format {VERSION}; "
            f"use the kailab that wrote it, or {_FRESH}"
        )
    try:
        check_body(header, body)
        state: dict[str, Any] = dict(decoding.decode_msgpack(body, dict[str, msgspec.Raw]))
        for name, raw in state.items():
            if name in PACKED:
                parts = decoding.decode_msgpack(raw, dict[str, bytes])
                state[name] = {key: PackedSection(part) for key, part in parts.items()}
            else:
                state[name] = msgspec.msgpack.decode(raw)
    except (DamagedFile, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise StateError(f"{path}: damaged: {error}; {_FRESH}") from None
    return state


@contextlib.contextmanager
def collection_paused() -> Iterator[None]:
    """Pause the garbage collector while a state is decoded: it would search millions of new dicts for cycles again and
    again."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


class StateLock:
    """Holds a lab for one process, as a context manager. Raises StateError if another process holds it.

    The lock is the kernel's, on ``<state file>.lock``: it ends with the process, however that ends.
    """

    def __init__(self, path: Path | str) -> None:
        self._path = Path(f"{path}.lock")
        self._file: int | None = None

    def __enter__(self) -> StateLock:
        with os_errors_as(StateError, f"{self._path}: the lab can't be locked"):
            make_folder(self._path.parent)
            # Not inherited: a child process would keep the lock after this process has ended.
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
            make_private(file)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            # The holder may not have written its number yet.
            holder = os.pread(file, 32, 0).decode(errors="replace").strip()
            os.close(file)
            pid = f"process {holder}" if holder.isdigit() else "another process"
            raise StateError(f"{self._path}: the lab is in use by {pid}; wait for it to end") from None
        try:
            os.ftruncate(file, 0)
            os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            os.close(file)
            raise StateError(f"{self._path}: the lab can't be locked: {error.strerror or error}") from error
        self._file = file
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            # The file stays: otherwise one process could lock the removed file and another a new one of that name.
            os.ftruncate(self._file, 0)
            # This releases the lock.
            os.close(self._file)
            self._file = None
