"""Text in Markdown. Names, messages and failures are strangers' text: it stays text, within a line, and is no markup.

What is markup is of the type ``Markup``; everything else is escaped where it is put into a document.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from kailab.errors import escaped

_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;", "@": "&#64;"})
_SIGNS = re.compile(r"[\\`*\[\]~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
# What makes a heading, a list, a rule or a heading's underline of a line that begins so.
_BEGINNING = re.compile(r"\A(\s*)([#+=-]|\d+(?=[.)](?:\s|\Z)))")
_TICKS = re.compile(r"`+")


class Markup(str):
    """Text that is Markdown already."""

    __slots__ = ()


def plain(value: object) -> Markup:
    """As text within a line. No character of it is markup, ends a table's cell, or mentions somebody."""
    if isinstance(value, Markup):
        return value
    text = escaped(re.sub(r"\s*[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]\s*", " ", str(value)))
    text = _SIGNS.sub(r"\\\g<0>", text).translate(_ENTITIES)
    return Markup(_BEGINNING.sub(_harmless, text))


def _harmless(match: re.Match[str]) -> str:
    # After a digit it is the sign behind it that makes a list.
    return f"{match[1]}{match[2]}\\" if match[2].isdigit() else f"{match[1]}\\{match[2]}"


def bold(value: object) -> Markup:
    return Markup(f"**{plain(value)}**")


def italic(value: object) -> Markup:
    return Markup(f"*{plain(value)}*")


def code(value: object) -> Markup:
    """As code within a line."""
    text = " ".join(escaped(str(value)).split())
    ticks = "`" * (1 + max((len(one) for one in _TICKS.findall(text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return Markup(f"{ticks}{pad}{text}{pad}{ticks}")


def fenced(value: object) -> Markup:
    """As it stands, in a fence that it does not close."""
    text = escaped(str(value))
    fence = "`" * max(3, 1 + max((len(one) for one in _TICKS.findall(text)), default=0))
    return Markup(f"{fence}\n{text}\n{fence}")


def row(cells: Iterable[object]) -> Markup:
    """A line of a table."""
    # Even within code a vertical bar would end its cell.
    return Markup("| " + " | ".join(plain(cell).replace("|", "\\|") for cell in cells) + " |")


def table(heads: Sequence[object], rows: Iterable[Iterable[object]]) -> Markup:
    return Markup("\n".join([row(heads), row([Markup("---")] * len(heads)), *map(row, rows)]))
