"""Metrics of a replay over time agree with its other tables."""

from __future__ import annotations

import re

from kailab.evidence.metrics import openmetrics
from kailab.replay.tables import timeline_rows

TEAMS = "name,submit,seconds,gpus,team"
LINES = ("a,0,600,8,blue", "b,100,300,8,red", "c,200,300,4,blue")


def test_series_tell_what_is_held_and_what_waits(trace_file, replayed) -> None:
    done = replayed(trace_file(*LINES, header=TEAMS), metered=1)
    used, waiting = (
        next(one for one in done.meter.series.every() if one.name == name and (not labels or one.labels == labels))
        for name, labels in (("kailab_gpus", {"state": "used"}), ("kai_queue_depth_total", {}))
    )
    shift = done.began - done.opened
    held = {at: milli / 1000 for at, milli, _, _ in timeline_rows(done)}
    # Each second between two moments at which something happens.
    for at in (50, 150, 250, 650, 950, 1150):
        last = max(moment for moment in held if moment <= at)
        assert used.at(at + shift) == held[last]
    assert [waiting.at(at + shift) for at in (50, 150, 250, 650)] == [0, 1, 2, 1]
    told = openmetrics.render_series(done.meter.series, done.opened, done.meter.every)
    assert re.search(r'kai_queue_allocated_gpus\{.*queue_name="red".*\} 8.0 ', told)
    assert told.endswith("# EOF\n")


def test_what_is_seen_holds_between_looks_however_far_apart(trace_file, replayed) -> None:
    lines = [line for n in range(4) for line in (f"a{n},{n * 36000},18000,1", f"b{n},{n * 36000 + 300},18000,3")]
    done = replayed(trace_file(*lines), "one", metered=600)
    used = next(
        one for one in done.meter.series.every() if (one.name, one.labels) == ("kailab_gpus", {"state": "used"})
    )
    shift = done.began - done.opened
    for period in range(4):
        begin = shift + period * 36_000
        assert [used.at(begin + at) for at in (600, 9000, 17_400, 18_900, 30_000)] == [4, 4, 4, 0, 0]


def test_without_being_asked_for_nobody_looks(trace_file, replayed) -> None:
    assert replayed(trace_file(*LINES, header=TEAMS)).meter is None
