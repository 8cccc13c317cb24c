"""Quantiles of Student's t, and what counts of seeds say by themselves.

With whole degrees of freedom both have closed forms, so no library of statistics is needed. Source: Abramowitz and Stegun, "Handbook of Mathematical Functions",
26.7.3 and 26.7.4; Clopper and Pearson, "The Use of Confidence or Fiducial Limits Illustrated in the Case of the Binomial", Biometrika 1934.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import atan, comb, cos, pi, sin, sqrt

ERROR = 0.05
"""The chance to be wrong that all statements of one table have together."""


@lru_cache(maxsize=1024)
def quantile(freedom: int, error: float = ERROR) -> float:
    """What a number with Student's t of so many degrees of freedom exceeds with the chance ``error``.

    >>> round(quantile(4), 3), round(quantile(4, 0.025), 3), round(quantile(3, 0.05 / 3), 3)
    (2.132, 2.776, 3.74)
    """
    high = 2.0
    while (1 - _within(high, freedom)) / 2 > error:
        high *= 2
    return _root(lambda value: (1 - _within(value, freedom)) / 2 - error, 0.0, high)


def least_part(kept: int, of: int, error: float = ERROR) -> float:
    """The part of all seeds that there could be which keep something, at least, where ``kept`` of ``of`` did: with the chance ``error`` it is less.

    >>> round(least_part(5, 5), 3), round(least_part(9, 10), 3), least_part(0, 3)
    (0.549, 0.606, 0.0)
    """
    if not kept:
        return 0.0
    return _root(lambda part: error - sum(comb(of, one) * part**one * (1 - part) ** (of - one) for one in range(kept, of + 1)), 0.0, 1.0)  # fmt: skip


def _within(value: float, freedom: int) -> float:
    """The chance to be no further from 0 than ``value``."""
    angle = atan(value / sqrt(freedom))
    square = cos(angle) ** 2
    if freedom % 2:
        term, total = cos(angle), 0.0
        for of in range(3, freedom + 1, 2):
            total += term
            term *= square * (of - 1) / of
        return 2 / pi * (angle + sin(angle) * total)
    term = total = 1.0
    for of in range(2, freedom, 2):
        term *= square * (of - 1) / of
        total += term
    return sin(angle) * total


def _root(falling: Callable[[float], float], low: float, high: float) -> float:
    """Where it is 0: from positive to negative."""
    while True:
        middle = (low + high) / 2
        if middle in (low, high):
            return middle
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
