"""Questions that ``explain`` answers: each kind has one, and what has none is refused."""

from __future__ import annotations

import pytest

from kailab.errors import InputError, NotFound
from kailab.lab import Lab

QUEUE = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "team-a"}, "spec": {}}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "labels": {"kai.scheduler/queue": "team-a"}},
    "spec": {"schedulerName": "kai-scheduler", "containers": [{"name": "main", "image": "x"}]},
}


@pytest.mark.parametrize("kind", ["Pod", "PodGroup", "Job", "Queue"])
def test_each_question_is_answered(kind: str) -> None:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "labels": {"kai.scheduler/queue": "team-a"}},
        "spec": {"template": {"spec": {**POD["spec"], "restartPolicy": "Never"}}},
    }
    with Lab.open() as lab:
        lab.apply(QUEUE, POD, job)
        lab.settle()
        group = next(name for _, name in lab.picture().podgroups)
        name = {"Pod": "a", "PodGroup": group, "Job": "j", "Queue": "team-a"}[kind]
        answer = lab.explain(kind, name)
        assert (answer.kind, answer.name) == (kind, name)
        assert name in answer.head
        assert answer.data()["verdict"] == answer.verdict


def test_what_no_question_is_about_is_refused() -> None:
    with Lab.open() as lab, pytest.raises(InputError, match="Node can't be explained; expected a pod"):
        lab.explain("Node", "node-1")


def test_an_object_of_an_unknown_kind_that_names_no_namespace_can_be_explained() -> None:
    with Lab.open() as lab:
        flow = {"apiVersion": "argoproj.io/v1alpha1", "kind": "AnalysisRun", "metadata": {"name": "nightly"}}
        lab.apply([flow])
        found = lab.explain("AnalysisRun.argoproj.io", "nightly")
        assert found.cause is not None
        assert found.cause.code == "NoController"
        with pytest.raises(NotFound, match="not found; there are: nightly"):
            lab.explain("AnalysisRun.argoproj.io", "weekly")
