"""How a scheduler is doing: each thing that can be wrong is told where it is, and nothing where all is well."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from kailab.advice.health import Health, health, health_of_process
from kailab.engine.decisions import Bind
from kailab.evidence.decision_file import SchedulerDecisions
from kailab.evidence.entries import PodEvicted
from kailab.lab import Lab


@pytest.fixture
def lab():
    with Lab.open() as lab:
        yield lab


def evicted(t: float, gone: str, served: str, *, pod: int = 0, action: str = "reclaim") -> PodEvicted:
    """A pod of the Job ``gone`` goes for the Job ``served``; each pod has a PodGroup of its own."""
    return PodEvicted(
        cycle=int(t), t=t, time="", action=action, pod=f"default/{gone}-{pod}", app="", owner=f"Job/{gone}",
        podgroup=f"default/pg-{gone}-{pod}", queue=f"queue-{gone}", node="n",
        beneficiary=f"default/pg-{served}-{pod}" if served else "", beneficiary_queue=f"queue-{served}" if served else "",
        reason="",
    )  # fmt: skip


def problems(lab: Lab, **options) -> str:
    return "\n".join(health(lab, **options).problems)


def test_a_lab_in_which_all_is_well(lab, queue, job):
    lab.apply(queue("a", 16), queue("b", 16), job("work", "a", 24))
    lab.settle()
    lab.apply(job("back", "b", 16))
    lab.settle()
    found = health(lab, 3600)
    assert found.healthy
    assert found.cycle is not None
    assert found.cycle.waiting == 1
    assert found.cycle.age == lab.now - found.cycle.decided_at
    assert found.evictions.pods == 8
    (served,) = found.evictions.served
    assert (served.beneficiary, served.queue, served.action) == ("default/Job/back", "b", "reclaim")
    assert found.evictions.per_minute == 8 * 60 / found.evictions.seconds
    assert "how long the last cycle took" in found.unknown[0]
    lab.advance(7200)
    assert health(lab, 3600).evictions.pods == 0


def test_refused_binds_are_told_with_their_text(lab, queue, job):
    lab.cluster.refuse_binds("default", "shut-", "the webhook says no")
    lab.apply(queue("a", 16), job("shut", "a", 2), job("open", "a", 2))
    lab.settle()
    found = health(lab)
    assert not found.healthy
    assert len(found.refusals) == 2
    assert all(one.pod.startswith("default/shut-") and "the webhook says no" in one.message for one in found.refusals)
    assert "the cluster refuses to bind 2 pods" in found.problems[0]
    assert "the webhook says no" in found.problems[0]


def test_two_that_evict_each_other_again_and_again(lab, queue, job):
    lab.apply(queue("a", 16), job("work", "a", 4))
    lab.settle()
    lab.advance(100)
    turns = [("one", "other"), ("other", "one")] * 2
    lab.log.observe([evicted(10.0 * n, *turn, pod=p) for n, turn in enumerate(turns) for p in range(2)])
    (loop,) = health(lab).loops
    assert (loop.one, loop.other, loop.turns, loop.every, loop.pods) == (
        "default/Job/one", "default/Job/other", 4, 10.0, 8,
    )  # fmt: skip
    assert "default/Job/one and default/Job/other are evicted for each other: 4 times to and fro" in problems(lab)
    assert not health(lab, 30).loops  # that is over


def test_to_and_fro_once_is_no_loop(lab, queue, job):
    lab.apply(queue("a", 16), job("work", "a", 4))
    lab.settle()
    lab.advance(100)
    lab.log.observe([evicted(10, "one", "other"), evicted(20, "other", "one"), evicted(30, "one", "other")])
    assert health(lab).healthy


def test_a_node_pool_that_nobody_serves(lab, queue, job):
    pooled = queue("pooled", 4)
    pooled["metadata"]["labels"] = {"kai.scheduler/node-pool": "h100"}
    lab.apply(queue("a", 16), pooled)
    name = lab.get("node")[0]["metadata"]["name"]
    lab.cluster.patch("Node", name, None, {"metadata": {"labels": {"kai.scheduler/node-pool": "h100"}}})
    lab.settle()
    found = health(lab)
    assert found.unserved == {"Node": {"h100": 1}, "Queue": {"h100": 1}}
    assert "nobody serves the node pool of these Nodes: h100 (1)" in found.problems


def test_binds_that_do_not_show(lab, queue, job):
    lab.apply(queue("a", 16, limit=1), job("work", "a", 2))
    lab.settle()
    late = next(pod for pod in lab.get("pod") if not pod["spec"].get("nodeName"))
    bind = Bind(task=late["metadata"]["uid"], podgroup="", queue="a", node="n")
    lab.log.last = structs.replace(lab.log.last, binds=(bind,))
    assert health(lab).healthy  # it may be under way
    lab.cluster.advance(20)
    found = health(lab)
    assert found.lag is not None
    assert found.lag.pods == (f"default/{late['metadata']['name']}",)
    assert "1 decided bind can't be seen in the cluster" in found.problems[0]


def test_work_that_the_scheduler_says_nothing_of(lab, queue, job):
    lab.apply(queue("a", 16), job("work", "a", 2))
    for part in lab._parts.controllers:
        part.step()
    for part in lab._parts.controllers:
        part.step()
    assert "2 pods wait, and the scheduler has not run a cycle" in problems(lab)
    lab.settle()
    assert health(lab).healthy


def test_gated_pods_are_nobodys_to_consider(lab, queue, job):
    gated = job("gated", "a", 1)
    gated["spec"]["template"]["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]
    lab.apply(queue("a", 16), gated)
    lab.settle()
    assert health(lab).healthy


def test_a_saved_lab_is_as_healthy(lab, queue, job, tmp_path):
    lab.cluster.refuse_binds("default", "shut-", "the webhook says no")
    lab.apply(queue("a", 16), job("shut", "a", 2))
    lab.settle()
    lab.save(tmp_path / "state")
    with Lab.resume(tmp_path / "state", read_only=True) as again:
        assert health(again) == health(lab)


def test_under_kube_scheduler_what_is_not_known_is_said(queue, job):
    with Lab.open(scheduler="kube-scheduler") as lab:
        lab.apply(queue("a", 8), job("work", "a", 40))
        lab.settle()
        found = health(lab)
        assert found.healthy
        assert found.cycle is None
        assert "does not report its cycles" in found.unknown[0]


def test_a_process_by_its_decision_file_alone():
    found = health_of_process(
        SchedulerDecisions(cycle=3, opened=100.0, time=160.0, evictions=[evicted(30, "a", "b")]), None
    )
    assert found == Health(
        scheduler="kailab", evictions=found.evictions, unknown=found.unknown
    )  # fmt: skip
    assert found.evictions.pods == 1
    assert found.evictions.per_minute == 1.0
    assert "the cluster" in found.unknown[0]


def test_a_process_that_does_not_answer():
    found = health_of_process(None, "http://127.0.0.1:1")
    assert not found.healthy
    assert "does not answer" in found.problems[0]


@given(st.lists(st.tuples(st.integers(0, 100), st.sampled_from("abc"), st.sampled_from("abc")), max_size=30))
def test_a_loop_goes_to_and_fro_twice_at_least(drawn):
    """Whatever was evicted: a loop told is one, and a pair that alternates long enough is told."""
    log = [evicted(float(t), gone, served) for t, gone, served in sorted(drawn)]
    found = {
        (one.one, one.other): one
        for one in health_of_process(SchedulerDecisions(time=200.0, evictions=log), None).loops
    }
    for one, other in (("a", "b"), ("a", "c"), ("b", "c")):
        between = [gone for _, gone, served in sorted(drawn) if {gone, served} == {one, other}]
        turns = sum(1 for n, gone in enumerate(between) if n == 0 or between[n - 1] != gone)
        told = {tuple(sorted(name.rpartition("/")[2].removeprefix("pg-")[0] for name in pair)) for pair in found}
        assert ((one, other) in told) == (turns >= 4)


def test_pods_that_no_cycle_ever_looks_at_are_a_problem(lab, queue, job):
    """Those that can't be grouped, with the grouper's reason, and those for a scheduler that is not there."""
    worker = {"template": {"spec": {"schedulerName": "kai-scheduler", "containers": [{"name": "c", "image": "x"}]}}}
    ring = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "ring", "labels": {"kai.scheduler/queue": "a"}},
        "spec": {"pytorchReplicaSpecs": {"Worker": worker}},
    }
    elsewhere = job("elsewhere", "a", 2)
    elsewhere["spec"]["template"]["spec"]["schedulerName"] = "volcano"
    lab.apply(queue("a", 16), ring, elsewhere)
    lab.settle()
    told = health(lab)
    assert not told.healthy
    text = "\n".join(told.problems)
    assert "1 pod waits and can't be grouped" in text
    assert "replicas" in text
    assert "2 pods wait for the scheduler volcano, which is not in this lab" in text
