"""The scheduler over a cluster: what it binds, evicts, tells and leaves alone."""

from __future__ import annotations

from typing import Any

import pytest

from kailab.engine.config import EngineConfig
from kailab.errors import ApiError, Conflict
from kailab.scheduler import QueueStatus, Scheduler


def team(build, gpu: Any = None) -> list[Any]:
    return [build.queue("org"), build.queue("team", "org", gpu or build.share(4, -1, 1))]


def fill(lab, build, count: int, name: str = "p", queue: str = "team", **more: Any) -> None:
    for index in range(count):
        lab.apply(build.pod(f"{name}{index:02}", 1, queue, **more))


PRIORITY = {"priorityClassName": "build"}


# --- binding ----------------------------------------------------------------------------------------------------------


def test_pods_are_bound_and_run(lab, build) -> None:
    lab.apply(*team(build))
    fill(lab, build, 10)
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
    lab.apply(*team(build))
    for index in range(3):
        lab.apply(build.pod(f"f{index}", 0, "team", annotations={"gpu-fraction": "0.5"}))
    lab.settle()
    pods = [lab.cluster.get("Pod", f"f{index}", "default") for index in range(3)]
    assert all(pod["metadata"]["annotations"]["received-resource-type"] == "Fraction" for pod in pods)
    groups = [pod["metadata"]["labels"]["runai-gpu-group"] for pod in pods]
    assert len(set(groups)) == 2


def test_a_refused_bind_is_told_retried_and_stops_nobody(lab, build, monkeypatch) -> None:
    lab.apply(*team(build))
    fill(lab, build, 3)
    real, refused = lab.cluster.bind, []

    def bind(namespace: str, pod: str, node: str, annotations: Any = None) -> None:
        if pod == "p01" and len(refused) < 3:
            refused.append(pod)
            raise Conflict("somebody was here before")
        real(namespace, pod, node, annotations)

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
    lab.apply(*team(build))
    lab.apply(build.pod("f", 0, "team", annotations={"gpu-fraction": "0.5"}))

    def bind(*args: Any) -> None:
        raise ApiError("not now")

    monkeypatch.setattr(lab.cluster, "bind", bind)
    lab.grouper.step()
    lab.scheduler.step()
    assert "runai-gpu-group" not in lab.cluster.get("Pod", "f", "default")["metadata"]["labels"]


# --- why work waits -----------------------------------------------------------------------------------------------------


def reasons(lab, name: str) -> list[str]:
    return [reason["reason"] for reason in lab.group_condition(name).get("reasons", [])]


def test_over_limit(lab, build) -> None:
    lab.apply(*team(build, build.share(2, 4, 1)))
    fill(lab, build, 6)
    lab.settle()
    assert len(lab.running()) == 4
    assert reasons(lab, "p05") == ["OverLimit"]
    details = lab.group_condition("p05")["reasons"][0]["details"]["queueDetails"]
    assert details["name"] == "team"
    assert details["queueResourceLimits"]["nvidia.com/gpu"] == "4"
    assert details["queueAllocatedResources"]["nvidia.com/gpu"] == "4"
    assert details["podGroupRequestedResources"] == {"nvidia.com/gpu": "1"}


def test_non_preemptible_over_quota(lab, build) -> None:
    lab.apply(*team(build, build.share(2, -1, 1)))
    fill(lab, build, 3, labels=PRIORITY)
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
    lab.apply(*team(build))
    lab.apply(build.pod("up", 1, "org"))
    lab.settle()
    condition = lab.group_condition("up")
    assert condition["reason"] == "Unschedulable"
    assert "reasons" not in condition
    assert condition["message"]


def test_no_room(lab, build) -> None:
    lab.apply(*team(build))
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
    fill(lab, build, 16, "g", "guest")
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
    lab.apply(*team(build))
    lab.apply(build.podgroup("gang", "team", 3), build.member("m0", "gang"), build.member("m1", "gang"))
    lab.settle()
    message = "Job is not ready for scheduling. Waiting for 3 pods, currently 2 exist, 0 are gated"
    assert lab.events("gang", "PodGroup") == [("NotReady", message)]
    assert lab.group_condition("m0") == {}
    lab.apply(build.member("m2", "gang"))
    lab.settle()
    assert lab.running() == ["m0", "m1", "m2"]


def test_the_condition_goes_when_the_work_runs(lab, build) -> None:
    lab.apply(*team(build))
    lab.apply(build.pod("big", 16, "team"))
    lab.settle()
    assert lab.group_condition("big")
    lab.apply(build.node("node-9", 16))
    lab.settle()
    assert lab.running() == ["big"]
    assert lab.group_condition("big") == {}


def test_the_same_reason_is_written_once(lab, build) -> None:
    lab.apply(*team(build))
    lab.apply(build.pod("big", 9, "team"))
    lab.settle()
    version = lab.cluster.get("Pod", "big", "default")["metadata"]["resourceVersion"]
    group = lab.group_of("big")["metadata"]["resourceVersion"]
    lab.apply(build.pod("small", 1, "team"))
    lab.settle()
    assert lab.cluster.get("Pod", "big", "default")["metadata"]["resourceVersion"] == version
    assert lab.group_of("big")["metadata"]["resourceVersion"] == group


# --- evictions ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def borrowed(build):
    """Two queues of 8 of 16 GPUs; the guest has all 16; then the owner comes back for 4."""
    lab = build.lab()
    lab.apply(build.queue("org"), build.queue("owner", "org", build.share(8)))
    lab.apply(build.queue("guest", "org", build.share(8)))
    fill(lab, build, 16, "g", "guest")
    lab.settle()
    assert len(lab.running()) == 16
    fill(lab, build, 4, "o", "owner")
    lab.settle()
    return lab


def test_reclaimed_pods_go_and_the_owner_runs(borrowed) -> None:
    running = borrowed.running()
    assert sum(name.startswith("o") for name in running) == 4
    assert sum(name.startswith("g") for name in running) == 12


def test_an_eviction_that_was_refused_is_tried_again_though_nothing_else_happens(build, monkeypatch) -> None:
    small = build.lab(nodes=1)
    small.apply(
        build.queue("org"), build.queue("owner", "org", build.share(8)), build.queue("guest", "org", build.share(0))
    )
    for number in range(8):
        small.cluster.create(build.podgroup(f"g{number}", "guest"))
        small.cluster.create(build.member(f"g{number}", f"g{number}"))
    small.settle()
    evict, refused = small.cluster.evict, []

    def once(*args: Any, **more: Any) -> None:
        if not refused:
            refused.append(args)
            raise Conflict("not just now")
        evict(*args, **more)

    monkeypatch.setattr(small.cluster, "evict", once)
    small.cluster.create(build.podgroup("o", "owner"))
    small.cluster.create(build.member("o", "o"))
    for _ in range(100):
        small.scheduler.step()
        small.cluster.advance(0.1)
    assert refused
    assert small.node_of("o") == "node-0"


def test_an_eviction_is_told_on_the_podgroup_of_the_victim(borrowed) -> None:
    events = [event for event in borrowed.cluster.list("Event") if event["reason"] == "Evict"]
    assert len(events) == 4
    assert {event["involvedObject"]["kind"] for event in events} == {"PodGroup"}
    evictions = [evict for record in borrowed.records for evict in record.decisions.evictions]
    assert {evict.message for evict in evictions} == {event["message"] for event in events}


def test_history_knows_who_took_what_for_whom(borrowed) -> None:
    history = borrowed.scheduler.history
    evictions = [evict for record in history for evict in record.decisions.evictions]
    assert len(evictions) == 4
    for evict in evictions:
        assert [entry for _, entry in history.evictions(evict.podgroup)] == [evict]
        assert evict in [entry for _, entry in history.taken_for(evict.beneficiary)]


def test_records_name_what_they_speak_of(borrowed) -> None:
    for record in borrowed.records:
        for bind in record.decisions.binds:
            assert record.tasks[bind.task].startswith("default/")
            assert record.podgroups[bind.podgroup].startswith("default/pg-")
        for evict in record.decisions.evictions:
            assert record.tasks[evict.task].startswith("default/g")
            assert record.podgroups[evict.beneficiary].startswith("default/pg-o")
    numbers = [record.number for record in borrowed.records]
    assert numbers == list(range(1, len(numbers) + 1))


def test_an_evicted_group_remembers_when(build) -> None:
    lab = build.lab()
    lab.apply(build.queue("org"), build.queue("owner", "org", build.share(8)))
    lab.apply(build.queue("guest", "org", build.share(8)))
    lab.apply(build.podgroup("flex", "guest"), *(build.member(f"e{i:02}", "flex") for i in range(16)))
    lab.settle()
    fill(lab, build, 2, "o", "owner")
    lab.settle()
    assert sum(name.startswith("e") for name in lab.running()) == 14
    annotations = lab.cluster.get("PodGroup", "flex", "default")["metadata"]["annotations"]
    assert annotations["kai.scheduler/last-eviction-timestamp"] > annotations["kai.scheduler/last-start-timestamp"]


def test_a_stale_gang_is_marked_then_evicted(lab, build) -> None:
    lab.apply(*team(build))
    lab.apply(build.podgroup("gang", "team", 3), *(build.member(f"m{i}", "gang") for i in range(3)))
    lab.settle()
    lab.cluster.delete("Pod", "m0", "default")
    lab.settle()
    annotations = lab.cluster.get("PodGroup", "gang", "default")["metadata"]["annotations"]
    assert "kai.scheduler/stale-podgroup-timestamp" in annotations
    assert ("StaleJob", "Job is stale. 2 pods are active, minMember is 3") in lab.events("gang", "PodGroup")
    assert lab.running() == ["m1", "m2"]
    lab.cluster.advance(61)
    lab.settle()
    assert lab.running() == []


def test_a_gang_made_whole_again_is_stale_no_more(lab, build) -> None:
    lab.apply(*team(build))
    lab.apply(build.podgroup("gang", "team", 3), *(build.member(f"m{i}", "gang") for i in range(3)))
    lab.settle()
    lab.cluster.delete("Pod", "m0", "default")
    lab.settle()
    lab.apply(build.member("m3", "gang"))
    lab.settle()
    annotations = lab.cluster.get("PodGroup", "gang", "default")["metadata"]["annotations"]
    assert "kai.scheduler/stale-podgroup-timestamp" not in annotations
    assert lab.running() == ["m1", "m2", "m3"]


# --- quiet, restarts, determinism ---------------------------------------------------------------------------------------


def crowded(build) -> Any:
    lab = build.lab()
    lab.apply(*team(build, build.share(4, 12, 1)), build.queue("other", "org", build.share(4)))
    fill(lab, build, 14)
    fill(lab, build, 5, "o", "other", labels=PRIORITY)
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
    pending = lab.scheduler.last_pending(uid)
    assert pending is not None
    assert pending.tried
    assert lab.scheduler.last_pending(lab.group_of("p00")["metadata"]["uid"]) is None


def test_actions_of_the_configuration_count(build) -> None:
    lab = build.lab()
    lab.restart(config=EngineConfig(actions=("allocate",)))
    lab.apply(build.queue("org"), build.queue("owner", "org", build.share(8)))
    lab.apply(build.queue("guest", "org", build.share(8)))
    fill(lab, build, 16, "g", "guest")
    lab.settle()
    fill(lab, build, 4, "o", "owner")
    lab.settle()
    assert all(name.startswith("g") for name in lab.running())


def test_phases_are_told_in_order(lab, build) -> None:
    phases: list[str] = []
    lab.apply(*team(build), build.pod("a", 1, "team"))
    lab.grouper.step()
    Scheduler(lab.cluster, on_phase=phases.append).step()
    assert phases[0] == "fairshare"
    assert phases[-2:] == ["carry out", "status"]


# --- status of queues ---------------------------------------------------------------------------------------------------


def test_queue_status_sums_up_the_tree(build) -> None:
    lab = build.lab()
    lab.apply(build.queue("org"), build.queue("a", "org", build.share(8)), build.queue("b", "org", build.share(8)))
    fill(lab, build, 3, "a", "a", labels=PRIORITY)
    fill(lab, build, 2, "b", "b")
    lab.apply(build.pod("big", 9, "b"), build.pod("half", 0, "b", annotations={"gpu-fraction": "0.5"}))
    lab.settle()
    status = {name: lab.cluster.get("Queue", name)["status"] for name in ("org", "a", "b")}
    assert status["a"]["allocated"] == {"nvidia.com/gpu": "3", "cpu": "300m"}
    assert status["a"]["allocatedNonPreemptible"] == {"nvidia.com/gpu": "3", "cpu": "300m"}
    assert status["b"]["requested"] == {"nvidia.com/gpu": "11500m", "cpu": "400m"}
    assert status["b"]["allocated"] == {"nvidia.com/gpu": "2500m", "cpu": "300m"}
    assert "allocatedNonPreemptible" not in status["b"]
    assert status["org"]["childQueues"] == ["a", "b"]
    assert status["org"]["allocated"] == {"nvidia.com/gpu": "5500m", "cpu": "600m"}
    group = lab.group_of("half")["status"]["resourcesStatus"]
    assert group == {
        "requested": {"nvidia.com/gpu": "500m", "cpu": "100m"},
        "allocated": {"nvidia.com/gpu": "500m", "cpu": "100m"},
    }


def test_queue_status_follows_what_goes(build) -> None:
    lab = build.lab()
    lab.apply(build.queue("org"), build.queue("a", "org"), build.queue("b", "org"))
    fill(lab, build, 3, "a", "a")
    lab.settle()
    for name in ("a00", "a01", "a02"):
        lab.cluster.delete("Pod", name, "default")
    lab.cluster.delete("Queue", "b")
    lab.settle()
    status = lab.cluster.get("Queue", "org")["status"]
    assert status["childQueues"] == ["a"]
    assert not status.get("allocated")
    assert not status.get("requested")


def test_each_queue_is_written_once_per_step(build) -> None:
    lab = build.lab()
    lab.apply(build.queue("org"), build.queue("a", "org"))
    lab.settle()
    watch = lab.cluster.watch(["Queue"])
    watch.poll()
    fill(lab, build, 8, "a", "a")
    lab.grouper.step()
    lab.scheduler.step()
    lab.status.step()
    assert sorted(event.object["metadata"]["name"] for event in watch.poll()) == ["a", "org"]
    assert not QueueStatus(lab.cluster).step()


def test_gpu_memory_is_held_as_a_part_of_its_device(build) -> None:
    lab = build.lab(nodes=0)
    lab.apply(build.node("n", 2, {"nvidia.com/gpu.memory": "40000"}), build.queue("a"))
    lab.apply(build.pod("m", 0, "a", annotations={"gpu-memory": "10000"}))
    lab.settle()
    assert lab.running() == ["m"]
    status = lab.cluster.get("Queue", "a")["status"]
    assert status["requested"] == {"run.ai/gpu.memory": "10000", "cpu": "100m"}
    assert status["allocated"] == {"nvidia.com/gpu": "250m", "cpu": "100m"}
