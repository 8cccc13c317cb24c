"""Read the lines of a CSV trace with a header, and their fields as values.

The file may be compressed with gzip, and its fields may be separated by other signs than commas. A line that cannot be
read raises ``BrokenLine`` with the field, its content and what was expected.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, TextIO, TypeVar

from kailab.errors import InputError, Where
from kailab.model.files import HEAD, encoding_of, foreign_format, open_file
from kailab.replay.job import SkippedLine, TraceJob

Record = TypeVar("Record")
MOST_AMOUNT = 10**12
"""Largest amount or time. A larger one is a mistake and would overflow 64 bits in sums."""
FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""First characters of cells that a spreadsheet evaluates as a formula; the last four are full-width forms."""
MIG_PROFILE = r"[1-9]g\.[1-9][0-9]{0,3}gb"
"""Pattern of a profile of MIG instances, as NVIDIA's documentation names them: 1g.10gb."""
_TEXT = re.compile(r"[\x20-\x7e\xa0-\ud7ff\ue000-\U0010ffff]*")


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


class BrokenLine(Exception):
    """The reason for which a line cannot be read."""


class LineFields:
    """The fields of one line by name. ``columns``: maps the names to those of the file's columns where they differ."""

    def __init__(self, values: Mapping[str, str], columns: Mapping[str, str] | None = None) -> None:
        self._values = values
        self._columns = columns or {}

    def label(self, name: str) -> str:
        """The name of a field in messages: that of its column in the file."""
        return self._columns.get(name, name)

    def text(self, name: str) -> str:
        """The text of a field; empty if it is missing."""
        text = self._values.get(name) or ""
        if not _TEXT.fullmatch(text):
            raise BrokenLine(f"{self.label(name)} is {text!r:.80}; expected printable text in UTF-8 or UTF-16")
        text = text.strip()
        # Remove the apostrophe that ``kailab.replay.tables`` adds, so that recorded names are read back unchanged.
        return text[1:] if text.startswith("'") and text[1:].startswith(FORMULA_SIGNS) else text

    def number(self, name: str, default: float | None = None, *, least: float = 0) -> float:
        """A number of at least ``least``. ``default``: for an empty field; None: the field is required."""
        text = self.text(name)
        if not text:
            if default is None:
                raise BrokenLine(f"{self.label(name)} is empty; expected a number")
            return default
        try:
            number = float(text)
        except ValueError:
            raise BrokenLine(f"{self.label(name)} is {text!r:.80}; expected a number") from None
        if not math.isfinite(number) or not least <= number <= MOST_AMOUNT:
            raise BrokenLine(f"{self.label(name)} is {text!r:.80}; expected a number from {least:g} to {MOST_AMOUNT:g}")
        return number

    def whole(self, name: str, default: int | None = None, *, least: int = 0) -> int:
        number = self.number(name, default, least=least)
        if number != int(number):
            raise BrokenLine(f"{self.label(name)} is {self.text(name)!r:.80}; expected a whole number")
        return int(number)

    def seconds(self, name: str) -> int:
        """A time span in whole seconds; any positive span is at least 1."""
        number = self.number(name)
        return max(1, round(number)) if number > 0 else 0

    def moment(self, name: str) -> int:
        """A number of seconds, or a date and time as seconds since the epoch (UTC without a zone)."""
        text = self.text(name)
        try:
            number = float(text)
        except ValueError:
            return parse_moment(text, self.label(name))
        if not math.isfinite(number) or not 0 <= number <= MOST_AMOUNT:
            raise BrokenLine(
                f"{self.label(name)} is {text!r:.80}; expected seconds from 0 to {MOST_AMOUNT:g}, or a date and time"
            )
        return round(number)


@lru_cache(maxsize=65_536)
def parse_moment(text: str, name: str) -> int:
    """Parse ISO 8601 text to seconds since the epoch. Raises BrokenLine."""
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise BrokenLine(
            f"{name} is {text!r:.80}; expected seconds, or a date and time as 2017-10-09 07:01:55"
        ) from None
    return round((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp())


ParsedLine = TraceJob | SkippedLine
SEPARATORS = (",", "|", ";", "\t", "^", "~", "!", "#", ":")
"""Separators of columns: the one that the header has most often counts, of equal ones the first."""
LONGEST_LINE = 2**20
"""In characters. The longest lines of published traces have some hundreds."""
MOST_LINES = 20_000_000
"""Each line is kept in memory. The largest published traces have some millions."""
_DENSEST = 200
"""Maximum compression ratio. Text of jobs is never compressed as much; gzip reaches five times that on zeros."""
_SUSPICIOUS = 64 * 2**20
"""Bytes of content from which on the compression ratio is checked."""


class _Unpacking(io.RawIOBase):
    """The content of a gzip file. Raises InputError if the compression ratio is too high for a trace (a decompression
    bomb)."""

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
                f"the file decompresses to more than {_DENSEST} times its size; expected the lines of a trace",
                Where(file=str(self._path)),
            )
        return number


@contextmanager
def open_text(path: Path) -> Iterator[TextIO]:
    """Open a text file, compressed or not, in UTF-8 or in UTF-16 with a byte order mark. Bytes that are not text are
    kept as surrogates, so that their line can be reported. Raises InputError."""
    try:
        with open_file(path) as raw:
            content, start = raw, raw.read(HEAD)
            raw.seek(0)
            if start.startswith(b"\x1f\x8b"):
                packed = io.BufferedReader(_Unpacking(raw, path))
                content, start = packed, packed.peek(HEAD)[:HEAD]
            if problem := foreign_format(start):
                raise InputError(problem, Where(file=str(path)))
            encoding = encoding_of(start)
            errors = "surrogatepass" if encoding == "utf-16" else "surrogateescape"
            with io.TextIOWrapper(content, encoding=encoding, errors=errors, newline="") as text:
                try:
                    yield text
                except UnicodeDecodeError:
                    # Surrogates pass, so that half of a character is left.
                    raise InputError(
                        "the file ends within a character of UTF-16; expected a whole text", Where(file=str(path))
                    ) from None
    # Damaged gzip content raises one or another of these, depending on the place.
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(
            f"cannot be unpacked, it may be incomplete: {error}; copy it again from its source", Where(file=str(path))
        ) from None
    except OSError as error:
        raise InputError(
            f"cannot be read: {getattr(error, 'strerror', None) or error}", Where(file=str(path))
        ) from None


def read_header(path: Path) -> list[str]:
    """The column names in the first line. Raises InputError."""
    return _header(path)[1]


def _header(path: Path) -> tuple[str, list[str]]:
    """The separator and the column names. Raises InputError."""
    with open_text(path) as text:
        line = _line(text, path, 1)
    if "\0" in line:
        raise InputError(
            f"the line is {line!r:.40}, which is not text; expected UTF-8, or UTF-16 with a byte order mark",
            Where(file=str(path), line=1),
        )
    separator = max(SEPARATORS, key=line.count)
    try:
        names = _values(line, separator)
    except BrokenLine as error:
        raise InputError(str(error), Where(file=str(path), line=1)) from None
    if not names:
        raise InputError("the file is empty; expected a line with column names", Where(file=str(path), line=1))
    return separator, [name.strip() for name in names]


def read_rows(path: Path) -> Iterator[tuple[int, dict[str, str] | str]]:
    """Yield the number of each line after the header with its fields by name, or with the reason why it has none.
    Raises InputError."""
    separator, header = _header(path)
    with open_text(path) as text:
        _line(text, path, 1)
        number = 1
        while line := _line(text, path, number + 1):
            number += 1
            if number > MOST_LINES:
                raise InputError(
                    f"the file has more than {MOST_LINES} lines; expected at most that many", Where(file=str(path))
                )
            if line in ("\n", "\r\n", "\r"):
                continue
            try:
                values = _values(line, separator)
            except BrokenLine as error:
                yield number, str(error)
                continue
            # The files of several months may be joined into one.
            if values == header:
                continue
            if len(values) == len(header):
                yield number, dict(zip(header, values, strict=True))
            else:
                reason = f"{len(values)} fields; expected {len(header)}, as in the header"
                if len(values) > len(header):
                    reason += f". A field may hold the separator {separator!r}: write the file with another one (sacct -P prints |)"
                yield number, reason


def _line(text: TextIO, path: Path, number: int) -> str:
    """The next line; empty at the end. Raises InputError for a line that is too long."""
    line = text.readline(LONGEST_LINE + 1)
    if len(line) > LONGEST_LINE:
        raise InputError(
            f"a line has more than {LONGEST_LINE} characters; expected one job per line",
            Where(file=str(path), line=number),
        )
    return line


def _values(line: str, separator: str) -> list[str]:
    """Split one line into fields. Lines are read separately, because an open quote would otherwise swallow all
    following lines. Raises BrokenLine."""
    # Files separated by bars (sacct) do not quote: a quote is part of a name.
    try:
        if separator == "|":
            rows = csv.reader((line,), strict=True, delimiter=separator, quoting=csv.QUOTE_NONE)
        else:
            rows = csv.reader((line,), strict=True, delimiter=separator)
        return next(rows, [])
    except csv.Error as error:
        if "unexpected end" in str(error):
            raise BrokenLine("a quote is not closed; expected one job per line") from None
        raise BrokenLine(f"invalid CSV: {error}") from None


def read_jobs(
    path: Path, make: Callable[[LineFields, int], ParsedLine], columns: Mapping[str, str] | None = None
) -> Iterator[ParsedLine]:
    """Yield what ``make`` returns for each line after the header, given its fields and number.

    ``columns``: maps the names that ``make`` uses to those of the file if they differ.
    """
    named = dict(columns or {})
    for line, values in read_rows(path):
        if isinstance(values, str):
            yield SkippedLine(line, values)
            continue
        values.update({name: values[column] for name, column in named.items()})
        try:
            yield make(LineFields(values, named), line)
        except BrokenLine as error:
            yield SkippedLine(line, str(error))


def read_table(
    path: Path, columns: Sequence[str], content: str, make: Callable[[LineFields], Record]
) -> Iterator[tuple[Where, Record]]:
    """Yield what ``make`` returns for each line of a file that has to be right as a whole, with its place. ``content``: of the file, for
    messages. Raises InputError for missing columns and for the first line that cannot be read.
    """
    header = read_header(path)
    if missing := [name for name in columns if name not in header]:
        raise InputError(
            f"no column {', '.join(missing)}; expected {content} with {', '.join(columns)}",
            Where(file=str(path), line=1),
        )
    for line, values in read_rows(path):
        where = Where(file=str(path), line=line)
        if isinstance(values, str):
            raise InputError(values, where)
        try:
            record = make(LineFields(values))
        except BrokenLine as error:
            raise InputError(str(error), where) from None
        yield where, record
