"""An interrupted replay resumes from its resume file and gives the same result as one that was not interrupted."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from msgspec import to_builtins

from kailab.errors import InputError, StateError
from kailab.replay import tables
from kailab.replay.plan import ReplayPlan
from kailab.replay.queues import by_share
from kailab.replay.resume_file import ResumeFile, resume_facts
from kailab.replay.run import replay
from kailab.replay.summary import summarise
from kailab.replay.trace import read_trace

HEADER = "name,submit,seconds,gpus,team"


class Stop(Exception):
    """Somebody asked for an end."""


def busy(jobs: int = 40, seed: int = 7) -> tuple[str, ...]:
    """More jobs than there is room for, of shares, whole GPUs and gangs, of three teams; reclaim and consolidation evict some."""
    draw = random.Random(seed)
    lines, at = [], 0
    for number in range(jobs):
        at += draw.randrange(60)
        lines.append(
            f"j{number},{at},{draw.randrange(20, 900)},{draw.choice([0.5, 1, 1, 2, 4, 6])},team-{draw.randrange(3)}"
        )
    return tuple(lines)


@pytest.fixture
def planned(trace_file, two_nodes):
    """``planned(*lines, **fields of Plan)``"""

    def plan(*lines: str, **fields) -> ReplayPlan:
        trace = read_trace(trace_file(*(lines or busy()), header=HEADER))
        return ReplayPlan(trace=trace, fleet=two_nodes, queues=by_share(trace, 8), **{"checkpoint": 60, **fields})

    return plan


def told(done) -> tuple:
    """All that is told of a replay."""
    return to_builtins(summarise(done)), list(tables.job_rows(done)), list(tables.timeline_rows(done))


def interrupted(plan, path: Path, at: list[int]):
    """The replay, asked for an end at those looks of each process in turn. Stands for a process each: nothing is shared but the file."""
    for number in at:
        asked = iter([None] * number)
        try:
            return replay(
                plan, resume_file=ResumeFile(path, resume_facts(plan), lambda asked=asked: next(asked, Stop()))
            )
        except Stop:
            assert path.exists()
    return replay(plan, resume_file=ResumeFile(path, resume_facts(plan)))


@pytest.mark.slow
@pytest.mark.parametrize("policies", [(), ("tiresias", "backfill")])
def test_interrupted_again_and_again_it_comes_to_the_same(planned, tmp_path, policies) -> None:
    from kailab.replay.policies import with_replay_policies

    plan = planned()
    plan = planned(config=with_replay_policies(None, policies, plan.trace, plan.fleet))
    whole = replay(plan)
    assert whole.accounts.evictions or policies
    draw = random.Random(3)
    parts = interrupted(plan, tmp_path / "kept", [draw.randrange(20) for _ in range(6)])
    assert told(parts) == told(whole)


def test_after_each_look_it_goes_on_the_same(planned, tmp_path) -> None:
    plan = planned(*busy(8, seed=1))
    assert told(interrupted(plan, tmp_path / "kept", [0] * 15)) == told(replay(plan))


def test_cut_off_it_ends_where_it_would_have(planned, tmp_path) -> None:
    plan = planned(lasting=900)
    assert told(interrupted(plan, tmp_path / "kept", [5, 5, 5])) == told(replay(plan))


def test_another_replay_is_refused_by_what_differs(planned, tmp_path) -> None:
    path = tmp_path / "kept"
    with pytest.raises(Stop):
        replay(planned(), resume_file=ResumeFile(path, resume_facts(planned()), lambda: Stop()))
    before = path.read_bytes()
    others = {
        "the trace, the queues differ": planned(*busy(41)),
        "--for, --checkpoint, --arrivals-only, --series or --every differ": planned(lasting=3600),
        "the scheduler's configuration differ": planned(config={"kailab": {"jobOrder": "fifo"}}),
    }
    for words, plan in others.items():
        with pytest.raises(InputError, match=re.escape(words)):
            replay(plan, resume_file=ResumeFile(path, resume_facts(plan)))
    assert path.read_bytes() == before


def test_a_damaged_file_is_told(planned, tmp_path) -> None:
    path, plan = tmp_path / "kept", planned()
    with pytest.raises(Stop):
        replay(plan, resume_file=ResumeFile(path, resume_facts(plan), lambda: Stop()))
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(StateError, match="damaged"):
        replay(plan, resume_file=ResumeFile(path, resume_facts(plan)))
    path.write_text("name,submit\n")
    with pytest.raises(InputError, match="is not a file of a replay"):
        replay(plan, resume_file=ResumeFile(path, resume_facts(plan)))
    assert path.read_text() == "name,submit\n"


COMMAND = """\
import sys
from kailab.replay import resume_file
resume_file.EVERY_SECONDS = 0.1
from kailab.cli.main import main
sys.exit(main())
"""


def command(trace: Path, folder: Path, *more: str) -> list[str]:
    args = ["replay", str(trace), "--fleet", "lesson", "--quota-by-share", "--checkpoint", "1m", "-o", "json"]
    tables_to = ["--jobs", str(folder / "jobs.csv"), "--timeline", str(folder / "timeline.csv")]
    return [sys.executable, "-c", COMMAND, *args, *tables_to, *more]


@pytest.mark.slow
def test_processes_that_are_killed_are_gone_on_from(trace_file, tmp_path) -> None:
    trace, kept = trace_file(*busy(120), header=HEADER), tmp_path / "kept"
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    expected = subprocess.run(command(trace, whole), capture_output=True, check=True)
    draw = random.Random(11)
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
        at = kept.stat().st_mtime_ns if kept.exists() else 0
        process = subprocess.Popen(
            command(trace, parts, "--resume", str(kept)), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        # As soon as it has been kept anew, and a little later.
        while process.poll() is None and (not kept.exists() or kept.stat().st_mtime_ns == at):
            time.sleep(0.01)
        time.sleep(draw.random() * 0.3)
        process.send_signal(number)
        _, error = process.communicate()
        if number is not signal.SIGKILL and process.returncode:
            assert b"the same command continues it" in error
    done = subprocess.run(command(trace, parts, "--resume", str(kept)), capture_output=True, check=True)
    assert done.stdout == expected.stdout
    for name in os.listdir(whole):
        assert (parts / name).read_bytes() == (whole / name).read_bytes()
    assert not kept.exists()
