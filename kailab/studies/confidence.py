"""How sure it is that a target is kept: the mean over seeds, and bounds that it keeps with 95 % confidence each (Student's t, one-sided: the seeds are a
sample of what could have been)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import sqrt
from statistics import fmean, stdev

from kailab.studies.target import Target

CONFIDENCE = 0.95
_T95 = {
    1: 6.314, 2: 2.920, 3: 2.353, 4: 2.132, 5: 2.015, 6: 1.943, 7: 1.895, 8: 1.860, 9: 1.833, 10: 1.812, 12: 1.782, 15: 1.753, 20: 1.725,
    25: 1.708, 30: 1.697, 40: 1.684, 60: 1.671, 120: 1.658,
}  # fmt: skip
"""Quantiles of Student's t at 95 %, by degrees of freedom; between two the smaller number is taken, which is on the safe side."""


class Verdict(StrEnum):
    """``open``: the seeds do not tell with that confidence."""

    yes = "yes"
    no = "no"
    open = "open"


@dataclass(frozen=True)
class Bounds:
    """Of a mean: it is at least ``low`` and, separately, at most ``high``."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Estimate:
    """Of one target in one setting. ``values``: of its seeds; ``missing``: seeds in which there was nothing to measure, or jobs never began.
    ``bounds``: None of fewer than two values."""

    target: Target
    values: tuple[float, ...]
    missing: int
    verdict: Verdict

    @property
    def mean(self) -> float | None:
        return fmean(self.values) if self.values else None

    @property
    def bound(self) -> float | None:
        """Of the mean, on the side that is asked about."""
        found = bounds(self.values)
        if found is None:
            return None
        return found.high if self.target.upper else found.low

    @property
    def keeping(self) -> int:
        """Seeds that each for itself keep it."""
        return sum(self.target.keeps(value) for value in self.values)


def estimate(target: Target, values: Sequence[float | None], *, sampled: bool = True) -> Estimate:
    """``values``: one of each seed, None where it has none. ``sampled`` False: they are not a sample, but all that there is."""
    there = tuple(value for value in values if value is not None)
    return Estimate(target, there, len(values) - len(there), _verdict(target, there, len(there) < len(values), sampled))


def all_of(verdicts: Sequence[Verdict]) -> Verdict:
    """Of several targets that are all to be kept. Each is shown with 95 % confidence for itself, and so are all of them together: who says so
    wrongly is wrong about one of them."""
    if Verdict.no in verdicts:
        return Verdict.no
    return Verdict.open if Verdict.open in verdicts else Verdict.yes


def bounds(values: Sequence[float]) -> Bounds | None:
    """None of fewer than two.

    >>> found = bounds([1.0, 3.0])
    >>> round(found.low, 3), found.mean, round(found.high, 3)
    (-4.314, 2.0, 8.314)
    """
    if len(values) < 2:
        return None
    mean = fmean(values)
    off = quantile(len(values) - 1) * stdev(values) / sqrt(len(values))
    return Bounds(mean, mean - off, mean + off)


def quantile(freedom: int) -> float:
    """Student's t at 95 %, one-sided.

    >>> quantile(4), quantile(11), quantile(10_000)
    (2.132, 1.812, 1.658)
    """
    return _T95[max(one for one in _T95 if one <= freedom)]


def _verdict(target: Target, values: Sequence[float], missing: bool, sampled: bool) -> Verdict:
    if missing:
        return Verdict.no
    if not sampled:
        return Verdict.yes if all(map(target.keeps, values)) else Verdict.no
    found = bounds(values)
    if found is None:
        return Verdict.open
    near, far = (found.high, found.low) if target.upper else (found.low, found.high)
    if target.keeps(near):
        return Verdict.yes
    return Verdict.open if target.keeps(far) else Verdict.no
