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


def test_a_job_that_fails_because_its_pod_is_moved_is_named() -> None:
    held, beside = job("held", "team", 1, 2), job("beside", "team", 1, 2)
    for fragile in (held, beside):
        fragile["spec"]["backoffLimit"] = 0
    with Lab.open(fleet({"count": 2, "gpus": 4})) as lab:
        lab.apply([queue("team", quota=8), held, job("filler", "team", 1, 2)])
        lab.settle()
        lab.apply([beside])
        lab.settle()
        lab.delete("Job", "filler")
        lab.apply([job("big", "taem", 1, 4)])
        lab.settle()
        step = lab.explain("Job", "big").steps[0]
    assert step.outcome is not None
    [moved] = step.outcome.moved
    [failed] = step.outcome.failed
    assert failed == f"Job {moved.partition('/')[2].rpartition('-')[0]} (BackoffLimitExceeded)"
    assert "then fails" in step.describe()
