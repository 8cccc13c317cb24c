"""Proposals that change queues."""

from __future__ import annotations

import pytest

from kailab.explain.steps.question_context import QuestionContext
from kailab.explain.steps.queue_steps import raise_queue_priority
from kailab.explain.subject import SubjectRef
from kailab.lab import Lab
from tests.explain.manifests import Object, deployment, fleet, queue


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
