"""Tables on a terminal that is too narrow for them: sentences are wrapped, names are shortened where it costs least."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

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


class Laid(NamedTuple):
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


def wide(rows: Iterable[Sequence[str]]) -> list[int]:
    """How wide each column is."""
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def fitted(headers: Sequence[str], rows: Sequence[Sequence[str]], room: int) -> Laid:
    """The rows within ``room`` characters, as far as the least widths allow that. Columns of sentences are those with spaces in a
    cell that is no header.

    >>> fitted(["NAME", "AGE"], [["NAME", "AGE"], ["a-very-long-name-0123456789", "3s"]], 24).rows[1]
    ['a-very-lo…123456789', '3s']
    """
    whole = Laid([list(row) for row in rows], GAP, False)
    if not rows or _width(wide(rows), GAP) <= room:
        return whole
    shorter = [[_without_uid(cell) for cell in row] for row in rows]
    told = [
        any(" " in row[index].strip() for row in rows if row[index] != headers[index]) for index in range(len(headers))
    ]
    least = wide(shorter)
    for index, sentences in enumerate(told[:-1]):
        least[index] = min(least[index], LEAST) if sentences else least[index]
    left = room - _width(least[:-1], NARROW) - len(NARROW)
    beneath = told[-1] and len(headers) > 1 and left < min(LEAST_OF_SENTENCES, least[-1])
    found = _squeezed(headers, wide(rows), least, told, room)
    # What can't fit at all needs a second line: the long cells at its end, rather than whatever stands at the terminal's edge.
    # Who asks for labels wants to read them.
    labels = headers[-1] == LABELS
    beneath = beneath or labels or (len(headers) > 1 and _width(found, NARROW) > room and least[-1] > LEAST)
    if beneath:
        found = _squeezed(headers[:-1], wide(row[:-1] for row in rows), least[:-1], told[:-1], room)
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
    return Laid(cut, NARROW, beneath)


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
