"""A lab over several commands: up, status, run, down."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kailab.cluster.embedded.storage.state_file import StateLock
from kailab.course.lesson import LESSONS
from kailab.lab import lab_files


def test_a_lab_comes_up_and_goes_down(kailab, state: Path) -> None:
    up = kailab("up")
    assert up.code == 0
    assert up.out == "The lab is up: fleet lesson (32 GPUs on 5 nodes), scheduler kailab\n"
    assert state.exists()
    assert kailab("down").out == "The lab is down.\n"
    assert not state.exists()


def test_down_twice_is_no_error(kailab) -> None:
    done = kailab("down")
    assert (done.code, done.out) == (0, "")
    assert "no lab is up" in done.err


def test_a_file_that_is_no_labs_is_never_deleted(kailab, home: Path) -> None:
    (home / "notes.txt").write_text("mine")
    for command in (("down",), ("up", "--fresh")):
        done = kailab(*command, "--state", "notes.txt")
        assert done.code == 2
        assert "notes.txt: not a state file of kailab" in done.err
    assert (home / "notes.txt").read_text() == "mine"


def test_up_again_changes_nothing(busy, state: Path) -> None:
    before = state.read_bytes()
    again = busy("up")
    assert again.code == 0
    assert "up already" in again.err
    assert state.read_bytes() == before


@pytest.mark.parametrize("other", [("--scheduler", "kube-scheduler"), ("--fleet", "hundred")])
def test_up_with_another_lab_there_is_refused(busy, state: Path, other: tuple[str, str]) -> None:
    before = state.read_bytes()
    refused = busy("up", *other)
    assert refused.code == 2
    assert "kailab down" in refused.err
    assert state.read_bytes() == before


def test_up_fresh_begins_anew(busy) -> None:
    assert busy("up", "--fresh", "--fleet", "hundred").code == 0
    assert busy("get", "pods").err == "No resources found in default namespace.\n"
    assert json.loads(busy("status", "-o", "json").out)["gpus"] == 100


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--fleet", "no-such"), "no fleet is called 'no-such'"),
        (("--fleet", "./no-such.yaml"), "no-such.yaml"),
        (("--scheduler", "chance"), "there is no scheduler 'chance'"),
        (("--backend", "cloud"), "there is no backend 'cloud'"),
        (("--config", "no-such.yaml"), "no-such.yaml"),
    ],
)
def test_up_with_what_there_is_not(kailab, state: Path, arguments: tuple[str, str], said: str) -> None:
    refused = kailab("up", *arguments)
    assert refused.code == 2
    assert said in refused.err
    assert not state.exists()


def test_the_state_can_be_anywhere(kailab, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kailab("up", "--state", "deep/er/a.state").code == 0
    assert (home / "deep/er/a.state").exists()
    monkeypatch.setenv("KAILAB_STATE", "deep/er/a.state")
    assert kailab("status").out.startswith("Lab        deep/er/a.state\n")


def test_the_scheduler_configuration_is_kept(kailab, home: Path) -> None:
    (home / "scheduler.yaml").write_text('actions: "allocate"\n')
    assert kailab("up", "--config", "scheduler.yaml").code == 0
    assert kailab("up", "--config", "scheduler.yaml").code == 0
    assert kailab("up").code == 2


def test_status_sums_up(busy) -> None:
    assert busy("status").out.splitlines() == [
        "Lab        .kailab/lab.state",
        "Backend    embedded",
        "Fleet      lesson: 5 nodes, 32 GPUs",
        "Scheduler  kailab",
        "Lab time   2026-01-01T00:00:01Z (1s old)",
        "GPUs       16 of 32 in use",
        "Queues     1",
        "Pods       4 Pending, 16 Running",
        "Waiting    1 OverLimit",
        "",
        "MODEL   NODES   GPUS   IN-USE   FREE   CLOSED   WAITING-FOR-IT",
        "A100    2       16     8        8      0        0",
        "H100    1       8      0        8      0        0",
        "L40S    2       8      8        0      0        0",
    ]
    data = json.loads(busy("status", "-o", "json").out)
    assert data["gpus_in_use"] == 16
    assert data["pods"] == {"Pending": 4, "Running": 16}


def test_time_passes_on_demand_only(started) -> None:
    assert "(0s old)" in started("status").out
    ran = started("run", "--for", "1h30m")
    assert ran.out == "ran for 1h30m of lab time: no pods (the lab is 1h30m old)\n"
    assert "01:30:00Z (1h30m old)" in started("status").out


def test_a_run_that_takes_longer_than_asked_for_says_why(started) -> None:
    """Pods of a node that fell silent are evicted after five minutes, and their Job makes others after its back-off."""
    lesson = LESSONS / "nodefailure"
    assert started("apply", "-f", str(lesson / "queues.yaml"), "-f", str(lesson / "train.yaml")).code == 0
    assert started("fail", "a100-0").code == 0
    ran = started("run", "--for", "4m")
    assert "longer than asked for" not in ran.err
    ran = started("run", "--for", "2m")
    assert ran.out.startswith("ran for 11m")
    assert "longer than asked for: something was under way at the end" in ran.err


def test_run_times_end_while_time_passes(started) -> None:
    pod = """
apiVersion: v1
kind: Pod
metadata: {name: short, annotations: {kailab.dev/run-seconds: "600"}, labels: {kai.scheduler/queue: q}}
spec:
  schedulerName: kai-scheduler
  restartPolicy: Never
  tolerations: [{operator: Exists}]
  containers: [{name: main, image: x, resources: {limits: {nvidia.com/gpu: 1}}}]
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: q}
spec: {resources: {gpu: {quota: 1, limit: -1}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}
"""
    assert "1 pod running" in started("apply", "-f", "-", input=pod).err
    assert "1 pod running" in started("run", "--for", "5m").out
    assert "1 pod succeeded" in started("run", "--for", "5m1s").out


@pytest.mark.parametrize("duration", ["soon", "-5m", "1x", "5", "99999999999999w"])
def test_a_duration_that_is_none(started, state: Path, duration: str) -> None:
    before = state.read_bytes()
    refused = started("run", "--for", duration)
    assert refused.code == 2
    assert "--for" in refused.err
    assert state.read_bytes() == before


@pytest.mark.parametrize("damage", [b"", b"not a state", b"{}\n", None])
def test_a_damaged_state_is_told(busy, state: Path, damage: bytes | None) -> None:
    whole = state.read_bytes()
    state.write_bytes(whole[:-7] if damage is None else damage)
    for command in (("status",), ("get", "pods"), ("apply", "-f", "work.yaml"), ("run", "--for", "1s"), ("up",)):
        refused = busy(*command)
        assert refused.code == 2, command
        assert refused.err.startswith("error: .kailab/lab.state: ")
        assert "Traceback" not in refused.err
    assert busy("down").code == 0
    assert busy("up").code == 0


def test_without_a_lab_commands_say_how_to_begin(kailab) -> None:
    for command in (("status",), ("get", "pods"), ("run",), ("explain", "pod", "x"), ("delete", "pod", "x")):
        refused = kailab(*command)
        assert refused.code == 2
        assert "kailab up" in refused.err


def test_a_lab_in_use_is_waited_for_and_then_refused(busy, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab_files, "PATIENCE_SECONDS", 0.25)
    before = state.read_bytes()
    with StateLock(state):
        refused = busy("delete", "job", "train")
        assert busy("get", "jobs").code == 0  # looking needs no lock
    assert refused.code == 2
    assert "in use by process" in refused.err
    assert state.read_bytes() == before


def test_a_lab_in_use_for_a_moment_only(busy, process, state: Path) -> None:
    with StateLock(state):
        waiting = process("delete", "job", "train")
        told = waiting.stderr.readline().decode()
    _, more = waiting.communicate(timeout=600)
    assert "in use" in told
    assert waiting.returncode == 0, more


def test_a_lab_that_can_not_be_locked_is_told_at_once(kailab, home: Path) -> None:
    (home / ".kailab").write_text("a file in the way")
    refused = kailab("up")
    assert refused.code == 2
    assert "can't be locked" in refused.err


def test_what_killed_commands_left_is_cleared(busy, state: Path) -> None:
    left = state.with_name(".partial-12345-lab.state")
    left.write_bytes(b"half")
    assert busy("run", "--for", "1s").code == 0
    assert not left.exists()


def test_separate_commands_lead_where_one_lab_would(busy, home: Path) -> None:
    """Resuming changes nothing: the same steps in one process give the same objects."""
    from kailab.lab import Lab

    assert busy("run", "--for", "10m").code == 0
    resumed = json.loads(busy("get", "pods", "-o", "json").out)["items"]
    with Lab.open("lesson") as lab:
        lab.settle()
        lab.apply(home / "work.yaml")
        lab.settle()
        lab.advance(600)
        lab.settle()
        assert [pod["metadata"]["name"] for pod in lab.get("Pod")] == [pod["metadata"]["name"] for pod in resumed]
        assert [pod["spec"] for pod in lab.get("Pod")] == [pod["spec"] for pod in resumed]
        assert [pod["status"] for pod in lab.get("Pod")] == [pod["status"] for pod in resumed]
