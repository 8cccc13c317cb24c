"""Tables as kubectl prints them: upper-case headers, columns three spaces apart, colour for a state that matters."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from itertools import zip_longest

from kailab.cli import terminal
from kailab.cli.fitting import GAP, Laid, fitted, wide
from kailab.errors import escaped

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


def render(
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
    laid = Laid(shown, GAP, False)
    if sys.stdout.isatty():
        laid = fitted(headers, shown, shutil.get_terminal_size().columns - len(indent))
    found = wide(laid.abreast)
    if laid.gap == GAP:
        found = [max(pair) for pair in zip_longest(found, at_least, fillvalue=0)]
    coloured = terminal.colourful(sys.stdout)
    lines = (_line(cells, found, laid.gap, coloured) if cells else alone for cells, alone in laid.lines())
    return "\n".join(f"{indent}{line}".rstrip() for line in lines)


def widths(headers: Sequence[str], rows: Sequence[Sequence[str]], *, no_headers: bool = False) -> list[int]:
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
            cell.replace(bare, terminal.painted(bare, _STATES.get(bare, ""), sys.stdout), 1) if bare else cell
            for cell, bare in zip(cells, row, strict=True)
        ]
    return gap.join(cells).rstrip()


def age(seconds: float) -> str:
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


def span(seconds: float) -> str:
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
