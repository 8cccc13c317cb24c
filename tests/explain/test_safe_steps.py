"""Safe steps: none raises a priority, and none withdraws or ends the work of others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kailab.lab import Lab
from kailab.lab.answer import Answer
from tests.explain.manifests import fleet, job, queue


@pytest.fixture
def full() -> Iterator[Lab]:
    """Another job of the same queue holds all GPUs of one node, and another queue those of the other."""
    with Lab.open(fleet({"count": 2, "gpus": 4})) as lab:
        lab.apply([queue("team", quota=4), queue("rest", quota=4)])
        lab.apply([job("first", "team", 4), job("other", "rest", 4)])
        lab.settle()
        lab.apply([job("late", "team", 2)])
        lab.settle()
        yield lab


def _kinds(answer: Answer) -> set[str]:
    return {
        word for step in answer.steps for word in ("Delete", "Scale", "Suspend", "priority", "Add") if word in step.do
    }


def test_raising_a_priority_and_ending_work_come_last(full: Lab) -> None:
    answer = full.explain("Job", "late", everything=True)
    words = [step.do for step in answer.steps]
    unsafe = [any(word in text for word in ("Delete", "Suspend", "priority")) for text in words]
    assert any(unsafe)
    assert not all(unsafe)
    assert unsafe == sorted(unsafe), words


def test_safe_leaves_them_out(full: Lab) -> None:
    safe = full.explain("Job", "late", everything=True, safe=True)
    assert safe.steps
    assert _kinds(safe) <= {"Add"}
    assert safe.cause == full.explain("Job", "late", tried=False).cause
