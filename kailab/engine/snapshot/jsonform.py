"""JSON of the engine's input and output: snapshots, changes, configurations, decisions.

Encoding is deterministic: sets and mappings are sorted. Code that embeds these Structs in its own must use ``encode``
and ``decode`` too, because Fractions and requests for GPUs need a hook.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, TypeVar

import msgspec

from kailab.engine.snapshot.gpu_requests import GpuRequest, gpu_request_from
from kailab.errors import InputError

T = TypeVar("T")


def _encoded(value: Any) -> Any:
    if isinstance(value, Fraction):
        return str(value)
    raise NotImplementedError(f"{type(value).__name__} has no JSON form")


def _decoded(type: type, value: Any) -> Any:
    if type is Fraction and isinstance(value, str):
        return Fraction(value)
    if type is GpuRequest and isinstance(value, dict):
        return gpu_request_from(value)
    raise NotImplementedError(f"{type.__name__} has no JSON form")


class _FormatHeader(msgspec.Struct):
    """Read before the rest, because a later format may have other fields."""

    format: int


_ENCODER = msgspec.json.Encoder(order="deterministic", enc_hook=_encoded)


def encode(value: Any) -> bytes:
    return _ENCODER.encode(value)


def builtins(value: Any) -> Any:
    """The same as dicts and lists, for formats other than JSON."""
    return msgspec.json.decode(encode(value))


def canonical(value: Any) -> bytes:
    """The JSON that all equal values of one type share. Numbers are written by the types of the fields (5 as 5.0)."""
    return encode(msgspec.json.decode(encode(value), type=type(value), dec_hook=_decoded))


def decode(data: bytes | str, type: type[T], what: str = "", format: int | None = None) -> T:
    """Decode JSON into ``type``. ``what``: a name for the error message (``a snapshot``). ``format``: the only format
    that can be read, if the type has such a field.

    Raises InputError that names the field and what was expected there.
    """
    what = what or f"JSON of {type.__name__}"
    try:
        if format is not None:
            # First, because data of another format would fail at some field without naming the cause.
            data_format = msgspec.json.decode(data, type=_FormatHeader).format
            if data_format != format:
                raise InputError(f"{what} of format {data_format}; this kailab reads format {format}")
        return msgspec.json.decode(data, type=type, dec_hook=_decoded)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"not {what}: {error}") from None
