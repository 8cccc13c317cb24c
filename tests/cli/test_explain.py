"""Why something waits, on the command line."""

from __future__ import annotations

import json
import os
import pty
import signal
import sys
from collections.abc import Callable
from typing import Any

import pytest

from kailab.cli import terminal
from kailab.cluster.embedded.storage.state_file import PackedSection, read_state, write_state
from kailab.explain import pending_work, step_search

API = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: api}
spec:
  replicas: 12
  selector: {matchLabels: {app: api}}
  template:
    metadata: {labels: {app: api, kai.scheduler/queue: team-a}}
    spec:
      schedulerName: kai-scheduler
      containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 8}}}]
"""


def test_a_queue(busy) -> None:
    lines = busy("explain", "queue", "team-a").out.splitlines()
    assert lines[0] == "Queue team-a: quota 8 GPUs, limit 16 GPUs, fair share now 16 GPUs."
    assert any("borrows 8 GPUs" in line for line in lines)


def test_a_workload(busy) -> None:
    told = busy("explain", "job", "train")
    assert told.code == 0
    assert told.out.startswith("Job default/train: 16 of 20 pods running")
    assert "OverLimit" in told.out


def test_pods_of_a_deployment_that_wait_for_one_reason_are_told_once(busy, tmp_path) -> None:
    (tmp_path / "api.yaml").write_text(API.replace("replicas: 12", "replicas: 32"))
    busy("apply", "-f", str(tmp_path / "api.yaml"))
    told = busy("explain", "deployment", "api").out
    assert told.count("Why: ") == 1
    assert len(told.splitlines()) <= 20
    as_data = json.loads(busy("explain", "deployment", "api", "-o", "json").out)
    assert (as_data["kind"], as_data["wanted"], len(as_data["podgroups"])) == ("Deployment", 32, 32)


def test_a_look_at_a_saved_lab_tells_what_the_lab_told(busy, home, tmp_path) -> None:
    """The costly parts of a picture are kept with the lab; without them it is made anew, and says the same."""
    (tmp_path / "api.yaml").write_text(API)
    busy("apply", "-f", str(tmp_path / "api.yaml"))
    asked = [
        ("status",),
        ("explain", "queue", "team-a"),
        ("explain", "job", "train"),
        ("explain", "deployment", "api"),
        ("get", "queues"),
        ("get", "nodes"),
    ]
    kept = [busy(*words).out for words in asked]
    path = home / ".kailab" / "lab.state"
    state = read_state(path)
    assert state.pop("looks")
    write_state(path, {**{name: _unpacked(part) for name, part in state.items()}})
    assert [busy(*words).out for words in asked] == kept


def _unpacked(section):
    return (
        {key: part.unpack() if isinstance(part, PackedSection) else part for key, part in section.items()}
        if isinstance(section, dict)
        else section
    )


def test_a_name_without_its_kind_is_answered_with_what_to_type(busy) -> None:
    done = busy("explain", "train")
    assert done.code == 2
    assert "did you mean `kailab explain job train`?" in done.err


def test_an_answer_changes_nothing(busy, state) -> None:
    before = state.read_bytes()
    assert busy("explain", "job", "train").code == 0
    assert state.read_bytes() == before


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
        (("queue",), "no Queue is named"),
        (("node", "a100-0"), "can't be explained"),
        (("ghost", "x"), "no kind"),
    ],
)
def test_what_can_not_be_explained(busy, arguments: tuple[str, ...], said: str) -> None:
    done = busy("explain", *arguments)
    assert done.code == 2
    assert said in done.err


@pytest.mark.parametrize("kind", ["job", "pod"])
def test_an_object_of_another_namespace_is_named_with_its_namespace(busy, tmp_path, kind: str) -> None:
    space = "{apiVersion: v1, kind: Namespace, metadata: {name: research}}\n---\n"
    pod = "{schedulerName: kai-scheduler, restartPolicy: Never, containers: [{name: main, image: x}]}"
    work = {
        "job": f"{{apiVersion: batch/v1, kind: Job, metadata: {{name: x, namespace: research}}, spec: {{template: {{spec: {pod}}}}}}}",
        "pod": f"{{apiVersion: v1, kind: Pod, metadata: {{name: x, namespace: research}}, spec: {pod}}}",
    }
    (tmp_path / "x.yaml").write_text(space + work[kind])
    assert busy("apply", "-f", str(tmp_path / "x.yaml")).code == 0
    done = busy("explain", kind, "x")
    assert done.code == 2
    assert "there is one in namespace research: add -n research" in done.err


def test_work_whose_object_is_not_in_the_files_is_found_by_its_podgroup(busy, home) -> None:
    (home / "files.yaml").write_text(busy("get", "nodes,queues,pods,podgroups", "-A", "-o", "yaml").out)
    assert busy("open", "files.yaml", "--fresh").code == 0
    said = busy("explain", "job", "train").err
    assert "its PodGroup is there: kailab explain podgroup " in said
    command = said.partition("is there: kailab ")[2].split()
    assert busy(*command).out.startswith("PodGroup default/")


def test_the_cause_alone(busy) -> None:
    """Nothing is tried, so there are no steps and no forecast; all else is as with them."""
    with_steps, without = (busy("explain", "job", "train", *options, "-o", "json") for options in ((), ("--no-steps",)))
    assert with_steps.code == without.code == 0
    whole, cause = json.loads(with_steps.out), json.loads(without.out)
    assert whole["steps"]
    assert not cause["steps"]
    assert {**whole, "steps": [], "forecast": None, "lines": []} == {**cause, "lines": []}


@pytest.mark.parametrize("other", [("--nodes",), ("--evidence", "run/test")])
def test_no_steps_where_none_are_tried_is_refused(busy, other: tuple[str, ...]) -> None:
    done = busy("explain", "job", "train", "--no-steps", *other)
    assert done.code == 2
    assert f"can't be used with {other[0]}" in done.err


def _in_the_first_trial(monkeypatch: pytest.MonkeyPatch, then: Callable[[], None]) -> None:
    """Do something in the first trial."""
    original, called = step_search.StepTries.carry_out, False

    def carry_out(self: step_search.StepTries, *arguments: Any) -> None:
        nonlocal called
        if not called:
            called = True
            then()
        original(self, *arguments)

    monkeypatch.setattr(step_search.StepTries, "carry_out", carry_out)


def test_the_cause_is_printed_before_a_step_is_tried(busy, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    seen: list[list[str]] = []
    original = terminal.say

    def say(text: str) -> None:
        said.extend(text.splitlines())
        original(text)

    monkeypatch.setattr(terminal, "say", say)
    _in_the_first_trial(monkeypatch, lambda: seen.append([*said]))
    done = busy("explain", "job", "train")
    (first,) = seen
    assert first[0].startswith("Job default/train: 16 of 20 pods running")
    assert any(line.startswith("Why: OverLimit") for line in first)
    assert not any(line.startswith("To let it run") for line in first)
    assert done.out.splitlines() == said
    assert done.err == ""


def test_ctrl_c_during_the_steps_keeps_the_answer(busy, monkeypatch: pytest.MonkeyPatch) -> None:
    _in_the_first_trial(monkeypatch, lambda: signal.raise_signal(signal.SIGINT))
    done = busy("explain", "job", "train")
    assert done.code == 130
    assert "Why: OverLimit" in done.out
    assert done.out.splitlines()[-1].startswith("0 of ")
    assert done.out.splitlines()[-1].endswith(" before the interrupt.")
    assert "interrupted" in done.err


def test_ctrl_c_during_the_steps_keeps_the_answer_for_programs(busy, monkeypatch: pytest.MonkeyPatch) -> None:
    _in_the_first_trial(monkeypatch, lambda: signal.raise_signal(signal.SIGINT))
    done = busy("explain", "job/train", "queue/team-a", "-o", "json")
    assert done.code == 130
    (answer,) = json.loads(done.out)
    assert (answer["name"], answer["cause"]["code"]) == ("train", "OverLimit")
    assert answer["steps_incomplete"]["reason"] == "interrupted"


def test_ctrl_c_before_the_cause_is_known_prints_nothing(busy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_work, "pending_causes", lambda state: signal.raise_signal(signal.SIGINT))
    done = busy("explain", "job", "train")
    assert (done.code, done.out) == (130, "")


def test_time_that_is_over_is_said(busy) -> None:
    done = busy("explain", "job", "train", "--timeout", "1ns")
    assert done.code == 0
    assert "Why: OverLimit" in done.out
    assert "proposals were tried within 0s of processor time; --timeout 1m tries more." in done.out
    data = json.loads(busy("explain", "job", "train", "--timeout", "1ns", "-o", "json").out)
    assert data["steps"] == []
    assert data["steps_incomplete"]["reason"] == "timeout"


@pytest.mark.parametrize("none", ["0", "0s", "none"])
def test_without_a_limit_all_is_tried(busy, none: str) -> None:
    data = json.loads(busy("explain", "job", "train", "--timeout", none, "-o", "json").out)
    assert data["steps"]
    assert data["steps_incomplete"] is None


@pytest.mark.parametrize("bad", ["soon", "-5s", "20", "inf", "nan", ""])
def test_a_timeout_that_is_no_duration_is_refused(busy, bad: str) -> None:
    done = busy("explain", "job", "train", f"--timeout={bad}")
    assert (done.code, done.out) == (2, "")
    assert "--timeout: " in done.err
    assert "0 or none: no limit" in done.err


@pytest.mark.parametrize("other", [("--no-steps",), ("--nodes",), ("--evidence", "run/test")])
def test_a_timeout_where_nothing_is_tried_is_refused(busy, other: tuple[str, ...]) -> None:
    done = busy("explain", "job", "train", "--timeout", "5s", *other)
    assert done.code == 2
    assert f"--timeout can't be used with {other[0]}" in done.err


def test_several_answers_are_parted_by_an_empty_line(busy) -> None:
    both = busy("explain", "job/train", "queue/team-a").out
    one, other = (busy("explain", *words).out for words in (("job", "train"), ("queue", "team-a")))
    assert both == f"{one}\n{other}"


def test_progress_on_a_terminal_is_escaped_and_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    leader, end = pty.openpty()
    with os.fdopen(end, "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setenv("TERM", "xterm")
        line = terminal.ProgressLine()
        line.show("trying step 1 of 3: \x1b]0;title\x07")
        line.clear()
        shown = b""
        while shown.count(b"\r\x1b[K") < 2:
            shown += os.read(leader, 4096)
    os.close(leader)
    assert b"trying step 1 of 3" in shown
    assert b"\x1b]0" not in shown
    assert shown.endswith(b"\r\x1b[K")
