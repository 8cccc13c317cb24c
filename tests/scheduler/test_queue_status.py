"""The status of queues and PodGroups: requested and allocated amounts, summed over the tree."""

from __future__ import annotations

from kailab.scheduler.status.queue_status import QueueStatus

PRIORITY = {"priorityClassName": "build"}


def test_queue_status_sums_up_the_tree(build) -> None:
    lab = build.lab()
    lab.apply(build.queue("org"), build.queue("a", "org", build.share(8)), build.queue("b", "org", build.share(8)))
    lab.fill(3, "a", "a", labels=PRIORITY)
    lab.fill(2, "b", "b")
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
    lab.fill(3, "a", "a")
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
    lab.fill(8, "a", "a")
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


def test_nothing_is_written_once_nobody_reads(build) -> None:
    lab = build.lab()
    lab.apply(build.queue("org"), build.queue("a", "org"), build.queue("b", "org"))
    lab.fill(1, "a", "a")
    lab.settle()
    lab.scheduler.reasons_when_asked()
    unread = QueueStatus(lab.cluster, unread=lambda: lab.scheduler.unread)
    lab.status.close()
    lab.cluster.delete("Pod", "a00", "default")
    lab.fill(2, "b", "b")
    lab.grouper.step()
    lab.scheduler.step()
    assert not unread.step()
    assert lab.cluster.get("Queue", "org")["status"]["allocated"]["nvidia.com/gpu"] == "1"
