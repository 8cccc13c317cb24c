"""Prose in the width of the terminal: paragraphs and lists are wrapped, what is to be typed is not."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator

import click

WIDTH = 110
"""No line is longer."""
_ITEM = re.compile(r"(?:[-*]|\d+\.) ")
_AS_IT_IS = ("    ", "```", "#", "|", ">")


def width() -> int:
    """Of prose; on a terminal no more than its columns."""
    return min(WIDTH, shutil.get_terminal_size().columns) if sys.stdout.isatty() else WIDTH


def wrapped(text: str, first: str = "", rest: str = "") -> str:
    """One paragraph. ``first``, ``rest``: what stands before its first line and before the others."""
    return click.wrap_text(text, width(), first, rest)


def page(text: str) -> str:
    """Markdown: as it is where nobody looks at it on a terminal."""
    return "\n".join(_lines(text)) if sys.stdout.isatty() else text


def _lines(text: str) -> Iterator[str]:
    fenced, held = False, list[str]()
    for line in text.splitlines():
        fence = line.startswith("```")
        apart = fenced or not line.strip() or line.startswith(_AS_IT_IS)
        if held and (apart or _ITEM.match(line)):
            yield _paragraph(held)
            held = []
        if apart:
            yield line
        else:
            held.append(line.strip())
        fenced ^= fence
    if held:
        yield _paragraph(held)


def _paragraph(lines: list[str]) -> str:
    text = " ".join(lines)
    mark = found[0] if (found := _ITEM.match(text)) else ""
    return wrapped(text.removeprefix(mark), mark, " " * len(mark))
