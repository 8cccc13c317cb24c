"""Numbers with their nouns, and lists of names."""

from __future__ import annotations

from collections.abc import Sequence


def count(number: int, noun: str) -> str:
    """A number with its noun.

    >>> count(1, "pod"), count(3, "pod")
    ('1 pod', '3 pods')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def some(names: Sequence[str], limit: int = 3) -> str:
    """The first names, and the number of the others."""
    shown = ", ".join(names[:limit])
    return f"{shown} and {len(names) - limit} more" if len(names) > limit else shown
