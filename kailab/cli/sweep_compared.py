"""Settings of a study held against one of them: for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kailab.studies.comparing import Compared, Difference


def data(found: Compared) -> dict[str, Any]:
    """For programs."""
    from kailab.studies.confidence import CONFIDENCE

    return {
        "against": found.against,
        "confidence": CONFIDENCE,
        "settings": [
            {"setting": setting, "differences": [_difference(one) for one in differences]}
            for setting, differences in found.settings
        ],
    }


def _difference(one: Difference) -> dict[str, Any]:
    more = None if one.more is None else {"mean": one.more.mean, "low": one.more.low, "high": one.more.high}
    return {
        "queue": one.queue, "measure": one.measure, "mean": one.mean, "against": one.other, "more": more, "seeds": one.seeds,
        "seeds_below": one.below, "seeds_above": one.above, "missing": one.missing, "verdict": one.verdict,
    }  # fmt: skip


def told(found: Compared) -> Iterator[str]:
    """For people."""
    from kailab.cli.table import render
    from kailab.studies.comparing import said
    from kailab.studies.study import told as value
    from kailab.studies.target import amount, subject

    yield ""
    yield f"Against {said(found.against)}, seed by seed; 95 % confidence in all differences at once:"
    yield ""
    rows = []
    for setting, differences in found.settings:
        for one in differences:
            means = f"{amount(one.measure, one.other)} -> {amount(one.measure, one.mean)}"
            cells = [subject(one.measure, one.queue), means, _more(one), _seeds(one), one.verdict]
            rows.append([*(value(part) for part in setting.values()), *cells])
    yield render([*(name.upper() for name in found.against), "MEASURE", "MEAN", "MORE BY", "SEEDS", ""], rows)


def _more(one: Difference) -> str:
    if one.more is None:
        return "-"
    return f"{_signed(one.measure, one.more.low)} to {_signed(one.measure, one.more.high)}"


def _signed(measure: str, value: float) -> str:
    from kailab.studies.target import amount

    return f"{'-' if value < 0 else '+'}{amount(measure, abs(value))}"


def _seeds(one: Difference) -> str:
    part = f", none in {one.missing}" if one.missing else ""
    return f"{one.below} less, {one.above} more of {one.seeds}{part}"
