"""Why something waits, on the command line."""

from __future__ import annotations

import json

import pytest

from kailab.cluster.embedded.storage.state_file import PackedSection, read_state, write_state

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


def test_the_cause_alone(busy) -> None:
    """Nothing is tried, so there are no steps; all else is as with them."""
    with_steps, without = (busy("explain", "job", "train", *options, "-o", "json") for options in ((), ("--no-steps",)))
    assert with_steps.code == without.code == 0
    whole, cause = json.loads(with_steps.out), json.loads(without.out)
    assert whole["steps"]
    assert not cause["steps"]
    assert {**whole, "steps": [], "lines": []} == {**cause, "lines": []}


@pytest.mark.parametrize("other", [("--nodes",), ("--evidence", "run/test")])
def test_no_steps_where_none_are_tried_is_refused(busy, other: tuple[str, ...]) -> None:
    done = busy("explain", "job", "train", "--no-steps", *other)
    assert done.code == 2
    assert f"can't be used with {other[0]}" in done.err
