"""Pods that have no PodGroup: who is to place them, and why they have none, come before what their queue label says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kailab.explain.questions import ask
from kailab.lab import Lab
from kailab.lab.answer import CauseCode
from tests.builders import job
from tests.explain.building import queue


@pytest.fixture
def lab() -> Iterator[Lab]:
    with Lab.open() as lab:
        yield lab


def pod(name: str, queue: str, **annotations: str) -> dict[str, Any]:
    spec = {"schedulerName": "kai-scheduler", "containers": [{"name": "c", "image": "pause"}]}
    metadata = {"name": name, "labels": {"kai.scheduler/queue": queue}, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def told(lab: Lab, kind: str, name: str) -> tuple[str, CauseCode | None]:
    lab.settle()
    answer = ask(lab, kind, name)
    return str(answer.verdict), answer.cause.code if answer.cause else None


def test_pods_of_a_labelled_job_that_name_no_scheduler_wait_for_one(lab: Lab) -> None:
    """The label stands on the Job; that it is missing would be false."""
    work = job("tune", "team", 2)
    del work["spec"]["template"]["spec"]["schedulerName"], work["spec"]["template"]["metadata"]["labels"]
    lab.apply([queue("team", quota=-1), work])
    assert told(lab, "Job", "tune") == ("never", CauseCode.OTHER_SCHEDULER)
    answer = ask(lab, "Job", "tune")
    assert "default-scheduler" in answer.cause.sentence
    (step, *_) = answer.steps
    assert (step.checked, step.outcome.running) == (True, 2)
    assert "kai-scheduler" in step.do


def test_whoever_adopts_the_default_scheduler_s_pods_places_them() -> None:
    with Lab.open(adopt_default_scheduler=True) as lab:
        work = job("tune", "team", 2)
        del work["spec"]["template"]["spec"]["schedulerName"]
        lab.apply([queue("team", quota=-1), work])
        assert told(lab, "Job", "tune") == ("running", None)


def test_pods_of_a_scheduler_that_kailab_does_not_decide_for_are_not_judged() -> None:
    """kube-scheduler is there and has said its own word of them."""
    with Lab.open(scheduler="kailab+kube-scheduler") as lab:
        work = job("large", "team", 1, gpus=99)
        del work["spec"]["template"]["spec"]["schedulerName"]
        lab.apply([queue("team", quota=-1), work])
        lab.settle()
        answer = ask(lab, "Job", "large")
        assert (answer.verdict, answer.cause.code) == (None, CauseCode.OTHER_SCHEDULER)
        assert "nobody" not in answer.cause.sentence


def test_what_can_t_be_grouped_is_told_with_the_grouper_s_reason(lab: Lab) -> None:
    worker = {"template": {"spec": {"schedulerName": "kai-scheduler", "containers": [{"name": "c", "image": "x"}]}}}
    metadata = {"name": "ring", "labels": {"kai.scheduler/queue": "team"}}
    spec = {"pytorchReplicaSpecs": {"Worker": worker}}
    lab.apply(
        [
            queue("team", quota=-1),
            {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": metadata, "spec": spec},
        ]
    )
    assert told(lab, "PyTorchJob", "ring") == ("never", CauseCode.GROUPING_FAILED)
    assert "replicas" in ask(lab, "PyTorchJob", "ring").cause.sentence


def test_a_podgroup_that_is_named_and_not_there_is_told_by_name(lab: Lab) -> None:
    lab.apply([queue("team", quota=-1), pod("lone", "team", **{"pod-group-name": "absent"})])
    assert told(lab, "Pod", "lone") == ("never", CauseCode.POD_GROUP_MISSING)
    assert "default/absent" in ask(lab, "Pod", "lone").cause.sentence


def test_what_asks_to_be_left_ungrouped_says_so(lab: Lab) -> None:
    lab.apply([queue("team", quota=-1), pod("lone", "team", **{"kai.scheduler/skip-podgrouper": "true"})])
    assert told(lab, "Pod", "lone") == ("never", CauseCode.POD_GROUP_MISSING)
    assert "skip-podgrouper" in ask(lab, "Pod", "lone").cause.sentence
