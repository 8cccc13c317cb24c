from __future__ import annotations

import pytest

from checks.recorded import queue_rules
from checks.recorded.fairshare import KINDS


def share(deserved=-1, max_allowed=-1, allocated=0, fair_share=0):
    return {
        "deserved": deserved,
        "max_allowed": max_allowed,
        "over_quota_weight": 1,
        "request": 0,
        "allocated": allocated,
        "fair_share": fair_share,
    }


def queue(uid, **gpu):
    return {"uid": uid, "name": uid, "priority": 100, "gpu": share(**gpu), "cpu": share(), "memory": share()}


def reclaim(fair_share, output):
    given = {
        "queues": [queue("q", allocated=1, fair_share=fair_share)],
        "reclaimer": {"queue": "q", "preemptible": True, "required": {"gpu": 1}},
    }
    return {"input": given, "output": output}


@pytest.mark.parametrize(("fair_share", "may"), [(2, True), (1.5, False)])
def test_agreement_and_difference_are_told_apart(fair_share, may):
    assert queue_rules.can_reclaim_resources(reclaim(fair_share, may)) == []
    assert queue_rules.can_reclaim_resources(reclaim(fair_share, not may)) == [f"{may}, KAI had {not may}"]


def test_the_rules_are_run_with_the_divisions():
    assert set(queue_rules.KINDS) < set(KINDS)
