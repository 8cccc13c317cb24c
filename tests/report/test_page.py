"""The page has the evidence's data, and none of it becomes markup."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from kailab.errors import EvidenceError, InputError
from kailab.evidence import cycles, store
from kailab.evidence.entries import GroupWaits, PodEvicted
from kailab.evidence.recorder import Recorder, write_test
from kailab.evidence.run import RunFolder
from kailab.lab import Lab
from kailab.report import page
from kailab.report.summary import render
from tests.report.conftest import MANIFESTS

_CHUNK = re.compile(r'<script type="application/gzip" id="(\w[\w.]*)">([A-Za-z0-9+/=]*)</script>')

Chunks = dict[str, bytes]


def chunks_of(file: Path) -> Chunks:
    found = _CHUNK.findall(file.read_text())
    return {name: gzip.decompress(base64.b64decode(text)) for name, text in found}


def lab_of(chunks: Chunks, test: str) -> dict[str, Any]:
    [run] = json.loads(chunks["page"])["runs"]
    [told] = [one for one in run["tests"] if one["name"] == test]
    return json.loads(chunks[told["labs"][0]["chunk"]])


def raw(chunks: Chunks, lab: dict[str, Any], ref: int) -> tuple[str, str, str]:
    """File, place and text of a raw entry."""
    file, place, first = [one for one in lab["raw"]["parts"] if one[2] <= ref][-1]
    name, begins = [one for one in lab["raw"]["chunks"] if one[1] <= ref][-1]
    at = f"line {ref - first + 1}" if place == "line" else f"{place}[{ref - first}]"
    return file, at, chunks[name].decode().split("\x1e")[ref - begins]


@pytest.fixture(scope="module")
def written(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "page.html"
    page.write_page([run], file)
    return file


@pytest.fixture(scope="module")
def chunks(written: Path) -> Chunks:
    return chunks_of(written)


def test_the_summary_has_every_test_and_what_it_expected(run: Path, chunks: Chunks) -> None:
    [told] = json.loads(chunks["page"])["runs"]
    summary, tests = store.read_run(run)
    assert told["outcomes"] == summary.outcomes == {"passed": 1, "failed": 1}
    assert [one["name"] for one in told["tests"]] == [test.name for test in tests]
    for one, test in zip(told["tests"], tests, strict=True):
        assert (one["sentence"], one["message"]) == (test.result.sentence, test.result.message)
        expected = [(each.expected, each.seen, each.held) for each in test.expectations("lab")]
        assert [(each["expected"], each["seen"], each["held"]) for each in one["expectations"]] == expected
    assert told["problems"] == []


def test_an_expectation_leads_to_its_entry(run: Path, chunks: Chunks) -> None:
    told = json.loads(chunks["page"])["runs"][0]["tests"]
    [test] = [one for one in told if one["name"] == "fair/test_reclaim"]
    lab = lab_of(chunks, "fair/test_reclaim")
    lines = (run / "fair/test_reclaim/lab/expectations.jsonl").read_text().splitlines()
    for one, line in zip(test["expectations"], lines, strict=True):
        file, _, text = raw(chunks, lab, one["ref"])
        assert file.endswith("lab/expectations.jsonl")
        assert text == line


def test_queues_at_each_moment_are_as_the_engine_recorded_them(run: Path, chunks: Chunks) -> None:
    lab = lab_of(chunks, "fair/test_reclaim")
    _, recorded = cycles.read_cycles_file(run / "fair/test_reclaim/lab")
    assert len(recorded) > 2
    for moment, (cycle, _, decisions) in enumerate(cycles.whole_cycles(recorded)):
        assert (lab["moments"][moment]["kind"], lab["moments"][moment]["number"]) == ("cycle", cycle.number)
        shown = {}
        for name, changes in zip(lab["queues"]["name"], lab["queues"]["changes"], strict=True):
            states = [one for one in changes if one[0] <= moment]
            if states and states[-1][1] is not None:
                shown[name] = states[-1][1]
                file, _, text = raw(chunks, lab, states[-1][2])
                assert file.removesuffix(".gz").endswith("lab/cycles.jsonl")
                assert json.loads(text) == states[-1][1]
        assert {name: one["gpu"]["allocated"] for name, one in shown.items()} == {
            queue.name: queue.gpu.allocated for queue in decisions.queues
        }
        assert {name: one["gpu"]["fair_share"] for name, one in shown.items()} == {
            queue.name: queue.gpu.fair_share for queue in decisions.queues
        }


def test_pods_hold_what_their_queues_are_said_to_hold(chunks: Chunks) -> None:
    """Two records of the engine, told in different ways: tasks and queues."""
    lab = lab_of(chunks, "fair/test_reclaim")
    for moment, one in enumerate(lab["moments"]):
        if one["kind"] != "cycle":
            continue
        for queue in ("team-a", "team-b"):
            changes = lab["queues"]["changes"][lab["queues"]["name"].index(queue)]
            told = [change for change in changes if change[0] <= moment][-1][1]
            assert _held(lab, moment, queue) == told["gpu"]["allocated"], (moment, queue)


@pytest.mark.parametrize("test", ["fair/test_reclaim", "fair/test_default"])
def test_each_node_has_its_model(chunks: Chunks, test: str) -> None:
    nodes = lab_of(chunks, test)["nodes"]
    models = {name: nodes["models"][model] for name, model in zip(nodes["name"], nodes["model"], strict=True)}
    assert {name.partition("-")[0].upper() for name in models} == {"A100", "H100", "L40S"}
    assert all(model == name.partition("-")[0].upper() for name, model in models.items())


def test_the_text_has_the_gpus_in_use_by_model(run: Path) -> None:
    text = render(run)
    assert text.count("      GPUs in use at the end: A100 16 of 16, H100 8 of 8, L40S 8 of 8\n") == 2
    assert "GPUs in use at the end: A100 16 of 16, H100 8 of 8, L40S 8 of 8." in render(run, "markdown")


def test_each_eviction_and_each_reason_to_wait_leads_to_its_entry(run: Path, chunks: Chunks) -> None:
    lab = lab_of(chunks, "fair/test_reclaim")
    decisions = store.load_test(run, "fair/test_reclaim").decisions("lab")
    evicted = [one for one in decisions if isinstance(one, PodEvicted)]
    assert len(evicted) == len(lab["decisions"]["evictions"]) == 16
    for entry, shown in zip(evicted, lab["decisions"]["evictions"], strict=True):
        assert shown["beneficiary_name"] == entry.beneficiary
        file, place, text = raw(chunks, lab, lab["decisions"]["ref0"] + shown["decision"])
        assert file == "fair/test_reclaim/lab/decisions.jsonl"
        assert place == f"line {decisions.index(entry) + 1}"
        assert json.loads(text)["pod"] == entry.pod
    waits = {one.podgroup for one in decisions if isinstance(one, GroupWaits)}
    assert {lab["groups"]["name"][one["group"]] for one in lab["waits"]} == waits
    for one in lab["waits"]:
        assert json.loads(raw(chunks, lab, one["ref"])[2])["message"] == one["message"]


def test_a_lab_without_cycles_is_told_by_its_states(run: Path, chunks: Chunks) -> None:
    lab = lab_of(chunks, "fair/test_default")
    states = store.load_test(run, "fair/test_default").states("lab")
    assert [one["kind"] for one in lab["moments"]] == ["state"] * len(states)
    last = list(states.values())[-1]
    waiting = {row.name for row in last.pods if row.phase == "Pending" and not row.node}
    assert waiting
    assert sum(one["ends"] == -1 for one in lab["waits"]) == len(waiting)
    pods = lab["pods"]
    placed = {row.name: row.node for row in last.pods if row.node}
    for pod, name in enumerate(pods["name"]):
        node = pods["node"][pods["first"][pod + 1] - 1]
        assert placed.get(name, "") == ("" if node < 0 else lab["nodes"]["name"][node])


def test_steps_stand_before_what_was_decided_on_them(chunks: Chunks) -> None:
    lab = lab_of(chunks, "fair/test_reclaim")
    assert sorted(step for one in lab["moments"] for step in one["steps"]) == list(range(len(lab["steps"])))
    [owner] = [place for place, one in enumerate(lab["steps"]) if "owner.yaml" in one["text"]]
    [moment] = [place for place, one in enumerate(lab["moments"]) if owner in one["steps"]]
    assert lab["moments"][moment]["counts"]["evict"] == 16


def test_nothing_of_the_evidence_is_markup(written: Path) -> None:
    text = written.read_text()
    assert "onerror" not in _CHUNK.sub("", text)
    assert "<b>gets" not in text
    assert "http:" not in _CHUNK.sub("", text).replace("http://www.w3.org", "")


def test_the_same_run_gives_the_same_page(run: Path, written: Path, tmp_path: Path) -> None:
    page.write_page([run], tmp_path / "again.html")
    assert (tmp_path / "again.html").read_bytes() == written.read_bytes()


def test_a_changed_file_is_told(run: Path, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / run.name
    shutil.copytree(run, copy)
    result = copy / "fair/test_reclaim/result.json"
    result.write_text(result.read_text().replace("passed", "failed"))
    page.write_page([copy], tmp_path / "page.html")
    [told] = json.loads(chunks_of(tmp_path / "page.html")["page"])["runs"]
    assert any("result.json" in one for one in told["problems"])


def test_what_is_no_run_or_no_file_is_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match="is not a run"):
        page.write_page([tmp_path], tmp_path / "page.html")
    with pytest.raises(InputError, match="is a folder"):
        page.write_page([run], tmp_path)
    with pytest.raises(InputError, match=r"the folder .* does not exist"):
        page.write_page([run], tmp_path / "none" / "page.html")
    assert list(tmp_path.iterdir()) == []


def test_an_expectation_is_looked_at_where_it_was_checked(tmp_path: Path) -> None:
    """Several at one time of the lab, with something done in between: each belongs to what stood when it was checked."""
    recorder = Recorder()
    with Lab.open(observers=[recorder]) as lab:
        lab.noted_expectation("queue team-a", "nothing yet", "0 Running", True)
        lab.apply(MANIFESTS / "queues.yaml", MANIFESTS / "borrower.yaml")
        lab.settle()
        lab.noted_expectation("queue team-a", "32 GPUs running", "32 Running", True)
        lab.apply(MANIFESTS / "owner.yaml")
        lab.settle()
        lab.noted_expectation("queue team-a", "16 GPUs running", "16 Running", True)
    chunks, lab_told = _told(tmp_path, recorder)
    [test] = json.loads(chunks["page"])["runs"][0]["tests"]
    held = [_held(lab_told, one["moment"], "team-a") for one in test["expectations"]]
    assert held == [0, 32_000, 16_000]


def test_an_expectation_without_cycles_is_looked_at_after_its_step(tmp_path: Path) -> None:
    recorder = Recorder()
    with Lab.open(observers=[recorder], scheduler="kube-scheduler") as lab:
        for manifest in ("queues.yaml", "borrower.yaml", "owner.yaml"):
            lab.apply(MANIFESTS / manifest)
            lab.settle()
            lab.noted_expectation("queue team-a", "so many", "so many", True)
    chunks, lab_told = _told(tmp_path, recorder)
    [test] = json.loads(chunks["page"])["runs"][0]["tests"]
    steps = [one["number"] for one in lab_told["moments"]]
    assert [steps[one["moment"]] for one in test["expectations"]] == steps


def test_a_cordoned_node_stays_so_after_the_last_cycle(tmp_path: Path) -> None:
    for scheduler in ("kailab", "kube-scheduler"):
        recorder = Recorder()
        with Lab.open(observers=[recorder], scheduler=scheduler) as lab:
            lab.apply(MANIFESTS / "queues.yaml", MANIFESTS / "borrower.yaml")
            lab.settle()
            lab.patch("Node", "h100-0", {"spec": {"unschedulable": True}})
            lab.settle()
        _, lab_told = _told(tmp_path / scheduler, recorder)
        closed = {
            name: changes[-1][2]
            for name, changes in zip(lab_told["nodes"]["name"], lab_told["nodes"]["changes"], strict=True)
        }
        assert {name for name, why in closed.items() if why} == {"h100-0"}
        assert "unschedulable" in closed["h100-0"]


def _told(folder: Path, recorder: Recorder) -> tuple[Chunks, dict[str, Any]]:
    """The page of a run of one test."""
    run = RunFolder.begin(folder)
    run.write("fair", "test_one", lambda at: write_test(at, "fair/test_one", [recorder], "passed"))
    run.finish({"kailab": "0"}, {})
    page.write_page([run.path], folder / "page.html")
    chunks = chunks_of(folder / "page.html")
    return chunks, lab_of(chunks, "fair/test_one")


def _held(lab: dict[str, Any], moment: int, queue: str) -> int:
    """Milli-GPU of a queue's pods that have a place at that moment."""
    pods, held = lab["pods"], 0
    for pod in range(len(pods["name"])):
        seen = [at for at in range(*pods["first"][pod : pod + 2]) if pods["moment"][at] <= moment]
        there = seen and lab["states"][pods["state"][seen[-1]]] in ("starts", "runs", "leaves")
        if there and lab["queues"]["name"][lab["groups"]["queue"][pods["group"][pod]]] == queue:
            held += pods["milli"][seen[-1]]
    return held
