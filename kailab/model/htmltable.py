"""Tables and lines of text as HTML for notebooks: all text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

SHOWN = 200
"""Rows of a table; the rest is counted."""


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """With the caption above it. A number of any kind stands at the right."""
    every = [list(row) for row in rows]
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in every[:SHOWN])
    more = f"<tr><td colspan={len(heads)}>and {len(every) - SHOWN} more</td></tr>" if len(every) > SHOWN else ""
    head = "".join(f'<th scope="col">{escape(one)}</th>' for one in heads)
    return (
        f'<table><caption style="text-align: left">{escape(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}{more}</tbody></table>"
    )


def lines(told: Iterable[str]) -> str:
    """Text as it stands."""
    return f"<pre>{escape(chr(10).join(told))}</pre>"


def _cell(value: object) -> str:
    if isinstance(value, int | float):
        return f'<td style="text-align: right">{value:g}</td>'
    return f"<td>{escape(str(value))}</td>"
