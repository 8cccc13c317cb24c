"""Objects are read through ``kailab.model.objects``, also where parts of them are missing or null."""

from __future__ import annotations

from typing import Any

import pytest

from kailab.model import objects

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "a",
        "namespace": "team",
        "uid": "1",
        "labels": {"app": "a"},
        "annotations": {"note": "b"},
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": "leader", "uid": "7"},
            {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "8", "controller": True},
        ],
    },
    "spec": {"nodeName": "n1"},
    "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
}


@pytest.mark.parametrize("obj", [{}, {"metadata": None, "spec": None, "status": None}])
def test_what_is_missing_is_empty(obj: dict[str, Any]) -> None:
    assert [objects.name_of(obj), objects.namespace_of(obj), objects.uid_of(obj), objects.node_of(obj)] == [""] * 4
    assert not objects.labels_of(obj)
    assert not objects.annotations_of(obj)
    assert not objects.allocatable_of(obj)
    assert not objects.is_owned(obj)
    assert not objects.involved_of({**obj, "involvedObject": None})
    assert not objects.involved_of({**obj, "involvedObject": "pod/a"})
    assert objects.controller_of(obj) is None
    assert objects.controller_name(obj) == ""
    assert objects.condition_of(obj, "Ready") is None
    assert not objects.has_condition(obj, "Ready")
    assert objects.phase_of(obj) == "Pending"
    assert objects.is_active(obj)


def test_fields_of_a_pod() -> None:
    assert (objects.full_name(POD), objects.uid_of(POD), objects.node_of(POD)) == ("team/a", "1", "n1")
    assert objects.labels_of(POD) == {"app": "a"}
    assert objects.annotations_of(POD) == {"note": "b"}


def test_the_controller_comes_before_the_first_owner() -> None:
    assert objects.controller_name(POD) == "Job/train"
    assert objects.owner_uids(POD) == {"7", "8"}
    first = [{"kind": "Pod", "name": "leader", "uid": "7"}]
    assert objects.controller_name({"metadata": {"ownerReferences": first}}) == "Pod/leader"


def test_a_reference_makes_its_owner_the_controller() -> None:
    reference = objects.as_owner_reference(POD)
    assert objects.controller_of({"metadata": {"ownerReferences": [reference]}}) == reference
    assert reference["blockOwnerDeletion"] is True


def test_an_unreported_readiness_is_what_the_caller_says() -> None:
    assert objects.is_ready(POD)
    assert not objects.is_ready({})
    assert objects.is_ready({}, unreported=True)
    unready = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
    assert not objects.is_ready(unready, unreported=True)


@pytest.mark.parametrize(
    ("phase", "ended"), [("Pending", False), ("Running", False), ("Succeeded", True), ("Failed", True)]
)
def test_a_pod_is_active_until_it_ends_or_is_deleted(phase: str, ended: bool) -> None:
    pod = {"metadata": {}, "status": {"phase": phase}}
    assert objects.is_ended(pod) is ended
    assert objects.is_active(pod) is not ended
    leaving = {**pod, "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert objects.shown_phase(leaving) == "Terminating"
    assert not objects.is_active(leaving)
