"""What the engine takes and gives, as JSON: snapshots, changes, configurations, decisions.

Encoding is deterministic: sets and mappings are sorted. Whoever keeps these Structs inside others of their own encodes and
decodes with ``encode`` and ``decode`` too: exact fractions need a word on both ways.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, TypeVar

import msgspec

from kailab.errors import InputError

T = TypeVar("T")


def _encoded(value: Any) -> Any:
    if isinstance(value, Fraction):
        return str(value)
    raise NotImplementedError(f"{type(value).__name__} has no JSON form")


def _decoded(type: type, value: Any) -> Any:
    if type is Fraction and isinstance(value, str):
        return Fraction(value)
    raise NotImplementedError(f"{type.__name__} has no JSON form")


class _Head(msgspec.Struct):
    """What is looked at first: a later format may have other fields."""

    format: int


_ENCODER = msgspec.json.Encoder(order="deterministic", enc_hook=_encoded)


def encode(value: Any) -> bytes:
    return _ENCODER.encode(value)


def builtins(value: Any) -> Any:
    """The same as dicts and lists, for whoever writes other than JSON."""
    return msgspec.json.decode(encode(value))


def canonical(value: Any) -> bytes:
    """The JSON that all equal values of one type share: numbers are written as the fields' types say (5 as 5.0)."""
    return encode(msgspec.json.decode(encode(value), type=type(value), dec_hook=_decoded))


def decode(data: bytes | str, type: type[T], what: str = "", format: int | None = None) -> T:
    """``what``: what it should be, for the error (``a snapshot``). ``format``: the one format that can be read, where the type
    has a field of that name.

    Raises InputError that names the field, and what was expected there.
    """
    what = what or f"JSON of {type.__name__}"
    try:
        if format is not None:
            # Before all else, as another format would fail on a field first and not say that it is another.
            found = msgspec.json.decode(data, type=_Head).format
            if found != format:
                raise InputError(f"{what} of format {found}; this kailab reads format {format}")
        return msgspec.json.decode(data, type=type, dec_hook=_decoded)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"not {what}: {error}") from None
