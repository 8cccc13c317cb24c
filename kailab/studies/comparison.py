"""Judge the settings of a study: which keep the targets and with what confidence, which is best, and how settings
differ.

``find_best`` judges targets, ``compare_settings`` compares settings with one of them, and ``intervals`` gives a
confidence interval for each measure.
"""

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
from kailab.studies.study import Study, StudyQuestion, StudyRun, format_option
from kailab.studies.sweep import SweptStudy
from kailab.studies.target import StudyTarget, possible, read_subject


@dataclass(frozen=True)
class JudgedSetting:
    """A setting with an estimate for each target. ``least``: the value that is to be smallest."""

    setting: dict[str, Any]
    estimates: tuple[Estimate, ...]
    least: Any

    @property
    def failed(self) -> bool:
        """True if some of its runs could not be done."""
        return any(estimate.failed for estimate in self.estimates)

    @property
    def verdict(self) -> TargetVerdict:
        return all_of([estimate.verdict for estimate in self.estimates])


@dataclass(frozen=True)
class StudyFinding:
    """The judged settings; the confidence holds for the whole table. ``best``: of the settings that keep all targets,
    the one with the smallest ``least``; None if none does."""

    find: StudyQuestion
    settings: tuple[JudgedSetting, ...]
    best: JudgedSetting | None

    @property
    def undecided(self) -> list[JudgedSetting]:
        """Settings with a smaller ``least`` than the best that may also keep the targets: more seeds, or
        repeating the failed runs, would decide."""
        return [
            setting
            for setting in self.settings
            if setting.verdict is TargetVerdict.open
            and (self.best is None or order_of(setting.least) < order_of(self.best.least))
        ]


def find_best(swept: SweptStudy, find: StudyQuestion | None = None) -> StudyFinding | None:
    """Judge all settings. ``find``: replaces the study's own question. None if there is no question."""
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
    holding = [judged for judged in settings if judged.verdict is TargetVerdict.yes]
    return StudyFinding(find, tuple(settings), min(holding, key=lambda judged: order_of(judged.least), default=None))


def judge_setting(
    targets: Sequence[StudyTarget], results: Sequence[RunResult], *, sampled: bool = True, error: float = ERROR_RATE
) -> tuple[Estimate, ...]:
    """Judge each target by the runs of one setting, one run for each seed. ``error``: permitted error rate."""
    failed = sum(bool(result.error) for result in results)
    return tuple(
        estimate(
            target,
            [value_of(result, target.queue, target.measure) for result in results],
            failed=failed,
            sampled=sampled,
            error=error,
        )
        for target in targets
    )


def order_of(least: Any) -> tuple[int, float, str]:
    """Sort key: numbers by size, mappings of numbers by their sum, anything else last and by its text."""
    if isinstance(least, dict) and all(isinstance(value, int | float) for value in least.values()):
        return 0, float(sum(least.values())), ""
    return (0, float(least), "") if isinstance(least, int | float) else (1, 0.0, format_option(least))


LESS, MORE, SAME, OPEN = "less", "more", "same", "open"


@dataclass(frozen=True)
class Compare:
    """``subjects``: (queue, measure) pairs. ``against``: index of the setting to compare with."""

    subjects: tuple[tuple[str, str], ...]
    against: int = 0


@dataclass(frozen=True, kw_only=True)
class SettingDifference:
    """Difference of one measure between a setting and the one compared with.

    ``more``: None if a seed has no number in either, or with one seed. ``below`` and ``above``: seeds with a smaller
    and a larger number. ``missing``: seeds without a number, for example because jobs never began.
    """

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
        """``less`` or ``more`` if the bounds of the difference decide, ``same`` if no seed differs, otherwise
        ``open``."""
        if self.missing:
            return OPEN
        if not self.below and not self.above:
            return SAME
        if self.more is None:
            return OPEN
        return MORE if self.more.low > 0 else LESS if self.more.high < 0 else OPEN


@dataclass(frozen=True)
class SettingComparison:
    """The differences of each other setting from ``against``."""

    against: dict[str, Any]
    settings: tuple[tuple[dict[str, Any], tuple[SettingDifference, ...]], ...]


def read_compare(study: Study, measures: Sequence[str], against: str = "") -> Compare:
    """Read what to compare.

    ``measures``: each ``[QUEUE] MEASURE``. ``against``: a setting in words, such as ``policies fifo, limits
    vision=100``; empty: the first. Raises InputError.
    """
    if study.search is not None:
        raise InputError("compare: a search proposes settings by the results of others; expected a study with a grid")
    settings = list(study.settings())
    if len(settings) < 2 or len(study.seeds) < 2:
        raise InputError(
            f"compare: {len(settings)} settings with {len(study.seeds) or 1} seeds; expected two or more of each, because settings are compared seed by seed"
        )
    names = [describe_compare(setting) for setting in settings]
    if against and against not in names:
        raise InputError(f"against {against!r:.200}: no such setting; expected one of: {'; '.join(names)}")
    return Compare(tuple(map(read_subject, measures)), names.index(against) if against else 0)


def describe_compare(setting: Mapping[str, Any]) -> str:
    """Describe a setting in words.

    >>> describe_compare({"policies": ["fifo"], "limits": {"vision": 100}})
    'policies fifo, limits vision=100'
    """
    return ", ".join(f"{name} {format_option(value)}" for name, value in setting.items())


def compare_settings(swept: SweptStudy, compare: Compare) -> SettingComparison:
    """Compare settings seed by seed.

    All settings use the same seeds, so effects of a seed on both cancel out. All differences together have 95 %
    confidence (Bonferroni).
    """
    each = len(swept.study.seeds)
    results = [_results(swept, swept.runs[index : index + each]) for index in range(0, len(swept.runs), each)]
    error = ERROR_RATE / (2 * (len(results) - 1) * len(compare.subjects))
    compared = []
    for index, setting in enumerate(swept.settings):
        if index != compare.against:
            pair = results[index], results[compare.against]
            differences = tuple(_difference(*pair, *subject, error) for subject in compare.subjects)
            compared.append((setting, differences))
    return SettingComparison(swept.settings[compare.against], tuple(compared))


def _results(swept: SweptStudy, runs: Sequence[StudyRun]) -> list[RunResult]:
    return [swept.results[run.key] for run in runs]


def _difference(
    results: Sequence[RunResult], other_results: Sequence[RunResult], queue: str, measure: str, error: float
) -> SettingDifference:
    pairs = [
        (value, other)
        for result, other_result in zip(results, other_results, strict=True)
        if (value := value_of(result, queue, measure)) is not None
        and (other := value_of(other_result, queue, measure)) is not None
    ]
    differences = [value - other for value, other in pairs]
    missing = len(results) - len(pairs)
    return SettingDifference(
        queue=queue,
        measure=measure,
        mean=fmean(value for value, _ in pairs) if pairs else None,
        other=fmean(other for _, other in pairs) if pairs else None,
        more=None if missing else confidence_bounds(differences, error),
        below=sum(value < 0 for value in differences),
        above=sum(value > 0 for value in differences),
        missing=missing,
        seeds=len(results),
    )


@dataclass(frozen=True)
class Interval:
    """95 % confidence interval of the mean of a measure (Student's t, two-sided).

    ``low`` and ``high``: None for fewer than two seeds; limited to possible values of the measure. ``missing``: seeds
    without a number, for example because jobs never began; they are not in the mean.
    """

    mean: float | None
    low: float | None
    high: float | None
    seeds: int
    missing: int


@dataclass(frozen=True)
class SettingIntervals:
    """``queues``: queue ("all": all jobs) -> measure -> interval."""

    setting: dict[str, Any]
    queues: dict[str, dict[str, Interval]]


def intervals(swept: SweptStudy) -> list[SettingIntervals]:
    """The intervals of each setting, in order."""
    each = len(swept.study.seeds) or 1
    rows = []
    for number, setting in enumerate(swept.settings):
        results = [swept.results[run.key] for run in swept.runs[number * each : (number + 1) * each]]
        names = dict.fromkeys(row["queue"] for result in results for row in result.rows)
        rows.append(SettingIntervals(setting, {name: _of_queue(results, name) for name in names}))
    return rows


def interval(measure: str, values: Sequence[float | None]) -> Interval:
    """The interval of one value per seed, None where a seed has none.

    >>> evictions = interval("evictions", [10.0, 12.0, 14.0, None])
    >>> round(evictions.low, 3), evictions.mean, round(evictions.high, 3), evictions.seeds, evictions.missing
    (7.032, 12.0, 16.968, 4, 1)
    """
    numbers = [value for value in values if value is not None]
    missing = len(values) - len(numbers)
    if not numbers:
        return Interval(None, None, None, len(values), missing)
    mean = fmean(numbers)
    if len(numbers) < 2:
        return Interval(mean, None, None, len(values), missing)
    margin = t_quantile(len(numbers) - 1, ERROR_RATE / 2) * stdev(numbers) / sqrt(len(numbers))
    low, high = possible(measure, mean - margin), possible(measure, mean + margin)
    return Interval(mean, low, high, len(values), missing)


def _of_queue(results: Sequence[RunResult], queue: str) -> dict[str, Interval]:
    rows = [next((row for row in result.rows if row["queue"] == queue), {}) for result in results]
    return {name: interval(name, [row.get(name) for row in rows]) for name in (*MEASURES, *OF_FLEET)}
