"""What happened to something, on the command line: in the lab, and in evidence alone."""

from __future__ import annotations

import json
from pathlib import Path


def test_of_the_lab(kailab, busy) -> None:
    done = kailab("timeline", "job", "train")
    assert done.code == 0
    title, *lines = done.out.splitlines()
    assert title == "Job default/train, since 2026-01-01T00:00:00Z:"
    assert [line.split("  ")[-1].partition(")")[2].split()[0] for line in lines[:2]] == ["created", "bound"]
    assert "OverLimit" in lines[-1]
    assert kailab("timeline", "lab", "job/train").out == done.out
    assert kailab("timeline").out.startswith("All pods, ")


def test_of_evidence_alone(kailab, busy, home: Path) -> None:
    here = kailab("timeline", "queue", "team-a")
    run = kailab("evidence", "capture").out.strip()
    (home / ".kailab" / "lab.state").unlink()
    for place in (f"{Path(run).name}/lab/by-hand", "lab/by-hand", run, f"{run}/lab/by-hand", f"{run}/lab/by-hand/lab"):
        told = kailab("timeline", place, "queue", "team-a")
        assert (told.code, told.out) == (0, here.out), place
    data = json.loads(kailab("timeline", run, "job", "train", "-o", "json").out)
    assert (data["kind"], data["name"], data["happenings"][0]["what"]) == ("Job", "train", "created")
    assert data["happenings"][0]["time"] == "2026-01-01T00:00:00Z"


def test_what_there_is_not(kailab, busy) -> None:
    for words in (("job", "ghost"), ("job",), ("job/train", "job/other"), ("pods,jobs", "train"), ("ghost/test",)):
        done = kailab("timeline", *words)
        assert (done.code, done.err.startswith("error: ")) == (2, True), words


def test_explained_from_evidence_alone(kailab, busy, home: Path) -> None:
    run = kailab("evidence", "capture").out.strip()
    (home / ".kailab" / "lab.state").unlink()
    done = kailab("explain", "job", "train", "--evidence", run)
    assert done.code == 0
    first, *lines = done.out.splitlines()
    assert first.startswith("Job default/train at the end, 2026-01-01T00:00:")
    assert first.endswith("16 of 20 pods running, 4 wait.")
    assert "OverLimit" in lines[0]
    data = json.loads(kailab("explain", "job", "train", "--evidence", "lab/by-hand", "-o", "json").out)
    assert (data["verdict"], data["steps"], len(data["pending"])) == (None, [], 1)
    for words in (
        ("job", "ghost", "--evidence", run),
        ("job", "--evidence", run),
        ("job", "train", "--evidence", "ghost"),
    ):
        done = kailab("explain", *words)
        assert (done.code, done.err.startswith("error: ")) == (2, True), words
