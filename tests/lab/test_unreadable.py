"""One object that can't be read costs that object, with its name, not the lab."""

from __future__ import annotations

from copy import deepcopy

import pytest

from checks.fuzzing.odd_seeds import SEEDS
from kailab.cluster.embedded.storage import store
from kailab.cluster.unreadable_objects import REASON, STRICT
from kailab.errors import Invalid
from kailab.lab import Lab
from kailab.workloads.jobset import JobSetController

JOB_SET = "JobSet/jobset"
JOB = "Job/job"


def told(lab):
    """Of each object left out: its kind, its name, and what was said."""
    return {
        (event["involvedObject"]["kind"], event["involvedObject"]["name"]): event["message"]
        for event in lab.cluster.list("Event")
        if event["reason"] == REASON and event["type"] == "Warning"
    }


@pytest.fixture
def lenient(monkeypatch):
    monkeypatch.delenv(STRICT)


def running(lab, app):
    return sum(pod["status"]["phase"] == "Running" for pod in lab.cluster.list("Pod", labels={"app": app}))


def test_a_controller_that_can_t_read_one_object_goes_on_with_the_others(lenient, monkeypatch):
    sync = JobSetController.sync

    def picky(self, owner):
        if owner["metadata"]["name"] == "odd":
            return owner["spec"]["nothing there"]
        return sync(self, owner)

    monkeypatch.setattr(JobSetController, "sync", picky)
    sound = [deepcopy(obj) for obj in SEEDS[JOB_SET]]
    odd = deepcopy(sound[-1])
    odd["metadata"]["name"] = "odd"
    with Lab.open("lesson") as lab:
        lab.apply([*sound, odd])
        lab.settle()
        assert running(lab, "a") == 2
        ((key, message),) = told(lab).items()
        assert key == ("JobSet", "odd")
        assert "nothing there" in message


def test_in_kailab_s_own_tests_it_is_raised(monkeypatch):
    monkeypatch.setattr(JobSetController, "sync", lambda self, owner: owner["spec"]["nothing there"])
    with Lab.open("lesson") as lab:
        lab.apply([deepcopy(obj) for obj in SEEDS[JOB_SET]])
        with pytest.raises(KeyError, match="nothing there"):
            lab.settle()


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("Pod", {"conditions": [3]}),
        ("Pod", {"conditions": [{"status": "True"}]}),
        ("Pod", {"containerStatuses": {"a": "b"}}),
        ("Pod", {"phase": ["x"]}),
        ("Pod", {"startTime": "yesterday"}),
        ("Node", {"allocatable": {"nvidia.com/gpu": "²"}}),
        ("Node", {"allocatable": [1]}),
        ("Node", {"conditions": "Ready"}),
        ("Job", {"conditions": "x"}),
        ("Job", {"succeeded": "²"}),
    ],
)
def test_a_status_that_nobody_can_read_is_refused(kind, status):
    with Lab.open("lesson") as lab:
        lab.apply([deepcopy(obj) for obj in SEEDS[JOB]])
        lab.settle()
        there = lab.cluster.list(kind)[0]
        meta = there["metadata"]
        with pytest.raises(Invalid, match=f"status.{next(iter(status))}"):
            lab.cluster.patch(kind, meta["name"], meta.get("namespace"), {"status": status}, "status")
        assert lab.cluster.list(kind)[0] is there


STATUSES = [
    ("JobSet", {"conditions": [3]}),
    ("JobSet", {"restarts": "²"}),
    ("Deployment", {"conditions": "x"}),
    ("PodGroup", {"schedulingConditions": [3]}),
    ("PodGroup", {"schedulingConditions": "x"}),
    ("Queue", {"requested": 3}),
]


@pytest.mark.parametrize(("kind", "status"), STATUSES)
def test_one_that_passes_the_door_costs_its_object(lenient, kind, status):
    """A status of a kind whose status only its controller writes, patched by somebody else."""
    with Lab.open("lesson") as lab:
        for seed in (JOB_SET, "Deployment/deployment", "Pod/user"):
            lab.apply([deepcopy(obj) for obj in SEEDS[seed]])
        lab.settle()
        meta = lab.cluster.list(kind)[0]["metadata"]
        lab.cluster.patch(kind, meta["name"], meta.get("namespace"), {"status": status}, "status")
        lab.settle()
        lab.apply([deepcopy(obj) for obj in SEEDS["Pod/fraction"]])
        lab.settle()
        lab.advance(30)
        assert running(lab, "fraction") == 1, "the others are scheduled"
        assert set(told(lab)) <= {(kind, meta["name"])}


def test_a_lab_has_room_for_so_many_and_says_so(lenient, monkeypatch):
    monkeypatch.setattr(store, "MOST_OBJECTS", 30)
    with Lab.open("lesson") as lab:
        many = [deepcopy(obj) for obj in SEEDS["Deployment/deployment"]]
        many[-1]["spec"]["replicas"] = 1_000
        lab.apply(many)
        lab.settle()
        assert len(lab.cluster.list("Pod")) == 30
        told = [event["message"] for event in lab.cluster.list("Event") if event["reason"] == "FailedCreate"]
        assert any("a lab holds no more than 30 objects of one kind" in message for message in told)
