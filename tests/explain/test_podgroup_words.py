"""Steps for a PodGroup that a user made: their words name the field that is set, as labels of pods do not reach it."""

from __future__ import annotations

import pytest

from kailab.lab import Lab
from kailab.model.objects import Object
from tests.explain.manifests import fleet, pod, queue


def _group(queue: str, least: int) -> Object:
    spec = {"queue": queue, "minMember": least, "priorityClassName": "build"}
    return {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec}


@pytest.mark.parametrize(
    ("named", "field"), [("team-bb", "spec.queue: team-b"), ("team-a", "spec.preemptibility: preemptible")]
)
def test_a_step_says_which_field_of_the_podgroup_it_sets(named: str, field: str) -> None:
    with Lab.open(fleet()) as lab:
        lab.apply([queue("team-a", quota=0), queue("team-b"), _group(named, 1)])
        lab.apply([pod("g-0", named, annotations={"pod-group-name": "g"})])
        lab.settle()
        steps = [step for step in lab.explain("PodGroup", "g").steps if "PodGroup" in step.do]
    assert any(f" (in PodGroup g: {field})" in step.do for step in steps), [step.do for step in steps]
    for step in steps:
        assert {change["patch"]["kind"] for change in step.changes if "patch" in change} == {"PodGroup"}
