"""Limits at several levels: each sentence has the amounts that queues hold now, not those after some pods were placed."""

from __future__ import annotations

from kailab.lab import Lab
from kailab.lab.answer import CauseCode
from tests.explain.manifests import deployment, fleet, job, queue


def test_a_limit_that_only_later_pods_would_meet_is_no_cause_now() -> None:
    with Lab.open(fleet({"count": 5, "gpus": 4})) as lab:
        lab.apply([queue("org", quota=-1, limit=12), queue("team", "org", limit=4), deployment("first", "team", 4)])
        lab.settle()
        lab.apply([job("late", "team", 6, 4)])
        lab.settle()
        answer = lab.explain("Job", "late", tried=False)
    causes = [cause for cause in (answer.cause, *answer.more) if cause is not None]
    assert [(cause.facts["queue"], cause.facts["held"]) for cause in causes if cause.code is CauseCode.OVER_LIMIT] == [
        ("team", 4_000)
    ]
    assert all("holds 12 GPUs" not in line for line in answer.lines(everything=True))
