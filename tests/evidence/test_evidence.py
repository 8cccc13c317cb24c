"""Evidence: what was written is what is found, and every change to it is."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from kailab import __version__
from kailab.engine.config import EngineConfig
from kailab.errors import EvidenceError, InputError
from kailab.evidence import large_files, store
from kailab.evidence import run as sums
from kailab.evidence.canonical import safe_name
from kailab.evidence.diff import compare_runs
from kailab.evidence.entries import LabSettings, PodBound
from kailab.evidence.metrics.figures import series_of
from kailab.evidence.recorder import Recorder, write_test
from kailab.evidence.run import RunFolder, check_writable
from kailab.fleet.reading import load_fleet, read_fleet
from kailab.lab import Lab, expect
from kailab.model.manifests import load_text
from kailab.report import render
from kailab.report.page import read_test_form, write_page
from kailab.scheduler.usage import UsageParams

QUEUE = """apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team}
spec: {resources: {gpu: {quota: 4, limit: 4}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}
"""


def pods(number: int) -> list[dict]:
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"p{n}", "labels": {"app": "work", "kai.scheduler/queue": "team"}},
            "spec": {
                "schedulerName": "kai-scheduler",
                "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}],
                "containers": [{"name": "c", "image": "pause", "resources": {"limits": {"nvidia.com/gpu": 1}}}],
            },
        }
        for n in range(number)
    ]


def recorded(number: int = 6, scheduler: str = "kailab") -> Recorder:
    recorder = Recorder()
    with Lab.open(scheduler=scheduler, observers=[recorder]) as lab:
        lab.apply(QUEUE)
        lab.apply(pods(number))
        expect(lab.app("work")).running(pods=min(number, 4) if scheduler == "kailab" else number)
        lab.advance(100)
    return recorder


def written(
    root: Path, number: int = 6, outcome: str = "passed", scheduler: str = "kailab", finish: bool = True
) -> Path:
    run = RunFolder.begin(root)
    recorder = recorded(number, scheduler)
    run.write("quota", "test_one", lambda folder: write_test(folder, "quota/test_one", [recorder], outcome, ""))
    run.write("quota", "test_two", lambda folder: write_test(folder, "quota/test_two", [recorder], "passed", ""))
    if finish:
        run.finish({"kailab": "x"})
    return run.path


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return written(tmp_path)


def files(run: Path) -> dict[str, bytes]:
    return {p.relative_to(run).as_posix(): p.read_bytes() for p in run.rglob("*") if p.is_file()}


def test_what_is_kept(run):
    (summary, tests) = store.read_run(run)
    assert summary.outcomes == {"passed": 2}
    one = tests[0]
    assert one.name == "quota/test_one"
    facts = one.labs["lab"]
    assert (facts.backend, facts.fleet, facts.scheduler) == ("embedded", "lesson", "kailab")
    assert (facts.nodes, facts.gpus) == (5, 32)
    assert facts.settings == LabSettings(engine=EngineConfig(), usage=UsageParams(), adopt_default_scheduler=False)
    assert facts.versions["scheduler"] == f"kailab {__version__}"
    assert facts.versions["kubernetes"].startswith("none")
    assert read_fleet(one.text("lab", "fleet.yaml")).objects() == load_fleet("lesson").objects()
    kept = load_text(one.text("lab", "manifests/01-Queue-team.yaml")).objects
    assert kept == load_text(QUEUE).objects
    assert [topology["metadata"]["name"] for topology in one.objects("lab", "before", "topologies")] == [
        topology["metadata"]["name"] for topology in load_fleet("lesson").topologies
    ]
    assert "train" in [one["metadata"]["name"] for one in one.objects("lab", "before", "priorityclasses")]
    assert [step.operation for step in one.steps("lab")] == ["apply", "apply", "settle", "advance"]
    bound = [entry for entry in one.decisions("lab") if isinstance(entry, PodBound)]
    assert len(bound) == 4
    assert {entry.pod for entry in bound} <= {f"default/p{n}" for n in range(6)}
    assert [entry.reason for entry in one.pending("lab")] == ["OverLimit", "OverLimit"]
    assert one.objects("lab", "before", "pods") == []
    assert len(one.objects("lab", "after", "pods")) == 6
    assert one.expectations("lab")[0].held is True
    assert {entry.reason for entry in one.events("lab")} >= {"Scheduled"}
    assert [len(state.pods) for state in one.states("lab").values()] == [6], "the second state was the same"


def test_states_of_a_long_lab_come_in_the_order_of_its_steps(tmp_path):
    recorder, steps = Recorder(), 60
    with Lab.open(observers=[recorder]) as lab:
        lab.apply(QUEUE)
        for pod in pods(steps):
            lab.apply(pod)
            lab.advance(1)
    run = RunFolder.begin(tmp_path)
    run.write("long", "test_one", lambda folder: write_test(folder, "long/test_one", [recorder], "passed", ""))
    run.finish({"kailab": "x"})
    states = store.load_test(run.path, "long/test_one").states("lab")
    numbers = [int(name.partition("-")[0]) for name in states]
    assert numbers == sorted(numbers)
    assert numbers[-1] == 1 + 2 * steps


def test_entries_are_kept_as_they_were(tmp_path):
    """What is read back is what was recorded, type by type."""
    recorder = recorded()
    write_test(tmp_path / "test", "e/t", [recorder], "passed")
    one = store.load_test(tmp_path, "test")
    assert one.decisions("lab") == recorder.recording.decisions
    assert one.steps("lab") == recorder.recording.steps
    assert one.expectations("lab") == recorder.recording.expectations


def test_settings_that_are_not_the_usual_ones(tmp_path):
    recorder = Recorder()
    config = {"usageDBConfig": {"clientType": "prometheus", "usageParams": {"halfLifePeriod": "10m"}}}
    with Lab.open(scheduler="kailab", config=config, observers=[recorder], adopt_default_scheduler=True):
        pass
    assert recorder.recording.facts.settings.usage.half_life == 600
    assert recorder.recording.facts.settings.adopt_default_scheduler is True


def test_a_run_lists_what_its_labs_ran_on(tmp_path):
    run = RunFolder.begin(tmp_path)
    for number, scheduler in enumerate(("kailab", "kube-scheduler", "kailab")):
        recorder = Recorder()
        with Lab.open(scheduler=scheduler, observers=[recorder]):
            pass
        run.write("e", f"t{number}", lambda folder, own=recorder: write_test(folder, "e/t", [own], "passed"))
    run.finish()
    labs = json.loads((run.path / "run.json").read_text())["labs"]
    assert {(lab["scheduler"], lab["labs"]) for lab in labs} == {("kailab", 2), ("kube-scheduler", 1)}
    assert {lab["versions"]["scheduler"] for lab in labs} == {
        f"kailab {__version__}",
        f"kube-scheduler (stood in for by kailab {__version__})",
    }


def test_evidence_in_another_format_says_so(run):
    result = run / "quota/test_one/result.json"
    older = {key: value for key, value in json.loads(result.read_text()).items() if key != "format"}
    result.write_text(json.dumps(older))
    with pytest.raises(EvidenceError, match=r"quota/test_one: evidence of an older kailab \(format 1"):
        store.read_run(run)
    assert [summary.run for summary in store.list_runs(run.parent)] == [run.name], "it is still listed"


def test_equal_labs_give_equal_bytes(tmp_path):
    one, two = files(written(tmp_path / "a")), files(written(tmp_path / "b"))
    assert one.keys() == two.keys()
    assert [name for name in one if one[name] != two[name]] == ["run.json"]


def test_sums_are_what_sha256sum_reads(run):
    line = (run / "quota/test_one" / sums.SUMS_FILE).read_text().splitlines()[0]
    value, name = line.split("  ")
    assert sums.digest((run / "quota/test_one" / name).read_bytes()) == value


def test_untouched_evidence_verifies(run):
    assert store.verify_evidence(run) == []
    assert store.verify_evidence(run / "quota/test_one") == []


DECISIONS = "quota/test_one/lab/decisions.jsonl"
LISTING = "quota/test_one/SHA256SUMS"


def _append(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\n")


def _rewrite(path: Path, change: Callable[[str], str]) -> None:
    before = path.read_bytes().decode()
    assert change(before) != before
    path.write_bytes(change(before).encode())


def _relist(run: Path) -> None:
    """A test taken off the list of the run."""
    (run / sums.SUMS_FILE).write_text((run / sums.SUMS_FILE).read_text().splitlines(keepends=True)[0])


def _retitle(run: Path) -> None:
    facts = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**facts, "tests": 7}))


def _forge(run: Path) -> None:
    """A file changed, and the test's own sums with it."""
    _append(run / DECISIONS)
    (run / "quota/test_one" / sums.SUMS_FILE).unlink()
    sums.write_sums(run / "quota/test_one")


def _remove_test(run: Path) -> None:
    for path in sorted((run / "quota/test_two").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (run / "quota/test_two").rmdir()


def _link(run: Path) -> None:
    copy = run.parent / "copy"
    copy.write_bytes((run / DECISIONS).read_bytes())
    (run / DECISIONS).unlink()
    (run / DECISIONS).symlink_to(copy)


@pytest.mark.parametrize(
    ("tamper", "found"),
    [
        (lambda run: _append(run / DECISIONS), ("changed", DECISIONS)),
        (lambda run: (run / DECISIONS).unlink(), ("missing", DECISIONS)),
        (lambda run: (run / "quota/test_one/lab/more.txt").write_text("x"), ("extra", "quota/test_one/lab/more.txt")),
        (lambda run: (run / "note.txt").write_text("x"), ("extra", "note.txt")),
        (lambda run: (run / "quota/note.txt").write_text("x"), ("extra", "quota/note.txt")),
        (lambda run: (run / "quota/test_one" / sums.SUMS_FILE).unlink(), ("missing", "quota/test_one/SHA256SUMS")),
        (
            lambda run: (run / "quota/test_one" / sums.SUMS_FILE).write_text("?"),
            ("damaged", "quota/test_one/SHA256SUMS"),
        ),
        (lambda run: (run / sums.SUMS_FILE).unlink(), ("missing", "SHA256SUMS")),
        (_relist, ("changed", "SHA256SUMS")),
        (lambda run: (run / "run.json").unlink(), ("missing", "run.json")),
        (lambda run: (run / "run.json").write_text("{"), ("damaged", "run.json")),
        (_retitle, ("changed", "run.json")),
        (_forge, ("changed", "quota/test_one/SHA256SUMS")),
        (_remove_test, ("missing", "quota/test_two")),
        (_link, ("changed", DECISIONS)),
        (lambda run: os.rename(run / "quota/test_two", run / "quota/test_new"), ("extra", "quota/test_new")),
        (lambda run: (run / ".partial-x").mkdir(), ("unfinished", ".partial-x")),
        (lambda run: _rewrite(run / "run.json", lambda text: json.dumps(json.loads(text))), ("changed", "run.json")),
        (
            lambda run: _rewrite(run / "run.json", lambda text: text.replace("{", '{"tests": 7,', 1)),
            ("changed", "run.json"),
        ),
        (lambda run: _rewrite(run / LISTING, lambda text: text.replace("\n", "\r\n")), ("changed", LISTING)),
        (lambda run: _rewrite(run / LISTING, lambda text: text + text), ("damaged", LISTING)),
        (lambda run: (run / "empty").mkdir(), ("extra", "empty")),
        (lambda run: (run / "quota/empty").mkdir(), ("extra", "quota/empty")),
        (lambda run: (run / "quota/test_one/lab/deep/empty").mkdir(parents=True), ("extra", "quota/test_one/lab/deep")),
        (lambda run: (run / "signature-none").write_text("x"), ("damaged", "signature-none")),
    ],
)
def test_every_kind_of_tampering_is_found(run, tamper, found):
    tamper(run)
    problems = store.verify_evidence(run)
    assert found in [(problem.kind, problem.path) for problem in problems]
    assert all(str(problem).startswith(problem.kind) for problem in problems)


def test_a_run_that_did_not_finish_says_so(tmp_path):
    run = written(tmp_path, finish=False)
    assert [problem.detail for problem in store.verify_evidence(run)] == ["the run did not finish"]
    assert not store.list_runs(tmp_path)[0].finished


def test_a_test_that_can_not_be_written_leaves_nothing(tmp_path):
    run = RunFolder.begin(tmp_path)

    def fill(folder: Path) -> None:
        (folder / "half").write_text("x")
        raise OSError(28, "No space left on device")

    with pytest.raises(EvidenceError, match="No space left"):
        run.write("quota", "test_one", fill)
    assert [p for p in run.path.rglob("*") if p.is_file()] == []


def test_a_test_run_again_has_its_own_folder(tmp_path):
    run = RunFolder.begin(tmp_path)
    names = [run.write("e", "t", lambda folder: (folder / "x").write_text("1")).name for _ in range(3)]
    assert names == ["t", "t-2", "t-3"]


def test_where_nothing_can_be_written(tmp_path):
    (tmp_path / "file").write_text("x")
    for root in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(EvidenceError, match="can't be written there"):
            check_writable(root)
    check_writable(tmp_path / "new" / "folder")
    assert not (tmp_path / "new").exists()


def test_runs_are_listed_and_found(tmp_path):
    first, second = written(tmp_path), written(tmp_path)
    assert [summary.path for summary in store.list_runs(tmp_path)] == [first, second]
    assert store.find_run(tmp_path) == second
    assert store.find_run(tmp_path, first.name) == first
    with pytest.raises(EvidenceError, match="no run 'none'"):
        store.find_run(tmp_path, "none")
    with pytest.raises(
        EvidenceError, match=f"{tmp_path.name}: contains runs and is not a run itself; .*/{second.name}$"
    ):
        store.find_run(tmp_path, str(tmp_path))
    with pytest.raises(EvidenceError, match="there is no evidence"):
        store.list_runs(tmp_path / "nowhere")


def test_equal_runs_do_not_differ(tmp_path):
    assert compare_runs(written(tmp_path), written(tmp_path)).identical


def test_large_files_are_compressed_and_read_alike(tmp_path, monkeypatch):
    plain = written(tmp_path / "plain")
    monkeypatch.setattr(large_files, "LARGE", 1000)
    packed = written(tmp_path / "packed")
    lab = packed / "quota" / "test_one" / "lab"
    assert {"events.json.gz", "decisions.jsonl.gz", "metrics.jsonl.gz"} <= {path.name for path in lab.iterdir()}
    assert (lab / "after" / "pods.json.gz").exists()
    assert not (lab / "after" / "pods.json").exists()
    # The names that people look for stay, and so do small files.
    assert {"lab.json", "timeline.txt", "fleet.yaml", "expectations.jsonl"} <= {path.name for path in lab.iterdir()}
    assert store.verify_evidence(packed) == []
    assert compare_runs(plain, packed).identical
    assert render(packed).splitlines()[2:] == render(plain).splitlines()[2:]
    one, other = (store.load_test(run, "quota/test_one") for run in (plain, packed))
    assert one.states("lab") == other.states("lab")
    assert one.events("lab") == other.events("lab")
    assert series_of(lab / "metrics.jsonl") == series_of(plain / "quota" / "test_one" / "lab" / "metrics.jsonl")
    assert write_page([packed], tmp_path / "page.html") > 0
    (lab / "events.json.gz").write_bytes((lab / "events.json.gz").read_bytes()[:-20])
    with pytest.raises(EvidenceError, match=r"events\.json: can't be read: .*cut short"):
        other.events("lab")


def test_differences_are_told_as_data(tmp_path):
    one = written(tmp_path / "a")
    two = written(tmp_path / "b", number=3, outcome="failed")
    found = {(entry.what, entry.test) for entry in compare_runs(one, two).differences}
    assert {("outcome", "quota/test_one"), ("decision", "quota/test_one"), ("ending", "quota/test_one")} <= found
    ending = next(entry for entry in compare_runs(one, two).differences if entry.what == "ending")
    assert (ending.first, ending.second) == ({"Pending": 2, "Running": 4}, {"Running": 3})


def test_another_scheduler_is_a_difference(tmp_path):
    found = compare_runs(written(tmp_path / "a"), written(tmp_path / "b", scheduler="kube-scheduler")).differences
    told = [entry for entry in found if entry.what == "facts" and entry.detail == "scheduler"]
    assert (told[0].first, told[0].second) == ("kailab", "kube-scheduler")


def test_a_test_in_one_run_only(tmp_path):
    one, two = written(tmp_path / "a"), written(tmp_path / "b")
    _remove_test(two)
    assert [(d.what, d.test) for d in compare_runs(one, two).differences] == [("only_in_first", "quota/test_two")]


def test_the_report_tells_expectations_and_reasons(run):
    text = render(run)
    assert "test_one" in text
    assert "app work: 4 pods running" in text
    assert "OverLimit" in text
    assert text == render(run)


def test_warnings_of_apply_are_in_the_timeline_and_in_every_report(tmp_path):
    recorder = Recorder()
    with Lab.open(observers=[recorder]) as lab:
        lab.apply(pods(1))
        lab.settle()
    run = RunFolder.begin(tmp_path)
    folder = run.write("quota", "test_one", lambda folder: write_test(folder, "quota/test_one", [recorder], "passed"))
    warning = "Pod/p0: metadata.labels[kai.scheduler/queue]: there is no queue 'team': the work stays pending (QueueDoesNotExist)"
    assert f"1 Pod created\n       0 s    warning: {warning}" in (folder / "lab" / "timeline.txt").read_text()
    assert f"warned apply Pod/p0: 1 Pod created: {warning}" in render(run.path)
    assert "there is no queue 'team': the work stays pending (QueueDoesNotExist) (quota/test_one)" in render(
        run.path, "markdown"
    )
    (shown,) = read_test_form(store.load_test(run.path, "quota/test_one"), "t", {}).warnings
    assert (shown.step, shown.text) == ("apply Pod/p0: 1 Pod created", warning)


def test_markdown_is_a_row_for_each_test_that_passed_and_more_for_one_that_did_not(run):
    assert "| passed | test_one |" in render(run, "markdown")
    assert "OverLimit" not in render(run, "markdown")
    file = run / "quota/test_one/result.json"
    told = json.loads(file.read_text())
    told |= {"outcome": "failed", "message": "no ```\n" + 5000 * "y", "sentence": "One | <b>of</b>\ntwo."}
    file.write_text(json.dumps(told))
    text = render(run, "markdown")
    assert "| **failed** | test_one | One &#124; &lt;b&gt;of&lt;/b&gt; two. |" in text
    full = text.partition("## quota/test_one: failed\n")[2]
    assert "OverLimit" in full
    # The message does not close its fence, and is cut.
    assert f"````\nno ```\n{3993 * 'y'}\n... and 1007 characters more\n````" in full


def test_markdown_of_many_failures_fits_a_summary_of_ci(run):
    from shutil import copytree

    one = run / "quota/test_one"
    told = json.loads((one / "result.json").read_text()) | {"outcome": "failed", "message": 9000 * "x"}
    for number in range(200):
        more = copytree(one, run / f"quota/test_more_{number}")
        (more / "result.json").write_text(json.dumps(told))
    text = render(run, "markdown")
    assert text.count("| **failed** |") == 200
    assert text.count("xxx\n... and") == 30
    assert "170 more did not pass" in text
    assert len(text) < 2**18


def test_an_unknown_report_format(run):
    with pytest.raises(InputError, match="text, markdown"):
        render(run, "pdf")


def test_damaged_evidence_is_an_error_not_a_traceback(run):
    (run / "quota/test_one/result.json").write_text("{")
    with pytest.raises(EvidenceError, match=r"result\.json: damaged"):
        store.read_run(run)


@pytest.mark.parametrize(
    ("one", "two"), [("a/b", "a b"), ("x" * 300, "x" * 301), ("", "."), ("..", "/"), ("test[a-1]", "test[a 1]")]
)
def test_names_stay_apart_and_inside_the_folder(one, two):
    assert safe_name(one) != safe_name(two)
    for name in (safe_name(one), safe_name(two)):
        assert name == Path(name).name
        assert 0 < len(name) <= 100


def test_no_name_or_message_is_markup_in_markdown(run):
    evil = "<script>x</script> | `y` [a](javascript:b)\n# z"
    for name in ("result.json", "lab/pending.json", "lab/lab.json", "lab/expectations.jsonl"):
        file = run / "quota/test_one" / name
        text = file.read_text()
        # In every text of the evidence that a report quotes.
        for word in ("OverLimit", "team-a", "lesson", "kailab", "app work"):
            text = text.replace(f'"{word}', json.dumps(evil)[:-1])
        file.write_text(text.replace('"outcome": "passed"', '"outcome": "failed"'))
    found = render(run, "markdown")
    assert "script" in found
    assert "<script" not in found
    assert not re.search(r"(?<!\\)\]\(", found)
    assert not [line for line in found.splitlines() if line.startswith("# z")]
