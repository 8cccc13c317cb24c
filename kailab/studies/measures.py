"""Carry out a run and return its figures as rows: one for all jobs and one for each queue. They do not depend on the
machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from kailab.errors import KailabError
from kailab.replay.accounts import raise_faults
from kailab.replay.clusters.dispatcher import dispatch
from kailab.replay.clusters.figures import DispatchFigures, figures
from kailab.replay.run import replay
from kailab.replay.summary import Summary, SummaryRow, summarise
from kailab.studies.planning import plan_of, sites_of
from kailab.studies.study import StudyRun
from kailab.studies.target import ALL

MEASURES = (
    "jobs", "began", "ended", "waited_mean", "waited_p50", "waited_p99", "waited_most", "waits_mean", "waits_p50", "waits_p99", "waits_most", "took_mean", "slowdown_mean", "evictions",
    "asked", "lost",
)  # fmt: skip
OF_FLEET = ("gpus", "allocated", "allocated_arriving", "seconds", "cost", "kwh")
"""Measures of the whole run, equal in all of its rows."""


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """``rows``: maps measures to values, with ``queue``; None where there is nothing to measure. ``error``: why there
    are no rows."""

    key: str
    rows: list[dict[str, Any]] = []
    error: str = ""


Done = Callable[[StudyRun, RunResult], None]
"""Called with each run when it ends."""


def result_of(run: StudyRun) -> RunResult:
    """Carry out a run. Errors of kailab become its result, so that other runs continue."""
    try:
        done: Summary | DispatchFigures
        if "clusters" in run.options:
            dispatched = dispatch(sites_of(run), run.options.get("for"))
            raise_faults(dispatched.faults)
            done = figures(dispatched)
            queues = [team.row for team in done.queues]
        else:
            replayed = replay(plan_of(run))
            raise_faults(replayed.faults)
            done = summarise(replayed)
            queues = done.queues
    except KailabError as error:
        return RunResult(key=run.key, error=str(error))
    rows = [_row(done, row, ALL if row is done.total else row.name) for row in (done.total, *queues)]
    return RunResult(key=run.key, rows=rows)


def value_of(result: RunResult, queue: str, measure: str) -> float | None:
    """The value, or None: a run that failed has no rows, and a queue without jobs has none either."""
    value = next((row for row in result.rows if row["queue"] == queue), {}).get(measure)
    return None if value is None else float(value)


def _row(done: Summary | DispatchFigures, row: SummaryRow, queue: str) -> dict[str, Any]:
    row_values: dict[str, Any] = {"queue": queue}
    for name in MEASURES:
        part, _, of = name.partition("_")
        value = getattr(row, part)
        row_values[name] = value if not of else None if value is None else getattr(value, of)
    return row_values | {name: getattr(done, name) for name in OF_FLEET}
