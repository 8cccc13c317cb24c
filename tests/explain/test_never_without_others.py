"""Work that never runs is explained by what stops it without other work, also if the same kind of cause holds now."""

from __future__ import annotations

from kailab.lab import Lab
from kailab.lab.answer import CauseCode, Verdict
from tests.explain.manifests import deployment, fleet, queue


def test_the_cause_without_others_is_told_where_another_of_its_code_holds_now() -> None:
    with Lab.open(fleet({"count": 2, "gpus": 8}, {"count": 2, "gpus": 4})) as lab:
        lab.apply([queue("ours", quota=4), queue("theirs", quota=16), deployment("other", "theirs", 2, 7)])
        lab.settle()
        # Two of its three pods fit on the nodes of 8 GPUs, so it never runs as a whole; now other work is on both.
        lab.apply([deployment("whole", "ours", 3, 8)])
        lab.settle()
        now = lab.explain("Deployment", "whole", tried=False)
    assert now.verdict is Verdict.NEVER
    assert now.cause is not None
    assert now.cause.code is CauseCode.FRAGMENTED
    assert now.cause.sentence.startswith("Without other work: ")
    assert "8 are free in sum on the 2 nodes" in now.cause.sentence
