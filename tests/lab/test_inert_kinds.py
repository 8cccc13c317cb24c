"""Kinds on which nothing in an embedded lab acts: told when they are applied, by one rule over all kinds."""

from __future__ import annotations

from typing import Any

import pytest

from kailab.lab.inert_kinds import acts, makes_no_pods
from kailab.model.kind import Kind
from kailab.model.kinds import KINDS, registered_kinds


def _object(kind: str, **parts: Any) -> dict[str, Any]:
    known = KINDS[kind]
    space = {"namespace": "default"} if known.namespaced else {}
    return {"apiVersion": known.api_version, "kind": known.kind, "metadata": {"name": "one", **space}, **parts}


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        (
            "HorizontalPodAutoscaler",
            {"spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "x"}}},
        ),
        ("Config", {"spec": {}}),
        ("BindRequest", {"spec": {}}),
    ],
)
def test_a_kind_that_a_cluster_acts_on_is_said_to_be_kept_and_no_more(lab, kind: str, parts: dict[str, Any]) -> None:
    (said,) = lab.apply(_object(kind, **parts)).warnings
    assert said.startswith(f"{kind}/")
    assert f"nothing in an embedded lab acts on a {kind}; in a cluster {KINDS[kind].in_cluster}" in said


@pytest.mark.parametrize("kind", ["CronWorkflow", "SeldonDeployment", "DevWorkspace", "RunaiJob", "VirtualMachine"])
def test_a_kind_whose_pods_an_operator_would_make_is_said_to_get_none(lab, kind: str) -> None:
    (said,) = lab.apply(_object(kind, spec={})).warnings
    assert f"is kept, but kailab makes no pods for a {kind}" in said
    assert "; in a cluster " in said


def test_each_kind_is_told_once_for_all_its_objects(lab) -> None:
    several = [{**_object("DevWorkspace", spec={}), "metadata": {"name": f"n{number}"}} for number in range(3)]
    assert len(lab.apply(several).warnings) == 1


def test_a_kind_of_somebody_else_is_told_of_until_it_has_a_controller(lab) -> None:
    with registered_kinds(Kind(group="example.com", kind="Ship", versions=("v1",), plural="ships")) as (kind,):
        (said,) = lab.apply(_object(kind.key, spec={})).warnings
        assert "kailab makes no pods for a Ship" in said


def test_owners_of_pods_that_come_with_them_need_no_controller(lab) -> None:
    owner = _object("PipelineRun", spec={})
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "step",
            "ownerReferences": [{"apiVersion": owner["apiVersion"], "kind": "PipelineRun", "name": "one", "uid": "u"}],
        },
        "spec": {"containers": [{"name": "main", "image": "x"}]},
    }
    assert not [text for text in lab.apply([owner, pod]).warnings if "no pods" in text]


def test_kinds_that_act_or_schedule_nothing_are_told_of_in_no_lab(lab) -> None:
    quiet = ("ConfigMap", "Secret", "Service", "ServiceAccount", "Role", "ClusterRole", "Lease", "PriorityClass")
    for kind in quiet:
        parts = {"value": 5} if kind == "PriorityClass" else {}
        assert lab.apply(_object(kind, **parts)).warnings == [], kind


def test_every_registered_kind_acts_or_says_why_it_does_not() -> None:
    """A kind for which nothing is known of its own may have the general sentence only where its operator makes pods."""
    silent = [
        key
        for key, kind in KINDS.items()
        if not (acts(key) or makes_no_pods(key) or kind.schedules_nothing or kind.in_cluster)
    ]
    assert silent == []


def test_the_lab_that_is_asked_for_work_says_which_kinds_get_no_pods() -> None:
    assert makes_no_pods("DevWorkspace")
    assert makes_no_pods("Rollout.argoproj.io")
    assert not any(makes_no_pods(kind) for kind in ("Pod", "Job", "TrainJob", "TrainingRuntime", "Queue", "ConfigMap"))


def test_an_unknown_kind_with_pods_is_said_to_get_none(lab) -> None:
    pods = {"template": {"spec": {"containers": [{"name": "main", "image": "x"}]}}}
    rollout = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "metadata": {"name": "r"}, "spec": pods}
    said = lab.apply(rollout).notices[0]
    assert said.message.endswith("kept, and nothing of kailab's acts on it, so it makes no pods for it")
    (said,) = lab.apply({**rollout, "kind": "Thing", "spec": {}}).notices
    assert said.message.endswith("acts on it")
