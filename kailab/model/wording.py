"""Numbers with their nouns."""

from __future__ import annotations


def count(number: int, noun: str) -> str:
    """A number with its noun.

    >>> count(1, "pod"), count(3, "pod")
    ('1 pod', '3 pods')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
