"""An interrupted replay over several clusters resumes from its resume file and gives the same result."""

from __future__ import annotations

import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from msgspec import to_builtins

from kailab.errors import InputError
from kailab.replay.clusters.cluster_file import SiteDefaults, dispatch_facts, read_sites
from kailab.replay.clusters.dispatcher import dispatch
from kailab.replay.clusters.figures import figures
from kailab.replay.clusters.journeys import cluster_timeline_rows, dispatched_job_rows
from kailab.replay.resume_file import ResumeFile
from kailab.replay.trace import read_trace
from tests.replay.clusters_file import TEAMS, clusters_file
from tests.replay.test_resume_file import COMMAND, Stop


def busy(jobs: int, seed: int = 5) -> list[str]:
    """More than there is room for at home, of two teams, some of it sent elsewhere and taken back."""
    draw = random.Random(seed)
    lines, at = [], 0
    for number in range(jobs):
        at += draw.randrange(25)
        team = draw.choice(["blue", "blue", "red"])
        lines.append(f"j{number},{at},{draw.randrange(20, 500)},{draw.choice([0.5, 1, 2, 4, 6])},{team}")
    return lines


def two(folder: Path, policy: str = "spill-over", **fields) -> Path:
    return clusters_file(
        folder,
        {"name": "west", "nodes": 2, "teams": ["blue"], "per_hour": 2},
        {"name": "east", "nodes": 2, "teams": ["red"], "per_hour": 1, "pay": "held"},
        dispatch={"policy": policy, "again": "40s"} | fields,
        link={"latency": "7s", "gigabitsPerSecond": 1, "perGigabyte": 0.1},
        datasets=[{"name": "images", "size": "5G", "at": ["west"], "teams": ["blue"]}],
        outages=[{"cluster": "east", "from": "100s", "for": "60s"}],
    )


def told(done) -> tuple:
    return to_builtins(figures(done)), list(dispatched_job_rows(done)), list(cluster_timeline_rows(done))


def interrupted(read, path: Path, lasting: int | None, at: list[int]):
    """Asked for an end at those looks in turn; what is read is read anew, as by a process each."""
    for number in at:
        sites, asked = read(), iter([None] * number)
        try:
            return dispatch(
                sites,
                lasting,
                resume_file=ResumeFile(path, dispatch_facts(sites, lasting), lambda asked=asked: next(asked, Stop())),
            )
        except Stop:
            assert path.exists()
    sites = read()
    return dispatch(sites, lasting, resume_file=ResumeFile(path, dispatch_facts(sites, lasting)))


@pytest.mark.parametrize(("policy", "lasting"), [("spill-over", None), ("global-queue", 500)])
def test_interrupted_again_and_again_it_comes_to_the_same(trace_file, tmp_path, policy, lasting) -> None:
    trace, clusters = trace_file(*busy(30), header=TEAMS), two(tmp_path, policy)

    def read():
        return read_sites(clusters, read_trace(trace), SiteDefaults(checkpoint=60, queues="by-share"))

    whole = dispatch(read(), lasting)
    draw = random.Random(3)
    parts = interrupted(read, tmp_path / "kept", lasting, [draw.randrange(12) for _ in range(6)])
    assert told(parts) == told(whole)
    assert figures(whole).away


def test_after_each_look_it_goes_on_the_same(trace_file, tmp_path) -> None:
    trace, clusters = trace_file(*busy(8), header=TEAMS), two(tmp_path)
    looks: list[int] = []

    def read():
        return read_sites(clusters, read_trace(trace), SiteDefaults())

    sites = read()
    whole = dispatch(
        sites,
        None,
        resume_file=ResumeFile(tmp_path / "none", dispatch_facts(sites, None), lambda: looks.append(1), every=9e9),
    )
    assert len(looks) > 10
    parts = interrupted(read, tmp_path / "kept", None, [0] * len(looks))
    assert told(parts) == told(whole)


def test_another_replay_is_refused_by_what_differs(trace_file, tmp_path) -> None:
    lines, path = busy(12), tmp_path / "kept"
    trace = trace_file(*lines, header=TEAMS)

    def read(clusters: Path, **otherwise):
        return read_sites(clusters, read_trace(trace), SiteDefaults(**otherwise))

    sites = read(two(tmp_path))
    with pytest.raises(Stop):
        dispatch(sites, None, resume_file=ResumeFile(path, dispatch_facts(sites, None), lambda: Stop()))
    before = path.read_bytes()
    others = {
        "the queues of cluster west, the queues of cluster east differ": lambda: read(two(tmp_path), queues="by-share"),
        "the dispatch policy differ": lambda: read(two(tmp_path, "most-free")),
        "the file of clusters differ": lambda: read(two(tmp_path, retry="5s")),
        "--for, --checkpoint or --arrivals-only differ": lambda: read(two(tmp_path), checkpoint=30),
    }
    for words, other in others.items():
        sites = other()
        with pytest.raises(InputError, match=re.escape(words)):
            dispatch(sites, None, resume_file=ResumeFile(path, dispatch_facts(sites, None)))
    assert path.read_bytes() == before


@pytest.mark.slow
def test_processes_that_are_killed_are_gone_on_from(trace_file, tmp_path) -> None:
    trace, clusters, kept = trace_file(*busy(150), header=TEAMS), two(tmp_path), tmp_path / "kept"
    command = [sys.executable, "-c", COMMAND, "replay", str(trace), "--clusters", str(clusters), "-o", "json"]
    whole = subprocess.run([*command, "--jobs", str(tmp_path / "whole.csv")], capture_output=True, check=True)
    again = [*command, "--jobs", str(tmp_path / "parts.csv"), "--resume", str(kept)]
    for number in (signal.SIGKILL, signal.SIGTERM):
        at = kept.stat().st_mtime_ns if kept.exists() else 0
        process = subprocess.Popen(again, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while process.poll() is None and (not kept.exists() or kept.stat().st_mtime_ns == at):
            time.sleep(0.01)
        process.send_signal(number)
        _, error = process.communicate()
        if number is signal.SIGTERM and process.returncode:
            assert b"the same command continues it" in error
    done = subprocess.run(again, capture_output=True, check=True)
    assert done.stdout == whole.stdout
    assert (tmp_path / "parts.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert not kept.exists()
