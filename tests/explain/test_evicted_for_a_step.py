"""What a step costs others: only pods that had a place before are told as evicted."""

from __future__ import annotations

from kailab.lab import Lab
from tests.explain.manifests import fleet, job, queue


def test_work_that_waited_before_the_step_is_not_told_as_evicted() -> None:
    taint = {"key": "lab/reserved", "value": "yes", "effect": "NoSchedule"}
    with Lab.open(fleet({"count": 2, "gpus": 4, "taints": [taint]})) as lab:
        lab.apply([queue("ours", quota=8), queue("theirs", quota=0), job("small", "theirs", 1, 4)])
        lab.settle()
        lab.apply([job("gang", "ours", 2, 4, gang=True)])
        lab.settle()
        answer = lab.explain("Job", "gang")
        running = [pod for pod in lab.cluster.list("Pod") if pod["spec"].get("nodeName")]
    untainting = [step for step in answer.steps if step.do.startswith("Remove the taint")]
    assert not running
    assert untainting
    for step in untainting:
        # After the first node the small job gets a place, which the gang takes back after the second.
        assert step.outcome is not None
        assert step.outcome.running == 2
        assert step.outcome.evicted == ()
