"""One way to write each value, so that equal runs give equal bytes.

JSON with sorted keys; virtual times as seconds since the lab opened (float, at most microseconds) beside RFC 3339 text;
names of files and folders from a small alphabet, kept distinct by a digest where something had to be replaced.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from kailab.model import times

_ENCODER = msgspec.json.Encoder(order="sorted")
# Allowed is what is safe in a path on every system and in a shell; test ids have brackets, slashes and spaces.
_UNSAFE = re.compile(r"[^A-Za-z0-9._=+-]+")
NAME_LENGTH = 100


def compact_json(value: Any) -> bytes:
    """JSON on one line, keys sorted."""
    return _ENCODER.encode(value)


def pretty_json(value: Any) -> bytes:
    """JSON for people, keys sorted, two spaces deep, ending in a line break."""
    return msgspec.json.format(_ENCODER.encode(value), indent=2) + b"\n"


def as_plain_json(value: Any) -> Any:
    """As JSON has it: dicts, lists, texts and numbers."""
    return msgspec.json.decode(_ENCODER.encode(value))


def json_lines(values: Iterable[Any]) -> bytes:
    """JSON lines."""
    return b"".join(_ENCODER.encode(value) + b"\n" for value in values)


def format_rfc3339(seconds: float) -> str:
    """Seconds since the epoch as Kubernetes writes times; fractions only where there are any.

    >>> rfc3339(1767225600.0)
    '2026-01-01T00:00:00Z'
    """
    moment = times.date(round(seconds, 6))
    text = moment.strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{moment.microsecond:06d}Z" if moment.microsecond else f"{text}Z"


def safe_name(text: str) -> str:
    """A file or folder name for any text. Texts that had to be changed get a digest, so that they stay apart.

    >>> safe_name("test_borrow")
    'test_borrow'
    """
    # A leading dot would hide the folder: readers of a run pass over what begins with one.
    name = _UNSAFE.sub("-", text).strip("-.")
    if name and name == text and len(name) <= NAME_LENGTH:
        return name
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{name[: NAME_LENGTH - 9].rstrip('-.')}-{digest}" if name else digest
