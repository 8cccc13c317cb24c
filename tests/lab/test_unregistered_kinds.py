"""Objects of kinds that nobody knows, with what may be the template of a pod in them: read as far as they can be, and told where not."""

from __future__ import annotations

from typing import Any

import pytest

from kailab.advice.practice import lint
from kailab.lab import Lab
from kailab.model.manifests import from_objects

GPU = {"limits": {"nvidia.com/gpu": 1}}


def trainer(name: str = "a", **template: Any) -> dict[str, Any]:
    spec = {"schedulerName": "kai-scheduler", "containers": [{"name": "c", "image": "x", "resources": GPU}]}
    meta = template.pop("metadata", {})
    return {
        "apiVersion": "example.com/v1",
        "kind": "Trainer",
        "metadata": {"name": name, "labels": {"kai.scheduler/queue": "team"}},
        "spec": {"role": {"podTemplate": {"metadata": meta, "spec": {**spec, **template}}}},
    }


@pytest.mark.parametrize(
    ("template", "field"),
    [
        ({"containers": [1.5]}, "spec.containers[0]"),
        ({"containers": [{"name": "c", "resources": {"limits": 1, "requests": {"nvidia.com/gpu": 1}}}]}, "spec.containers[0].resources.limits"),
        ({"containers": [{"name": "c", "resources": True}]}, "spec.containers[0].resources"),
        ({"containers": [{"name": "c", "lifecycle": "x"}]}, "spec.containers[0].lifecycle"),
        ({"volumes": True}, "spec.volumes"),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": 5}]}, "spec.volumes[0].persistentVolumeClaim"),
        ({"affinity": []}, "spec.affinity"),
        ({"nodeSelector": 5}, "spec.nodeSelector"),
        ({"schedulerName": ["kai-scheduler"]}, "spec.schedulerName"),
        ({"priorityClassName": {}}, "spec.priorityClassName"),
        ({"terminationGracePeriodSeconds": "30"}, "spec.terminationGracePeriodSeconds"),
        ({"metadata": {"labels": [1]}}, "metadata.labels"),
        ({"metadata": {"annotations": 7}}, "metadata.annotations"),
        ({"metadata": 5}, "metadata"),
    ],
)  # fmt: skip
def test_what_can_t_be_read_as_a_pod_is_told_with_its_field(template, field, queue):
    odd = trainer(**template)
    with Lab.open("lesson") as lab:
        applied = lab.apply(queue("team", 4), odd)
        lab.settle()
        assert [change.what for change in applied.changes] == ["created", "created"]
        path = f"spec.role.podTemplate.{field}"
        assert [text for text in applied.warnings if f"{path}: " in text and "can't read this as a pod" in text]
        # The sound one over it, and the odd one over that.
        assert not [text for text in lab.apply(trainer()).warnings if "as a pod" in text]
        lab.apply(odd)
        lab.settle()
    lint(from_objects([odd]))


def test_lists_of_an_object_are_merged_by_names_only_where_all_are_names(queue):
    odd = trainer(initContainers=[{"name": ["c", "c"]}])
    with Lab.open("lesson") as lab:
        lab.apply(queue("team", 4), odd)
        lab.apply(trainer(initContainers=[{"name": "c"}]))
        lab.apply(odd)
        stored = lab.cluster.get("Trainer.example.com", "a", "")
    assert stored["spec"]["role"]["podTemplate"]["spec"]["initContainers"] == [{"name": ["c", "c"]}]
