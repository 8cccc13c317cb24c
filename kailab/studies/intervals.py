"""What the seeds of a setting say of each measure: the mean, and a 95 % confidence interval of it (Student's t, two-sided: the seeds are a sample of what could have been)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev
from typing import Any

from kailab.studies.measuring import MEASURES, OF_FLEET, Result
from kailab.studies.student import ERROR, quantile
from kailab.studies.sweeping import Swept
from kailab.studies.target import possible


@dataclass(frozen=True)
class Interval:
    """Of the mean of a measure. ``low`` and ``high``: None of fewer than two seeds; within what the measure can be. ``missing``: seeds in which there is no number, as where jobs
    never began: those are not in the mean."""

    mean: float | None
    low: float | None
    high: float | None
    seeds: int
    missing: int


@dataclass(frozen=True)
class SettingIntervals:
    """``queues``: queue ("all": all jobs) -> measure -> its interval."""

    setting: dict[str, Any]
    queues: dict[str, dict[str, Interval]]


def intervals(swept: Swept) -> list[SettingIntervals]:
    """Of each setting, in their order."""
    each = len(swept.study.seeds) or 1
    found = []
    for number, setting in enumerate(swept.settings):
        results = [swept.results[run.key] for run in swept.runs[number * each : (number + 1) * each]]
        names = dict.fromkeys(row["queue"] for result in results for row in result.rows)
        found.append(SettingIntervals(setting, {name: _of_queue(results, name) for name in names}))
    return found


def interval(measure: str, values: Sequence[float | None]) -> Interval:
    """Of one value a seed, None where there is none.

    >>> found = interval("evictions", [10.0, 12.0, 14.0, None])
    >>> round(found.low, 3), found.mean, round(found.high, 3), found.seeds, found.missing
    (7.032, 12.0, 16.968, 4, 1)
    """
    there = [value for value in values if value is not None]
    missing = len(values) - len(there)
    if not there:
        return Interval(None, None, None, len(values), missing)
    mean = fmean(there)
    if len(there) < 2:
        return Interval(mean, None, None, len(values), missing)
    off = quantile(len(there) - 1, ERROR / 2) * stdev(there) / sqrt(len(there))
    low, high = possible(measure, mean - off), possible(measure, mean + off)
    return Interval(mean, low, high, len(values), missing)


def _of_queue(results: Sequence[Result], queue: str) -> dict[str, Interval]:
    rows = [next((row for row in result.rows if row["queue"] == queue), {}) for result in results]
    return {name: interval(name, [row.get(name) for row in rows]) for name in (*MEASURES, *OF_FLEET)}
