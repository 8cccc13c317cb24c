"""``replay --clusters`` on the command line."""

from __future__ import annotations

import csv
import json

import pytest

from kailab.evidence import store
from kailab.evidence.entries import PodBound
from tests.replay.clusters_file import clusters_file

TRACE = "name,submit,seconds,gpus,team\na,0,3600,4,blue\nb,60,3600,4,blue\nc,120,1800,0.5,red\n"


@pytest.fixture
def trace(home):
    (home / "trace.csv").write_text(TRACE)
    return clusters_file(
        home,
        {"name": "west", "nodes": 1, "teams": ["blue"], "per_hour": 1},
        {"name": "east", "nodes": 2, "teams": ["red"], "per_hour": 2, "pay": "held"},
        link={"latency": "40ms", "gigabitsPerSecond": 8, "perGigabyte": 0.1},
        datasets=[{"name": "images", "size": "60G", "at": ["west"], "teams": ["blue"]}],
        dispatch={"policy": "spill-over", "parameters": {"bound": 600}},
    )


def test_it_tells_clusters_queues_data_and_cost(kailab, trace) -> None:
    done = kailab("replay", "trace.csv", "--clusters", "clusters.yaml")
    assert done.code == 0, done.err
    assert (
        "3 jobs of trace.csv (csv) over 2 clusters of clusters.yaml, 12 GPUs, dispatched by spill-over, bound 600"
        in done.out
    )
    assert "Sent away from home: 1 job, 4.0 GPU-hours." in done.out
    assert "Data moved: 60 GB, for 6.00 USD" in done.out
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    # b waits 61 s for its data. West is paid for all the time, 3,721 s; east for 4 GPUs for an hour and half a one for half of one.
    assert "west 4 1 1 1 0s 0s 0s 0 1 4.0 96.75% 0 4.13" in lines
    assert "east 8 2 2 2 30s 0s 61s 1 0 4.25 51.40% 60 GB 8.50" in lines
    assert "Cost: 18.63 USD with the moving of data" in done.out


def test_it_tells_of_each_cluster_why_jobs_there_never_began(kailab, trace, home) -> None:
    (home / "trace.csv").write_text(TRACE + "huge,200,60,16,red\n")
    done = kailab("replay", "trace.csv", "--clusters", "clusters.yaml")
    assert done.code == 0, done.err
    (line,) = [line for line in done.out.splitlines() if line.startswith("Never began")]
    assert line.startswith("Never began in east: 1 job, PodSchedulingErrors; huge: there is room for ")
    told = json.loads(kailab("replay", "trace.csv", "--clusters", "clusters.yaml", "-o", "json").out)
    assert [[one["example"] for one in cluster["unbegun"]] for cluster in told["clusters"]] == [[], ["huge"]]


def test_for_programs_and_in_files(kailab, trace, home) -> None:
    given = (
        "replay",
        "trace.csv",
        "--clusters",
        "clusters.yaml",
        "-o",
        "json",
        "--jobs",
        "jobs.csv",
        "--timeline",
        "time.csv",
    )
    done = kailab(*given)
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert (found["away"], found["moved"], found["total"]["ended"]) == (1, 60 * 10**9, 3)
    assert [one["name"] for one in found["clusters"]] == ["west", "east"]
    with (home / "jobs.csv").open() as file:
        rows = [
            (row["name"], row["cluster"], row["way"], row["began"], row["moved_bytes"]) for row in csv.DictReader(file)
        ]
    assert rows == [
        ("a", "west", "0", "0", "0"),
        ("b", "east", "61", "121", "60000000000"),
        ("c", "east", "0", "120", "0"),
    ]
    with (home / "time.csv").open() as file:
        assert {row["cluster"]: row["held_gpu_milli"] for row in csv.DictReader(file)} == {"west": "0", "east": "0"}
    before = (home / "jobs.csv").read_bytes()
    assert kailab(*given).out == done.out
    assert (home / "jobs.csv").read_bytes() == before


def test_another_policy_than_the_files_may_be_named(kailab, trace, home) -> None:
    (home / "mine.py").write_text(
        "from kailab.engine import Dispatch\n\n\nclass Last(Dispatch, frozen=True):\n"
        "    def choose(self, job, clusters):\n        return clusters[-1].name\n"
    )
    for policy, away in (("stay-home", 0), ("mine.py:Last", 2)):
        done = kailab("replay", "trace.csv", "--clusters", "clusters.yaml", "--dispatch", policy, "-o", "json")
        assert done.code == 0, done.err
        assert (json.loads(done.out)["policy"], json.loads(done.out)["away"]) == (policy, away)


@pytest.mark.parametrize(
    "options, told",
    [
        (("--fleet", "lesson", "--clusters", "clusters.yaml"), "--fleet and --clusters: expected exactly one of them"),
        ((), "--fleet and --clusters: expected exactly one of them"),
        (("--fleet", "lesson", "--dispatch", "most-free"), "--dispatch: needs --clusters"),
        (("--clusters", "clusters.yaml", "--plot", "use.svg"), "--plot: can't be used with --clusters"),
        (
            ("--clusters", "clusters.yaml", "--resume", "kept", "--evidence", "e"),
            "--resume does not save recorded evidence",
        ),
        (("--clusters", "clusters.yaml", "--dispatch", "fifo"), "policy 'fifo' is not a dispatch policy"),
        (("--clusters", "clusters.yaml", "--dispatch", "nonsense"), "no policy is called 'nonsense'"),
        (("--clusters", "clusters.yaml", "--seed", "3"), "--seed applies to the policy random"),
        (("--clusters", "nowhere.yaml"), "nowhere.yaml"),
    ],
)
def test_options_that_can_not_be_are_refused(kailab, trace, options, told) -> None:
    done = kailab("replay", "trace.csv", *options)
    assert (done.code, done.out) == (2, "")
    assert told in done.err
    assert "Traceback" not in done.err


def test_evidence_has_the_lab_of_each_cluster(kailab, trace, home) -> None:
    done = kailab("replay", "trace.csv", "--clusters", "clusters.yaml", "--evidence", "kept")
    assert done.code == 0, done.err
    (run,) = (home / "kept").iterdir()
    assert kailab("evidence", "verify", str(run)).code == 0
    again = kailab("evidence", "replay", str(run))
    assert again.code == 0, again.err
    assert "all decisions are the same" in again.out
    one = store.load_test(run, "replay/trace.csv")
    bound = {lab: len([each for each in one.decisions(lab) if isinstance(each, PodBound)]) for lab in ("west", "east")}
    assert bound == {"west": 1, "east": 2}
    assert kailab("report", str(run), "--html", "page.html").code == 0


def test_without_all_prices_there_is_no_cost_of_all(kailab, trace, home) -> None:
    clusters_file(home, {"name": "west", "nodes": 1, "per_hour": 1}, {"name": "east", "nodes": 1}, home="west")
    found = json.loads(kailab("replay", "trace.csv", "--clusters", "clusters.yaml", "-o", "json").out)
    assert found["cost"] is None
    assert [one["cost"] is None for one in found["clusters"]] == [False, True]
