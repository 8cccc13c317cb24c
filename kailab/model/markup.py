"""Write tables and text as HTML for notebooks and as Markdown for reports.

Names and messages come from users and other programs, so all text is escaped. In Markdown, a value of type ``Markup`` is already
escaped and is inserted unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

from kailab.errors import escaped

SHOWN = 200
"""The maximum number of rows; further rows are only counted."""


def html_table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table with its caption above it. Numbers are aligned to the right."""
    every = [list(row) for row in rows]
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in every[:SHOWN])
    more = f"<tr><td colspan={len(heads)}>and {len(every) - SHOWN} more</td></tr>" if len(every) > SHOWN else ""
    head = "".join(f'<th scope="col">{escape(head)}</th>' for head in heads)
    return (
        f'<table><caption style="text-align: left">{escape(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}{more}</tbody></table>"
    )


def lines(texts: Iterable[str]) -> str:
    """Preformatted text."""
    return f"<pre>{escape(chr(10).join(texts))}</pre>"


def _cell(value: object) -> str:
    if isinstance(value, int | float):
        return f'<td style="text-align: right">{value:g}</td>'
    return f"<td>{escape(str(value))}</td>"


# --- Markdown ---------------------------------------------------------------------------------------------------------

_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;", "@": "&#64;"})
_SIGNS = re.compile(r"[\\`*\[\]~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
# Characters that at the start of a line make it a heading, a list, a rule or an underline.
_BEGINNING = re.compile(r"\A(\s*)([#+=-]|\d+(?=[.)](?:\s|\Z)))")
_TICKS = re.compile(r"`+")
# With the blanks around them. Not "\s", which matches the control character U+001F, too: that is shown escaped.
_LINE_ENDS = re.compile(r"[ \t]*[\r\n\v\f\x1c-\x1e\x85\u2028\u2029][ \t\r\n\v\f\x1c-\x1e\x85\u2028\u2029]*")


class Markup(str):
    """Text that already is Markdown."""

    __slots__ = ()


def escape_markup(value: object) -> Markup:
    """Escape text within a line, so that no character is markup, ends a table cell or mentions a user."""
    if isinstance(value, Markup):
        return value
    text = escaped(_LINE_ENDS.sub(" ", str(value)))
    text = _SIGNS.sub(r"\\\g<0>", text).translate(_ENTITIES)
    return Markup(_BEGINNING.sub(_harmless, text))


def _harmless(match: re.Match[str]) -> str:
    # After a digit, the next character is the one that makes a list.
    return f"{match[1]}{match[2]}\\" if match[2].isdigit() else f"{match[1]}\\{match[2]}"


def bold(value: object) -> Markup:
    return Markup(f"**{escape_markup(value)}**")


def italic(value: object) -> Markup:
    return Markup(f"*{escape_markup(value)}*")


def code(value: object) -> Markup:
    """Inline code."""
    text = " ".join(escaped(str(value)).split())
    ticks = "`" * (1 + max((len(run) for run in _TICKS.findall(text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return Markup(f"{ticks}{pad}{text}{pad}{ticks}")


def fenced(value: object) -> Markup:
    """A code block with a fence that the text does not contain."""
    text = escaped(str(value))
    fence = "`" * max(3, 1 + max((len(run) for run in _TICKS.findall(text)), default=0))
    return Markup(f"{fence}\n{text}\n{fence}")


def markdown_row(cells: Iterable[object]) -> Markup:
    """A row of a table."""
    # A vertical bar ends a cell even within code.
    return Markup("| " + " | ".join(escape_markup(cell).replace("|", "\\|") for cell in cells) + " |")


def markdown_table(heads: Sequence[object], rows: Iterable[Iterable[object]]) -> Markup:
    return Markup(
        "\n".join([markdown_row(heads), markdown_row([Markup("---")] * len(heads)), *map(markdown_row, rows)])
    )
