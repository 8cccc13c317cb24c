"""The published log of Philly: a JSON list of jobs."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from kailab.errors import InputError
from kailab.replay.summary import summarise
from kailab.replay.trace import read_trace


def attempt(start: str | None, end: str | None, *gpus: int) -> dict[str, Any]:
    machines = [{"ip": f"m{place}", "gpus": [f"gpu{one}" for one in range(count)]} for place, count in enumerate(gpus)]
    return {"start_time": start and f"2017-10-09 {start}", "end_time": end and f"2017-10-09 {end}", "detail": machines}


def entry(name: str, *attempts: Any, at: str = "07:00:00", **fields: Any) -> dict[str, Any]:
    return {"jobid": name, "vc": "6214e9", "submitted_time": f"2017-10-09 {at}", "attempts": list(attempts), **fields}


@pytest.fixture
def log(tmp_path: Path) -> Any:
    def write(*entries: Any, indent: int | None = 1) -> Path:
        path = tmp_path / "cluster_job_log"
        path.write_text(json.dumps(list(entries), indent=indent))
        return path

    return write


def test_a_job_is_as_long_as_its_attempts_and_as_large_as_the_largest(log: Any, replayed: Any) -> None:
    late = entry("late", attempt("08:00:00", "08:01:00", 8, 4), at="07:30:00")
    again = entry("again", attempt("07:01:00", "07:02:00", 1), attempt("07:10:00", "07:10:30", 2))
    path = log(late, again)
    trace = read_trace(path)
    assert trace.form == "philly"
    assert [(job.name, job.seconds, job.gpus, job.team) for job in trace.jobs] == [
        ("again", 90, 2, "6214e9"),
        ("late", 60, 12, "6214e9"),
    ]
    assert trace.jobs[1].arrival - trace.jobs[0].arrival == 1800
    assert [job.attempts for job in trace.jobs] == [(60, 30), ()]
    done = summarise(replayed(log(again), restart=0))
    assert (done.form, done.total.ended, done.seconds, done.attempts) == ("philly", 1, 90, 1)


def test_what_has_nothing_to_replay_is_counted(log: Any) -> None:
    path = log(
        entry("ran", attempt("07:01:00", "07:02:00", 1)),
        entry("never"),
        entry("not begun", attempt("", None)),
        entry("no gpu", attempt("07:01:00", "07:02:00")),
        entry("no end", attempt("07:01:00", None, 1)),
    )
    trace = read_trace(path)
    assert [job.name for job in trace.jobs] == ["ran"]
    assert [one.reason for one in trace.left_out] == ["it held no GPU"] * 3 + ["its end is not recorded"]
    assert not trace.broken


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (7, "is not a job"),
        (entry("x", at="soon"), "submitted_time"),
        (entry("x", attempt("07:02:00", "07:01:00", 1)), "before it begins"),
        (entry("x", attempt("soon", "07:01:00", 1)), "attempts[0].start_time"),
        (entry("x", {"detail": 3}), "attempts[0]"),
        (entry("x", {"detail": [{"gpus": 3}]}), "list of gpus"),
        (entry("x", attempts=None), "attempts is None"),
        (entry("x", attempt("07:01:00", "07:02:00", 1), vc=5), "vc is 5"),
    ],
)
def test_a_broken_entry_is_told(log: Any, broken: Any, said: str) -> None:
    good = entry("ran", attempt("07:01:00", "07:02:00", 1))
    path = log(good, broken)
    with pytest.raises(InputError) as caught:
        read_trace(path)
    assert said in str(caught.value)
    assert f"{path}:" in str(caught.value)
    trace = read_trace(path, skip_broken=True)
    assert [job.name for job in trace.jobs] == ["ran"]
    assert len(trace.broken) == 1


def test_a_second_list_behind_the_first_is_not_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "cluster_job_log"
    one = json.dumps([entry("a", attempt("07:00:00", "08:00:00", 1))])
    path.write_text(f"{one}\n{one}\n")
    with pytest.raises(
        InputError, match=r"cluster_job_log:2: unexpected text after the list of jobs; expected the end of the file"
    ):
        read_trace(path)
    path.write_text(f"{one}\n\n")
    assert len(read_trace(path).jobs) == 1


def test_lines_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    one = json.dumps(entry("ran", attempt("07:01:00", "07:02:00", 1)))
    path.write_bytes(gzip.compress(f"[\n{one},\n\n{one},\n 5 ]\n".encode()))
    trace = read_trace(path, skip_broken=True)
    assert [job.line for job in trace.jobs] == [2, 4]
    assert [one.line for one in trace.broken] == [5]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[", "Expecting value"),
        ("[{]", "Expecting property name"),
        ("[1 2]", "expected a comma, or the end of the list, after a job"),
        ("[1,", "Expecting value"),
        ("[1,]", "Expecting value"),
        ("[" * 100_000, "it is nested too deeply"),
        ("[" + "9" * 5000 + "]", "a number has too many digits"),
    ],
    ids=range(7),
)
def test_what_is_no_json_is_told_with_its_line(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "log"
    path.write_text("\n" + text)
    with pytest.raises(InputError, match=f"invalid JSON from this line on: {why}") as caught:
        read_trace(path)
    assert caught.value.where.line == 2
