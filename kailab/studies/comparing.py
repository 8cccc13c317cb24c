"""Whether another setting is better, or was lucky: each setting is held against one of them, seed by seed.

All settings have the same seeds, so the traces are the same and only the setting differs: what a seed does to both is not in the difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from kailab.errors import InputError
from kailab.studies.confidence import Bounds, bounds
from kailab.studies.measuring import Result, value_of
from kailab.studies.student import ERROR
from kailab.studies.study import Run, Study, told
from kailab.studies.sweeping import Swept
from kailab.studies.target import read_subject

LESS, MORE, SAME, OPEN = "less", "more", "same", "open"


@dataclass(frozen=True)
class Compare:
    """``subjects``: queue and measure of each. ``against``: the setting's place in the study's order."""

    subjects: tuple[tuple[str, str], ...]
    against: int = 0


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Of one measure of a setting, less that of the other. ``more``: None where a seed has no number in either, or there is one seed. ``below`` and ``above``: seeds in which it is less,
    and more. ``missing``: seeds without a number, as where jobs never began."""

    queue: str
    measure: str
    mean: float | None
    other: float | None
    more: Bounds | None
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
class Compared:
    """``settings``: each but the one that they are held against, and what differs."""

    against: dict[str, Any]
    settings: tuple[tuple[dict[str, Any], tuple[Difference, ...]], ...]


def read_compare(study: Study, measures: Sequence[str], against: str = "") -> Compare:
    """``measures``: each ``[QUEUE] MEASURE``. ``against``: a setting in words, as ``policies fifo, limits vision=100``; empty: the first. Raises InputError."""
    if study.search is not None:
        raise InputError("compare: a search proposes settings by what came of others; expected a study with a grid")
    settings = list(study.settings())
    if len(settings) < 2 or len(study.seeds) < 2:
        raise InputError(
            f"compare: {len(settings)} settings with {len(study.seeds) or 1} seeds; expected two or more of each, as differences are told seed by seed"
        )
    names = [said(setting) for setting in settings]
    if against and against not in names:
        raise InputError(f"against {against!r:.200}: no setting is told so; there are: {'; '.join(names)}")
    return Compare(tuple(map(read_subject, measures)), names.index(against) if against else 0)


def said(setting: Mapping[str, Any]) -> str:
    """A setting in words.

    >>> said({"policies": ["fifo"], "limits": {"vision": 100}})
    'policies fifo, limits vision=100'
    """
    return ", ".join(f"{name} {told(value)}" for name, value in setting.items())


def compared(swept: Swept, compare: Compare) -> Compared:
    """All differences together have 95 % confidence: they share the chance to be wrong."""
    each = len(swept.study.seeds)
    results = [_results(swept, swept.runs[place : place + each]) for place in range(0, len(swept.runs), each)]
    error = ERROR / (2 * (len(results) - 1) * len(compare.subjects))
    found = []
    for place, setting in enumerate(swept.settings):
        if place != compare.against:
            pair = results[place], results[compare.against]
            differences = tuple(_difference(*pair, *subject, error) for subject in compare.subjects)
            found.append((setting, differences))
    return Compared(swept.settings[compare.against], tuple(found))


def _results(swept: Swept, runs: Sequence[Run]) -> list[Result]:
    return [swept.results[run.key] for run in runs]


def _difference(these: Sequence[Result], those: Sequence[Result], queue: str, measure: str, error: float) -> Difference:
    pairs = [
        (one, other)
        for this, that in zip(these, those, strict=True)
        if (one := value_of(this, queue, measure)) is not None and (other := value_of(that, queue, measure)) is not None
    ]
    differences = [one - other for one, other in pairs]
    missing = len(these) - len(pairs)
    return Difference(
        queue=queue,
        measure=measure,
        mean=fmean(one for one, _ in pairs) if pairs else None,
        other=fmean(other for _, other in pairs) if pairs else None,
        more=None if missing else bounds(differences, error),
        below=sum(one < 0 for one in differences),
        above=sum(one > 0 for one in differences),
        missing=missing,
        seeds=len(these),
    )
