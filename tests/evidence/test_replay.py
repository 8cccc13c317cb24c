"""Decided again from the folder alone: the same, or the first cycle that is not."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kailab.errors import EvidenceError
from kailab.evidence import cycles, store
from kailab.evidence.recorder import Recorder, write_test
from kailab.evidence.replay import replay_run
from kailab.evidence.run import RunFolder
from kailab.lab import Lab

MANIFESTS = Path(__file__).parents[2] / "exercises" / "reclaim" / "manifests"
TEST = "reclaim/test_owner"


def recorded(scheduler: str = "kailab", **how: object) -> Recorder:
    """An owner comes back to its quota: binds, evictions, promises, and work that waits."""
    recorder = Recorder()
    with Lab.open(scheduler=scheduler, observers=[recorder], **how) as lab:
        lab.apply(MANIFESTS / "queues.yaml", MANIFESTS / "borrower.yaml")
        lab.settle()
        lab.apply(MANIFESTS / "owner.yaml")
        lab.settle()
        lab.advance(120)
    return recorder


def written(root: Path, *recorders: Recorder) -> Path:
    run = RunFolder.begin(root)
    exercise, test = TEST.split("/")
    run.write(exercise, test, lambda folder: write_test(folder, TEST, recorders, "passed"))
    run.finish()
    return run.path


@pytest.fixture(scope="module")
def owner() -> Recorder:
    return recorded()


@pytest.fixture
def run(tmp_path: Path, owner: Recorder) -> Path:
    return written(tmp_path, owner)


def lines_of(run: Path) -> list[dict]:
    return [json.loads(line) for line in gzip.decompress(packed(run).read_bytes()).splitlines()]


def packed(run: Path) -> Path:
    return run / TEST / "lab" / f"{cycles.NAME}.gz"


def altered(run: Path, change: Callable[[list[dict]], object]) -> None:
    lines = lines_of(run)
    change(lines)
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    packed(run).write_bytes(gzip.compress(content))


def test_every_decision_is_the_same(run: Path) -> None:
    found = replay_run(run)
    assert found.same
    assert (found.tests, found.labs, found.problems) == (1, 1, ())
    assert found.cycles == store.load_test(run, TEST).result.cycles > 3
    assert found.decisions >= 48 + 16, "32 binds, 16 evictions, 16 binds"
    assert str(found).endswith("all decisions are the same")


def test_a_configuration_of_the_scheduler_is_kept(tmp_path: Path) -> None:
    """Also past use, which is another in each cycle."""
    config = {
        "tiers": [{"plugins": [{"name": "proportion", "arguments": {"kValue": "1.0"}}]}],
        "usageDBConfig": {"clientType": "prometheus"},
    }
    found = replay_run(written(tmp_path, recorded(config=config)))
    assert found.same, str(found)
    assert found.labs == 1


def test_one_decision_altered_is_named_with_both_sides(run: Path) -> None:
    def move(lines: list[dict]) -> None:
        for line in lines[1:]:
            if len(line["decisions"]["evictions"]) > 2:
                line["decisions"]["evictions"][2]["node"] = "nowhere"
                altered_cycles.append(line["number"])
                return

    altered_cycles: list[int] = []
    altered(run, move)
    found = replay_run(run)
    assert found.difference is not None
    assert (found.difference.test, found.difference.lab) == (TEST, "lab")
    assert [found.difference.cycle] == altered_cycles
    (what,) = found.difference.what
    recorded, again = what.split(" -> ")
    assert recorded.endswith("nowhere")
    assert recorded.replace("nowhere", "") == again[: again.rindex(" ") + 1], "the same pod of the same cycle"
    assert found.difference.recorded["evictions"][2]["node"] == "nowhere"
    assert found.difference.again["evictions"][2]["node"] != "nowhere"
    assert found.problems == (f"changed: {TEST}/lab/cycles.jsonl.gz",)


def test_what_people_read_is_compared_too(run: Path) -> None:
    file = run / TEST / "lab" / "decisions.jsonl"
    entries = [json.loads(line) for line in file.read_text().splitlines()]
    evict = next(entry for entry in entries if entry["decision"] == "evict")
    evict["beneficiary_queue"] = "somebody"
    file.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    found = replay_run(run)
    assert found.difference is not None
    assert (found.difference.cycle, found.difference.file) == (evict["cycle"], "decisions.jsonl")
    assert "beneficiary_queue somebody -> team-b" in str(found)


def test_a_decision_that_was_taken_out_or_put_in(run: Path) -> None:
    file = run / TEST / "lab" / "decisions.jsonl"
    entries = file.read_text().splitlines(keepends=True)
    file.write_text("".join(entries[:-1]))
    taken = replay_run(run).difference
    assert taken is not None
    assert taken.cycle == json.loads(entries[-1])["cycle"]
    file.write_text("".join(entries) + entries[-1].replace('"cycle":', '"cycle":9'))
    put = replay_run(run).difference
    assert put is not None
    assert put.cycle > taken.cycle


def test_another_record_gives_another_decision(run: Path) -> None:
    """The inputs are what is decided on: with one node less, the first cycle in which that shows is named."""

    def without_a_node(lines: list[dict]) -> None:
        del lines[1]["changes"]["set"]["nodes"][0]

    altered(run, without_a_node)
    found = replay_run(run)
    assert found.difference is not None
    assert found.difference.file == cycles.NAME


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-20]), r"cycles\.jsonl\.gz: can't be read"),
        (lambda path: path.write_bytes(gzip.compress(b"{}\n")), "line 1: not the head of recorded cycles"),
        (lambda path: path.write_bytes(gzip.compress(b"")), "a head expected"),
    ],
)
def test_damage_is_an_error_with_its_place(run: Path, damage: Callable[[Path], object], told: str) -> None:
    damage(packed(run))
    with pytest.raises(EvidenceError, match=told):
        replay_run(run)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda lines: lines.pop(), r"\d+ cycles expected, \d+ cycles found"),
        (lambda lines: lines[0].update(format=99), "line 1: .*format 99; this kailab reads format 1"),
        (lambda lines: lines[1].pop("config"), "cycle 1 has no configuration"),
        (lambda lines: lines[1].update(queues=[[5, 2]]), "cycle 1 refers to what the one before does not have"),
        (lambda lines: lines[2].update(now="late"), "line 3: not a recorded cycle"),
    ],
)
def test_cycles_that_make_no_sense(run: Path, change: Callable[[list[dict]], object], told: str) -> None:
    altered(run, change)
    with pytest.raises(EvidenceError, match=told):
        replay_run(run)


def test_evidence_of_an_older_kailab(run: Path) -> None:
    result = run / TEST / "result.json"
    result.write_text(json.dumps({**json.loads(result.read_text()), "format": 2}))
    with pytest.raises(EvidenceError, match="format 2; this one reads format 3"):
        replay_run(run)


def test_another_scheduler_has_nothing_to_replay(tmp_path: Path) -> None:
    found = replay_run(written(tmp_path, recorded("kube-scheduler")))
    assert found.same
    assert str(found) == "nothing to replay"
    assert found.passed_over == {f"{TEST} (lab)": "decided by kube-scheduler: there are no cycles of kailab's engine"}


def test_kailab_under_a_name_of_its_own(tmp_path: Path) -> None:
    """Its kind decides whether there is something to replay, not what it goes by."""
    names = tmp_path / "names.yaml"
    names.write_text("mine: {kind: kailab}\nbaseline: {kind: kube-scheduler}\n")
    found = replay_run(written(tmp_path / "mine", recorded(f"mine@{names}")))
    assert found.same
    assert found.labs == 1
    assert found.passed_over == {}

    idle = Recorder()
    with Lab.open(scheduler=f"mine@{names}", observers=[idle]):
        pass
    run = written(tmp_path / "idle", idle)
    facts = store.load_test(run, TEST).labs["lab"]
    assert (facts.scheduler, facts.scheduler_kind) == ("mine", "kailab")
    assert replay_run(run).passed_over == {f"{TEST} (lab)": "no cycle ran, or its scheduler kept none"}

    other = replay_run(written(tmp_path / "baseline", recorded(f"baseline@{names}")))
    assert other.passed_over == {f"{TEST} (lab)": "decided by baseline: there are no cycles of kailab's engine"}


def test_a_cycle_keeps_what_changed(owner: Recorder) -> None:
    """What is the same as in the cycle before is not kept again, neither records nor reasons to wait."""
    first, *later = owner.recording.cycles
    assert first.changes.whole
    assert len(first.changes.set.nodes) == 5
    assert not any(cycle.changes.whole or cycle.changes.set.nodes for cycle in later)
    assert any(isinstance(entry, tuple) for cycle in later for entry in (*cycle.pending, *cycle.queues))
    again = list(cycles.whole_cycles(owner.recording.cycles))
    assert [len(decisions.queues) for _, _, decisions in again] == [3] * len(again)
