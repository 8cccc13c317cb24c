"""A step says what was carried out on the copy, no more and no less: amounts, nodes, and what it costs others."""

from __future__ import annotations

from typing import Any

import pytest

from kailab.explain.questions import ask
from kailab.explain.steps.proposals import Disturbance, Proposal, apply_change, combined, delete_change, patch_change
from kailab.lab import Lab
from kailab.lab.answer import Step
from tests.explain.manifests import Object, fleet, job, pod, queue

BLOCKS: list[Object] = [{"name": "halls", "levels": ["lab/block", "kubernetes.io/hostname"]}]


def roles(name: str, workers: int, **metadata: Any) -> Object:
    """A PyTorchJob of a master and so many workers, each with all four GPUs of a node."""
    template = {
        "metadata": {"labels": {"kai.scheduler/queue": "team"}},
        "spec": {
            "schedulerName": "kai-scheduler",
            "containers": [{"name": "pytorch", "image": "x", "resources": {"limits": {"nvidia.com/gpu": 4}}}],
        },
    }
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name, "labels": {"kai.scheduler/queue": "team"}, **metadata},
        "spec": {
            "pytorchReplicaSpecs": {
                "Master": {"replicas": 1, "restartPolicy": "OnFailure", "template": template},
                "Worker": {"replicas": workers, "restartPolicy": "OnFailure", "template": template},
            }
        },
    }


def workers(step: Step) -> int:
    [last] = [obj for change in step.changes for obj in change.get("apply", ()) if obj["kind"] == "PyTorchJob"]
    found: int = last["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"]
    return found


def test_of_two_changes_of_one_workload_the_words_say_what_both_together_make_of_it() -> None:
    # Four nodes are a block. Six pods never fit; four would, and then it is the quota of the team that is in the way.
    block = {"layout": [{"label": "lab/block", "nodes": 4, "start": 1}]}
    notes = {"kai.scheduler/topology": "halls", "kai.scheduler/topology-required-placement": "lab/block"}
    with Lab.open(fleet({"count": 8, "gpus": 4, **block}, topologies=BLOCKS)) as lab:
        lab.apply([queue("org", quota=32), queue("team", "org", quota=8), queue("rest", "org", quota=24)])
        lab.apply([job("fill", "rest", 6, 4, gang=True), job("old", "team", 2, 4, gang=True)])
        lab.settle()
        lab.apply([roles("wide", 5, annotations=notes)])
        lab.settle()
        [step, *_] = ask(lab, "PyTorchJob", "wide").steps
    assert f"Worker.replicas to {workers(step)} (now 5)" in step.do
    assert step.outcome is not None
    assert step.outcome.running == workers(step) + 1
    assert step.do.count("delete PyTorchJob wide") == 1
    assert [next(iter(change)) for change in step.changes] == ["delete", "apply"]


def made(**spec: Any) -> Object:
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "default"}, "spec": spec}


def test_what_a_second_change_edits_is_carried_over_to_every_size_of_the_first() -> None:
    def smaller(number: int) -> Proposal:
        obj = made(parallelism=number, template={"containers": [{"name": "a", "cpu": 8}]})
        return Proposal(
            lambda after: f"Make it {after.of(obj)['spec']['parallelism']}",
            (delete_change(obj), apply_change(obj)),
            Disturbance.REPLACED,
        )

    edited = made(parallelism=1, template={"containers": [{"name": "a", "cpu": 2}]}, priority="high")
    second = Proposal("Ask for less", (delete_change(edited), apply_change(edited)), Disturbance.REPLACED)
    both = combined(smaller(3), second, smaller(1))
    assert both.changes[1] == apply_change(
        made(parallelism=3, template={"containers": [{"name": "a", "cpu": 2}]}, priority="high")
    )
    assert both.do == "Make it 3; then ask for less: delete Job j, and apply with that change"


def test_a_request_is_lowered_by_what_sidecars_take() -> None:
    side = {"name": "side", "image": "x", "restartPolicy": "Always", "resources": {"requests": {"cpu": "8"}}}
    with Lab.open(fleet({"cpu": 96})) as lab:
        lab.apply(
            [queue("org"), queue("team", "org"), pod("big", "team", requests={"cpu": "200"}, initContainers=[side])]
        )
        lab.settle()
        [step, *_] = ask(lab, "Pod", "big").steps
    assert step.do.startswith(
        "Ask for 88 CPU a pod (now 200, beside the 8 of its sidecars and its overhead): delete Pod big"
    )


def test_each_taint_is_taken_from_the_node_that_has_it() -> None:
    taints = {name: [{"key": f"lab/{name}", "value": "v", "effect": "NoSchedule"}] for name in ("repair", "reserved")}
    pools = [{"count": 1, "taints": taints["repair"]}, {"count": 1, "taints": taints["reserved"]}, {"count": 1}]
    with Lab.open(fleet(*pools)) as lab:
        lab.apply([queue("org"), queue("team", "org"), job("train", "team", 12)])
        lab.settle()
        answer = ask(lab, "Job", "train")
    assert answer.cause is not None
    assert "The 2 nodes that it could use (p0-0, p1-0) have taints" in answer.cause.sentence
    removing = [step for step in answer.steps if step.do.startswith("Remove the taint")]
    assert removing
    for step in removing:
        patched = {change["patch"]["name"] for change in step.changes}
        assert ("lab/repair from node p0-0" in step.do) == ("p0-0" in patched)
        assert ("lab/reserved from node p1-0" in step.do) == ("p1-0" in patched)


@pytest.mark.parametrize(("backoff", "fails"), [(6, True), (100, False)])
def test_a_step_says_that_a_job_fails_by_the_evictions_that_it_costs(backoff: int, fails: bool) -> None:
    low = job("low", "lo", 16)
    low["spec"]["backoffLimit"] = backoff
    with Lab.open(fleet({"count": 4, "gpus": 4})) as lab:
        lab.apply([queue("hi", quota=8, priority=200), queue("lo", quota=16, priority=50), low])
        lab.settle()
        lab.apply([job("high", "hi", 8)])
        lab.settle()
        [step] = [
            one for one in ask(lab, "Job", "high").steps if one.do.startswith("Lower the GPU quota of queue lo to 8")
        ]
    assert step.outcome is not None
    assert len(step.outcome.evicted) >= 7
    assert ("Job low (BackoffLimitExceeded) then fails, and all its pods end" in step.describe()) == fails
    assert ("failed" in step.data()["outcome"]) == fails


def test_a_smaller_gang_that_runs_now_says_how_large_one_fits_without_other_work() -> None:
    # A block has four nodes: four pods fit. Two nodes of each block are held, and the team has no claim on them.
    block = {"layout": [{"label": "lab/block", "nodes": 4, "start": 1}]}
    notes = {"kai.scheduler/topology": "halls", "kai.scheduler/topology-required-placement": "lab/block"}
    with Lab.open(fleet({"count": 8, "gpus": 4, **block}, topologies=BLOCKS)) as lab:
        lab.apply([queue("team", quota=16), queue("rest", quota=16)])
        held = [{"kubernetes.io/hostname": f"p0-{number}"} for number in (0, 1, 4, 5)]
        lab.apply([pod(f"fill-{place}", "rest", 4, nodeSelector=where) for place, where in enumerate(held)])
        lab.settle()
        lab.apply([roles("wide", 7, annotations=notes)])
        lab.settle()
        steps = ask(lab, "PyTorchJob", "wide").steps
        [step] = [one for one in steps if "Worker.replicas" in one.do]
        assert workers(step) == 1
        assert "Worker.replicas to 1 (now 7), with its minimum to match" in step.do
        assert "the most that runs now; up to 3 fit without other work" in step.do
        # What the words say of the larger one is true, and of no larger one.
        lab.delete("PyTorchJob", "wide")
        for number in range(4):
            lab.delete("Pod", f"fill-{number}")
        for count, runs in ((3, True), (4, False)):
            lab.apply([roles(f"of-{count}", count, annotations=notes)])
            lab.settle()
            placed = [row for row in lab.picture().rows if row.name.startswith(f"default/of-{count}-") and row.node]
            assert bool(placed) is runs
            lab.delete("PyTorchJob", f"of-{count}")


def test_a_smaller_gang_that_is_as_large_as_fits_says_no_more() -> None:
    block = {"layout": [{"label": "lab/block", "nodes": 4, "start": 1}]}
    notes = {"kai.scheduler/topology": "halls", "kai.scheduler/topology-required-placement": "lab/block"}
    with Lab.open(fleet({"count": 8, "gpus": 4, **block}, topologies=BLOCKS)) as lab:
        lab.apply([queue("team", quota=32), roles("wide", 7, annotations=notes)])
        lab.settle()
        [step] = [one for one in ask(lab, "PyTorchJob", "wide").steps if "Worker.replicas" in one.do]
    assert workers(step) == 3
    assert "without other work" not in step.do


def test_a_step_of_several_changes_shows_its_commands() -> None:
    a, b, pod_c = job("a", "team", 1), job("b", "team", 1), pod("c", "team", 1)

    def text(*changes: Any) -> str:
        return Proposal("Do it", changes, Disturbance.OTHERS).text

    def suspended(obj: Object) -> Any:
        return patch_change(obj, {"spec": {"suspend": True}})

    given = """-n default --type merge -p '{"spec":{"suspend":true}}'"""
    assert text(suspended(a), suspended(b)) == f"Do it: kailab patch job a b {given}"
    assert text(delete_change(a), delete_change(pod_c)) == "Do it: kailab delete job/a pod/c -n default"
    assert (
        text(suspended(a), delete_change(b)) == f"Do it: kailab patch job a {given} && kailab delete job b -n default"
    )
    # A manifest that is applied has no short command, nor have many objects.
    assert text(delete_change(a), apply_change(a)) == "Do it: delete Job a, and apply with that change."
    assert text(*(delete_change(job(f"j{number:0>60}", "team", 1)) for number in range(6))) == "Do it."
