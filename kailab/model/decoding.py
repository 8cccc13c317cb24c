"""Decode objects and JSON into typed records, in any thread.

msgspec 0.22 prepares a type at its first use. A second thread that uses the half-prepared type crashes the process with a
segmentation fault. This module prepares each type once, under a lock.
"""

from __future__ import annotations

from pathlib import Path
from threading import RLock
from typing import Any, TypeVar

import msgspec

from kailab.errors import StateError
from kailab.model.files import file_bytes

T = TypeVar("T")
_lock = RLock()
_known: set[Any] = set()


def convert(obj: Any, type: type[T]) -> T:
    """``msgspec.convert``. Raises msgspec.ValidationError."""
    _prepare_type(type)
    return msgspec.convert(obj, type)


def decode_json(data: bytes | str, type: type[T]) -> T:
    """``msgspec.json.decode``. Raises msgspec.DecodeError (ValidationError is a subclass)."""
    _prepare_type(type)
    return msgspec.json.decode(data, type=type)


def decode_msgpack(data: bytes | msgspec.Raw, type: type[T]) -> T:
    """``msgspec.msgpack.decode``. Raises msgspec.DecodeError (ValidationError is a subclass)."""
    _prepare_type(type)
    return msgspec.msgpack.decode(data, type=type)


def read_state_file(path: Path, type: type[T], cure: str) -> T:
    """Decode a JSON file that kailab wrote. Raises StateError if it can't be read or is damaged; ``cure`` is the advice in the message."""
    try:
        return decode_json(file_bytes(path), type)
    except OSError as error:
        raise StateError(f"{path}: can't be read: {error.strerror or error}") from error
    except msgspec.MsgspecError as error:
        raise StateError(f"{path}: damaged: {error}; {cure}") from error


def _prepare_type(type: Any) -> None:
    if type not in _known:
        with _lock:
            # Creating a decoder prepares the type. It is published only afterwards.
            msgspec.json.Decoder(type)
            _known.add(type)
