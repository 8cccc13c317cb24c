"""The canonical form of values in evidence, so that equal runs give equal bytes.

JSON has sorted keys. Virtual times are seconds since the lab opened (float, microseconds at most) beside RFC 3339 text. File and folder names use a
small alphabet; a digest keeps names apart in which characters were replaced.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from kailab.model import times

_ENCODER = msgspec.json.Encoder(order="sorted")
# These characters are safe in paths on every system and in shells. Test ids contain brackets, slashes and spaces.
_UNSAFE = re.compile(r"[^A-Za-z0-9._=+-]+")
NAME_LENGTH = 100


def compact_json(value: Any) -> bytes:
    """Encode as JSON on one line, with sorted keys."""
    return _ENCODER.encode(value)


def pretty_json(value: Any) -> bytes:
    """Encode as indented JSON with sorted keys and a final line break."""
    return msgspec.json.format(_ENCODER.encode(value), indent=2) + b"\n"


def as_plain_json(value: Any) -> Any:
    """Convert to plain JSON values: dicts, lists, strings and numbers."""
    return msgspec.json.decode(_ENCODER.encode(value))


def json_lines(values: Iterable[Any]) -> bytes:
    """Encode as JSON lines."""
    return b"".join(_ENCODER.encode(value) + b"\n" for value in values)


def format_rfc3339(seconds: float) -> str:
    """Format seconds since the epoch as Kubernetes does; with a fraction only if there is one.

    >>> format_rfc3339(1767225600.0)
    '2026-01-01T00:00:00Z'
    """
    moment = times.date(round(seconds, 6))
    text = moment.strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{moment.microsecond:06d}Z" if moment.microsecond else f"{text}Z"


def safe_name(text: str) -> str:
    """A file or folder name for any text. Changed texts get a digest, so that different texts get different names.

    >>> safe_name("test_borrow")
    'test_borrow'
    """
    # No leading dot: readers of a run skip hidden folders.
    name = _UNSAFE.sub("-", text).strip("-.")
    if name and name == text and len(name) <= NAME_LENGTH:
        return name
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{name[: NAME_LENGTH - 9].rstrip('-.')}-{digest}" if name else digest
