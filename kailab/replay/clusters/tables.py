"""A replay over several clusters as tables for programs: the rows of a replay on one, and where each job was."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kailab.replay import tables
from kailab.replay.clusters.journeys import Dispatched

JOBS = (
    "name", "team", "home", "cluster", "queue", "line", "gpu_milli", "run_seconds", "arrived", "sent", "way", "began", "ended", "waited", "times_sent",
    "taken_back", "dataset", "moved_bytes", "expected_wait", "evictions", "lost_gpu_milli_seconds",
)  # fmt: skip
TIMELINE = ("cluster", *tables.TIMELINE)


def job_rows(found: Dispatched) -> Iterable[tuple[Any, ...]]:
    """In the order of arrival. Times are seconds after the first arrival; None where it did not come to that. ``sent``: to the cluster where it is; ``way``: seconds on the
    way there."""
    zero = found.began
    of_team = found.sites.sites[0].queues.of_team
    for one in found.journeys:
        job, work = one.job, one.work
        began = None if work is None or work.began is None else work.began - zero
        ended = None if work is None or work.ended is None else work.ended - zero
        expected = None if one.expected is None or one.expected == float("inf") else round(one.expected)
        yield (
            job.name, job.team, one.home, one.at or None, of_team[job.team] if work is None else work.queue, job.line, job.milli, job.seconds, one.arrived - zero,
            one.left - zero if one.at else None, one.way if one.at else None, began, ended,
            None if began is None else began + zero - one.arrived, one.sent, one.taken_back,
            None if one.data is None else one.data.name, one.moved, expected,
            0 if work is None else work.evictions, 0 if work is None else work.lost,
        )  # fmt: skip


def timeline_rows(found: Dispatched) -> Iterable[tuple[Any, ...]]:
    """Cluster by cluster, in the order of their file."""
    for name, replayed in found.clusters.items():
        for row in tables.timeline_rows(replayed):
            yield (name, *row)
