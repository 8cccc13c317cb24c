"""Odd manifests in a lab are refused with a message, or the lab settles; the fuzzer finds planted faults."""

from __future__ import annotations

import os
from copy import deepcopy
from datetime import UTC, datetime

import pytest

from checks.fuzzing import odd_manifests
from checks.fuzzing.odd_manifests import OddCase, as_text, run_seed, run_seeds
from checks.fuzzing.odd_seeds import SEEDS
from kailab.cluster.unreadable_objects import STRICT
from kailab.lab import Lab
from kailab.model import times
from kailab.model.validation import advice
from kailab.model.yamltext import read_documents
from kailab.workloads.jobset import JobSetController

FIRST = int(os.environ.get("KAILAB_ODD_SEED", "0"))


def test_the_seeds_are_sound():
    for name, objects in SEEDS.items():
        with Lab.open("lesson") as lab:
            lab.apply([deepcopy(obj) for obj in objects])
            lab.settle()
            phases = {pod["status"]["phase"] for pod in lab.cluster.list("Pod")}
            messages = [event["message"] for event in lab.cluster.list("Event") if event["reason"] == "FailedCreate"]
            assert phases <= {"Running", "Pending"}, name
            assert not messages, name


def test_a_few_hundred_odd_manifests():
    report = run_seeds(range(FIRST, FIRST + 250))
    assert not report.failed, report.text(True)


def test_manifests_with_fields_that_are_drawn_from_their_definitions():
    report = run_seeds(range(FIRST, FIRST + 100), drawn=True)
    assert not report.failed, report.text(True)


@pytest.mark.slow
def test_a_thousand_odd_manifests():
    report = run_seeds(range(FIRST + 100_000, FIRST + 101_000))
    assert not report.failed, report.text(True)


def test_a_case_is_its_seed():
    for seed in range(40):
        assert OddCase(seed).manifest() == OddCase(seed).manifest()
    assert len({OddCase(seed).manifest() for seed in range(40)}) > 35


def test_odd_values_are_written_as_they_stand():
    text = as_text({"a": odd_manifests.Raw("1e3"), "b": ["²", None]})
    assert next(read_documents(text))[0] == {"a": 1000.0, "b": ["²", None]}


@pytest.mark.parametrize("strict", ["1", ""])
def test_a_controller_that_stumbles_is_found(monkeypatch, strict):
    def stumble(self, owner):
        raise KeyError("template")

    monkeypatch.setenv(STRICT, strict)
    monkeypatch.setattr(JobSetController, "sync", stumble)
    seed = next(s for s in range(10_000) if OddCase(s).name == "JobSet/jobset" and OddCase(s).door == "reapply")
    result = run_seed(seed)
    assert not result.passed
    assert "KeyError" in result.differences[0]


@pytest.mark.parametrize("after", ["delete", "drain", "evict"])
def test_a_pod_that_can_t_be_deleted_is_found(monkeypatch, after):
    """As where a grace period ends beyond what a date can say."""
    seed = next(
        s for s in range(10_000) if (OddCase(s).name, OddCase(s).door, OddCase(s).after) == ("Pod/pod", "apply", after)
    )
    case = OddCase(seed)
    case.seconds = 0
    case.objects = [deepcopy(obj) for obj in SEEDS[case.name]]
    case.objects[-1]["spec"]["terminationGracePeriodSeconds"] = next(n for n in odd_manifests.BOUNDARIES if n > 10**11)
    assert not odd_manifests.violation(case)
    monkeypatch.setattr(times, "date", lambda seconds, zone=UTC: datetime.fromtimestamp(seconds, zone))
    times.format_time.cache_clear()
    assert "year" in odd_manifests.violation(case)


def test_a_kind_that_nobody_knows_is_tried(monkeypatch):
    """Its template is damaged, too: what is read of it unchecked is found."""
    case = OddCase(
        next(s for s in range(10_000) if (OddCase(s).name, OddCase(s).door) == ("Trainer/stranger", "apply"))
    )
    case.objects = [deepcopy(obj) for obj in SEEDS[case.name]]
    case.objects[-1]["spec"]["podTemplate"]["spec"] |= {"containers": [1.5], "volumes": True}
    assert not odd_manifests.violation(case)
    monkeypatch.setattr(advice, "_faults_of", lambda pod: [])
    assert odd_manifests.violation(case)


def test_a_hang_is_found(monkeypatch):
    def hang(self, owner):
        while True:
            pass

    monkeypatch.setattr(JobSetController, "sync", hang)
    monkeypatch.setattr(odd_manifests, "WATCHDOG_SECONDS", 1)
    seed = next(s for s in range(10_000) if OddCase(s).name == "JobSet/jobset" and OddCase(s).door == "reapply")
    assert "hangs in" in run_seed(seed).differences[0]
