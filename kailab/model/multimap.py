"""Mappings from each key to all its values."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Generic, TypeVar

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


_FEW = 4


class SetIndex(Generic[_K, _V]):
    """The values of each key as an ordered set; a key goes with its last value.

    Most sets of a lab are tiny: the pods of a PodGroup, the dependents of an owner. A set of few values is a tuple, which takes a
    third of a dict's memory; a larger one is a dict without values, which finds one at once.

    >>> index = SetIndex()
    >>> index.add("a", 1), index.add("a", 2), index.add("a", 1), list(index.of("a"))
    (None, None, None, [1, 2])
    >>> index.discard("a", 1), index.discard("a", 2), index.of("a")
    (None, None, ())
    """

    __slots__ = ("_sets",)

    def __init__(self) -> None:
        self._sets: dict[_K, tuple[_V, ...] | dict[_V, None]] = {}

    def of(self, key: _K) -> Collection[_V]:
        """The values in the order in which they came. Changes of the index may or may not show in it."""
        return self._sets.get(key, ())

    def add(self, key: _K, value: _V) -> None:
        values = self._sets.get(key, ())
        if isinstance(values, dict):
            values[value] = None
        elif value not in values:
            values = (*values, value)
            self._sets[key] = values if len(values) <= _FEW else dict.fromkeys(values)

    def discard(self, key: _K, value: _V) -> None:
        values = self._sets.get(key, ())
        if isinstance(values, dict):
            values.pop(value, None)
        elif value in values:
            values = self._sets[key] = tuple(other for other in values if other != value)
        if not values:
            self._sets.pop(key, None)

    def copy(self) -> SetIndex[_K, _V]:
        copied: SetIndex[_K, _V] = SetIndex()
        copied._sets = {
            key: values.copy() if isinstance(values, dict) else values for key, values in self._sets.items()
        }
        return copied
