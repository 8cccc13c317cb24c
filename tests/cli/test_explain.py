"""Why something waits, on the command line."""

from __future__ import annotations

import json

import pytest


def test_a_queue(busy) -> None:
    lines = busy("explain", "queue", "team-a").out.splitlines()
    assert lines[0] == "Queue team-a: quota 8 GPUs, limit 16 GPUs, fair share now 16 GPUs."
    assert any("borrows 8 GPUs" in line for line in lines)


def test_a_workload_is_explained_by_its_podgroups(busy) -> None:
    group = busy("get", "podgroups", "-o", "name").out.strip().partition("/")[2]
    by_job = busy("explain", "job", "train")
    assert by_job.code == 0
    assert by_job.out == busy("explain", "podgroup", group).out
    assert "Why: OverLimit" in by_job.out


def test_a_pod_and_kind_with_name(busy) -> None:
    rows = [line.split() for line in busy("get", "pods", "--no-headers").out.splitlines()]
    waiting = next(row[0] for row in rows if row[2] == "Pending")
    running = next(row[0] for row in rows if row[2] == "Running")
    assert "OverLimit" in busy("explain", f"pod/{waiting}").out
    both = busy("explain", "pod", running, waiting).out
    assert f"Pod default/{running}: Running on " in both
    assert f"Pod default/{waiting}: Pending" in both


def test_for_programs(busy) -> None:
    data = json.loads(busy("explain", "queue", "team-a", "-o", "json").out)
    assert data["allocated"] == 16000
    assert data["borrowed"] == 8000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("pod", "ghost"), "ghost"),
        (("queue", "ghost"), "ghost"),
        (("job", "ghost"), "ghost"),
        (("queue",), "say which"),
        (("node", "a100-0"), "can't be explained"),
        (("ghost", "x"), "no kind"),
    ],
)
def test_what_can_not_be_explained(busy, arguments: tuple[str, ...], said: str) -> None:
    done = busy("explain", *arguments)
    assert done.code == 2
    assert said in done.err
