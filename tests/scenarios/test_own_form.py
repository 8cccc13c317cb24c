"""Scenarios written by users: YAML, manifests beside them, expectations of apps and queues."""

from __future__ import annotations

from pathlib import Path

import pytest

from kailab.errors import InputError
from kailab.lab import Lab
from kailab.scenarios.running import ORPHANED_SECONDS, orphaned, run_scenario
from kailab.scenarios.scenario import read_scenarios

MANIFESTS = Path(__file__).parents[2] / "exercises" / "reclaim" / "manifests"

OWNER_RETURNS = """\
name: the-owner-returns
steps:
- apply: [queues.yaml, borrower.yaml]
  expect:
    queues: {team-a: {gpus: 32}, team-b: {gpus: 0}}
- apply: [owner.yaml]
  expect:
    queues: {team-a: {gpus: 16}, team-b: {gpus: 16}}
---
name: the-borrower-goes
steps:
- apply: [queues.yaml, borrower.yaml]
- delete: {kind: Job, name: missing}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("queues.yaml", "borrower.yaml", "owner.yaml"):
        (tmp_path / name).write_text((MANIFESTS / name).read_text())
    return tmp_path


def written(folder: Path, text: str) -> Path:
    file = folder / "returning.yaml"
    file.write_text(text)
    return file


def test_steps_of_files_with_what_queues_hold(folder: Path) -> None:
    returns, goes = read_scenarios([written(folder, OWNER_RETURNS)])
    assert (returns.id, returns.fleet) == ("returning/the-owner-returns", "lesson")
    assert run_scenario(returns).differences == ()
    assert run_scenario(goes).stopped.startswith("step 2: stopped: Job 'missing' not found")


def test_what_does_not_hold_is_told(folder: Path) -> None:
    text = OWNER_RETURNS.replace("team-b: {gpus: 16}", "team-b: {gpus: 12}")
    (difference,) = run_scenario(read_scenarios([written(folder, text)])[0]).differences
    assert difference.startswith("step 2: queue team-b: ")
    assert difference.endswith("expected 12 GPUs running")


def test_scheduler_is_the_one_that_is_asked_for(folder: Path) -> None:
    """kube-scheduler takes nothing back: the owner's pods wait."""
    ran = run_scenario(read_scenarios([written(folder, OWNER_RETURNS)])[0], "kube-scheduler")
    assert len(ran.differences) == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name: a\nsteps:\n- aply: [queues.yaml]\n", r"returning.yaml:3: scenario a: steps\[0\].aply: unknown field; did you mean apply"),
        ("name: a\nsteps:\n- apply: [nowhere.yaml]\n", r"returning.yaml:3: .*steps\[0\].apply\[0\]: no file 'nowhere.yaml'"),
        ("name: a\nsteps: []\n", r"returning.yaml:2: scenario a: steps: is empty"),
        ("name: a b\nsteps:\n- advance: 1s\n", r"returning.yaml:1: .*name: 'a b' is not valid; expected letters, digits"),
        ("name: a\nsteps:\n- advance: soon\n", r"returning.yaml:3: .*advance: 'soon' is not a duration"),
        ("name: a\nsteps:\n- expect: {apps: {x: {Running: -1}}}\n", r"apps.x.Running: -1 is too small; expected 0 or more"),
        ("name: a\nsteps:\n- {}\n---\nname: a\nsteps:\n- {}\n", "two scenarios are named 'a'"),
        ("", "the file has no scenario"),
        ("name: [", "returning.yaml:.*not valid YAML"),
    ],
)  # fmt: skip
def test_faults_say_file_line_and_field(folder: Path, text: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        read_scenarios([written(folder, text)])


def test_all_faults_are_told_at_once(folder: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_scenarios([written(folder, "name: a\nfleet: 3\nsteps:\n- advance: 5\n")])
    assert len(str(caught.value).splitlines()) == 2


POD = "apiVersion: v1, kind: Pod"
GPU = (
    "spec: {schedulerName: kai-scheduler, containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]}"
)
CHANGES = f"""\
name: one-is-done
steps:
- apply:
  - queues.yaml
  - {{{POD}, metadata: {{name: one, labels: {{app: one, kai.scheduler/queue: team-a}}}}, {GPU}}}
- end: one
  expect:
    apps: {{one: {{Running: 0, Succeeded: 1}}}}
    queues: {{team-a: {{gpus: 0}}}}
- patch: {{kind: Queue, name: team-a, patch: {{spec: {{resources: {{gpu: {{limit: 0}}}}}}}}}}
- apply:
  - {{{POD}, metadata: {{name: two, labels: {{app: two, kai.scheduler/queue: team-a}}}}, {GPU}}}
  expect:
    apps: {{two: {{Running: 0, Pending: 1}}}}
"""


def test_pods_of_an_app_complete_and_objects_are_patched(folder: Path) -> None:
    (scenario,) = read_scenarios([written(folder, CHANGES)])
    assert run_scenario(scenario).differences == ()


@pytest.mark.parametrize(("node", "phase", "seconds"), [
    ("gone", "Running", ORPHANED_SECONDS), ("gone", "Succeeded", 0.0), ("", "Pending", 0.0),
])  # fmt: skip
def test_only_living_pods_of_a_missing_node_are_waited_for(node: str, phase: str, seconds: float) -> None:
    spec = {"containers": [{"name": "main", "image": "pause"}], **({"nodeName": node} if node else {})}
    with Lab.open() as lab:
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one", "namespace": "default"}, "spec": spec}
        lab.cluster.create(pod)
        lab.cluster.patch("Pod", "one", "default", {"status": {"phase": phase}}, "status")
        assert orphaned(lab.cluster) == seconds
