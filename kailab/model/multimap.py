"""A mapping from each key to all its values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")


def multimap(pairs: Iterable[tuple[_K, _V]]) -> dict[_K, list[_V]]:
    """The values of each key; keys and values in the order in which they come.

    >>> multimap([("a", 1), ("b", 2), ("a", 3)])
    {'a': [1, 3], 'b': [2]}
    """
    values: dict[_K, list[_V]] = {}
    for key, value in pairs:
        values.setdefault(key, []).append(value)
    return values
