"""Two runs compared: what was changed between them is named first, as a person would say it."""

from __future__ import annotations

from pathlib import Path

from kailab.engine.config import EngineConfig
from kailab.evidence.diff import RunDifference, compare_runs
from kailab.evidence.entries import GroupWaits, SourceLine
from kailab.evidence.recorder import Recorder, write_test
from kailab.evidence.run import RunFolder
from kailab.lab import Lab

QUEUE = """apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team}
spec: {resources: {gpu: {quota: 4, limit: 4}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}
"""
SPEC = {
    "schedulerName": "kai-scheduler",
    "containers": [{"name": "c", "image": "pause", "resources": {"limits": {"nvidia.com/gpu": 1}}}],
}


def changed(root: Path, queue: str = QUEUE, replicas: int = 1, **lab: object) -> Path:
    """A run of one test: two pods in a queue, and a Deployment that is scaled."""
    recorder = Recorder()
    template = {"metadata": {"labels": {"app": "web"}}, "spec": SPEC}
    selector = {"matchLabels": {"app": "web"}}
    web = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "labels": {"kai.scheduler/queue": "team"}},
        "spec": {"replicas": 0, "selector": selector, "template": template},
    }
    labels = {"app": "work", "kai.scheduler/queue": "team"}
    pods = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": SPEC}
        for name in ("p0", "p1")
    ]
    with Lab.open(observers=[recorder], **lab) as one:
        one.apply(queue, *pods, web)
        one.scale("Deployment", "web", replicas)
        one.settle()
    run = RunFolder.begin(root)
    run.write("quota", "test_one", lambda folder: write_test(folder, "quota/test_one", [recorder], "passed"))
    run.finish()
    return run.path


def lines(one: Path, two: Path) -> list[str]:
    return [str(difference) for difference in compare_runs(one, two).differences]


def test_a_changed_quota_is_named(tmp_path):
    one, two = changed(tmp_path / "a"), changed(tmp_path / "b", QUEUE.replace("quota: 4", "quota: 1"))
    told = lines(one, two)
    assert told[0] == "quota/test_one (lab): queue team: gpu quota 4 -> 1"
    assert len(told) == len(set(told))


def test_a_changed_step_is_named(tmp_path):
    told = lines(changed(tmp_path / "a"), changed(tmp_path / "b", replicas=2))
    assert told[0] == "quota/test_one (lab): step 2: scale Deployment/web to 1 -> scale Deployment/web to 2"
    assert told[-1] == 'quota/test_one (lab): pods of web at the end {"Running":1} -> {"Running":2}'


def test_changed_settings_and_another_fleet_are_named(tmp_path):
    usual = changed(tmp_path / "a")
    spread = changed(tmp_path / "b", config=EngineConfig(gpu_placement="spread"))
    assert lines(usual, spread)[0] == "quota/test_one (lab): settings.engine.gpu_placement binpack -> spread"
    text = (usual / "quota/test_one/lab/fleet.yaml").read_text()
    larger = tmp_path / "larger.yaml"
    larger.write_text(text.replace("cpu: '", "cpu: '1"))
    told = lines(usual, changed(tmp_path / "c", fleet=larger))
    assert any(line.startswith("quota/test_one (lab): fleet: pools.") and ".cpu " in line for line in told)


def test_an_object_more_is_named(tmp_path):
    more = QUEUE + "---\n" + QUEUE.replace("name: team", "name: other")
    told = lines(changed(tmp_path / "a"), changed(tmp_path / "b", more))
    assert told[0] == "quota/test_one (lab): queue other nothing -> applied"


def test_a_workload_that_ended_elsewhere_is_named_with_the_first_decision_about_it(tmp_path):
    one, two = changed(tmp_path / "a"), changed(tmp_path / "b", QUEUE.replace("limit: 4", "limit: 2"))
    (told,) = [difference for difference in compare_runs(one, two).differences if difference.what == "workload"]
    assert str(told).startswith("quota/test_one (lab): Pod default/p1 ended otherwise: 1 Running on ")
    assert " -> 1 Pending; first decided otherwise: bound to " in str(told)
    assert "-> waits (OverLimit: " in str(told)
    assert told.first["ended"] != told.second["ended"] == {"Pending": 1}
    assert told.second["decision"]["reason"] == "OverLimit"


def test_more_replicas_are_no_other_decision_about_others(tmp_path):
    """Names of pods shift with what was made before them; where they ended and why does not."""
    found = compare_runs(changed(tmp_path / "a"), changed(tmp_path / "b", replicas=2)).differences
    assert [one.detail.partition(" ended")[0] for one in found if one.what == "workload"] == ["Deployment default/web"]


def test_decisions_that_sound_the_same_are_told_apart():
    one, two = (
        GroupWaits(
            cycle=1, t=0.0, time="", action="allocate", podgroup="pg", pods=(), queue="q", reason="OverLimit", message="",
            numbers={"requested": requested},
        )
        for requested in (4, 2)
    )  # fmt: skip
    difference = RunDifference("decision", "t", "lab", one, two, "decision 3 is the first")
    assert (
        str(difference) == "t (lab): decision 3 is the first: cycle 1: pending pg OverLimit: numbers.requested 4 -> 2"
    )


def test_a_notebook_shows_each_difference_as_text(tmp_path: Path) -> None:
    one = changed(tmp_path / "one")
    same = compare_runs(one, one)._repr_html_()
    assert ": identical</caption>" in same
    found = compare_runs(one, changed(tmp_path / "two", QUEUE.replace("quota: 4, limit: 4", "quota: 2, limit: 4")))
    shown = found._repr_html_()
    assert f"{len(found.differences)} differences</caption>" in shown
    assert shown.count("<tr>") == len(found.differences) + 1
    assert "<script" not in compare_runs(one, one).__class__("<script>", "b")._repr_html_()


def test_lines_of_a_test_that_moved_are_no_difference(tmp_path):
    runs = []
    for line in (3, 5):
        recorder = Recorder(source=lambda line=line: SourceLine(file="test_one.py", line=line, text=f"lab.do({line})"))
        with Lab.open(observers=[recorder]) as lab:
            lab.advance(1)
            lab.noted_expectation("all", "all is well", "it is", True)
        run = RunFolder.begin(tmp_path / str(line))
        at = SourceLine(file="test_one.py", line=line)
        run.write("a", "b", lambda folder, at=at, one=recorder: write_test(folder, "a/b", [one], "failed", source=at))
        run.finish()
        runs.append(run.path)
    assert compare_runs(*runs).identical
    expectations = runs[1] / "a/b/lab/expectations.jsonl"
    expectations.write_text(expectations.read_text().replace("it is", "it was"))
    assert [str(one) for one in compare_runs(*runs).differences] == ["a/b: the file lab/expectations.jsonl differs"]
