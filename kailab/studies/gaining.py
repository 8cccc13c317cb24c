"""What each queue gains or loses by another fleet, seed by seed: how much longer or shorter its jobs wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from kailab.studies.capacity import Probe
from kailab.studies.confidence import Bounds, bounds
from kailab.studies.measuring import Result
from kailab.studies.planning import plan_of
from kailab.studies.student import ERROR
from kailab.studies.target import ALL


@dataclass(frozen=True, kw_only=True)
class Wait:
    """Means over the seeds, in seconds; None where in a seed too many jobs never began. ``began``: jobs."""

    quota: float
    mean: float | None
    p99: float | None
    began: float


@dataclass(frozen=True, kw_only=True)
class Gain:
    """Of a queue. ``longer``: by how much its jobs wait longer in the mean, each seed against itself; None where there is no number, or one seed.
    ``verdict``: ``gains``, ``loses``, ``same``, or ``open`` where the seeds do not tell with 95 % confidence."""

    queue: str
    before: Wait
    after: Wait
    longer: Bounds | None
    verdict: str


def gains(given: Probe, found: Probe) -> list[Gain]:
    """Both with the same seeds. The verdicts of all queues together have 95 % confidence: they share the chance to be wrong."""
    before, after = plan_of(given.runs[0]).queues.quotas, plan_of(found.runs[0]).queues.quotas
    queues = [queue for queue in before if all(_rows(probe.results, queue) for probe in (given, found))]
    error = ERROR / (2 * max(1, len(queues)))
    return [
        _gain(queue, _rows(given.results, queue), _rows(found.results, queue), (before[queue], after[queue]), error)
        for queue in queues
    ]


def _rows(results: Sequence[Result], queue: str) -> list[dict[str, Any]]:
    """Of each seed its row; none where a seed has no job of the queue."""
    found = [row for result in results for row in result.rows if row["queue"] == queue != ALL]
    return found if len(found) == len(results) else []


def _gain(
    queue: str,
    before: list[dict[str, Any]],
    after: list[dict[str, Any]],
    quotas: tuple[float, float],
    error: float,
) -> Gain:
    one, other = _wait(before, quotas[0]), _wait(after, quotas[1])
    if one.mean is None or other.mean is None:
        verdict = _by_begun(one, other)
        return Gain(queue=queue, before=one, after=other, longer=None, verdict=verdict)
    differences = [b["waits_mean"] - a["waits_mean"] for a, b in zip(before, after, strict=True)]
    longer = bounds(differences, error)
    if not any(differences):
        verdict = "same"
    elif longer is None:
        verdict = "loses" if differences[0] > 0 else "gains"
    else:
        verdict = "loses" if longer.low > 0 else "gains" if longer.high < 0 else "open"
    return Gain(queue=queue, before=one, after=other, longer=longer, verdict=verdict)


def _by_begun(one: Wait, other: Wait) -> str:
    if one.began == other.began:
        return "open"
    return "gains" if other.began > one.began else "loses"


def _wait(rows: list[dict[str, Any]], quota: float) -> Wait:
    return Wait(
        quota=quota,
        mean=_mean([row["waits_mean"] for row in rows]),
        p99=_mean([row["waits_p99"] for row in rows]),
        began=fmean(row["began"] for row in rows),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return fmean(there) if len(there) == len(values) else None
