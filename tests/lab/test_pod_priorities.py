"""Priorities that pods say themselves, told when they are applied."""

from __future__ import annotations

from typing import Any

import pytest

from kailab.lab import Lab


def warnings(**spec: Any) -> list[str]:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "x"}], **spec},
    }
    with Lab.open("lesson") as lab:
        return [text for text in lab.apply(pod).warnings if "spec.priority:" in text]


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"priority": 5}, "without a class it is 0"),
        ({"priority": 5, "priorityClassName": "build"}, "its class build has 100"),
    ],
)
def test_a_priority_that_is_not_the_class_s_is_told(spec, told):
    (said,) = warnings(**spec)
    assert told in said
    assert said.endswith("in a cluster the pod is refused")


def test_the_number_of_the_class_as_dumps_have_it_needs_no_word():
    assert not warnings(priority=0)
    assert not warnings(priority=100, priorityClassName="build")


def test_a_preemption_policy_that_is_not_the_class_s_is_told():
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    spec = {"containers": [{"name": "c", "image": "x"}], "priorityClassName": "build", "preemptionPolicy": "Never"}
    with Lab.open("lesson") as lab:
        said = [
            notice for notice in lab.apply({**pod, "spec": spec}).notices if notice.in_cluster == "the pod is refused"
        ]
    assert [notice.where.field for notice in said] == ["spec.preemptionPolicy"]
