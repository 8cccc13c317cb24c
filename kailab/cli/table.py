"""Tables as kubectl prints them: upper-case headers, columns three spaces apart, colour for a state that matters."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from kailab.cli import terminal

GAP = "   "
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


def render(headers: Sequence[str], rows: Sequence[Sequence[str]], *, no_headers: bool = False) -> str:
    """The table as text; no spaces at the ends of lines. Line breaks in cells become spaces."""
    flat = [[" ".join(cell.split()) for cell in row] for row in rows]
    shown = flat if no_headers else [list(headers), *flat]
    widths = [max((len(row[index]) for row in shown), default=0) for index in range(len(headers))]
    coloured = terminal.colourful(sys.stdout)
    return "\n".join(_line(row, widths, coloured) for row in shown)


def _line(row: Sequence[str], widths: Sequence[int], coloured: bool) -> str:
    cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
    cells[-1] = row[-1]
    if coloured:
        cells = [
            cell.replace(bare, terminal.painted(bare, _STATES.get(bare, ""), sys.stdout), 1) if bare else cell
            for cell, bare in zip(cells, row, strict=True)
        ]
    return GAP.join(cells).rstrip()


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


def _two(first: int, unit: str, second: int, smaller: str) -> str:
    return f"{first}{unit}{second}{smaller}" if second else f"{first}{unit}"
