"""Fields of a trace's line as values. What can't be read is a ``BrokenLine``, which says the field, what stands there, and what was expected."""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, TextIO

from kailab.errors import InputError, Where
from kailab.model.files import open_file
from kailab.replay.job import SkippedLine, TraceJob

MOST_AMOUNT = 10**12
"""No amount and no time in a trace is larger: what is, was written by mistake, and sums would leave 64 bits."""
FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""With which a cell begins that a spreadsheet takes for a formula; the last four are the first four in full width."""
_TEXT = re.compile(r"[\x20-\x7e\xa0-\ud7ff\ue000-\U0010ffff]*")


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


class BrokenLine(Exception):
    """Why a line can't be read."""


class LineFields:
    """The fields of one line by their names."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def text(self, name: str) -> str:
        """Empty where it is not there."""
        found = self._values.get(name) or ""
        if not _TEXT.fullmatch(found):
            raise BrokenLine(f"{name} is {found!r:.80}; expected printable text in UTF-8")
        found = found.strip()
        # As a table of kailab's is written (``kailab.replay.tables``), so that a recorded trace has the names that it recorded.
        return found[1:] if found.startswith("'") and found[1:].startswith(FORMULA_SIGNS) else found

    def number(self, name: str, default: float | None = None, *, least: float = 0) -> float:
        """Not below ``least``. ``default``: where it is empty; None: it must be there."""
        text = self.text(name)
        if not text:
            if default is None:
                raise BrokenLine(f"{name} is empty; expected a number")
            return default
        try:
            found = float(text)
        except ValueError:
            raise BrokenLine(f"{name} is {text!r:.80}; expected a number") from None
        if not math.isfinite(found) or not least <= found <= MOST_AMOUNT:
            raise BrokenLine(f"{name} is {text!r:.80}; expected a number from {least:g} to {MOST_AMOUNT:g}")
        return found

    def whole(self, name: str, default: int | None = None, *, least: int = 0) -> int:
        """A number without a fraction."""
        found = self.number(name, default, least=least)
        if found != int(found):
            raise BrokenLine(f"{name} is {self.text(name)!r:.80}; expected a whole number")
        return int(found)

    def seconds(self, name: str) -> int:
        """A time span, to the second; anything longer than nothing counts as one at least."""
        found = self.number(name)
        return max(1, round(found)) if found > 0 else 0

    def moment(self, name: str) -> int:
        """Seconds, or a date and time, as seconds since the epoch (UTC where it names no zone)."""
        text = self.text(name)
        try:
            found = float(text)
        except ValueError:
            return parse_moment(text, name)
        if not math.isfinite(found) or not 0 <= found <= MOST_AMOUNT:
            raise BrokenLine(f"{name} is {text!r:.80}; expected seconds from 0 to {MOST_AMOUNT:g}, or a date and time")
        return round(found)


@lru_cache(maxsize=65_536)
def parse_moment(text: str, name: str) -> int:
    """Seconds since the epoch of ISO 8601 text. Raises BrokenLine."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise BrokenLine(
            f"{name} is {text!r:.80}; expected seconds, or a date and time as 2017-10-09 07:01:55"
        ) from None
    return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp())


# The lines of a CSV file with a header, one after the other; the file may be packed with gzip, and its fields separated otherwise than by commas.

ParsedLine = TraceJob | SkippedLine
SEPARATORS = (",", "|", ";", "\t")
"""Of columns. One of the others is taken where a header has no comma."""
LONGEST_LINE = 2**20
"""Characters. The longest of the published traces have some hundreds."""
MOST_LINES = 20_000_000
"""Of each a record is kept. The largest of the published traces have some millions."""
_DENSEST = 200
"""No text of jobs is so many times as large as it is when packed; what gzip makes of nothing but zeros is five times denser."""
_SUSPICIOUS = 64 * 2**20
"""Bytes up to which it does not matter how dense it was packed."""


class _Unpacking(io.RawIOBase):
    """The content of a file that is packed with gzip. Raises InputError for one that unpacks to more than any trace would."""

    def __init__(self, raw: BinaryIO, path: Path) -> None:
        self._raw = raw
        self._packed = gzip.GzipFile(fileobj=raw)
        self._path = path
        self._read = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        number = self._packed.readinto(buffer)
        self._read += number
        if self._read > _SUSPICIOUS and self._read > _DENSEST * self._raw.tell():
            raise InputError(
                f"unpacks to more than {_DENSEST} times its size; expected the lines of a trace",
                Where(file=str(self._path)),
            )
        return number


@contextmanager
def open_text(path: Path) -> Iterator[TextIO]:
    """The text of a file. What is not UTF-8 stays recognisable (``surrogateescape``), so that its line can be told. Raises InputError."""
    try:
        with open_file(path) as raw:
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            content = io.BufferedReader(_Unpacking(raw, path)) if packed else raw
            with io.TextIOWrapper(content, encoding="utf-8-sig", errors="surrogateescape", newline="") as text:
                yield text
    # What is packed and damaged is told as one or the other, by where it is.
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"can't be read: {getattr(error, 'strerror', None) or error}", Where(file=str(path))) from None


def read_header(path: Path) -> list[str]:
    """The names in the first line. Raises InputError."""
    return _header(path)[1]


def _header(path: Path) -> tuple[str, list[str]]:
    """What separates the columns, and their names. Raises InputError."""
    with open_text(path) as text:
        line = _line(text, path, 1)
    separator = next((one for one in SEPARATORS if one in line), ",")
    try:
        found = _values(line, separator)
    except BrokenLine as error:
        raise InputError(str(error), Where(file=str(path), line=1)) from None
    if not found:
        raise InputError("it is empty; expected a line with the names of columns", Where(file=str(path), line=1))
    return separator, [name.strip() for name in found]


def read_rows(path: Path) -> Iterator[tuple[int, dict[str, str] | str]]:
    """The number of each line after the header, and its fields by the header's names, or why it has none. Raises InputError."""
    separator, header = _header(path)
    with open_text(path) as text:
        _line(text, path, 1)
        number = 1
        while line := _line(text, path, number + 1):
            number += 1
            if number > MOST_LINES:
                raise InputError(f"more than {MOST_LINES} lines; expected no more", Where(file=str(path)))
            # An empty line holds nothing that could be lost.
            if line in ("\n", "\r\n", "\r"):
                continue
            try:
                values = _values(line, separator)
            except BrokenLine as error:
                yield number, str(error)
                continue
            if len(values) == len(header):
                yield number, dict(zip(header, values, strict=True))
            else:
                yield number, f"{len(values)} fields; expected {len(header)}, as in the header"


def _line(text: TextIO, path: Path, number: int) -> str:
    """The next line; empty at the end. Raises InputError for one without end."""
    found = text.readline(LONGEST_LINE + 1)
    if len(found) > LONGEST_LINE:
        raise InputError(
            f"a line of more than {LONGEST_LINE} characters; expected each job on a line",
            Where(file=str(path), line=number),
        )
    return found


def _values(line: str, separator: str) -> list[str]:
    """The fields of one line. Each line is read for itself: a quote that is left open would swallow all lines behind it. Raises BrokenLine."""
    # Who separates by bars (sacct) does not quote: a quote is part of a name there.
    try:
        if separator == "|":
            found = csv.reader((line,), strict=True, delimiter=separator, quoting=csv.QUOTE_NONE)
        else:
            found = csv.reader((line,), strict=True, delimiter=separator)
        return next(found, [])
    except csv.Error as error:
        if "unexpected end" in str(error):
            raise BrokenLine("a quote is not closed; expected each job on one line") from None
        raise BrokenLine(f"no CSV: {error}") from None


def read_jobs(
    path: Path, make: Callable[[LineFields, int], ParsedLine], columns: Mapping[str, str] | None = None
) -> Iterator[ParsedLine]:
    """What ``make`` makes of each line after the header, given its fields and number. ``columns``: the names that ``make`` knows -> those of
    the file, where they differ."""
    named = dict(columns or {})
    for line, values in read_rows(path):
        if isinstance(values, str):
            yield SkippedLine(line, values)
            continue
        values.update({own: values[theirs] for own, theirs in named.items()})
        try:
            yield make(LineFields(values), line)
        except BrokenLine as error:
            yield SkippedLine(line, str(error))
