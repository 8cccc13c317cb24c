"""States within evidence: the lab of a test at its end, or as one of its cycles begins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kailab.errors import EvidenceError, InputError
from kailab.evidence.recorder import Recorder, write_test
from kailab.evidence.run import RunFolder
from kailab.lab.lab import Lab
from kailab.snapshots import opening
from kailab.snapshots.opening import lab_of
from tests.evidence.test_secrets import QUEUE
from tests.snapshots.test_round_trip import Decisions


def deployment(name: str, replicas: int, image: str = "x", token: str = "") -> dict[str, object]:
    container = {"name": "main", "image": image, "args": [token], "resources": {"limits": {"nvidia.com/gpu": 1}}}
    labels = {"app": name, "kai.scheduler/queue": "team", "priorityClassName": "train"}
    template = {"metadata": {"labels": labels}, "spec": {"schedulerName": "kai-scheduler", "containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Of a test in which a Deployment was scaled, another template was rolled out, a pod was deleted, and a node failed."""
    recorder = Recorder()
    with Lab.open(observers=[recorder]) as lab:
        lab.apply(QUEUE)
        lab.apply([deployment("web", 3, "x:1", token="one")])
        lab.settle()
        lab.scale("Deployment", "web", 6)
        lab.settle()
        lab.advance(100)
        lab.apply([deployment("web", 4, "x:2", token="one")])
        lab.settle()
        lab.delete("Pod", lab.get("pods")[0]["metadata"]["name"])
        lab.settle()
        lab.fail_node("h100-0")
        lab.settle()
    made = RunFolder.begin(tmp_path / "runs")
    made.write("e", "t", lambda folder: write_test(folder, "e/t", [recorder], "passed"))
    made.finish({"kailab": "x"})
    return made.path


def after(run: Path) -> list[tuple[str, str, str]]:
    pods = json.loads((run / "e/t/lab/after/pods.json").read_bytes())
    return sorted((one["metadata"]["name"], one["metadata"]["uid"], one["spec"].get("nodeName", "")) for one in pods)


def test_the_end_opens_with_all_that_was_there(run: Path) -> None:
    for path, test in ((run, ""), (run, "t"), (run / "e" / "t", ""), (run / "e" / "t" / "lab", "")):
        found = opening.read_snapshot_source(path, test, "last")
        assert found.notices == ()
    with lab_of(found.snapshot) as lab:
        there = [
            (one["metadata"]["name"], one["metadata"]["uid"], one["spec"].get("nodeName", ""))
            for one in lab.get("pods")
        ]
        assert sorted(there) == after(run)
        assert lab.get("Deployment", "web")["spec"]["replicas"] == 4
        failed = [one["metadata"]["name"] for one in lab.get("nodes") if one["spec"].get("taints")]
        assert failed == ["h100-0"]
        lab.settle()
        lab.scale("Deployment", "web", 1)
        lab.settle()
        assert len(lab.get("pods")) == 1


def test_each_cycle_opens_as_it_began(run: Path) -> None:
    decisions = [json.loads(line) for line in (run / "e/t/lab/decisions.jsonl").read_text().splitlines()]
    binding = sorted({one["cycle"] for one in decisions if one["decision"] == "bind"})
    assert len(binding) > 2
    for cycle in binding:
        seen = Decisions()
        with lab_of(opening.read_snapshot_source(run, "", str(cycle)).snapshot, [seen]) as lab:
            lab.settle()
        number, entries = seen.cycles[0]
        ours = [(one.pod, one.node) for one in entries if type(one).__name__ == "PodBound"]
        wanted = [(one["pod"], one["node"]) for one in decisions if one["cycle"] == cycle and one["decision"] == "bind"]
        assert (number, ours) == (cycle, wanted)


def test_what_was_changed_in_the_folder_is_told(run: Path) -> None:
    file = run / "e/t/lab/decisions.jsonl"
    first, rest = file.read_text().split("\n", 1)
    told = json.loads(first)
    assert told["decision"] == "bind"
    file.write_text(json.dumps({**told, "node": "elsewhere"}) + "\n" + rest)
    with pytest.raises(
        EvidenceError, match=r"cycle 3 can't be reproduced: the recorded decision is in cycle \d+: .* on elsewhere"
    ):
        opening.read_snapshot_source(run, "", "3")
    found = opening.read_snapshot_source(run, "", "last")
    assert "can't be reproduced" in found.notices[0]
    assert "workloads that own the pods are not in the evidence" in found.notices[1]
    with lab_of(found.snapshot) as lab:
        assert sorted(
            (p["metadata"]["name"], p["metadata"]["uid"], p["spec"].get("nodeName", "")) for p in lab.get("pods")
        ) == after(run)
        lab.settle()


@pytest.mark.parametrize(
    ("test", "at", "told"),
    [
        ("", "999", r"had no cycle 999: the last was \d+"),
        ("", "0", "'0' is no moment of the evidence; expected last, or the number of a cycle"),
        ("", "first", "'first' is no moment of the evidence"),
        ("other", "last", "has no test 'other'"),
    ],
)
def test_what_is_not_there_is_told(run: Path, test: str, at: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        opening.read_snapshot_source(run, test, at)


def test_a_folder_without_evidence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"expected a snapshot .* evidence"):
        opening.read_snapshot_source(tmp_path)
    with pytest.raises(EvidenceError, match="there is no evidence"):
        opening.read_snapshot_source(tmp_path, "a-test")
