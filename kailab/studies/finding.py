"""What the figures of a study say, and how sure that is: for each setting the mean over its seeds, and a bound that the mean keeps with 95 %
confidence (Student's t, one-sided: the seeds are a sample of what could have been)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev
from typing import Any

from kailab.errors import InputError
from kailab.lab.names import there_are
from kailab.studies.measuring import OF_FLEET
from kailab.studies.study import Find, told
from kailab.studies.sweeping import Swept

_T95 = {
    1: 6.314, 2: 2.920, 3: 2.353, 4: 2.132, 5: 2.015, 6: 1.943, 7: 1.895, 8: 1.860, 9: 1.833, 10: 1.812, 12: 1.782, 15: 1.753, 20: 1.725,
    25: 1.708, 30: 1.697, 40: 1.684, 60: 1.671, 120: 1.658,
}  # fmt: skip
"""Quantiles of Student's t at 95 %, by degrees of freedom; between two the smaller number is taken, which is on the safe side."""


@dataclass(frozen=True)
class Estimate:
    """Of one setting. ``values``: of its seeds; ``missing``: seeds in which there was nothing to measure. ``bound``: of the mean, on the side that is asked about; None of fewer
    than two seeds. ``holds``: the bound keeps what is asked for; ``least``: what is to be least."""

    setting: dict[str, Any]
    values: tuple[float, ...]
    missing: int
    mean: float | None
    bound: float | None
    holds: bool
    least: Any


@dataclass(frozen=True)
class Finding:
    """``best``: place in ``estimates``; None: none holds."""

    find: Find
    estimates: tuple[Estimate, ...]
    best: int | None


def finding(swept: Swept) -> Finding | None:
    """None where the study asks for nothing. Raises InputError for a queue that there is not."""
    find = swept.study.find
    if find is None:
        return None
    estimates = tuple(_estimates(swept, find))
    holding = [place for place, one in enumerate(estimates) if one.holds]
    best = min(holding, key=lambda place: (_order(estimates[place].least), place), default=None)
    return Finding(find, estimates, best)


def _estimates(swept: Swept, find: Find) -> Sequence[Estimate]:
    found = []
    each = len(swept.study.seeds) or 1
    for number, setting in enumerate(swept.study.settings()):
        runs = swept.runs[number * each : (number + 1) * each]
        rows = [_row(swept, run.key, find.queue) for run in runs if swept.results[run.key].rows]
        values = tuple(float(row[find.measure]) for row in rows if row[find.measure] is not None)
        mean = fmean(values) if values else None
        bound = _bound(values, upper=find.below is not None)
        missing = len(runs) - len(values)
        least = rows[0]["gpus"] if find.least in OF_FLEET and rows else setting.get(find.least)
        found.append(Estimate(setting, values, missing, mean, bound, not missing and _holds(find, bound), least))
    return found


def _row(swept: Swept, key: str, queue: str) -> dict[str, Any]:
    rows = {row["queue"]: row for row in swept.results[key].rows}
    if queue not in rows:
        raise InputError(f"find.queue: there is no queue {queue!r:.80} in the results; {there_are(rows, queue)}")
    return rows[queue]


def _bound(values: Sequence[float], *, upper: bool) -> float | None:
    if len(values) < 2:
        return None
    off = quantile(len(values) - 1) * stdev(values) / sqrt(len(values))
    return fmean(values) + off if upper else fmean(values) - off


def quantile(freedom: int) -> float:
    """Student's t at 95 %, one-sided.

    >>> quantile(4), quantile(11), quantile(10_000)
    (2.132, 1.812, 1.658)
    """
    return _T95[max(one for one in _T95 if one <= freedom)]


def _holds(find: Find, bound: float | None) -> bool:
    if bound is None:
        return False
    return bound < find.below if find.below is not None else bound > (find.above or 0.0)


def _order(least: Any) -> tuple[int, float, str]:
    """Numbers by size; a setting of several numbers by their sum; anything else by its text."""
    if isinstance(least, dict):
        return 0, float(sum(least.values())), ""
    return (0, float(least), "") if isinstance(least, int | float) else (1, 0.0, told(least))
