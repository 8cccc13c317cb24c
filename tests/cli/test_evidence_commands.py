"""Evidence shown, checked and compared on the command line."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from kailab.evidence.recorder import Recorder, write_test
from kailab.evidence.run import RunFolder
from kailab.lab import Lab, expect

QUEUE = """apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team}
spec: {resources: {gpu: {quota: 4, limit: 4}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}
"""


def _run(root: Path, gpus: int) -> str:
    recorder = Recorder()
    with Lab.open(observers=[recorder]) as lab:
        lab.apply(QUEUE)
        lab.apply(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "p", "labels": {"app": "work", "kai.scheduler/queue": "team"}},
                "spec": {
                    "schedulerName": "kai-scheduler",
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [{"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": gpus}}}],
                },
            }
        )
        expect(lab.app("work")).running(pods=1)
    run = RunFolder.begin(root)
    run.write("quota", "test_one", lambda folder: write_test(folder, "quota/test_one", [recorder], "passed", ""))
    run.finish({"kailab": "0"})
    return run.run_id


@pytest.fixture
def runs(home: Path) -> tuple[str, str, str]:
    """Two equal runs and another one."""
    root = home / "evidence"
    return _run(root, 1), _run(root, 1), _run(root, 2)


def test_list(kailab, runs: tuple[str, str, str]) -> None:
    header, *rows = kailab("evidence", "list").out.splitlines()
    assert header.split() == ["RUN", "TESTS", "PASSED", "FAILED", "ERRORS", "SKIPPED", "BEGUN"]
    assert [row.split()[:4] for row in rows] == [[run, "1", "1", "0"] for run in runs]
    assert [run["run"] for run in json.loads(kailab("evidence", "list", "-o", "json").out)] == list(runs)


def test_show(kailab, runs: tuple[str, str, str]) -> None:
    assert kailab("evidence", "show").out == kailab("evidence", "show", runs[2]).out
    assert "quota/test_one   passed    kailab" in kailab("evidence", "show").out
    test = kailab("evidence", "show", "latest", "quota/test_one").out
    assert "fleet lesson, scheduler kailab" in test
    assert kailab("evidence", "show", "latest", "quota/ghost").code == 2


def test_verify(kailab, runs: tuple[str, str, str], home: Path) -> None:
    assert kailab("evidence", "verify", runs[0]).code == 0
    file = next((home / "evidence" / runs[0]).rglob("pods.json"))
    file.write_text("[]")
    done = kailab("evidence", "verify", runs[0])
    assert done.code == 1
    assert "changed: quota/test_one/" in done.out
    assert kailab("evidence", "verify", runs[1]).code == 0


def test_diff(kailab, runs: tuple[str, str, str]) -> None:
    same = kailab("evidence", "diff", runs[0], runs[1])
    assert (same.code, same.out) == (0, f"{runs[0]} and {runs[1]} are identical\n")
    other = kailab("evidence", "diff", runs[0])
    assert other.code == 1
    assert "quota/test_one" in other.out
    assert json.loads(kailab("evidence", "diff", runs[0], "-o", "json").out)["differences"]


def test_report(kailab, runs: tuple[str, str, str]) -> None:
    assert "test_one" in kailab("report").out
    assert kailab("report", "--format", "markdown").out.startswith("#")
    assert kailab("report", "--format", "pdf").code == 2


def test_prune_keeps_the_newest_and_what_is_no_run(kailab, runs: tuple[str, str, str], home: Path) -> None:
    root = home / "evidence"
    (root / "reference").mkdir()
    (root / "notes.txt").write_text("mine")
    there = sorted(path.name for path in root.iterdir())
    done = kailab("evidence", "prune", "--keep", "1")
    assert done.code == 0
    left = sorted(path.name for path in root.iterdir())
    newest = max(set(there) - {"reference", "notes.txt"})
    assert left == sorted([newest, "notes.txt", "reference"])
    assert len(done.out.splitlines()) == len(there) - len(left)
    assert kailab("evidence", "prune", "--keep", "-1").code == 2


def test_what_there_is_not(kailab, home: Path) -> None:
    for command in (("list",), ("show",), ("verify", "x"), ("diff", "a", "b")):
        done = kailab("evidence", *command)
        assert done.code == 2
        assert done.err.startswith("error: ")


def test_a_test_alone_is_of_the_latest_run(kailab, runs: tuple[str, str, str]) -> None:
    whole = kailab("evidence", "show", "latest", "quota/test_one")
    for text in ("quota/test_one", "test_one"):
        assert kailab("evidence", "show", text).out == whole.out
    assert kailab("evidence", "show", runs[0], "test_one").code == 0


def test_what_is_near_is_named(kailab, runs: tuple[str, str, str]) -> None:
    for words in (("quota/test_on",), ("latest", "test_onee"), (runs[0], "quta/test_one")):
        done = kailab("evidence", "show", *words)
        assert done.code == 2
        assert "did you mean quota/test_one?" in done.err
    done = kailab("evidence", "show", runs[0][:-2])
    assert done.code == 2
    assert f"did you mean {runs[0]}" in done.err
    assert "did you mean" not in kailab("evidence", "show", "nothing-like-it").err


def test_replay(kailab, runs: tuple[str, str, str], home: Path) -> None:
    same = kailab("evidence", "replay")
    assert (same.code, same.err) == (0, "")
    assert same.out.startswith("1 test, 1 lab, ")
    assert same.out.endswith("all decisions are the same\n")
    assert kailab("evidence", "replay", runs[0], "test_one").out == same.out

    file = next((home / "evidence" / runs[1]).rglob("decisions.jsonl"))
    bind, *rest = file.read_text().splitlines(keepends=True)
    file.write_text("".join([bind.replace(json.loads(bind)["node"], "elsewhere"), *rest]))
    other = kailab("evidence", "replay", runs[1])
    assert other.code == 1
    assert "changed since it was written: changed: quota/test_one/lab/decisions.jsonl" in other.err
    number = json.loads(bind)["cycle"]
    assert f"quota/test_one (lab), cycle {number}: decisions differ" in other.out
    assert "bind default/p elsewhere -> " in other.out
    told = json.loads(kailab("evidence", "replay", runs[1], "-o", "json").out)
    assert (told["same"], told["difference"]["cycle"]) == (False, number)
    assert told["difference"]["recorded"][0]["node"] == "elsewhere"
    assert told["difference"]["again"][0]["node"] == json.loads(bind)["node"]

    file.with_name("cycles.jsonl").write_text("{")
    damaged = kailab("evidence", "replay", runs[1])
    assert damaged.code == 2
    assert "cycles.jsonl, line 1: not the head of recorded cycles" in damaged.err
    assert kailab("evidence", "replay", "no-such-run").code == 2


def test_a_run_signed_is_checked_by_key(kailab, runs: tuple[str, str, str], home: Path) -> None:
    made = kailab("evidence", "keygen", "key")
    assert made.code == 0
    fingerprint = made.out.split()[-1]
    assert kailab("evidence", "keygen", "key").code == 2
    unsigned = kailab("evidence", "verify", runs[0], "--key", "key.pub")
    assert (unsigned.code, "it is not signed" in unsigned.out) == (1, True)
    signed = kailab("evidence", "sign", runs[0], "--key", "key")
    assert (signed.code, signed.out.strip().startswith(f"evidence/{runs[0]}/signature-")) == (0, True)
    done = kailab("evidence", "verify", runs[0], "--key", "key.pub")
    assert done.code == 0
    assert f"the key {fingerprint} is valid" in done.out
    assert "The run is signed" in kailab("evidence", "verify", runs[0]).err
    assert kailab("evidence", "sign", runs[0], "--key", "key.pub").code == 2
    assert kailab("evidence", "verify", runs[0], "--key", "nothing").code == 2


def test_a_run_exported_is_whole_and_nothing_is_overwritten(kailab, runs: tuple[str, str, str], home: Path) -> None:
    first = kailab("evidence", "export", runs[0], "run.tar.gz")
    assert (first.code, first.err) == (0, "")
    again = kailab("evidence", "export", runs[0], "run.tar.gz")
    assert (again.code, "exists already" in again.err) == (2, True)
    assert kailab("evidence", "export", runs[0], "again.tar.gz").code == 0
    assert (home / "run.tar.gz").read_bytes() == (home / "again.tar.gz").read_bytes()
    with tarfile.open(home / "run.tar.gz") as archive:
        archive.extractall(home / "elsewhere", filter="data")
    assert kailab("evidence", "verify", "--evidence", "elsewhere").code == 0
    assert kailab("evidence", "diff", f"evidence/{runs[0]}", f"elsewhere/{runs[0]}").code == 0
    next((home / "evidence" / runs[1]).rglob("pods.json")).write_text("[]")
    damaged = kailab("evidence", "export", runs[1], "other.tar.gz")
    assert (damaged.code, "not exported: changed: " in damaged.err) == (2, True)
    assert kailab("evidence", "export", runs[2], "nowhere/run.tar.gz").code == 2
    assert sorted(path.name for path in home.iterdir()) == ["again.tar.gz", "elsewhere", "evidence", "run.tar.gz"]
