"""How sure it is that a target is kept: the mean over seeds, and bounds that it keeps with 95 % confidence (Student's t, one-sided: the seeds are a
sample of what could have been). Whoever looks at several settings and takes the best that keeps it has as many chances to be wrong: then
they share the 5 % (Bonferroni), so that the confidence is that of all that is said of them together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import sqrt
from statistics import fmean, stdev

from kailab.studies.student import ERROR, least_part, quantile
from kailab.studies.target import Target, possible

CONFIDENCE = 0.95


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
    ``failed``: those of them whose run could not be done, which says nothing. ``error``: the chance to be wrong about it."""

    target: Target
    values: tuple[float, ...]
    missing: int
    verdict: Verdict
    error: float = ERROR
    failed: int = 0

    @property
    def mean(self) -> float | None:
        return fmean(self.values) if self.values else None

    @property
    def bound(self) -> float | None:
        """Of the mean, on the side that is asked about."""
        found = bounds(self.values, self.error)
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
    target: Target, values: Sequence[float | None], *, failed: int = 0, sampled: bool = True, error: float = ERROR
) -> Estimate:
    """``values``: one of each seed, None where it has none. ``failed``: how many of these could not be done. ``sampled`` False: they are not a sample, but
    all that there is."""
    there = tuple(value for value in values if value is not None)
    missing = len(values) - len(there)
    found = _verdict(target, there, missing > failed, sampled, error)
    # What a run that was not done would have said nobody knows.
    verdict = Verdict.open if failed and found is Verdict.yes else found
    return Estimate(target, there, missing, verdict, error, failed)


def all_of(verdicts: Sequence[Verdict]) -> Verdict:
    """Of several targets that are all to be kept. Each is shown with 95 % confidence for itself, and so are all of them together: who says so
    wrongly is wrong about one of them."""
    if Verdict.no in verdicts:
        return Verdict.no
    return Verdict.open if Verdict.open in verdicts else Verdict.yes


def bounds(values: Sequence[float], error: float = ERROR) -> Bounds | None:
    """None of fewer than two.

    >>> found = bounds([1.0, 3.0])
    >>> round(found.low, 3), found.mean, round(found.high, 3)
    (-4.314, 2.0, 8.314)
    """
    if len(values) < 2:
        return None
    mean = fmean(values)
    off = quantile(len(values) - 1, error) * stdev(values) / sqrt(len(values))
    return Bounds(mean, mean - off, mean + off)


def _verdict(target: Target, values: Sequence[float], missing: bool, sampled: bool, error: float) -> Verdict:
    if missing:
        return Verdict.no
    if not sampled:
        return Verdict.yes if all(map(target.keeps, values)) else Verdict.no
    found = bounds(values, error)
    if found is None:
        return Verdict.open
    near, far = (found.high, found.low) if target.upper else (found.low, found.high)
    if target.keeps(near):
        return Verdict.yes
    return Verdict.open if target.keeps(far) else Verdict.no
