"""The scheduler over a cluster: what it binds, evicts, reports and leaves alone."""

from __future__ import annotations

from typing import Any

import pytest

from kailab.engine.config import EngineConfig
from kailab.errors import ApiError, Conflict
from kailab.scheduler.loop import Scheduler
from kailab.scheduler.observers import Observer

PRIORITY = {"priorityClassName": "build"}


# --- binding ----------------------------------------------------------------------------------------------------------


def test_pods_are_bound_and_run(lab, build) -> None:
    lab.apply(*build.team())
    lab.fill(10)
    lab.settle()
    assert len(lab.running()) == 10
    pod = lab.cluster.get("Pod", "p00", "default")
    assert pod["metadata"]["annotations"]["received-resource-type"] == "Regular"
    where = lab.node_of("p00")
    assert lab.events("p00") == [
        ("Scheduled", f"Successfully assigned pod default/p00 to node {where} at node-pool default"),
        ("Bound", f"Pod bound successfully to node {where}"),
    ]
    annotations = lab.group_of("p00")["metadata"]["annotations"]
    assert annotations["kai.scheduler/last-start-timestamp"].startswith("2026-01-01T00:00:0")


def test_a_fraction_gets_its_gpu_group(lab, build) -> None:
    lab.apply(*build.team())
    for index in range(3):
        lab.apply(build.pod(f"f{index}", 0, "team", annotations={"gpu-fraction": "0.5"}))
    lab.settle()
    pods = [lab.cluster.get("Pod", f"f{index}", "default") for index in range(3)]
    assert all(pod["metadata"]["annotations"]["received-resource-type"] == "Fraction" for pod in pods)
    groups = [pod["metadata"]["labels"]["runai-gpu-group"] for pod in pods]
    assert len(set(groups)) == 2


def test_a_refused_bind_is_reported_and_retried_and_stops_no_other_bind(lab, build, monkeypatch) -> None:
    lab.apply(*build.team())
    lab.fill(3)
    real, refused = lab.cluster.bind, []

    def bind(namespace: str, pod: str, node: str, *rest: Any) -> None:
        if pod == "p01" and len(refused) < 3:
            refused.append(pod)
            raise Conflict("somebody was here before")
        real(namespace, pod, node, *rest)

    monkeypatch.setattr(lab.cluster, "bind", bind)
    lab.grouper.step()
    assert lab.scheduler.step()
    assert lab.node_of("p00")
    assert lab.node_of("p02")
    assert not lab.node_of("p01")
    assert [reason for reason, _ in lab.events("p01")] == ["FailedBinding"]
    assert lab.condition("p01")["reason"] == "BindingError"
    assert [failure.verb for failure in lab.records[-1].failures] == ["bind"]
    for _ in range(6):
        lab.scheduler.step()
        lab.cluster.advance(1)
    assert lab.node_of("p01")
    assert len(refused) == 3
    assert [reason for reason, _ in lab.events("p01")].count("FailedBinding") == 1


def test_labels_of_a_refused_share_are_taken_back(lab, build, monkeypatch) -> None:
    lab.apply(*build.team())
    lab.apply(build.pod("f", 0, "team", annotations={"gpu-fraction": "0.5"}))

    def bind(*args: Any) -> None:
        raise ApiError("not now")

    monkeypatch.setattr(lab.cluster, "bind", bind)
    lab.grouper.step()
    lab.scheduler.step()
    assert "runai-gpu-group" not in lab.cluster.get("Pod", "f", "default")["metadata"]["labels"]


@pytest.mark.parametrize("running", [False, True], ids=["binding", "eviction"])
def test_a_pod_that_takes_the_name_of_another_during_a_cycle_is_left_alone(build, monkeypatch, running) -> None:
    lab = build.lab(nodes=1)
    lab.apply(*build.team(build.share(16, -1, 1)), build.pod("p", 8, "team"))
    if running:
        lab.settle()
        assert lab.node_of("p")
        lab.apply(build.pod("urgent", 8, "team", labels={"priorityClassName": "build"}))
    lab.grouper.step()
    cluster, real = lab.cluster, lab.cluster.write_all

    def replaced_before(chains: Any) -> Any:
        monkeypatch.setattr(cluster, "write_all", real)
        cluster.delete("Pod", "p", "default", grace_seconds=0)
        cluster.create(build.pod("p", 1, "team"))
        return real(chains)

    monkeypatch.setattr(cluster, "write_all", replaced_before)
    lab.scheduler.step()
    new = cluster.get("Pod", "p", "default")
    assert "nodeName" not in new["spec"]
    assert "deletionTimestamp" not in new["metadata"]
    assert not new["status"].get("conditions")


# --- why work waits -----------------------------------------------------------------------------------------------------


def reasons(lab, name: str) -> list[str]:
    return [reason["reason"] for reason in lab.group_condition(name).get("reasons", [])]


def test_over_limit(lab, build) -> None:
    lab.apply(*build.team(build.share(2, 4, 1)))
    lab.fill(6)
    lab.settle()
    assert len(lab.running()) == 4
    assert reasons(lab, "p05") == ["OverLimit"]
    details = lab.group_condition("p05")["reasons"][0]["details"]["queueDetails"]
    assert details["name"] == "team"
    assert details["queueResourceLimits"]["nvidia.com/gpu"] == "4"
    assert details["queueAllocatedResources"]["nvidia.com/gpu"] == "4"
    assert details["podGroupRequestedResources"] == {"nvidia.com/gpu": "1"}


def test_non_preemptible_over_quota(lab, build) -> None:
    lab.apply(*build.team(build.share(2, -1, 1)))
    lab.fill(3, labels=PRIORITY)
    lab.settle()
    assert len(lab.running()) == 2
    assert reasons(lab, "p02") == ["NonPreemptibleOverQuota"]
    condition = lab.condition("p02")
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    assert condition["message"].startswith("NonPreemptibleOverQuota: ")


def test_a_queue_that_does_not_exist(lab, build) -> None:
    lab.apply(build.pod("lost", 1, "nowhere"))
    lab.settle()
    assert reasons(lab, "lost") == ["QueueDoesNotExist"]
    lab.apply(build.queue("nowhere"))
    lab.settle()
    assert lab.running() == ["lost"]
    assert lab.group_condition("lost") == {}


def test_a_parent_queue_has_no_code_of_its_own(lab, build) -> None:
    lab.apply(*build.team())
    lab.apply(build.pod("up", 1, "org"))
    lab.settle()
    condition = lab.group_condition("up")
    assert condition["reason"] == "Unschedulable"
    assert "reasons" not in condition
    assert condition["message"]


def test_no_room(lab, build) -> None:
    lab.apply(*build.team())
    lab.apply(build.pod("big", 9, "team"))
    lab.settle()
    assert reasons(lab, "big") == ["PodSchedulingErrors"]
    condition = lab.group_condition("big")
    assert (condition["type"], condition["nodePool"], condition["status"]) == (
        "UnschedulableOnNodePool", "default", "True",
    )  # fmt: skip
    assert lab.condition("big")["message"].startswith("no nodes with enough resources were found: 2 ")
    assert [reason for reason, _ in lab.events("big")] == ["Unschedulable"]
    group = lab.group_of("big")["metadata"]["name"]
    assert [reason for reason, _ in lab.events(group, "PodGroup")] == ["Unschedulable"]


def test_preemption_delay(lab, build) -> None:
    lab.apply(build.queue("org"), build.queue("owner", "org", build.share(16)))
    lab.apply(build.queue("guest", "org", build.share(0, -1, 1)))
    lab.fill(16, "g", "guest")
    lab.settle()
    lab.apply(build.podgroup("late", "owner", preemptionDelay="300s"), build.member("late-0", "late"))
    lab.settle()
    assert reasons(lab, "late-0") == ["PreemptionDelayNotElapsed"]
    assert lab.scheduler.wake_at is not None
    assert 290 < lab.scheduler.wake_at - lab.cluster.now() <= 300
    lab.cluster.advance_to(lab.scheduler.wake_at)
    lab.settle()
    assert lab.node_of("late-0")
    assert len(lab.running()) == 16


def test_a_gang_with_too_few_pods_is_not_ready(lab, build) -> None:
    lab.apply(*build.team())
    lab.apply(build.podgroup("gang", "team", 3), build.member("m0", "gang"), build.member("m1", "gang"))
    lab.settle()
    message = "Job is not ready for scheduling. Waiting for 3 pods, currently 2 exist, 0 are gated"
    assert lab.events("gang", "PodGroup") == [("NotReady", message)]
    assert lab.group_condition("m0") == {}
    lab.apply(build.member("m2", "gang"))
    lab.settle()
    assert lab.running() == ["m0", "m1", "m2"]


def test_the_condition_goes_when_the_work_runs(lab, build) -> None:
    lab.apply(*build.team())
    lab.apply(build.pod("big", 16, "team"))
    lab.settle()
    assert lab.group_condition("big")
    lab.apply(build.node("node-9", 16))
    lab.settle()
    assert lab.running() == ["big"]
    assert lab.group_condition("big") == {}


def test_the_same_reason_is_written_once(lab, build) -> None:
    lab.apply(*build.team())
    lab.apply(build.pod("big", 9, "team"))
    lab.settle()
    version = lab.cluster.get("Pod", "big", "default")["metadata"]["resourceVersion"]
    group = lab.group_of("big")["metadata"]["resourceVersion"]
    lab.apply(build.pod("small", 1, "team"))
    lab.settle()
    assert lab.cluster.get("Pod", "big", "default")["metadata"]["resourceVersion"] == version
    assert lab.group_of("big")["metadata"]["resourceVersion"] == group


# --- quiet, restarts, determinism ---------------------------------------------------------------------------------------


def crowded(build) -> Any:
    lab = build.lab()
    lab.apply(*build.team(build.share(4, 12, 1)), build.queue("other", "org", build.share(4)))
    lab.fill(14)
    lab.fill(5, "o", "other", labels=PRIORITY)
    lab.apply(build.podgroup("gang", "other", 3), build.member("m0", "gang"), build.pod("lost", 1, "nowhere"))
    lab.apply(build.pod("big", 9, "other"))
    lab.settle()
    return lab


def test_nothing_new_no_cycle(build) -> None:
    lab = crowded(build)
    cycles = lab.scheduler.cycles
    for _ in range(5):
        assert not lab.scheduler.step()
        lab.cluster.advance(1)
    assert lab.scheduler.cycles == cycles


def test_a_restarted_scheduler_writes_nothing(build) -> None:
    lab = crowded(build)
    before = {kind: lab.cluster.list(kind) for kind in ("Pod", "PodGroup", "Queue", "Event")}
    lab.restart()
    assert not lab.scheduler.step()
    assert not lab.status.step()
    assert {kind: lab.cluster.list(kind) for kind in before} == before
    assert lab.scheduler.decisions is not None


def test_a_restarted_scheduler_carries_on(build) -> None:
    lab = crowded(build)
    lab.restart()
    lab.cluster.delete("Pod", "p00", "default")
    lab.settle()
    assert len([name for name in lab.running() if name.startswith("p")]) == 12


def test_two_runs_are_the_same(build) -> None:
    def run() -> tuple[Any, Any]:
        lab = crowded(build)
        return [record.decisions for record in lab.records], lab.cluster.list("Event")

    assert run() == run()


def test_explanations_come_from_the_latest_cycle(build) -> None:
    lab = crowded(build)
    uid = lab.group_of("big")["metadata"]["uid"]
    pending = lab.scheduler.history.pending(uid)
    assert pending is not None
    assert pending.tried
    assert lab.scheduler.history.pending(lab.group_of("p00")["metadata"]["uid"]) is None


def test_actions_of_the_configuration_count(build) -> None:
    lab = build.lab()
    lab.restart(config=EngineConfig(actions=("allocate",)))
    lab.apply(build.queue("org"), build.queue("owner", "org", build.share(8)))
    lab.apply(build.queue("guest", "org", build.share(8)))
    lab.fill(16, "g", "guest")
    lab.settle()
    lab.fill(4, "o", "owner")
    lab.settle()
    assert all(name.startswith("g") for name in lab.running())


def test_phases_are_reported_in_order(lab, build) -> None:
    phases: list[str] = []

    class Phases(Observer):
        def on_phase(self, name: str) -> None:
            phases.append(name)

    lab.apply(*build.team(), build.pod("a", 1, "team"))
    lab.grouper.step()
    Scheduler(lab.cluster, observer=Phases()).step()
    assert phases[0] == "fairshare"
    assert phases[-2:] == ["carry out", "status"]


def test_the_last_condition_is_the_one_with_the_highest_number(lab, build) -> None:
    lab.apply(*build.team())
    for name, ours, other in (("gave-up", "10", "9"), ("tries", "9", "10")):
        lab.apply(build.podgroup(name, "team", schedulingBackoff=1))
        conditions = [{"nodePool": "default", "transitionID": ours}, {"nodePool": "other", "transitionID": other}]
        conditions = conditions if name == "gave-up" else conditions[::-1]
        lab.cluster.patch("PodGroup", name, "default", {"status": {"schedulingConditions": conditions}}, "status")
        lab.apply(build.member(f"{name}-0", name))
    lab.settle()
    assert lab.running() == ["tries-0"]


def test_a_new_condition_counts_on_from_the_highest_number_and_stands_last(lab, build) -> None:
    lab.apply(*build.team())
    lab.apply(build.podgroup("gang", "team"), build.member("big", "gang", 9))
    lab.settle()
    ours = lab.group_condition("big")
    conditions = [{**ours, "transitionID": "5"}, {"nodePool": "other", "transitionID": "2"}]
    lab.cluster.patch("PodGroup", "gang", "default", {"status": {"schedulingConditions": conditions}}, "status")
    lab.restart()
    lab.settle()
    found = lab.group_of("big")["status"]["schedulingConditions"]
    assert [(each["nodePool"], each["transitionID"]) for each in found] == [("other", "2"), ("default", "6")]
