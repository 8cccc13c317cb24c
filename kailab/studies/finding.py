"""What the figures of a study say: which settings keep what is asked for, how sure that is, and which of them is best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from kailab.studies.confidence import Estimate, Verdict, all_of, estimate
from kailab.studies.measuring import OF_FLEET, Result, value_of
from kailab.studies.student import ERROR
from kailab.studies.study import Find, told
from kailab.studies.sweeping import Swept
from kailab.studies.target import Target


@dataclass(frozen=True)
class Judged:
    """A setting, and what is known of each target in it. ``least``: what is to be least."""

    setting: dict[str, Any]
    estimates: tuple[Estimate, ...]
    least: Any

    @property
    def failed(self) -> bool:
        """Some of its runs could not be done."""
        return any(one.failed for one in self.estimates)

    @property
    def verdict(self) -> Verdict:
        return all_of([one.verdict for one in self.estimates])


@dataclass(frozen=True)
class Finding:
    """Of all settings together: the confidence is that of the whole table. ``best``: the setting with the least ``least`` of those that keep all; None: none does."""

    find: Find
    settings: tuple[Judged, ...]
    best: Judged | None

    @property
    def undecided(self) -> list[Judged]:
        """Settings with less than the best that may keep all too: more seeds would tell, or the runs that failed."""
        return [
            one
            for one in self.settings
            if one.verdict is Verdict.open and (self.best is None or order_of(one.least) < order_of(self.best.least))
        ]


def finding(swept: Swept, find: Find | None = None) -> Finding | None:
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
        settings.append(Judged(setting, judged(find.targets, results, error=ERROR / len(swept.settings)), least))
    holding = [one for one in settings if one.verdict is Verdict.yes]
    return Finding(find, tuple(settings), min(holding, key=lambda one: order_of(one.least), default=None))


def judged(
    targets: Sequence[Target], results: Sequence[Result], *, sampled: bool = True, error: float = ERROR
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
    return (0, float(least), "") if isinstance(least, int | float) else (1, 0.0, told(least))
