"""Amounts, counts and names in words."""

from __future__ import annotations

from collections.abc import Sequence


def gpus(milli: float) -> str:
    """Milli-GPU as people say it.

    >>> gpus(1000), gpus(2500), gpus(-1)
    ('1 GPU', '2.5 GPUs', 'unlimited')
    """
    if milli == -1:
        return "unlimited"
    amount = f"{milli / 1000:.3f}".rstrip("0").rstrip(".")
    return f"{amount} GPU" if amount == "1" else f"{amount} GPUs"


def count(number: int, noun: str) -> str:
    """A number of things in words.

    >>> count(1, "pod"), count(3, "pod")
    ('1 pod', '3 pods')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def some(names: Sequence[str], limit: int = 3) -> str:
    """The first names, and how many more there are."""
    shown = ", ".join(names[:limit])
    return f"{shown} and {len(names) - limit} more" if len(names) > limit else shown


def capitalized(text: str) -> str:
    """With a capital at the beginning; names and units further on keep theirs.

    >>> capitalized("its 2 pods want 2 GPUs")
    'Its 2 pods want 2 GPUs'
    """
    return text[:1].upper() + text[1:]
