"""Labs that never settle, as KAI decides: they are reported, and their answers are not judged."""

from __future__ import annotations

import json

import pytest

from checks.explaining import judging, removal
from checks.explaining.judging import judge_situation
from checks.explaining.random_situation import seeded
from checks.explaining.run import Findings, SeedResult
from checks.explaining.workloads import AppliedWorkload
from kailab.engine.ledger import Ledger
from kailab.lab.answer import Answer, CauseCode
from kailab.lab.change import read_changes
from kailab.lab.settle import EndlessMoves
from kailab.lab.venues.embedded import explain_endless_moves
from tests.checks.test_explaining import LIMITED


def test_what_never_comes_to_rest_is_named_and_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(*_: object, **__: object) -> Answer:
        raise EndlessMoves("the lab does not settle")

    monkeypatch.setattr(judging, "ask", ask)
    findings = Findings([SeedResult(1, tuple(judge_situation(LIMITED)))])
    assert (findings.asked, findings.share, len(findings.restless)) == (0, 100.0, 1)
    assert "case 1, job work is not judged: the lab does not settle" in findings.text()
    assert json.loads(findings.as_json())["restless"][0]["work"] == "job work"


@pytest.mark.slow
def test_a_lab_in_which_pods_are_moved_for_work_that_has_room_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its queues have a job in front that never runs, and allocate tries one job of each. Promises are forgotten, as by KAI."""
    monkeypatch.setattr(Ledger, "made_room_for", lambda _: ())
    situation, work = seeded(50066), AppliedWorkload("Deployment", "w0")
    with situation.opened() as lab, lab.fork() as trial:
        assert explain_endless_moves(trial._parts.scheduler) == ""
        more = removal.cause_removal(situation, lab, work, CauseCode.NOT_ENOUGH_CPU)
        assert more is not None
        for change in read_changes(list(more.steps)):
            change.do(trial)
        for _ in trial.moments(100):
            pass
        assert "would start at once, but allocate tries only 1 job of each queue" in explain_endless_moves(
            trial._parts.scheduler
        )
