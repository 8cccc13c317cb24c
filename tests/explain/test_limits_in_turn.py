"""Limits at several levels: each sentence has the amounts that queues hold now, not those after some pods were placed."""

from __future__ import annotations

from kailab.lab import Lab
from kailab.lab.answer import CauseCode
from tests.explain.manifests import deployment, fleet, job, pod, queue


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


def test_a_delay_is_no_reason_where_a_limit_refuses_the_work_also_after_it() -> None:
    with Lab.open(fleet({"count": 1, "gpus": 4})) as lab:
        lab.apply([queue("org", quota=-1, limit=4), queue("team", "org", limit=4), deployment("first", "team", 4)])
        lab.settle()
        lab.apply([pod("late", "team", annotations={"kai.scheduler/preemption-delay": "1h"})])
        lab.settle()
        answer = lab.explain("Pod", "late", tried=False)
        [table] = lab.picture().waiting()
    assert answer.cause is not None
    assert str(answer.cause.code) == table.reason == CauseCode.OVER_LIMIT


def test_work_that_the_queue_depth_leaves_untried_is_refused_by_its_queue_in_tables_too() -> None:
    config = {"queueDepthPerAction": {"allocate": 1}}
    with Lab.open(fleet({"count": 1, "gpus": 4}), config=config) as lab:
        lab.apply([queue("team", quota=2), deployment("first", "team", 4, priority="build")])
        lab.settle()
        table = lab.picture().pending
        assert {entry.reason for entry in table.values()} == {CauseCode.NON_PREEMPTIBLE_OVER_QUOTA}
