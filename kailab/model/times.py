"""Durations and points in time as Kubernetes and KAI write them.

In code, durations are seconds (float); in text they are Go durations (``1h30m``, ``90s``, ``1.5h``, ``300ms``) and, in
the configuration of KAI's scheduler, also days and weeks (``2w``, ``1d12h``). In code, points in time are seconds since
the epoch (float); in text they are RFC 3339.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo
from fractions import Fraction
from functools import lru_cache
from typing import Any

from kailab.errors import InputError, Where

_UNITS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,  # micro sign
    "μs": 10**3,  # Greek mu
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86_400 * 10**9,
    "w": 604_800 * 10**9,
}
DAY = 86_400.0
"""Seconds of a day."""

_PART = re.compile(r"(?:(\d+)(?:\.(\d*))?|\.(\d+))(ns|us|µs|μs|ms|s|m|h|d|w)", re.ASCII)
_LONGEST_NANOSECONDS = 2**63 - 1
_LONGEST_TEXT = 64
_EARLIEST, _LATEST = -30610224000.0, 253402300799.0  # the years 1000 to 9999, which have four digits in RFC 3339
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)


def duration_seconds(text: Any, where: Where | None = None, *, signed: bool = False, days: bool = False) -> float:
    """Seconds of a Go duration. ``days``: accept ``d`` and ``w`` too; ``signed``: accept a negative one.

    >>> duration_seconds("1h30m"), duration_seconds("1d", days=True)
    (5400.0, 86400.0)
    """
    if not isinstance(text, str):
        raise InputError(f"{text!r:.80} is not a duration; expected text such as 90s, 1h30m or 1.5h", where)
    nanoseconds = _nanoseconds(text, days)
    if nanoseconds is None:
        units = "w, d, h, m, s, ms" if days else "h, m, s, ms"
        raise InputError(f"{text!r:.80} is not a duration; expected text such as 90s, 1h30m or 1.5h ({units})", where)
    if nanoseconds < 0 and not signed:
        raise InputError(f"{text!r} is negative; expected a duration of zero or more", where)
    return nanoseconds / 10**9


def format_duration(seconds: float) -> str:
    """Format a duration as Go does: ``5400`` -> ``"1h30m0s"``, ``0.3`` -> ``"300ms"``, ``0`` -> ``"0s"``."""
    # Whole nanoseconds, as in Go. Rounded, because a float such as 0.3 may be slightly below the intended value.
    nanoseconds = round(Fraction(seconds) * 10**9)
    sign, nanoseconds = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    if nanoseconds == 0:
        return "0s"
    if nanoseconds < 10**9:
        for unit, size in (("ms", 10**6), ("µs", 10**3), ("ns", 1)):
            if nanoseconds >= size:
                return f"{sign}{_decimal(nanoseconds, size)}{unit}"
    minutes, rest = divmod(nanoseconds, 60 * 10**9)
    hours, minutes = divmod(minutes, 60)
    front = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{sign}{front}{_decimal(rest, 10**9)}s"


def spoken_duration(seconds: float) -> str:
    """A duration in its two largest units, for people.

    >>> [spoken_duration(seconds) for seconds in (0.2, 45, 90, 720, 15120, 86400, 183600)]
    ['0.2 s', '45 s', '1 min 30 s', '12 min', '4 h 12 min', '24 h', '2 d 3 h']
    """
    if seconds < 10:
        return f"{round(seconds, 1):g} s"
    units = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
    whole = round(seconds) if seconds < 3600 else round(seconds / 60) * 60
    # Up to two days, hours are the usual unit.
    place = next(place for place, (unit, size) in enumerate(units) if whole >= (2 * size if unit == "d" else size))
    unit, size = units[place]
    first, rest = divmod(whole, size)
    if place + 1 < len(units):
        smaller, least = units[place + 1]
        if rest // least:
            return f"{first} {unit} {rest // least} {smaller}"
    return f"{first} {unit}"


@lru_cache(maxsize=4096)
def _seconds_of(text: str) -> float | None:
    if not _TIME.fullmatch(text):
        return None
    try:
        # RFC 3339 allows lower case letters and a space, which fromisoformat does not accept in all places.
        return datetime.fromisoformat(text.upper().replace(" ", "T")).timestamp()
    except (ValueError, OverflowError):
        return None


def parse_time(text: Any, where: Where | None = None) -> float:
    """Seconds since the epoch of an RFC 3339 time.

    >>> parse_time("2026-01-01T00:00:00Z")
    1767225600.0
    """
    seconds = _seconds_of(text) if isinstance(text, str) else None
    if seconds is None:
        raise InputError(f"{text!r:.80} is not a time; expected RFC 3339 such as 2026-01-01T00:00:00Z", where)
    return seconds


def time_or_none(text: Any) -> float | None:
    """As ``parse_time``, but None for a missing or unreadable time."""
    return _seconds_of(text) if isinstance(text, str) else None


@lru_cache(maxsize=1024)
def format_time(seconds: float) -> str:
    """RFC 3339 in UTC with whole seconds (truncated), as ``metav1.Time``."""
    return date(seconds // 1).isoformat()[:19] + "Z"  # half the time of strftime


def format_micro_time(seconds: float) -> str:
    """RFC 3339 in UTC with microseconds, as ``metav1.MicroTime``."""
    return date(seconds).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def date(seconds: float, zone: tzinfo = UTC) -> datetime:
    """The date of a point in time. A time outside the years 1000 to 9999, such as the end of a grace period of thousands of years, becomes
    the first or last date that can be written."""
    # One day is left at both ends, because a zone may be that far from UTC.
    least, most = (_EARLIEST, _LATEST) if zone is UTC else (_EARLIEST + DAY, _LATEST - DAY)
    return datetime.fromtimestamp(min(max(seconds, least), most), zone)


@lru_cache(maxsize=1024)
def _nanoseconds(text: str, days: bool) -> int | None:
    sign, body = (-1, text[1:]) if text[:1] == "-" else (1, text[1:] if text[:1] == "+" else text)
    if body == "0":
        return 0
    if not body or len(body) > _LONGEST_TEXT:
        return None
    total, position = Fraction(0), 0
    while position < len(body):
        match = _PART.match(body, position)
        if match is None or (match[4] in "dw" and not days):
            return None
        decimals = match[2] or match[3] or ""
        total += Fraction(int((match[1] or "") + decimals), 10 ** len(decimals)) * _UNITS[match[4]]
        position = match.end()
    # Truncated, as in Go.
    nanoseconds = int(total)
    return sign * nanoseconds if nanoseconds <= _LONGEST_NANOSECONDS else None


def _decimal(nanoseconds: int, size: int) -> str:
    whole, rest = divmod(nanoseconds, size)
    digits = len(str(size)) - 1
    return f"{whole}.{rest:0{digits}}".rstrip("0").rstrip(".") if rest else str(whole)
