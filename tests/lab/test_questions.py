"""Questions that ``explain`` answers: each kind has one, and what has none is refused."""

from __future__ import annotations

import pytest

from kailab.errors import InputError
from kailab.lab import Lab
from kailab.lab.explain import QUESTIONS, explain

QUEUE = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "team-a"}, "spec": {}}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "labels": {"kai.scheduler/queue": "team-a"}},
    "spec": {"schedulerName": "kai-scheduler", "containers": [{"name": "main", "image": "x"}]},
}


def test_each_question_is_answered() -> None:
    with Lab.open() as lab:
        lab.apply(QUEUE, POD)
        lab.settle()
        (group,) = lab.get("PodGroup")
        names = {"Pod": "a", "PodGroup": group["metadata"]["name"], "Queue": "team-a"}
        for kind in QUESTIONS:
            (answer,) = explain(lab, kind, names[kind], "default")
            assert answer.kind == kind.lower()
            assert names[kind] in answer.lines[0]
            assert str(lab.explain(kind, names[kind])[0]) == str(answer)


def test_a_workload_is_explained_by_its_podgroups() -> None:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "labels": {"kai.scheduler/queue": "team-a"}},
        "spec": {"template": {"spec": {**POD["spec"], "restartPolicy": "Never"}}},
    }
    with Lab.open() as lab:
        lab.apply(QUEUE, job)
        lab.settle()
        assert [one.kind for one in lab.explain("Job", "j")] == ["podgroup"]


def test_what_no_question_is_about_is_refused() -> None:
    with Lab.open() as lab, pytest.raises(InputError, match="Node can't be explained; expected a pod"):
        lab.explain("Node", "node-1")
