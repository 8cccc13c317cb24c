"""What a reader of allure's report sees: real result files, of pytest run within pytest."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kailab.pytest_plugin.allure_results import attach_evidence

QUEUES = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team-a}
spec:
  resources:
    gpu: {quota: 8, limit: 8, overQuotaWeight: 1}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: one, labels: {app: one, kai.scheduler/queue: team-a}}
spec:
  schedulerName: kai-scheduler
  containers:
  - {name: c, image: 'https://me:zQimage77@host/img', args: ['--token=zQargs7777'], resources: {limits: {nvidia.com/gpu: 1}},
     env: [{name: A, value: zQenv77777}]}
"""
TESTS = '''
"""A limit is a wall. It holds for all.

More of it.
"""
import allure
import pytest
from kailab.lab import eventually, expect

def test_it_holds(lab):
    """One pod runs: the limit leaves room."""
    lab.apply("queues.yaml", "pod.yaml")
    expect(lab.queue("team-a")).running(gpus=1).no_pending()
    lab.advance(60)
    eventually(lambda: expect(lab.app("one")).running(pods=1), within=60)
    lab.delete("pod", "one")

def test_that_fails(lab):
    lab.apply("queues.yaml", "pod.yaml")
    expect(lab.queue("team-a")).running(gpus=7)

def test_what_is_refused(lab):
    """A pod that is none."""
    with pytest.raises(Exception):
        lab.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": "zQenv77777"})

@allure.epic("mine")
@allure.story("my story")
def test_with_words_of_its_own(lab, baseline_lab):
    with allure.step("both get their queue"):
        lab.apply("queues.yaml")
        baseline_lab.apply("queues.yaml")

def test_without_a_lab():
    pass

def test_that_quotes_secrets(lab):
    lab.apply("queues.yaml", "pod.yaml")
    lab.settle()
    lab.patch("pod", "one", {"metadata": {"annotations": {"said": "zQargs7777"}}})
    pod = lab.get("Pod", "one")
    lab.cluster.event(pod, "Warning", "Denied", "denied: A=zQenv77777")
    expect(lab.app("one")).says("zQargs7777")
'''


@dataclass
class Report:
    """The folder of results."""

    folder: Path

    def result(self, test: str) -> dict[str, Any]:
        found = [json.loads(path.read_text()) for path in self.folder.glob("*-result.json")]
        (one,) = [each for each in found if each["fullName"].endswith(f"#{test}")]
        return one

    def labels(self, test: str) -> dict[str, list[str]]:
        told: dict[str, list[str]] = {}
        for label in self.result(test)["labels"]:
            told.setdefault(label["name"], []).append(label["value"])
        return told

    def steps(self, test: str) -> list[tuple[str, str]]:
        return [(step["name"], step["status"]) for step in self.result(test).get("steps", ())]


def run(folder: Path, *options: str) -> Report:
    exercise = folder / "exercises" / "limit"
    exercise.mkdir(parents=True)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider --import-mode=importlib\n")
    (exercise / "queues.yaml").write_text(QUEUES)
    (exercise / "pod.yaml").write_text(POD)
    (exercise / "README.md").write_text("# Limit: a wall\n\nText.\n")
    (exercise / "test_limit.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "--alluredir", "allure", "--junitxml", "junit.xml", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert "2 failed, 4 passed" in done.stdout, done.stdout + done.stderr
    return Report(folder / "allure")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return run(tmp_path_factory.mktemp("allure"))


def test_where_a_test_belongs(report: Report) -> None:
    labels = report.labels("test_it_holds")
    assert labels["epic"] == ["Limit: a wall"]
    assert labels["feature"] == ["A limit is a wall. It holds for all"]
    assert labels["story"] == ["One pod runs: the limit leaves room."]
    assert report.labels("test_that_fails")["story"] == ["that fails"]
    assert "epic" not in report.labels("test_without_a_lab")


def test_what_a_test_says_by_allure_itself_stays(report: Report) -> None:
    labels = report.labels("test_with_words_of_its_own")
    assert (labels["epic"], labels["story"]) == (["mine"], ["my story"])
    assert labels["feature"] == ["A limit is a wall. It holds for all"]


def test_each_thing_done_and_expected_is_a_step(report: Report) -> None:
    assert report.steps("test_it_holds") == [
        ("apply queues.yaml, pod.yaml: 1 Queue created, 1 Pod created", "passed"),
        ("expect queue team-a: 1 GPU running", "passed"),
        ("expect queue team-a: nothing pending", "passed"),
        ("advance 60 s", "passed"),
        ("expect eventually, within 60 s: app one: 1 pod running", "passed"),
        ("delete Pod/one", "passed"),
    ]
    told = [
        {one["name"]: one["value"] for one in step["parameters"]} for step in report.result("test_it_holds")["steps"]
    ]
    assert told[0] == {"lab": "lab", "at": "0 s", "namespace": "default"}
    assert told[1]["seen"] == "1 Running (1 GPU)"
    # Time passed between them.
    assert told[4]["at"] != told[1]["at"]


def test_what_does_not_hold_is_told_in_its_step(report: Report) -> None:
    applied, expected = report.result("test_that_fails")["steps"]
    assert applied["status"] == "passed"
    assert (expected["name"], expected["status"]) == ("expect queue team-a: 7 GPUs running", "failed")
    assert "seen: 1 Running (1 GPU)" in expected["statusDetails"]["message"]
    assert report.steps("test_what_is_refused") == [("refused", "broken")]


def test_steps_stand_inside_those_of_the_test(report: Report) -> None:
    (own,) = report.result("test_with_words_of_its_own")["steps"]
    assert own["name"] == "both get their queue"
    labs = [next(one["value"] for one in step["parameters"] if one["name"] == "lab") for step in own["steps"]]
    assert labs == ["lab", "baseline"]


def test_evidence_is_attached_to_the_test_and_can_be_opened(report: Report) -> None:
    result = report.result("test_that_fails")
    attached = {one["name"]: one for one in result["attachments"]}
    assert {"lab/timeline.txt", "lab/decisions.jsonl", "lab/manifests/01-queues.yaml"} <= attached.keys()
    assert "apply queues.yaml" in (report.folder / attached["lab/timeline.txt"]["source"]).read_text()
    assert attached["lab/manifests/01-queues.yaml"]["source"].endswith(".yaml")
    for container in report.folder.glob("*-container.json"):
        told = json.loads(container.read_text())
        for fixture in (*told.get("befores", ()), *told.get("afters", ())):
            assert not fixture.get("attachments"), fixture
            assert not fixture.get("steps"), fixture


def test_the_report_says_where_the_tests_ran(report: Report) -> None:
    lines = (report.folder / "environment.properties").read_text().splitlines()
    assert {"backend=embedded", "scheduler=kailab", "fleet=lesson"} <= set(lines)


def test_secrets_are_nowhere(report: Report) -> None:
    files = [path for path in report.folder.iterdir() if path.is_file()]
    assert len(files) > 10
    for path in [*files, report.folder.parent / "junit.xml"]:
        content = path.read_bytes()
        for secret in (b"zQenv77777", b"zQargs7777", b"zQimage77"):
            assert secret not in content, f"{secret!r} in {path.name}"


@pytest.mark.slow
def test_workers_report_the_same(tmp_path: Path, report: Report) -> None:
    beside = run(tmp_path, "-n", "2")
    for test in ("test_it_holds", "test_that_fails", "test_with_words_of_its_own"):
        assert beside.steps(test) == report.steps(test)
        names = [[one["name"] for one in each.result(test)["attachments"]] for each in (beside, report)]
        assert names[0] == names[1]


def test_a_compressed_file_is_attached_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attached: list[tuple[bytes, dict[str, str]]] = []
    allure = SimpleNamespace(attach=lambda content, **how: attached.append((content, how)))
    monkeypatch.setitem(sys.modules, "allure", allure)
    for name, content in (("events.json.gz", b"packed"), ("pending.json", b"[]"), ("steps.json", b"[]")):
        (tmp_path / name).write_bytes(content)
    attach_evidence(tmp_path)
    assert attached == [
        (b"packed", {"name": "events.json.gz", "attachment_type": "application/gzip", "extension": "gz"}),
        (b"[]", {"name": "pending.json", "attachment_type": "application/json", "extension": "json"}),
    ]


def test_without_evidence_there_are_steps_and_no_attachments(tmp_path: Path) -> None:
    report = run(tmp_path, "--kailab-evidence", "off")
    assert not report.result("test_it_holds").get("attachments")
    assert len(report.steps("test_it_holds")) == 6
    test_secrets_are_nowhere(report)
    assert not (tmp_path / "evidence").exists()
