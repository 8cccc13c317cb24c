"""``replay`` on the command line."""

from __future__ import annotations

import csv
import errno
import json
import re
import sys
from pathlib import Path

import pytest
from pyarrow import parquet

from kailab.evidence import store
from kailab.evidence.entries import PodBound
from kailab.replay.accounts import ReplayAccounts
from tests.tables import as_text

TRACE = "name,submit,seconds,gpus,team\na,0,3600,8,blue\nb,60,3600,4,red\nc,120,1800,0.5,red\n"


@pytest.fixture
def trace(home):
    path = home / "trace.csv"
    path.write_text(TRACE)
    return path


def test_times_are_told_to_the_second(kailab, tmp_path) -> None:
    (tmp_path / "two.csv").write_text("submit,seconds,gpus\n0,659,16\n0,659,16\n")
    done = kailab("replay", "two.csv", "--fleet", "lesson")
    assert done.code == 0, done.err
    # The second waits for the first: P99, and what both took in the mean.
    (row,) = [line.split() for line in done.out.splitlines() if line.startswith("trace ")]
    assert row[6:8] == ["10m59s", "16m28s"]


def test_a_replay_tells_waiting_by_queue_and_size(kailab, trace) -> None:
    done = kailab("replay", "trace.csv", "--fleet", "lesson", "--quota-by-share")
    assert done.code == 0, done.err
    assert "3 jobs of trace.csv (csv) on lesson" in done.out
    lines = [line.split() for line in done.out.splitlines()]
    assert ["blue", "1", "1", "1", "0s", "0s", "0s", "1h", "1.0", "0", "8.0", "0.0", "8.0", "8.0", "0.0"] in lines
    assert any(line[:4] == ["part", "of", "a", "GPU"] for line in lines)
    assert "12.250 submitted = 12.250 done" in done.out


def test_unknown_fields_of_queues_are_refused(kailab, trace, home) -> None:
    spec = "{resources: {gpu: {quota: 8, limits: 9}}}"
    queue = "{{apiVersion: scheduling.run.ai/v2, kind: Queue, metadata: {{name: {name}}}, spec: {spec}}}\n"
    (home / "queues.yaml").write_text("---\n".join(queue.format(name=name, spec=spec) for name in ("blue", "red")))
    done = kailab("replay", "trace.csv", "--fleet", "lesson", "--queues", "queues.yaml")
    assert done.code == 2
    assert "error: Queue/blue: spec.resources.gpu.limits: unknown field; did you mean limit?" in done.err


def test_for_programs_and_in_files(kailab, trace, home) -> None:
    done = kailab(
        "replay", "trace.csv", "--fleet", "lesson", "-o", "json", "--jobs", "jobs.csv", "--timeline", "time.csv"
    )
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["total"]["ended"] == 3
    assert found["balance"]["submitted"] == found["balance"]["done"]
    with (home / "jobs.csv").open() as file:
        assert [(row["name"], row["began"], row["ended"]) for row in csv.DictReader(file)] == [
            ("a", "0", "3600"), ("b", "60", "3660"), ("c", "120", "1920"),
        ]  # fmt: skip
    with (home / "time.csv").open() as file:
        assert max(int(row["held_gpu_milli"]) for row in csv.DictReader(file)) == 12_500


def test_what_can_not_be_written_does_not_take_the_result_with_it(kailab, trace, home) -> None:
    (home / "jobs.csv").mkdir()
    done = kailab("replay", "trace.csv", "--fleet", "lesson", "--jobs", "jobs.csv")
    assert done.code == 2
    assert "jobs.csv: can't be written" in done.err
    assert "12.250 submitted = 12.250 done" in done.out
    assert sorted(path.name for path in home.iterdir() if "jobs" in path.name) == ["jobs.csv"]


def test_what_does_not_balance_has_its_tables_marked(kailab, trace, home, monkeypatch) -> None:
    def bound_too_short(self, now):
        self.held_time -= 3_600_000
        return pass_to(self, now)

    pass_to = ReplayAccounts.pass_to
    monkeypatch.setattr(ReplayAccounts, "pass_to", bound_too_short)
    options = ("replay", "trace.csv", "--fleet", "lesson", "--jobs", "jobs.csv", "--timeline", "time.csv")
    done = kailab(*options)
    assert done.code == 1
    assert "error: the replay does not balance: held" in done.err
    assert done.out.startswith("INVALID, the replay does not balance: held")
    assert "QUEUE" in done.out
    assert sorted(path.name for path in home.iterdir() if path.suffix == ".csv") == [
        "jobs.unbalanced.csv", "time.unbalanced.csv", "trace.csv",
    ]  # fmt: skip
    found = json.loads(kailab(*options, "-o", "json").out)
    assert found["faults"][0].startswith("held")


def test_jobs_that_never_begin_are_told_with_their_reason(kailab, trace) -> None:
    trace.write_text(TRACE + "d,130,60,64,red\n")
    done = kailab("replay", "trace.csv", "--fleet", "lesson")
    assert "1 never began" in done.out
    assert "Never began: 1 job, PodSchedulingErrors; d: there is room for " in done.out


def test_evidence_of_it_is_as_that_of_a_test(kailab, trace, home) -> None:
    done = kailab("replay", "trace.csv", "--fleet", "lesson", "--quota-by-share", "--evidence", "kept")
    assert done.code == 0, done.err
    (run,) = (home / "kept").iterdir()
    assert f"kailab report kept/{run.name} --html" in done.err
    assert kailab("evidence", "verify", str(run)).code == 0
    again = kailab("evidence", "replay", str(run))
    assert again.code == 0, again.err
    assert "all decisions are the same" in again.out
    assert store.read_run(run)[0].outcomes == {"replayed": 1}
    bound = [one for one in store.load_test(run, "replay/trace.csv").decisions("lab") if isinstance(one, PodBound)]
    assert len(bound) == 3
    assert kailab("report", str(run), "--html", "page.html").code == 0
    assert (home / "page.html").read_text().startswith("<!doctype html>")


def test_evidence_that_cannot_be_kept_is_refused_before_anything(kailab, trace, home) -> None:
    trace.write_text(TRACE + "".join(f"x{number},{200 + number},60,1,red\n" for number in range(5_000)))
    done = kailab("replay", "trace.csv", "--fleet", "lesson", "--evidence", "kept")
    assert (done.code, done.out) == (2, "")
    assert "--evidence: 5003 jobs arrive; expected at most 5000" in done.err
    assert "--for" in done.err
    (home / "kept").write_text("a file")
    done = kailab("replay", "trace.csv", "--fleet", "lesson", "--for", "3m", "--evidence", "kept")
    assert (done.code, done.out) == (2, "")
    assert "kept is not a folder" in done.err


def test_broken_lines_end_it_unless_told_to_go_on(kailab, trace) -> None:
    trace.write_text(TRACE + "d,200,oops,1,red\n")
    done = kailab("replay", "trace.csv", "--fleet", "lesson")
    assert done.code == 2
    assert "trace.csv:5: seconds is 'oops'; expected a number" in done.err
    done = kailab("replay", "trace.csv", "--fleet", "lesson", "--skip-broken")
    assert done.code == 0
    assert "warning: trace.csv:5: seconds is 'oops'; expected a number" in done.err
    assert "Left out: 1 line: can't be read" in done.out


@pytest.mark.parametrize(
    "options, told",
    [
        (("--one-queue", "--quota-by-share"), "expected at most one of them"),
        (("--arrivals-only", "--checkpoint", "5m"), "jobs never end"),
        (("--for", "0s"), "expected whole seconds, one or more"),
        (("--columns", "submit"), "expected NAME=COLUMN"),
        (("--jobs", "jobs.txt"), "expected a file name that ends in .csv or .parquet"),
        (("--jobs", "nowhere/jobs.csv"), "the folder nowhere does not exist"),
        (("--columns", "submit=submit,submit=seconds"), "submit is declared already; expected each once"),
        (("--jobs", "trace.csv"), "--jobs trace.csv: is the same file as the trace; expected another one"),
        (("--series", "./trace.csv"), "--series trace.csv: is the same file as the trace; expected another one"),
        (("--jobs", "same.csv", "--timeline", "same.csv"), "--timeline same.csv: is the same file as --jobs"),
        (("--resume", "kept.csv", "--jobs", "kept.csv"), "--jobs kept.csv: is the same file as --resume"),
        (("--policy", "trace.csv:Few", "--series", "trace.csv"), "--series trace.csv: is the same file as the trace"),
        (
            ("--policy", "own.py:Few", "--series", "own.py"),
            "--series own.py: is the same file as the policy own.py:Few; expected another one",
        ),
        (("--policy", "random", "--seed", "-3"), "--seed"),
        (("--series", "."), "is a folder; expected a file name"),
        (("--resume", "nowhere/kept"), "--resume nowhere/kept: there is no folder nowhere"),
        (("--format", "nope"), "unknown form of traces 'nope'; expected one of openb, philly, "),
        (("--format", "openb"), "trace.csv:1: the form openb needs the column cpu_milli"),
    ],
)
def test_options_that_can_not_be_are_refused(kailab, trace, options, told) -> None:
    done = kailab("replay", "trace.csv", "--fleet", "lesson", *options)
    assert done.code == 2
    assert told in done.err
    assert trace.read_text() == TRACE
    assert [path.name for path in trace.parent.iterdir() if path.is_file()] == ["trace.csv"]


@pytest.mark.parametrize("option, file", [("--series", "series.om"), ("--plot", "waits.svg"), ("--jobs", "jobs.csv")])
def test_what_can_not_be_written_whole_leaves_what_was_there(
    kailab, trace, home, monkeypatch, option: str, file: str
) -> None:
    (home / file).write_text("from before")

    def full(self: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    done = kailab("replay", "trace.csv", "--fleet", "lesson", option, file)
    assert done.code == 2
    assert f"{file}: can't be written: No space left on device" in done.err
    assert (home / file).read_text() == "from before"


def test_work_without_an_end_asks_for_no_sum(kailab, trace) -> None:
    done = kailab("replay", "trace.csv", "--fleet", "lesson", "--arrivals-only")
    assert done.code == 0, done.err
    assert re.search(r"GPU-hours: (\d\.\d+) done, of work without an end; \1 held = done \+ 0.000 lost", done.out)
    assert "submitted" not in done.out


def test_parquet_has_what_csv_has(kailab, trace, home) -> None:
    for ending in ("csv", "parquet"):
        given = ("--jobs", f"jobs.{ending}", "--timeline", f"timeline.{ending}")
        assert kailab("replay", "trace.csv", "--fleet", "lesson", *given).code == 0
    for table in ("jobs", "timeline"):
        assert as_text(home / f"{table}.parquet") == list(csv.DictReader((home / f"{table}.csv").open()))
    assert str(parquet.read_schema(home / "jobs.parquet").field("waited").type) == "int64"


def test_parquet_without_its_library_is_refused_before_the_replay(kailab, trace, home, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    done = kailab("replay", "trace.csv", "--fleet", "lesson", "--jobs", "jobs.parquet")
    assert done.code == 2
    assert "Parquet needs pyarrow, which is not installed: pip install 'kailab[parquet]'" in done.err
    assert not (home / "jobs.parquet").exists()


def test_nodes_fail_and_restarts_cost(kailab, home) -> None:
    (home / "one.csv").write_text("name,submit,seconds,gpus\na,0,100,8\n")
    (home / "one.yaml").write_text(
        "{apiVersion: kailab.dev/v1, kind: Fleet, name: one, pools: [{name: n, count: 1, gpus: 8, gpuModel: A100, cpu: 64, memory: 256Gi}]}\n"
    )
    (home / "failures.csv").write_text("node,at,seconds\nn-0,50,20\n")
    options = ("replay", "one.csv", "--fleet", "one.yaml", "--failures", "failures.csv")
    done = kailab(*options, "--checkpoint", "10s", "--checkpoint-cost", "5s", "--restart", "3s", "--jobs", "jobs.csv")
    assert done.code == 0, done.err
    assert "Nodes failed 1 time and ended 1 pod of these" in done.out
    # 30 s of work and three saves take 45 s, then 5 s are lost. From 70 s on: 3 s, 70 s of work and six saves.
    (row,) = list(csv.DictReader((home / "jobs.csv").open()))
    assert (row["ended"], row["lost_gpu_milli_seconds"]) == (str(70 + 3 + 70 + 6 * 5), str(8 * 5 * 1000))
    for more, told in (
        (("--checkpoint-cost", "5s"), "--checkpoint-cost: needs --checkpoint"),
        (("--restart", "3s", "--arrivals-only"), "--restart: has no effect with --arrivals-only"),
        (("--restart", "0.5s"), "--restart: 0.5s: expected whole seconds, none or more"),
        (("--seed", "3"), "--seed applies only to the policy random"),
    ):
        refused = kailab(*options, *more)
        assert refused.code == 2
        assert told in refused.err
    assert kailab(*options, "--estimates", "2", "--seed", "3").code == 0
