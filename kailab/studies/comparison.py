"""What the figures of a study say: which settings keep what is asked for, how sure that is, and which of them is best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev
from typing import Any

from kailab.errors import InputError
from kailab.studies.confidence import (
    ERROR_RATE,
    ConfidenceBounds,
    Estimate,
    TargetVerdict,
    all_of,
    confidence_bounds,
    estimate,
    t_quantile,
)
from kailab.studies.measures import MEASURES, OF_FLEET, RunResult, value_of
from kailab.studies.study import Study, StudyQuestion, StudyRun, format_value
from kailab.studies.sweep import SweptStudy
from kailab.studies.target import StudyTarget, possible, read_subject


@dataclass(frozen=True)
class JudgedSetting:
    """A setting, and what is known of each target in it. ``least``: what is to be least."""

    setting: dict[str, Any]
    estimates: tuple[Estimate, ...]
    least: Any

    @property
    def failed(self) -> bool:
        """Some of its runs could not be done."""
        return any(one.failed for one in self.estimates)

    @property
    def verdict(self) -> TargetVerdict:
        return all_of([one.verdict for one in self.estimates])


@dataclass(frozen=True)
class StudyFinding:
    """Of all settings together: the confidence is that of the whole table. ``best``: the setting with the least ``least`` of those that keep all; None: none does."""

    find: StudyQuestion
    settings: tuple[JudgedSetting, ...]
    best: JudgedSetting | None

    @property
    def undecided(self) -> list[JudgedSetting]:
        """Settings with less than the best that may keep all too: more seeds would tell, or the runs that failed."""
        return [
            one
            for one in self.settings
            if one.verdict is TargetVerdict.open
            and (self.best is None or order_of(one.least) < order_of(self.best.least))
        ]


def find_best(swept: SweptStudy, find: StudyQuestion | None = None) -> StudyFinding | None:
    """``find``: instead of the study's own. None where neither asks for anything."""
    find = find or swept.study.find
    if find is None:
        return None
    each = len(swept.study.seeds) or 1
    settings = []
    for number, setting in enumerate(swept.settings):
        runs = swept.runs[number * each : (number + 1) * each]
        results = [swept.results[run.key] for run in runs]
        rows = next((result.rows for result in results if result.rows), None)
        least = rows[0]["gpus"] if find.least in OF_FLEET and rows else setting.get(find.least)
        if find.least == "cost":
            costs = [row["cost"] for result in results for row in result.rows[:1] if row["cost"] is not None]
            least = round(fmean(costs), 2) if costs and len(costs) == len(results) else None
        settings.append(
            JudgedSetting(setting, judge_setting(find.targets, results, error=ERROR_RATE / len(swept.settings)), least)
        )
    holding = [one for one in settings if one.verdict is TargetVerdict.yes]
    return StudyFinding(find, tuple(settings), min(holding, key=lambda one: order_of(one.least), default=None))


def judge_setting(
    targets: Sequence[StudyTarget], results: Sequence[RunResult], *, sampled: bool = True, error: float = ERROR_RATE
) -> tuple[Estimate, ...]:
    """What the runs of one setting, one of each seed, say of each target. ``error``: the chance to be wrong about it."""
    failed = sum(bool(result.error) for result in results)
    return tuple(
        estimate(
            one,
            [value_of(result, one.queue, one.measure) for result in results],
            failed=failed,
            sampled=sampled,
            error=error,
        )
        for one in targets
    )


def order_of(least: Any) -> tuple[int, float, str]:
    """Numbers by size; a setting of several numbers by their sum; anything else by its text, and last."""
    if isinstance(least, dict) and all(isinstance(one, int | float) for one in least.values()):
        return 0, float(sum(least.values())), ""
    return (0, float(least), "") if isinstance(least, int | float) else (1, 0.0, format_value(least))


# Whether another setting is better, or was lucky: each setting is held against one of them, seed by seed.
#
# All settings have the same seeds, so the traces are the same and only the setting differs: what a seed does to both is not in the difference.

LESS, MORE, SAME, OPEN = "less", "more", "same", "open"


@dataclass(frozen=True)
class Compare:
    """``subjects``: queue and measure of each. ``against``: the setting's place in the study's order."""

    subjects: tuple[tuple[str, str], ...]
    against: int = 0


@dataclass(frozen=True, kw_only=True)
class SettingDifference:
    """Of one measure of a setting, less that of the other. ``more``: None where a seed has no number in either, or there is one seed. ``below`` and ``above``: seeds in which it is less,
    and more. ``missing``: seeds without a number, as where jobs never began."""

    queue: str
    measure: str
    mean: float | None
    other: float | None
    more: ConfidenceBounds | None
    below: int
    above: int
    missing: int
    seeds: int

    @property
    def verdict(self) -> str:
        """``less`` or ``more`` where the bounds of the difference say so, ``same`` where no seed differs."""
        if self.missing:
            return OPEN
        if not self.below and not self.above:
            return SAME
        if self.more is None:
            return OPEN
        return MORE if self.more.low > 0 else LESS if self.more.high < 0 else OPEN


@dataclass(frozen=True)
class SettingComparison:
    """``settings``: each but the one that they are held against, and what differs."""

    against: dict[str, Any]
    settings: tuple[tuple[dict[str, Any], tuple[SettingDifference, ...]], ...]


def read_compare(study: Study, measures: Sequence[str], against: str = "") -> Compare:
    """``measures``: each ``[QUEUE] MEASURE``. ``against``: a setting in words, as ``policies fifo, limits vision=100``; empty: the first. Raises InputError."""
    if study.search is not None:
        raise InputError("compare: a search proposes settings by what came of others; expected a study with a grid")
    settings = list(study.settings())
    if len(settings) < 2 or len(study.seeds) < 2:
        raise InputError(
            f"compare: {len(settings)} settings with {len(study.seeds) or 1} seeds; expected two or more of each, as differences are told seed by seed"
        )
    names = [describe_compare(setting) for setting in settings]
    if against and against not in names:
        raise InputError(f"against {against!r:.200}: no setting is told so; there are: {'; '.join(names)}")
    return Compare(tuple(map(read_subject, measures)), names.index(against) if against else 0)


def describe_compare(setting: Mapping[str, Any]) -> str:
    """A setting in words.

    >>> said({"policies": ["fifo"], "limits": {"vision": 100}})
    'policies fifo, limits vision=100'
    """
    return ", ".join(f"{name} {format_value(value)}" for name, value in setting.items())


def compare_settings(swept: SweptStudy, compare: Compare) -> SettingComparison:
    """All differences together have 95 % confidence: they share the chance to be wrong."""
    each = len(swept.study.seeds)
    results = [_results(swept, swept.runs[place : place + each]) for place in range(0, len(swept.runs), each)]
    error = ERROR_RATE / (2 * (len(results) - 1) * len(compare.subjects))
    found = []
    for place, setting in enumerate(swept.settings):
        if place != compare.against:
            pair = results[place], results[compare.against]
            differences = tuple(_difference(*pair, *subject, error) for subject in compare.subjects)
            found.append((setting, differences))
    return SettingComparison(swept.settings[compare.against], tuple(found))


def _results(swept: SweptStudy, runs: Sequence[StudyRun]) -> list[RunResult]:
    return [swept.results[run.key] for run in runs]


def _difference(
    these: Sequence[RunResult], those: Sequence[RunResult], queue: str, measure: str, error: float
) -> SettingDifference:
    pairs = [
        (one, other)
        for this, that in zip(these, those, strict=True)
        if (one := value_of(this, queue, measure)) is not None and (other := value_of(that, queue, measure)) is not None
    ]
    differences = [one - other for one, other in pairs]
    missing = len(these) - len(pairs)
    return SettingDifference(
        queue=queue,
        measure=measure,
        mean=fmean(one for one, _ in pairs) if pairs else None,
        other=fmean(other for _, other in pairs) if pairs else None,
        more=None if missing else confidence_bounds(differences, error),
        below=sum(one < 0 for one in differences),
        above=sum(one > 0 for one in differences),
        missing=missing,
        seeds=len(these),
    )


# What the seeds of a setting say of each measure: the mean, and a 95 % confidence interval of it (Student's t, two-sided: the seeds are a sample of what could have been).


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


def intervals(swept: SweptStudy) -> list[SettingIntervals]:
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
    off = t_quantile(len(there) - 1, ERROR_RATE / 2) * stdev(there) / sqrt(len(there))
    low, high = possible(measure, mean - off), possible(measure, mean + off)
    return Interval(mean, low, high, len(values), missing)


def _of_queue(results: Sequence[RunResult], queue: str) -> dict[str, Interval]:
    rows = [next((row for row in result.rows if row["queue"] == queue), {}) for result in results]
    return {name: interval(name, [row.get(name) for row in rows]) for name in (*MEASURES, *OF_FLEET)}
