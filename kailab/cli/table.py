"""Tables as kubectl prints them: upper-case headers, columns three spaces apart, colour for important states. On a terminal that is too narrow, sentences are wrapped and
names are shortened.
"""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from kailab.cli import terminal
from kailab.errors import escaped

GAP = "   "
NARROW = "  "
"""Between the columns of a table that would not fit otherwise."""
LEAST = 20
"""Columns are not made narrower than this,"""
LEAST_OF_NAMES = 16
"""those called NAME, which are shortened last, not than this,"""
LEAST_OF_SENTENCES = 28
"""and a last column of sentences not than this: it is written beneath the others then."""
INDENT = "    "
LABELS = "LABELS"
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")
_DIGITS = 4
"""So many of a UID tell objects of one name apart."""
_GROUP = re.compile(r"([a-z]+)\.[a-z0-9.-]+/")


class TableLayout(NamedTuple):
    """``rows``: cells, of several lines where they are wrapped. ``beneath``: the last column stands below the others."""

    rows: list[list[str]]
    gap: str
    beneath: bool

    @property
    def abreast(self) -> list[list[str]]:
        """The rows as lines of cells."""
        return [line for row in self.rows for line in self._lines(row[:-1] if self.beneath else row)]

    def lines(self) -> Iterator[tuple[list[str], str]]:
        """(cells, what stands alone on a line instead of them)."""
        for row in self.rows:
            for cells in self._lines(row[:-1] if self.beneath else row):
                yield cells, ""
            if self.beneath:
                for line in row[-1].splitlines():
                    yield [], INDENT + line

    def _lines(self, row: Sequence[str]) -> Iterator[list[str]]:
        parts = [cell.splitlines() or [""] for cell in row]
        for number in range(max(map(len, parts), default=1)):
            yield [part[number] if number < len(part) else "" for part in parts]


def column_widths(rows: Iterable[Sequence[str]]) -> list[int]:
    """How wide each column is."""
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def fit_table(headers: Sequence[str], rows: Sequence[Sequence[str]], room: int) -> TableLayout:
    """The rows within ``room`` characters, as far as the least widths allow that. Columns of sentences are those with spaces in a
    cell that is no header.

    >>> fitted(["NAME", "AGE"], [["NAME", "AGE"], ["a-very-long-name-0123456789", "3s"]], 24).rows[1]
    ['a-very-lo…123456789', '3s']
    """
    whole = TableLayout([list(row) for row in rows], GAP, False)
    if not rows or _width(column_widths(rows), GAP) <= room:
        return whole
    shorter = [[_without_uid(cell) for cell in row] for row in rows]
    told = [
        any(" " in row[index].strip() for row in rows if row[index] != headers[index]) for index in range(len(headers))
    ]
    least = column_widths(shorter)
    for index, sentences in enumerate(told[:-1]):
        least[index] = min(least[index], LEAST) if sentences else least[index]
    left = room - _width(least[:-1], NARROW) - len(NARROW)
    beneath = told[-1] and len(headers) > 1 and left < min(LEAST_OF_SENTENCES, least[-1])
    found = _squeezed(headers, column_widths(rows), least, told, room)
    # What can't fit at all needs a second line: the long cells at its end, rather than whatever stands at the terminal's edge.
    # Who asks for labels wants to read them.
    labels = headers[-1] == LABELS
    beneath = beneath or labels or (len(headers) > 1 and _width(found, NARROW) > room and least[-1] > LEAST)
    if beneath:
        found = _squeezed(headers[:-1], column_widths(row[:-1] for row in rows), least[:-1], told[:-1], room)
        found.append(room - len(INDENT))
    cut = [
        [
            _wrapped(cell, width) if sentences else _shortened(cell, width)
            for cell, width, sentences in zip(row, found, told, strict=True)
        ]
        for row in rows
    ]
    if labels:
        cut = [[*cells[:-1], _of_labels(row[-1], room - len(INDENT))] for cells, row in zip(cut, rows, strict=True)]
    return TableLayout(cut, NARROW, beneath)


def _of_labels(cell: str, width: int) -> str:
    """Whole labels on lines of a width, a longer one on a line of its own.

    >>> _of_labels("app=train,kai.scheduler/queue=team-a,tier=gold", 20).splitlines()
    ['app=train,', 'kai.scheduler/queue=team-a,', 'tier=gold']
    """
    lines = [""]
    for one in cell.replace(",", ",\n").splitlines():
        if lines[-1] and len(lines[-1]) + len(one) > width:
            lines.append("")
        lines[-1] += one
    return "\n".join(lines)


def _width(columns: Sequence[int], gap: str) -> int:
    return sum(columns) + len(gap) * max(0, len(columns) - 1)


def _squeezed(
    headers: Sequence[str], now: list[int], uids_cut: Sequence[int], told: Sequence[bool], room: int
) -> list[int]:
    """Widths of columns, narrower until they fit: first sentences and UIDs, then what is no name, then names."""
    over = _width(now, NARROW) - room
    least_told = [
        min(width, LEAST_OF_SENTENCES if index == len(told) - 1 else LEAST) for index, width in enumerate(now)
    ]
    first = [least_told[index] if told[index] else uids_cut[index] for index in range(len(now))]
    then = [min(width, LEAST) for width in first]
    last = [
        min(width, LEAST_OF_NAMES) if header == "NAME" else width for header, width in zip(headers, then, strict=True)
    ]
    others = {index for index, header in enumerate(headers) if header != "NAME"}
    for columns, least in ((range(len(now)), first), (others, then), (range(len(now)), last)):
        while over > 0:
            widest = max((index for index in columns if now[index] > least[index]), key=now.__getitem__, default=None)
            if widest is None:
                break
            now[widest] -= 1
            over -= 1
    return now


def _wrapped(text: str, width: int) -> str:
    return "\n".join(textwrap.wrap(text, width, break_on_hyphens=False))


def _without_uid(text: str) -> str:
    found = _UID.search(text)
    return f"{text[: found.start()].rstrip('-')}…{text[-_DIGITS:]}" if found else text


def _shortened(text: str, width: int) -> str:
    """What tells names apart often stands at their end; of a UID, a few digits do. The API group before a name goes first."""
    if len(text) > width:
        text = _GROUP.sub(r"\1/", text)
    if len(text) <= width:
        return text
    short = _without_uid(text)
    if len(short) <= width:
        return short
    tail = width // 2 if short == text else _DIGITS
    return f"{text[: width - tail - 1]}…{text[-tail:]}"


_STATES = {
    "Running": "green",
    "Ready": "green",
    "Complete": "green",
    "Succeeded": "green",
    "Pending": "yellow",
    "Terminating": "yellow",
    "SchedulingGated": "yellow",
    "Failed": "red",
    "Error": "red",
    "NotReady": "red",
    "Warning": "yellow",
    "passed": "green",
    "failed": "red",
    "yes": "green",
    "no": "yellow",
}


def render_table(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    no_headers: bool = False,
    at_least: Sequence[int] = (),
    indent: str = "",
) -> str:
    """The table as text; no spaces at the ends of lines. Line breaks in cells become spaces. On a terminal that is too narrow for it
    it is made to fit. ``at_least``: widths of columns. ``indent``: what stands before each line."""
    # The spaces at the beginning of a cell draw a tree.
    shown = [] if no_headers else [list(headers)]
    shown += [[_flat(cell) for cell in row] for row in rows]
    laid = TableLayout(shown, GAP, False)
    if sys.stdout.isatty():
        laid = fit_table(headers, shown, shutil.get_terminal_size().columns - len(indent))
    found = column_widths(laid.abreast)
    if laid.gap == GAP:
        found = [max(pair) for pair in zip_longest(found, at_least, fillvalue=0)]
    coloured = terminal.uses_colour(sys.stdout)
    lines = (_line(cells, found, laid.gap, coloured) if cells else alone for cells, alone in laid.lines())
    return "\n".join(f"{indent}{line}".rstrip() for line in lines)


def table_widths(headers: Sequence[str], rows: Sequence[Sequence[str]], *, no_headers: bool = False) -> list[int]:
    """How wide each column is."""
    shown = rows if no_headers else [headers, *rows]
    return [max((len(row[index]) for row in shown), default=0) for index in range(len(headers))]


def _flat(cell: str) -> str:
    indent = len(cell) - len(cell.lstrip(" "))
    # Escaped before the widths of columns are reckoned.
    return cell[:indent] + escaped(" ".join(cell.split()))


def _line(row: Sequence[str], widths: Sequence[int], gap: str, coloured: bool) -> str:
    cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
    cells[-1] = row[-1]
    if coloured:
        cells = [
            cell.replace(bare, terminal.paint(bare, _STATES.get(bare, ""), sys.stdout), 1) if bare else cell
            for cell, bare in zip(cells, row, strict=True)
        ]
    return gap.join(cells).rstrip()


def format_age(seconds: float) -> str:
    """A time span as kubectl tells it: two units at most, fewer the longer it is.

    >>> age(42), age(200), age(7500), age(3 * 86400 + 7200)
    ('42s', '3m20s', '125m', '3d2h')
    """
    whole = max(0, int(seconds))
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    return f"{days}d"


def format_span(seconds: float) -> str:
    """A time that was measured, to the second; from two days on to the minute. Rounded, where ``age`` cuts off up to a tenth.

    >>> span(42.4), span(659), span(7500), span(20 * 3600 + 1), span(3 * 86400 + 7200 + 50)
    ('42s', '10m59s', '2h5m', '20h0m1s', '3d2h1m')
    """
    whole = max(0, round(seconds))
    if whole < 120:
        return f"{whole}s"
    if whole >= 2 * 86400:
        minutes = round(seconds / 60)
        parts = [(minutes // 1440, "d"), (minutes // 60 % 24, "h"), (minutes % 60, "m")]
    else:
        parts = [(whole // 3600, "h"), (whole // 60 % 60, "m"), (whole % 60, "s")]
    while len(parts) > 1 and not parts[0][0]:
        parts.pop(0)
    while len(parts) > 1 and not parts[-1][0]:
        parts.pop()
    return "".join(f"{number}{unit}" for number, unit in parts)


def _two(first: int, unit: str, second: int, smaller: str) -> str:
    return f"{first}{unit}{second}{smaller}" if second else f"{first}{unit}"
