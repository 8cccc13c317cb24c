"""Statistics of seeds: confidence that a target is kept, quantiles of Student's t, and Clopper-Pearson bounds.

Bounds of a mean are one-sided with 95 % confidence, as the seeds are a sample of possible traces. If the best of
several settings is chosen, they share the 5 % (Bonferroni), so that the confidence holds for all statements together.

With whole degrees of freedom the quantiles have closed forms, so no statistics library is needed. Source: Abramowitz
and Stegun, "Handbook of Mathematical Functions", 26.7.3 and 26.7.4; Clopper and Pearson, "The Use of Confidence or
Fiducial Limits Illustrated in the Case of the Binomial", Biometrika 1934.
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
"""Error rate of all statements of one table together."""


@lru_cache(maxsize=1024)
def t_quantile(freedom: int, error: float = ERROR_RATE) -> float:
    """The value that Student's t with this many degrees of freedom exceeds with probability ``error``.

    >>> round(t_quantile(4), 3), round(t_quantile(4, 0.025), 3), round(t_quantile(3, 0.05 / 3), 3)
    (2.132, 2.776, 3.74)
    """
    high = 2.0
    while (1 - _within(high, freedom)) / 2 > error:
        high *= 2
    return _root(lambda value: (1 - _within(value, freedom)) / 2 - error, 0.0, high)


def least_part(kept: int, of: int, error: float = ERROR_RATE) -> float:
    """Lower bound, with error rate ``error``, of the part of all possible seeds that keep a target that ``kept`` of
    ``of`` seeds kept.

    >>> round(least_part(5, 5), 3), round(least_part(9, 10), 3), least_part(0, 3)
    (0.549, 0.606, 0.0)
    """
    if not kept:
        return 0.0
    return _root(lambda part: error - sum(comb(of, k) * part**k * (1 - part) ** (of - k) for k in range(kept, of + 1)), 0.0, 1.0)  # fmt: skip


def _within(value: float, freedom: int) -> float:
    """Probability that the absolute value is at most ``value``."""
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
    """The root of a falling function between ``low`` and ``high``."""
    while True:
        middle = (low + high) / 2
        if middle in (low, high):
            return middle
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)


CONFIDENCE = 0.95


class TargetVerdict(StrEnum):
    """``open``: the seeds do not decide with the required confidence."""

    yes = "yes"
    no = "no"
    open = "open"


@dataclass(frozen=True)
class ConfidenceBounds:
    """The mean is at least ``low`` and, as a separate statement, at most ``high``."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Estimate:
    """Result for one target in one setting.

    ``values``: one for each seed that has a number. ``missing``: seeds without one. ``failed``: those of them whose run
    could not be done. ``error``: permitted error rate.
    """

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
        """The bound of the mean on the target's side."""
        bounds = confidence_bounds(self.values, self.error)
        if bounds is None:
            return None
        return possible(self.target.measure, bounds.high if self.target.upper else bounds.low)

    @property
    def keeping(self) -> int:
        """Number of seeds that keep the target."""
        return sum(self.target.keeps(value) for value in self.values)

    @property
    def part(self) -> float:
        """Lower bound of the part of possible seeds that keep the target, whatever their distribution."""
        return least_part(self.keeping, len(self.values) + self.missing, self.error)


def estimate(
    target: StudyTarget,
    values: Sequence[float | None],
    *,
    failed: int = 0,
    sampled: bool = True,
    error: float = ERROR_RATE,
) -> Estimate:
    """Judge one target.

    ``values``: one for each seed, None if it has no number. ``failed``: how many of these could not be done.
    ``sampled``: False if the values are all there is and not a sample.
    """
    numbers = tuple(value for value in values if value is not None)
    missing = len(values) - len(numbers)
    judged = _verdict(target, numbers, missing > failed, sampled, error)
    # The result of a run that failed is unknown.
    verdict = TargetVerdict.open if failed and judged is TargetVerdict.yes else judged
    return Estimate(target, numbers, missing, verdict, error, failed)


def all_of(verdicts: Sequence[TargetVerdict]) -> TargetVerdict:
    """The verdict for all targets together. It needs no correction: if it is wrong, it is wrong about one of them, each
    at 95 % confidence."""
    if TargetVerdict.no in verdicts:
        return TargetVerdict.no
    return TargetVerdict.open if TargetVerdict.open in verdicts else TargetVerdict.yes


def confidence_bounds(values: Sequence[float], error: float = ERROR_RATE) -> ConfidenceBounds | None:
    """The bounds; None for fewer than two values.

    >>> bounds = confidence_bounds([1.0, 3.0])
    >>> round(bounds.low, 3), bounds.mean, round(bounds.high, 3)
    (-4.314, 2.0, 8.314)
    """
    if len(values) < 2:
        return None
    mean = fmean(values)
    margin = t_quantile(len(values) - 1, error) * stdev(values) / sqrt(len(values))
    return ConfidenceBounds(mean, mean - margin, mean + margin)


def _verdict(target: StudyTarget, values: Sequence[float], missing: bool, sampled: bool, error: float) -> TargetVerdict:
    if missing:
        return TargetVerdict.no
    if not sampled:
        return TargetVerdict.yes if all(map(target.keeps, values)) else TargetVerdict.no
    bounds = confidence_bounds(values, error)
    if bounds is None:
        return TargetVerdict.open
    near, far = (bounds.high, bounds.low) if target.upper else (bounds.low, bounds.high)
    if target.keeps(near):
        return TargetVerdict.yes
    return TargetVerdict.open if target.keeps(far) else TargetVerdict.no
