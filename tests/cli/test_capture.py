"""The evidence of a lab in hand: as a test leaves it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kailab.evidence import store
from kailab.evidence.entries import PodBound, PodEvicted
from kailab.evidence.recorder import Recorder, write_test
from kailab.lab import Lab

MANIFESTS = Path(__file__).parents[2] / "exercises" / "reclaim" / "manifests"
STEPS = (("queues.yaml", "borrower.yaml"), ("owner.yaml",))


@pytest.fixture
def captured(kailab, home: Path) -> Path:
    """The folder of the test that a lab by hand was written as."""
    kailab("up")
    for files in STEPS:
        assert kailab("apply", *(part for name in files for part in ("-f", str(MANIFESTS / name)))).code == 0
    assert kailab("run", "--for", "2m").code == 0
    done = kailab("evidence", "capture")
    assert done.code == 0, done.err
    return Path(done.out.strip())


def by_a_test() -> Recorder:
    recorder = Recorder()
    with Lab.open(observers=[recorder]) as lab:
        lab.settle()
        for files in STEPS:
            lab.apply(*(MANIFESTS / name for name in files))
            lab.settle()
        lab.settle()
        lab.advance(120)
        lab.settle()
    return recorder


def test_a_lab_by_hand_leaves_what_a_test_leaves(captured: Path, tmp_path: Path) -> None:
    write_test(tmp_path / "test", "e/t", [by_a_test()], "passed")
    other = store.load_test(tmp_path, "test")
    hand = store.load_test(captured, "lab/by-hand")
    assert hand.outcome == "captured"
    assert hand.labs["lab"] == other.labs["lab"]
    assert hand.text("lab", "fleet.yaml") == other.text("lab", "fleet.yaml")
    assert [(s.n, s.t, s.operation, s.text) for s in hand.steps("lab")] == [
        (s.n, s.t, s.operation, s.text) for s in other.steps("lab")
    ]
    for number, name in enumerate(("queues", "borrower", "owner"), 1):
        file = f"manifests/{number:02d}-{name}.yaml"
        assert hand.text("lab", file) == other.text("lab", file)
    for look in ("before", "after"):
        for kind in ("nodes", "queues", "pods"):
            names = [[one["metadata"]["name"] for one in test.objects("lab", look, kind)] for test in (hand, other)]
            assert names[0] == names[1]
    assert decided(hand) == decided(other)
    assert [entry.reason for entry in hand.pending("lab")] == [entry.reason for entry in other.pending("lab")]
    assert hand.states("lab").keys() == other.states("lab").keys()


def decided(test: store.TestEvidence) -> list[tuple[str, ...]]:
    """Binds and evictions; how often a cycle ran that changed nothing depends on who asked."""
    found = [one for one in test.decisions("lab") if isinstance(one, PodBound | PodEvicted)]
    return [(type(one).__name__, str(one.t), one.pod, one.node, one.action) for one in found]


def test_all_that_reads_evidence_reads_it(captured: Path, kailab) -> None:
    assert kailab("evidence", "verify").code == 0
    assert "lab/by-hand   captured   kailab" in kailab("evidence", "show").out
    shown = kailab("evidence", "show", "by-hand").out
    assert shown.index("bind 32 pods of borrower") < shown.index("apply owner.yaml") < shown.index("evict 16 pods")
    assert "lab/by-hand" not in kailab("report").err
    replayed = json.loads(kailab("evidence", "replay", "-o", "json").out)
    assert replayed["same"]
    assert replayed["decisions"] >= 32 + 16 + 16
    again = kailab("evidence", "capture")
    assert kailab("evidence", "diff", captured.name, Path(again.out.strip()).name).code == 0, (
        "the lab goes on as it was"
    )


def test_another_folder_and_a_refused_command(kailab, home: Path) -> None:
    kailab("up")
    assert kailab("apply", "-f", str(MANIFESTS / "nothing.yaml")).code == 2
    assert kailab("apply", "--dry-run", "-f", str(MANIFESTS / "queues.yaml")).code == 0
    done = kailab("evidence", "capture", "elsewhere")
    run = Path(done.out.strip())
    assert run.parent == Path("elsewhere")
    test = store.load_test(home / run, "lab/by-hand")
    assert [step.operation for step in test.steps("lab")] == ["settle"], "only what was done to the lab"


def test_nothing_to_capture(kailab, home: Path) -> None:
    none = kailab("evidence", "capture")
    assert none.code == 2
    assert "no lab is here" in none.err
    kailab("up")
    for path in (home / ".kailab").glob("*.record/*"):
        path.unlink()
    unrecorded = kailab("evidence", "capture")
    assert unrecorded.code == 2
    assert "this lab has no record" in unrecorded.err
    assert not (home / "evidence").exists()


def test_a_damaged_record_spoils_no_command(kailab, home: Path) -> None:
    kailab("up")
    (home / ".kailab" / "lab.state.record" / "so_far").write_text("{")
    done = kailab("apply", "-f", str(MANIFESTS / "queues.yaml"))
    assert done.code == 0
    assert "the steps of this command are not recorded" in done.err
    assert kailab("get", "queue", "team-a").code == 0


def test_the_record_goes_with_the_lab(kailab, home: Path) -> None:
    kailab("up")
    kailab("apply", "-f", str(MANIFESTS / "queues.yaml"))
    kailab("down")
    assert not list((home / ".kailab").glob("*.record"))
    kailab("up")
    kailab("up", "--fresh", "--fleet", "hundred")
    run = Path(kailab("evidence", "capture").out.strip())
    test = store.load_test(home / run, "lab/by-hand")
    assert test.labs["lab"].fleet == "hundred"
    assert test.expectations("lab") == []
