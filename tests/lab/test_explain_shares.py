"""``explain queue``: the arithmetic of its share, in every resource, and what stands against taking back what it borrows."""

from __future__ import annotations

import pytest

from kailab.explain.questions import ask
from kailab.lab import Lab
from kailab.lab.answer import Answer


@pytest.fixture
def lab():
    with Lab.open() as lab:
        yield lab


def without_steps(lab: Lab, queue: str) -> Answer:
    """Each step is tried on a copy of the lab, and none is read here."""
    return ask(lab, "Queue", queue, tried=False)


def given(division, name):
    """What a queue got by its quota, in the rounds and of the remainders."""
    parts = [part for one in division["rounds"] for part in one["parts"]]
    each = [
        *(one["by_quota"] for one in division["queues"] if one["queue"] == name),
        *(part["given"] for part in [*parts, *division["remainders"]] if part["queue"] == name),
    ]
    return sum(each)


def test_the_arithmetic_of_all_levels_and_resources(lab, queue, job):
    lab.apply(queue("org", 16), queue("a", 4, parent="org", weight=3), queue("b", 4, parent="org"), queue("other", 8))
    lab.apply(job("one", "a", 30), job("two", "b", 12), job("three", "other", 8))
    lab.settle()
    told = without_steps(lab, "a")
    levels = [(one["resource"], one["parent"]) for one in told.data()["divisions"]]
    assert levels == [(name, parent) for name in ("GPU", "CPU", "Memory") for parent in ("", "org")]
    gpu = told.data()["divisions"][1]
    assert gpu["total"] == 24_000
    assert given(gpu, "a") == told.data()["fair_share"] == 16_000
    assert given(gpu, "b") == without_steps(lab, "b").data()["fair_share"] == 8_000
    text = "\n".join(told.lines())
    assert "GPU share of org: 32 GPUs (all there is), divided among 2 queues." in text
    assert "GPU share of a: 24 GPUs (the fair share of org), divided among 2 queues." in text
    assert "Priority 100, 16 GPUs by weight: a 12 GPUs (weight 3: 75 %), b 4 GPUs (weight 1: 25 %)." in text
    # Nobody is short of memory: its arithmetic is for whoever asks for all.
    assert "Memory share" not in text
    assert any(line.startswith("Memory share of a") for line in told.details)
    parent = without_steps(lab, "org").data()
    assert [(one["resource"], one["parent"]) for one in parent["divisions"]] == [
        ("GPU", ""),
        ("CPU", ""),
        ("Memory", ""),
    ]


def test_another_resource_is_on_the_screen_where_it_keeps_the_queue_short(lab, queue, job):
    short = queue("a", 8)
    short["spec"]["resources"]["cpu"] = {"quota": 2000, "limit": 4000, "overQuotaWeight": 1}
    work = job("work", "a", 8)
    work["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "1"}
    lab.apply(short, queue("b", 8), work)
    lab.settle()
    told = without_steps(lab, "a")
    assert "CPU share of a: " in str(told)
    assert told.data()["resources"]["cpu"]["limit"] == 4000
    assert told.data()["resources"]["cpu"]["borrowed"] == 2000
    lines = told.lines(everything=True)
    assert "CPU: it holds 4 CPU of 8 CPU asked for; quota 2 CPU, limit 4 CPU; 2 CPU are beyond its quota." in lines


def test_weight_zero_and_an_unlimited_quota(lab, queue, job):
    lab.apply(queue("none", 4, weight=0), queue("endless", -1), job("one", "none", 20), job("two", "endless", 2))
    lab.settle()
    assert "none has weight 0: it gets nothing beyond its quota." in str(without_steps(lab, "none"))
    assert "endless 2 GPUs (asks for 2 GPUs, quota unlimited)" in str(without_steps(lab, "endless"))


def test_what_stands_against_taking_it_back(queue, job):
    protected = queue("a", 8)
    protected["spec"]["reclaimMinRuntime"] = "10m"
    firm = {"priorityClassName": "build"}
    with Lab.open() as lab:
        lab.apply(protected, queue("b", 24), job("firm", "a", 4, labels=firm), job("work", "a", 16, gang=True))
        lab.settle()
        begun = lab.now
        lab.apply(job("back", "b", 24, gang=True))
        lab.settle()
        told = without_steps(lab, "a")
        (one,) = told.data()["returns"]
        assert (one["queue"], one["firm"], one["young"], one["open"], one["now"]) == ("b", 4000, 16_000, 0, 0)
        assert begun - 60 < one["young_last"] - 600 <= begun
        assert "What prevents it: 16 GPUs of a are protected by a minimum runtime until " in str(told)
        assert "What prevents it: 4 GPUs of a are held by non-preemptible work." in told.lines(everything=True)
        owner = without_steps(lab, "b")
        assert [(one["queue"], one["beside"], one["now"]) for one in owner.data()["claims"]] == [("b", "a", 0)]
        lines = owner.lines(everything=True)
        assert "Of its quota 24 GPUs are unused, while a holds 12 GPUs beyond its own." in lines
        (claim,) = [line for line in lines if line.startswith("b may take 12 GPUs back from a, nothing of it now: ")]
        assert "protected by a minimum runtime until" in claim
        assert not owner.data()["returns"]
        lab.advance(601)
        assert lab.picture().shares["b"].allocated == 24_000


def test_without_reclaim_nobody_takes_anything(queue, job):
    with Lab.open(config={"actions": "allocate"}) as lab:
        lab.apply(queue("a", 8), queue("b", 24), job("work", "a", 20))
        lab.settle()
        told = without_steps(lab, "a")
        assert told.data()["could_reclaim"] == ["b"]
        assert "What prevents it: this scheduler does not reclaim (its actions leave it out)." in told.lines(
            everything=True
        )


def test_many_owners_and_many_borrowers_fit_a_screen(lab, queue, job):
    names = [f"team-{number:02}" for number in range(12)]
    lab.apply(*(queue(name, 2) for name in names), *(queue(f"poor-{number}", 0) for number in range(8)))
    lab.apply(
        *(job(f"work-{number}", f"poor-{number}", 4, labels={"priorityClassName": "train"}) for number in range(8))
    )
    lab.settle()
    borrower = without_steps(lab, "poor-0")
    assert len(borrower.data()["could_reclaim"]) == 12
    (line,) = [line for line in borrower.lines() if line.startswith("Queues that could reclaim it")]
    assert line.endswith("team-02 (up to 2 GPUs of its quota) and 9 more.")
