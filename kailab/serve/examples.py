"""The library of the page: manifests to submit, each a file whose first line of comment is its title and whose further ones say what to
look at."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

LIBRARY = Path(__file__).parent / "library"


class Example(NamedTuple):
    name: str
    title: str
    about: str
    text: str


@cache
def examples() -> Sequence[Example]:
    """In the order of their file names."""
    return tuple(_read(path) for path in sorted(LIBRARY.glob("*.yaml")))


def _read(path: Path) -> Example:
    text = path.read_text(encoding="utf-8")
    comments = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        comments.append(line.lstrip("# ").rstrip())
    return Example(path.stem, comments[0], " ".join(comments[1:]), text)
