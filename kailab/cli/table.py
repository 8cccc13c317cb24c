"""Tables in kubectl's form: upper-case headers, columns three spaces apart, colour for important states. On a narrow terminal, sentences are wrapped
and names are shortened.
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
"""Gap between the columns of a table that would not fit otherwise."""
LEAST = 20
"""Least width to which a column is shortened."""
LEAST_OF_NAMES = 16
"""Least width of columns named NAME, which are shortened last."""
LEAST_OF_SENTENCES = 28
"""Least width of a last column of sentences. If it does not fit, it is written below the other columns."""
INDENT = "    "
LABELS = "LABELS"
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")
_DIGITS = 4
"""Digits of a UID that are kept to distinguish objects."""
_GROUP = re.compile(r"([a-z]+)\.[a-z0-9.-]+/")


class TableLayout(NamedTuple):
    """``rows``: cells; wrapped ones have several lines. ``beneath``: the last column is written below the others."""

    rows: list[list[str]]
    gap: str
    beneath: bool

    @property
    def cell_lines(self) -> list[list[str]]:
        """All lines of cells, without those of a last column below the others."""
        return [cells for cells, _ in self.lines() if cells]

    def lines(self) -> Iterator[tuple[list[str], str]]:
        """Yield (cells, "") for a line of cells, and ([], text) for a line of the last column below them."""
        for row in self.rows:
            for cells in self._lines(row[:-1] if self.beneath else row):
                yield cells, ""
            if self.beneath:
                for line in row[-1].splitlines():
                    yield [], INDENT + line

    def _lines(self, row: Sequence[str]) -> Iterator[list[str]]:
        cells = [cell.splitlines() or [""] for cell in row]
        for number in range(max(map(len, cells), default=1)):
            yield [lines[number] if number < len(lines) else "" for lines in cells]


def column_widths(rows: Iterable[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def fit_table(headers: Sequence[str], rows: Sequence[Sequence[str]], room: int) -> TableLayout:
    """Fit the rows into ``room`` characters, as far as the least widths allow. A column of sentences is one with spaces in a cell other than its
    header.

    >>> fit_table(["NAME", "AGE"], [["NAME", "AGE"], ["a-very-long-name-0123456789", "3s"]], 24).rows[1]
    ['a-very-lo…123456789', '3s']
    """
    unchanged = TableLayout([list(row) for row in rows], GAP, False)
    if not rows or _width(column_widths(rows), GAP) <= room:
        return unchanged
    shorter = [[_without_uid(cell) for cell in row] for row in rows]
    has_sentences = [
        any(" " in row[index].strip() for row in rows if row[index] != headers[index]) for index in range(len(headers))
    ]
    least = column_widths(shorter)
    for index, sentences in enumerate(has_sentences[:-1]):
        least[index] = min(least[index], LEAST) if sentences else least[index]
    remaining = room - _width(least[:-1], NARROW) - len(NARROW)
    beneath = has_sentences[-1] and len(headers) > 1 and remaining < min(LEAST_OF_SENTENCES, least[-1])
    widths = _squeezed(headers, column_widths(rows), least, has_sentences, room)
    # A table that can't fit needs second lines: the last column goes there, instead of a cut at the terminal's edge. Labels always do, because they
    # were asked for.
    labels = headers[-1] == LABELS
    beneath = beneath or labels or (len(headers) > 1 and _width(widths, NARROW) > room and least[-1] > LEAST)
    if beneath:
        widths = _squeezed(headers[:-1], column_widths(row[:-1] for row in rows), least[:-1], has_sentences[:-1], room)
        widths.append(room - len(INDENT))
    cut = [
        [
            _wrapped(cell, width) if sentences else _shortened(cell, width)
            for cell, width, sentences in zip(row, widths, has_sentences, strict=True)
        ]
        for row in rows
    ]
    if labels:
        cut = [
            [*cells[:-1], _wrapped_labels(row[-1], room - len(INDENT))] for cells, row in zip(cut, rows, strict=True)
        ]
    return TableLayout(cut, NARROW, beneath)


def _wrapped_labels(cell: str, width: int) -> str:
    """Break a list of labels into lines of a width without breaking a label.

    >>> _wrapped_labels("app=train,kai.scheduler/queue=team-a,tier=gold", 20).splitlines()
    ['app=train,', 'kai.scheduler/queue=team-a,', 'tier=gold']
    """
    lines = [""]
    for label in cell.replace(",", ",\n").splitlines():
        if lines[-1] and len(lines[-1]) + len(label) > width:
            lines.append("")
        lines[-1] += label
    return "\n".join(lines)


def _width(columns: Sequence[int], gap: str) -> int:
    return sum(columns) + len(gap) * max(0, len(columns) - 1)


def _squeezed(
    headers: Sequence[str], now: list[int], uids_cut: Sequence[int], has_sentences: Sequence[bool], room: int
) -> list[int]:
    """Reduce the widths of columns until they fit: first sentences and UIDs, then other cells, then names."""
    over = _width(now, NARROW) - room
    least_of_sentences = [
        min(width, LEAST_OF_SENTENCES if index == len(has_sentences) - 1 else LEAST) for index, width in enumerate(now)
    ]
    first = [least_of_sentences[index] if has_sentences[index] else uids_cut[index] for index in range(len(now))]
    then = [min(width, LEAST) for width in first]
    last = [
        min(width, LEAST_OF_NAMES) if header == "NAME" else width for header, width in zip(headers, then, strict=True)
    ]
    not_names = {index for index, header in enumerate(headers) if header != "NAME"}
    for columns, least in ((range(len(now)), first), (not_names, then), (range(len(now)), last)):
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
    match = _UID.search(text)
    return f"{text[: match.start()].rstrip('-')}…{text[-_DIGITS:]}" if match else text


def _shortened(text: str, width: int) -> str:
    """Shorten a text in the middle, because names often differ at their end. The API group before a name is dropped first; of a UID, a few digits
    stay."""
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
    """Render a table without spaces at the ends of lines. Line breaks in cells become spaces. On a terminal the table is made to fit.
    ``at_least``: least widths of columns. ``indent``: prefix of each line."""
    lines_of_cells = [] if no_headers else [list(headers)]
    lines_of_cells += [[_flat(cell) for cell in row] for row in rows]
    laid = TableLayout(lines_of_cells, GAP, False)
    if sys.stdout.isatty():
        laid = fit_table(headers, lines_of_cells, shutil.get_terminal_size().columns - len(indent))
    widths = column_widths(laid.cell_lines)
    if laid.gap == GAP:
        widths = [max(pair) for pair in zip_longest(widths, at_least, fillvalue=0)]
    coloured = terminal.uses_colour(sys.stdout)
    lines = (_line(cells, widths, laid.gap, coloured) if cells else text for cells, text in laid.lines())
    return "\n".join(f"{indent}{line}".rstrip() for line in lines)


def table_widths(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """The width of each column of the table that ``render_table`` would print."""
    return [max(len(row[index]) for row in [headers, *rows]) for index in range(len(headers))]


def _flat(cell: str) -> str:
    # Leading spaces draw a tree. Texts are escaped before the widths of columns are computed.
    indent = len(cell) - len(cell.lstrip(" "))
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


def natural_order(text: str) -> list[tuple[int, float, str]]:
    """A sort key for names with numbers.

    >>> sorted(["node-10", "node-9", "9"], key=natural_order)
    ['9', 'node-9', 'node-10']
    """
    parts = re.split(r"([0-9]{1,15})", text)
    return [(0, float(part), "") if place % 2 else (1, 0.0, part) for place, part in enumerate(parts) if part]


def format_age(seconds: float) -> str:
    """Format a time span as kubectl does, with at most two units.

    >>> format_age(42), format_age(200), format_age(7500), format_age(3 * 86400 + 7200)
    ('42s', '3m20s', '125m', '3d2h')
    """
    whole = max(0, int(seconds))
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return _two_units(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two_units(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two_units(days, "d", hours % 24, "h")
    return f"{days}d"


def format_span(seconds: float) -> str:
    """Format a measured time to the second; from two days on to the minute. It is rounded, where ``format_age`` truncates.

    >>> format_span(42.4), format_span(659), format_span(7500), format_span(20 * 3600 + 1), format_span(3 * 86400 + 7200 + 50)
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


def format_float(value: float) -> str:
    """Format an amount with the digits that ``-o json`` has: thousandths, without zeros at the end.

    >>> format_float(8), format_float(0.033), format_float(1.25), format_float(12345.678)
    ('8.0', '0.033', '1.25', '12345.678')
    """
    whole, _, part = f"{value:.3f}".partition(".")
    return f"{whole}.{part.rstrip('0') or '0'}"


def _two_units(first: int, unit: str, second: int, smaller: str) -> str:
    return f"{first}{unit}{second}{smaller}" if second else f"{first}{unit}"
