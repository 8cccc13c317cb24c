"""Measurements of a lab by its pods alone: what ran, what was evicted, and the lowest holdings of queues."""

from __future__ import annotations

from pathlib import Path

from kailab.cluster.embedded.cluster import EmbeddedCluster
from kailab.lab import Lab
from kailab.trials.differences import differences_of, dips
from kailab.trials.matrix import KINDS
from kailab.trials.recorder import CellRecorder
from kailab.trials.results import LabPhase, LabResult, TestResult

MANIFESTS = Path(__file__).parents[2] / "exercises" / "reclaim" / "manifests"


def course_of(*steps: str) -> CellRecorder:
    course = CellRecorder()
    with Lab.open(observers=[course]) as lab:
        for step in steps:
            lab.apply(*(MANIFESTS / name for name in step.split()))
            lab.settle()
    return course


def test_reclaim_takes_what_is_asked_for_and_no_more() -> None:
    lent, returned = course_of("queues.yaml borrower.yaml", "owner.yaml").result().phases
    assert (lent.running, lent.evicted) == ({"borrower": 32}, {})
    assert (returned.running, returned.evicted) == ({"borrower": 16, "owner": 16}, {"borrower": 16})
    assert (returned.begun["team-a"], returned.lowest["team-a"], returned.held["team-a"]) == (32000, 16000, 16000)
    assert dips(returned) == {}


def test_more_taken_than_was_needed_shows_though_it_comes_back() -> None:
    """Somebody evicts four pods too many; their places are given back to their queue within one settling."""
    course = CellRecorder()
    with Lab.open(observers=[course]) as lab:
        lab.apply(MANIFESTS / "queues.yaml", MANIFESTS / "borrower.yaml")
        lab.settle()
        lab.apply(MANIFESTS / "owner-few.yaml")
        cluster = lab.cluster
        assert isinstance(cluster, EmbeddedCluster)
        for pod in lab.get("Pod")[:20]:
            cluster.evict("default", pod["metadata"]["name"], "Test", "too many")
        lab.settle()
    phase = course.result().phases[1]
    assert phase.held["team-a"] == 28000
    assert phase.lowest["team-a"] <= 12000
    assert dips(phase) == {"team-a": phase.held["team-a"] - phase.lowest["team-a"]}


def test_what_its_owner_gives_up_was_not_evicted() -> None:
    course = CellRecorder()
    with Lab.open(observers=[course]) as lab:
        lab.apply(MANIFESTS / "queues.yaml", MANIFESTS / "borrower.yaml")
        lab.settle()
        lab.scale("Deployment", "borrower", 4)
        lab.settle()
        lab.delete("Deployment", "borrower")
        lab.settle()
    phases = course.result().phases
    assert [phase.running for phase in phases] == [{"borrower": 32}, {"borrower": 4}, {}]
    assert [phase.evicted for phase in phases] == [{}, {}, {}]


def test_what_waits_has_its_reason() -> None:
    result = course_of("queues.yaml borrower.yaml", "owner-greedy.yaml").result()
    assert result.waits["owner"] == ("PodSchedulingErrors",)


def result(verdict: str = "passed", **phase: object) -> TestResult:
    lab = LabResult(
        phases=(LabPhase(**{"operations": ("apply a.yaml",), "running": {"a": 2}, **phase}),), classes=ALIKE
    )
    return TestResult(name="t", verdict=verdict, labs={"lab": lab})


ALIKE = {"n1": "big", "n2": "big", "n3": "small"}


def kinds(one: TestResult, two: TestResult, ratio: float | None = None) -> list[str]:
    return [each.kind for each in differences_of("other", one, two, KINDS[:-1], ratio)]


def test_kinds_of_differences() -> None:
    assert kinds(result(), result()) == []
    assert kinds(result(), result("failed")) == ["verdict"]
    assert kinds(result(), result(running={"a": 1})) == ["outcome"]
    assert kinds(result(), result(evicted={"a": 1})) == ["evictions"]
    over = {"begun": {"q": 4000}, "lowest": {"q": 1000}, "held": {"q": 2000}}
    assert kinds(result(), result(**over)) == ["lowest"]


def test_nodes_that_are_alike_are_the_same_place() -> None:
    assert kinds(result(placement={"a": {"n1": 2}}), result(placement={"a": {"n2": 2}})) == []
    assert kinds(result(placement={"a": {"n1": 2}}), result(placement={"a": {"n1": 1, "n2": 1}})) == ["placement"]
    assert kinds(result(placement={"a": {"n1": 2}}), result(placement={"a": {"n3": 2}})) == ["placement"]


def test_times_count_as_ratios_and_only_where_asked_for() -> None:
    quick, slow = result(seconds=0.2), result(seconds=8.0)
    assert kinds(quick, slow) == []
    assert kinds(quick, slow, 10.0) == []
    assert kinds(quick, slow, 5.0) == ["time"]
    assert kinds(slow, quick, 5.0) == ["time"]


def test_what_could_not_run_differs_once() -> None:
    missing = TestResult(name="t", verdict="not expressible", concept="tree of queues")
    (one,) = differences_of("other", result(), missing, KINDS[:-1], None)
    assert (one.kind, one.here) == ("verdict", "not expressible (tree of queues)")
