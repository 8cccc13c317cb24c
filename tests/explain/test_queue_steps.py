"""Proposals that change queues."""

from __future__ import annotations

import pytest

from kailab.explain.questions import ask
from kailab.explain.steps.question_context import QuestionContext
from kailab.explain.steps.queue_steps import raise_queue_priority
from kailab.explain.subject import SubjectRef
from kailab.lab import Lab
from tests.explain.manifests import Object, deployment, fleet, job, queue


def with_priority(obj: Object, priority: int | None) -> Object:
    return obj if priority is None else {**obj, "spec": {**obj["spec"], "priority": priority}}


@pytest.mark.parametrize(("own", "other", "raised"), [(0, 0, 1), (0, 50, 51), (None, 0, 101), (None, None, 101)])
def test_a_queue_priority_is_raised_above_all_others(own: int | None, other: int | None, raised: int) -> None:
    with Lab.open(fleet({"count": 1})) as lab:
        lab.apply([with_priority(queue("red"), own), with_priority(queue("blue"), other), deployment("web", "red")])
        lab.settle()
        context = QuestionContext(SubjectRef.of(lab, "Deployment", "web").state(lab), ())
        [family] = raise_queue_priority(context)
    [change] = family.proposals[0].changes
    assert change["patch"]["patch"] == {"spec": {"priority": raised}}
    assert family.proposals[0].do == f"Raise the priority of queue red to {raised}"


def test_a_step_for_a_part_of_the_work_of_a_queue_says_what_still_waits() -> None:
    with Lab.open(fleet({"count": 1})) as lab:
        lab.apply([queue("red", quota=1, limit=1), job("large", "red", gpus=9), job("fits", "red", gpus=2)])
        lab.settle()
        answer = ask(lab, "Queue", "red")
    assert [step.intent for step in answer.steps] == ["Raise the gpu limit of queue red to 2"]
    assert answer.steps[0].data()["outcome"] == {"running": 1, "evicted": [], "moved": [], "waiting": 1}
    [line] = answer.step_lines()
    assert line.startswith("To let a part of it run: Raise")
    assert line.endswith("(tried on a copy: 1 pod of it runs, 1 still waits)")
    assert answer.search_note == "No step was found that lets all of it run."
