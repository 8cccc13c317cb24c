"""Quantiles of Student's t, and what counts of seeds say by themselves.

With whole degrees of freedom both have closed forms, so no library of statistics is needed. Source: Abramowitz and Stegun, "Handbook of Mathematical Functions",
26.7.3 and 26.7.4; Clopper and Pearson, "The Use of Confidence or Fiducial Limits Illustrated in the Case of the Binomial", Biometrika 1934.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from math import atan, comb, cos, pi, sin, sqrt
from statistics import fmean, stdev

from kailab.studies.target import StudyTarget, possible

ERROR_RATE = 0.05
"""The chance to be wrong that all statements of one table have together."""


@lru_cache(maxsize=1024)
def t_quantile(freedom: int, error: float = ERROR_RATE) -> float:
    """What a number with Student's t of so many degrees of freedom exceeds with the chance ``error``.

    >>> round(quantile(4), 3), round(quantile(4, 0.025), 3), round(quantile(3, 0.05 / 3), 3)
    (2.132, 2.776, 3.74)
    """
    high = 2.0
    while (1 - _within(high, freedom)) / 2 > error:
        high *= 2
    return _root(lambda value: (1 - _within(value, freedom)) / 2 - error, 0.0, high)


def least_part(kept: int, of: int, error: float = ERROR_RATE) -> float:
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


# How sure it is that a target is kept: the mean over seeds, and bounds that it keeps with 95 % confidence (Student's t, one-sided: the seeds are a
# sample of what could have been). Whoever looks at several settings and takes the best that keeps it has as many chances to be wrong: then
# they share the 5 % (Bonferroni), so that the confidence is that of all that is said of them together.

CONFIDENCE = 0.95


class TargetVerdict(StrEnum):
    """``open``: the seeds do not tell with that confidence."""

    yes = "yes"
    no = "no"
    open = "open"


@dataclass(frozen=True)
class ConfidenceBounds:
    """Of a mean: it is at least ``low`` and, separately, at most ``high``."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Estimate:
    """Of one target in one setting. ``values``: of its seeds; ``missing``: seeds in which there was nothing to measure, or jobs never began.
    ``failed``: those of them whose run could not be done, which says nothing. ``error``: the chance to be wrong about it."""

    target: StudyTarget
    values: tuple[float, ...]
    missing: int
    verdict: TargetVerdict
    error: float = ERROR_RATE
    failed: int = 0

    @property
    def mean(self) -> float | None:
        return fmean(self.values) if self.values else None

    @property
    def bound(self) -> float | None:
        """Of the mean, on the side that is asked about."""
        found = confidence_bounds(self.values, self.error)
        if found is None:
            return None
        return possible(self.target.measure, found.high if self.target.upper else found.low)

    @property
    def keeping(self) -> int:
        """Seeds that each for itself keep it."""
        return sum(self.target.keeps(value) for value in self.values)

    @property
    def part(self) -> float:
        """Of the seeds that there could be at least this part keeps it each for itself, however they are spread."""
        return least_part(self.keeping, len(self.values) + self.missing, self.error)


def estimate(
    target: StudyTarget,
    values: Sequence[float | None],
    *,
    failed: int = 0,
    sampled: bool = True,
    error: float = ERROR_RATE,
) -> Estimate:
    """``values``: one of each seed, None where it has none. ``failed``: how many of these could not be done. ``sampled`` False: they are not a sample, but
    all that there is."""
    there = tuple(value for value in values if value is not None)
    missing = len(values) - len(there)
    found = _verdict(target, there, missing > failed, sampled, error)
    # What a run that was not done would have said nobody knows.
    verdict = TargetVerdict.open if failed and found is TargetVerdict.yes else found
    return Estimate(target, there, missing, verdict, error, failed)


def all_of(verdicts: Sequence[TargetVerdict]) -> TargetVerdict:
    """Of several targets that are all to be kept. Each is shown with 95 % confidence for itself, and so are all of them together: who says so
    wrongly is wrong about one of them."""
    if TargetVerdict.no in verdicts:
        return TargetVerdict.no
    return TargetVerdict.open if TargetVerdict.open in verdicts else TargetVerdict.yes


def confidence_bounds(values: Sequence[float], error: float = ERROR_RATE) -> ConfidenceBounds | None:
    """None of fewer than two.

    >>> found = bounds([1.0, 3.0])
    >>> round(found.low, 3), found.mean, round(found.high, 3)
    (-4.314, 2.0, 8.314)
    """
    if len(values) < 2:
        return None
    mean = fmean(values)
    off = t_quantile(len(values) - 1, error) * stdev(values) / sqrt(len(values))
    return ConfidenceBounds(mean, mean - off, mean + off)


def _verdict(target: StudyTarget, values: Sequence[float], missing: bool, sampled: bool, error: float) -> TargetVerdict:
    if missing:
        return TargetVerdict.no
    if not sampled:
        return TargetVerdict.yes if all(map(target.keeps, values)) else TargetVerdict.no
    found = confidence_bounds(values, error)
    if found is None:
        return TargetVerdict.open
    near, far = (found.high, found.low) if target.upper else (found.low, found.high)
    if target.keeps(near):
        return TargetVerdict.yes
    return TargetVerdict.open if target.keeps(far) else TargetVerdict.no
