"""The order of the entries of a Go map, which varies from one reading to the next. Here it follows from a start value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")

_SLOTS = 8  # of a group of a Go map
_BITS = 64


class MapOrder:
    """Gives items in orders in which a Go map may give them. Two with the same start value give the same orders."""

    def __init__(self, start: int) -> None:
        self._state = start

    def of(self, items: Iterable[T]) -> list[T]:
        """The items: up to eight, which share one group of slots, in turn from a random slot on; more in any order."""
        result = list(items)
        if len(result) <= _SLOTS:
            # From an empty slot on, the first slot is the next that is taken.
            first = self._below(_SLOTS)
            return result if first >= len(result) else result[first:] + result[:first]
        for last in range(len(result) - 1, 0, -1):
            other = self._below(last + 1)
            result[last], result[other] = result[other], result[last]
        return result

    def _below(self, end: int) -> int:
        # Knuth's linear congruential generator; its high bits vary best.
        self._state = (self._state * 6364136223846793005 + 1442695040888963407) % (1 << _BITS)
        return (self._state >> _BITS // 2) % end
