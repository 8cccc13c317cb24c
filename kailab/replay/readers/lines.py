"""The lines of a CSV file with a header, one after the other; the file may be packed with gzip."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from kailab.errors import InputError, Where
from kailab.replay.job import LeftOut, TraceJob
from kailab.replay.readers.fields import BrokenLine, Fields

Made = TraceJob | LeftOut


@contextmanager
def opened(path: Path) -> Iterator[TextIO]:
    """The text of a file. What is not UTF-8 stays recognisable (``surrogateescape``), so that its line can be told. Raises InputError."""
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
        opening = gzip.open if packed else open
        with opening(path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="") as text:
            yield text
    # What is packed and damaged is told as one or the other, by where it is.
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"can't be read: {getattr(error, 'strerror', None) or error}", Where(file=str(path))) from None


def header_of(path: Path) -> list[str]:
    """The names in the first line. Raises InputError."""
    with opened(path) as text:
        try:
            found = _values(text.readline())
        except BrokenLine as error:
            raise InputError(str(error), Where(file=str(path), line=1)) from None
    if not found:
        raise InputError("it is empty; expected a line with the names of columns", Where(file=str(path), line=1))
    return [name.strip() for name in found]


def rows(path: Path) -> Iterator[tuple[int, dict[str, str] | str]]:
    """The number of each line after the header, and its fields by the header's names, or why it has none. Raises InputError."""
    header = header_of(path)
    with opened(path) as text:
        text.readline()
        for number, line in enumerate(text, 2):
            try:
                values = _values(line)
            except BrokenLine as error:
                yield number, str(error)
                continue
            if not values:
                continue  # an empty line holds nothing that could be lost
            if len(values) == len(header):
                yield number, dict(zip(header, values, strict=True))
            else:
                yield number, f"{len(values)} fields; expected {len(header)}, as in the header"


def _values(line: str) -> list[str]:
    """The fields of one line. Each line is read for itself: a quote that is left open would swallow all lines behind it. Raises BrokenLine."""
    try:
        return next(csv.reader((line,), strict=True), [])
    except csv.Error as error:
        if "unexpected end" in str(error):
            raise BrokenLine("a quote is not closed; expected each job on one line") from None
        raise BrokenLine(f"no CSV: {error}") from None


def jobs(path: Path, make: Callable[[Fields, int], Made], columns: Mapping[str, str] | None = None) -> Iterator[Made]:
    """What ``make`` makes of each line after the header, given its fields and number. ``columns``: the names that ``make`` knows -> those of
    the file, where they differ."""
    named = dict(columns or {})
    for line, values in rows(path):
        if isinstance(values, str):
            yield LeftOut(line, values)
            continue
        values.update({own: values[theirs] for own, theirs in named.items()})
        try:
            yield make(Fields(values), line)
        except BrokenLine as error:
            yield LeftOut(line, str(error))
