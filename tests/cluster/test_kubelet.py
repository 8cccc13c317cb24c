"""What becomes of bound pods, in virtual time."""

from __future__ import annotations

import pytest


def phase(cluster, name="p"):
    return cluster.get("Pod", name, "default")["status"]["phase"]


def ready(cluster, name="p"):
    conditions = cluster.get("Pod", name, "default")["status"]["conditions"]
    return next(entry["status"] for entry in conditions if entry["type"] == "Ready")


def test_bound_pod_becomes_ready_after_its_delay(cluster, build):
    cluster.create(build.node())
    cluster.create(build.pod(annotations={"kailab.dev/ready-seconds": "3"}))
    assert cluster.next_timer() is None
    cluster.bind("default", "p", "n")
    assert cluster.next_prompt() == cluster.now() + 3
    cluster.advance(2)
    assert phase(cluster) == "Pending"
    cluster.advance(1)
    status = cluster.get("Pod", "p", "default")["status"]
    assert status["phase"] == "Running"
    assert status["startTime"] == "2026-01-01T00:00:03Z"
    assert status["podIP"].startswith("10.")
    assert status["hostIP"]
    assert {entry["type"]: entry["status"] for entry in status["conditions"]} == {
        "PodScheduled": "True", "PodReadyToStartContainers": "True", "Initialized": "True", "Ready": "True",
        "ContainersReady": "True",
    }  # fmt: skip
    assert status["containerStatuses"][0]["state"] == {"running": {"startedAt": "2026-01-01T00:00:03Z"}}


def test_becoming_ready_is_one_write(cluster, build):
    cluster.create(build.node())
    cluster.create(build.pod())
    cluster.bind("default", "p", "n")
    watch = cluster.watch(["Pod"])
    watch.poll()
    cluster.advance(1)
    assert len(watch.poll()) == 1


def test_pod_on_a_node_that_is_not_there_waits_for_it(cluster, build):
    cluster.create(build.pod())
    cluster.bind("default", "p", "n")
    cluster.advance(10)
    assert phase(cluster) == "Pending"
    cluster.create(build.node())
    cluster.advance(1)
    assert phase(cluster) == "Running"


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
def test_run_time_ends_but_not_promptly(cluster, running, policy):
    running(spec={"restartPolicy": policy}, annotations={"kailab.dev/run-seconds": "100"})
    assert cluster.next_prompt() is None
    assert cluster.next_timer() == cluster.now() + 100
    cluster.advance(100)
    pod = cluster.get("Pod", "p", "default")
    assert pod["status"]["phase"] == "Succeeded"
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    assert ready(cluster) == "False"


def test_always_starts_again(cluster, running):
    running(annotations={"kailab.dev/run-seconds": "100"})
    cluster.advance(100)
    (container,) = cluster.get("Pod", "p", "default")["status"]["containerStatuses"]
    assert container["restartCount"] == 1
    assert ready(cluster) == "False"
    cluster.advance(10)
    assert ready(cluster) == "True"
    assert phase(cluster) == "Running"


def test_failure_ends_a_pod_that_may_not_restart(cluster, running):
    running(spec={"restartPolicy": "Never"}, annotations={"kailab.dev/fail": "7:OOMKilled"})
    cluster.advance(7)
    status = cluster.get("Pod", "p", "default")["status"]
    assert status["phase"] == "Failed"
    ended = status["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")


def test_failures_back_off(cluster, running):
    running(annotations={"kailab.dev/fail": "1"})
    restarts = []
    for _ in range(5):
        cluster.advance_to(cluster.next_timer())
        restarts.append(
            (
                cluster.now() - 1767225601,
                cluster.get("Pod", "p", "default")["status"]["containerStatuses"][0]["restartCount"],
            )
        )
    assert restarts == [(1, 1), (11, 1), (12, 2), (32, 2), (33, 3)]


def test_deleted_pod_does_not_become_ready(cluster, build):
    cluster.create(build.node())
    cluster.create(build.pod())
    cluster.bind("default", "p", "n")
    cluster.delete("Pod", "p", "default")
    watch = cluster.watch(["Pod"])
    watch.poll()
    cluster.advance(5)
    assert [event.type for event in watch.poll()] == ["DELETED"]


def test_timer_of_a_pod_gone_does_not_touch_its_namesake(cluster, build):
    cluster.create(build.node())
    cluster.create(build.pod(annotations={"kailab.dev/ready-seconds": "5"}))
    cluster.bind("default", "p", "n")
    cluster.delete("Pod", "p", "default", 0)
    cluster.create(build.pod())
    cluster.advance(10)
    assert phase(cluster) == "Pending"


@pytest.mark.parametrize(("asked", "takes"), [("20", 20), ("500", 30)])
def test_leaving_may_take_long_but_not_longer_than_the_grace(cluster, running, asked, takes):
    running(annotations={"kailab.dev/termination-seconds": asked})
    cluster.delete("Pod", "p", "default")
    assert cluster.next_prompt() is None, "long leaving is not waited for"
    cluster.advance(takes - 1)
    assert len(cluster.list("Pod")) == 1
    cluster.advance(1)
    assert cluster.list("Pod") == []


def test_node_failure_and_return(cluster, running):
    running()
    down = {
        "status": {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:01Z"}]}
    }
    cluster.patch("Node", "n", None, down, "status")
    assert ready(cluster) == "False"
    cluster.patch("Node", "n", None, {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, "status")
    assert ready(cluster) == "True"
    cluster.advance(1000)
    assert phase(cluster) == "Running"


def test_pods_leave_a_node_that_stays_away(cluster, running, build):
    running()
    tolerant = {"tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}]}
    running("q", spec=tolerant)
    cluster.patch("Node", "n", None, {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}, "status")
    cluster.advance(299)
    assert "deletionTimestamp" not in cluster.get("Pod", "p", "default")["metadata"]
    cluster.advance(2)
    assert "deletionTimestamp" in cluster.get("Pod", "p", "default")["metadata"]
    cluster.advance(1000)
    assert len(cluster.list("Pod")) == 2, "nobody is there to stop it"
    cluster.patch("Node", "n", None, {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, "status")
    cluster.advance(31)
    assert [pod["metadata"]["name"] for pod in cluster.list("Pod")] == ["q"]


@pytest.mark.parametrize(
    ("seconds", "stays"), [(None, True), (600, True), (60, False)], ids=["for ever", "for longer", "for less"]
)
def test_a_toleration_of_everything_counts_for_a_node_that_stays_away(cluster, running, seconds, stays):
    limited = {} if seconds is None else {"effect": "NoExecute", "tolerationSeconds": seconds}
    running(spec={"tolerations": [{"operator": "Exists", **limited}]})
    cluster.patch("Node", "n", None, {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, "status")
    cluster.advance(302 if stays else 62)
    assert ("deletionTimestamp" not in cluster.get("Pod", "p", "default")["metadata"]) is stays


def test_deleted_node_takes_its_pods(cluster, running):
    running()
    watch = cluster.watch(["Pod"])
    watch.poll()
    cluster.delete("Node", "n")
    assert cluster.list("Pod") == []
    assert watch.poll()[-1].type == "DELETED"


def test_deleted_node_leaves_held_pods_as_failed(cluster, running):
    running(finalizers=["example.com/a"])
    cluster.delete("Node", "n")
    assert phase(cluster) == "Failed"
    cluster.patch("Pod", "p", "default", {"metadata": {"finalizers": None}})
    assert cluster.list("Pod") == []


def test_no_execute_taint(cluster, running):
    running()
    running("q", spec={"tolerations": [{"key": "maintenance", "operator": "Exists"}]})
    cluster.patch("Node", "n", None, {"spec": {"taints": [{"key": "maintenance", "effect": "NoExecute"}]}})
    cluster.advance(2)
    assert [pod["metadata"]["name"] for pod in cluster.list("Pod")] == ["q"]


def test_many_pods_share_one_timer(cluster, build):
    cluster.create(build.node())
    for index in range(200):
        cluster.create(build.pod(f"p{index}"))
        cluster.bind("default", f"p{index}", "n")
    assert len(cluster.clock._all) == 1
    cluster.advance(1)
    assert all(pod["status"]["phase"] == "Running" for pod in cluster.list("Pod"))


@pytest.mark.parametrize(("done", "told"), [(False, "CheckpointLost"), (True, "Checkpointed")])
def test_a_pod_that_saves_its_state_and_is_made_to_go_at_once_says_so(cluster, running, done, told):
    notes = {"kailab.dev/checkpoint-seconds": "60", "kailab.dev/checkpoint-requested": "2026-01-01T00:00:01Z"}
    running(annotations=notes)
    cluster.delete("Pod", "p", "default", 120)
    if done:
        cluster.patch("Pod", "p", "default", {"metadata": {"annotations": {"kailab.dev/checkpoint-done": "true"}}})
    cluster.delete("Pod", "p", "default", 0)
    assert cluster.list("Pod") == []
    assert [event["reason"] for event in cluster.list("Event")] == [told]
    assert cluster.next_timer() is None
