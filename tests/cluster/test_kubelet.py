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


@pytest.mark.parametrize(("now", "left"), [("30", 20), ("5", 0), ("200", 190), (None, None)])
def test_a_running_pod_ends_by_the_run_time_that_it_is_given_last(cluster, running, now, left):
    running(spec={"restartPolicy": "Never"}, annotations={"kailab.dev/run-seconds": "100"})
    cluster.advance(10)
    cluster.patch("Pod", "p", "default", {"metadata": {"annotations": {"kailab.dev/run-seconds": now}}})
    timer = cluster.next_timer()
    assert (timer if left is None else timer - cluster.now()) == left
    cluster.advance(1000)
    assert phase(cluster) == ("Running" if left is None else "Succeeded")


def test_a_changed_run_time_leaves_the_deadline(cluster, running):
    running(spec={"restartPolicy": "Never", "activeDeadlineSeconds": 50}, annotations={"kailab.dev/run-seconds": "20"})
    cluster.patch("Pod", "p", "default", {"metadata": {"annotations": {"kailab.dev/run-seconds": "100"}}})
    cluster.advance(60)
    assert phase(cluster) == "Failed"


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


@pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never"])
def test_a_pod_past_its_deadline_has_failed(cluster, running, policy):
    running(spec={"restartPolicy": policy, "activeDeadlineSeconds": 30})
    cluster.advance(20)
    assert phase(cluster) == "Running"
    cluster.patch("Pod", "p", "default", {"spec": {"activeDeadlineSeconds": 25}})
    cluster.advance(10)
    assert phase(cluster) == "Failed"
    assert cluster.get("Pod", "p", "default")["status"]["reason"] == "DeadlineExceeded"


def test_a_deadline_counts_from_the_start_of_a_pod_that_nothing_changes(cluster, running):
    running(spec={"restartPolicy": "Never", "activeDeadlineSeconds": 30})
    cluster.advance(20)
    assert phase(cluster) == "Running"
    cluster.advance(20)
    assert phase(cluster) == "Failed"


def test_a_pod_that_waits_to_be_started_again_comes_to_its_deadline(cluster, running):
    running(spec={"restartPolicy": "Always", "activeDeadlineSeconds": 30}, annotations={"kailab.dev/fail": "25"})
    cluster.advance(1000)
    assert phase(cluster) == "Failed"


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


NO_ANSWER = {"Unknown": "node.kubernetes.io/unreachable", "False": "node.kubernetes.io/not-ready"}


def set_ready(cluster, status):
    cluster.patch("Node", "n", None, {"status": {"conditions": [{"type": "Ready", "status": status}]}}, "status")


def taint(cluster, *taints):
    cluster.patch("Node", "n", None, {"spec": {"taints": [{"effect": "NoExecute", **each} for each in taints]}})


def tolerating(key, seconds=None):
    limited = {} if seconds is None else {"tolerationSeconds": seconds}
    return {"tolerations": [{"key": key, "operator": "Exists", "effect": "NoExecute", **limited}]}


def there(cluster):
    return {pod["metadata"]["name"] for pod in cluster.list("Pod") if "deletionTimestamp" not in pod["metadata"]}


@pytest.mark.parametrize("status", ["Unknown", "False"])
def test_pods_leave_a_node_that_stays_away(cluster, running, status):
    running()
    running("q", spec=tolerating(NO_ANSWER[status]))
    running("other", spec=tolerating(NO_ANSWER["False" if status == "Unknown" else "Unknown"]))
    set_ready(cluster, status)
    cluster.advance(299)
    assert there(cluster) == {"p", "q", "other"}
    cluster.advance(2)
    assert there(cluster) == {"q"}
    cluster.advance(1000)
    assert len(cluster.list("Pod")) == 3, "nobody is there to stop them"
    set_ready(cluster, "True")
    cluster.advance(31)
    assert [pod["metadata"]["name"] for pod in cluster.list("Pod")] == ["q"]


def node_taints(cluster):
    return [(one["key"], one["effect"]) for one in cluster.get("Node", "n")["spec"].get("taints", ())]


@pytest.mark.parametrize("status", ["Unknown", "False"])
def test_a_node_that_is_not_ready_is_tainted_until_it_is(cluster, running, status):
    """As by Kubernetes' node lifecycle controller; taints of others stay."""
    running()
    taint(cluster, {"key": "team", "value": "red", "effect": "NoSchedule"})
    set_ready(cluster, status)
    key = NO_ANSWER[status]
    assert node_taints(cluster) == [("team", "NoSchedule"), (key, "NoSchedule"), (key, "NoExecute")]
    set_ready(cluster, "True")
    assert node_taints(cluster) == [("team", "NoSchedule")]


def test_a_node_that_is_heard_of_again_and_not_ready_has_the_other_taint(cluster, running):
    running()
    set_ready(cluster, "Unknown")
    cluster.advance(100)
    set_ready(cluster, "False")
    key = "node.kubernetes.io/not-ready"
    assert node_taints(cluster) == [(key, "NoSchedule"), (key, "NoExecute")]
    # Whoever takes them off finds them there again.
    cluster.patch("Node", "n", None, {"spec": {"taints": None}})
    assert node_taints(cluster) == [(key, "NoSchedule"), (key, "NoExecute")]


def test_a_pod_bound_to_a_node_that_is_away_waits_as_long_as_the_others(cluster, running, build):
    """From when it was bound: no sooner does it have to put up with the node."""
    running()
    set_ready(cluster, "False")
    cluster.advance(200)
    cluster.create(build.pod("late"))
    cluster.bind("default", "late", "n")
    cluster.advance(101)
    assert there(cluster) == {"late"}
    cluster.advance(200)
    assert there(cluster) == set()


@pytest.mark.parametrize(
    ("seconds", "stays"), [(None, True), (600, True), (60, False)], ids=["for ever", "for longer", "for less"]
)
def test_a_toleration_of_everything_counts_for_a_node_that_stays_away(cluster, running, seconds, stays):
    limited = {} if seconds is None else {"effect": "NoExecute", "tolerationSeconds": seconds}
    running(spec={"tolerations": [{"operator": "Exists", **limited}]})
    set_ready(cluster, "False")
    cluster.advance(302 if stays else 62)
    assert (there(cluster) == {"p"}) is stays


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
    taint(cluster, {"key": "maintenance"})
    cluster.advance(2)
    assert [pod["metadata"]["name"] for pod in cluster.list("Pod")] == ["q"]


def test_a_taint_is_put_up_with_for_so_many_seconds_as_the_toleration_says(cluster, running):
    running("brief", spec=tolerating("maintenance", 20))
    running("long", spec=tolerating("maintenance", 60))
    running("ever", spec=tolerating("maintenance"))
    running("never", spec=tolerating("maintenance", 0))
    taint(cluster, {"key": "maintenance"})
    assert there(cluster) == {"brief", "long", "ever"}
    cluster.advance(19)
    # Applied once more without its time, it has been there all along; another one is there from now on.
    taint(cluster, {"key": "maintenance"}, {"key": "other", "effect": "NoSchedule"})
    cluster.advance(2)
    assert there(cluster) == {"long", "ever"}
    taint(cluster)
    cluster.advance(100)
    taint(cluster, {"key": "maintenance"})
    cluster.advance(59)
    assert there(cluster) == {"long", "ever"}
    cluster.advance(1)
    assert there(cluster) == {"ever"}


def test_of_several_taints_the_first_to_run_out_sends_the_pod_away(cluster, running):
    running(spec={"tolerations": [*tolerating("a", 100)["tolerations"], *tolerating("b", 10)["tolerations"]]})
    taint(cluster, {"key": "a"})
    cluster.advance(50)
    taint(cluster, {"key": "a"}, {"key": "b"})
    cluster.advance(9)
    assert there(cluster) == {"p"}
    cluster.advance(1)
    assert there(cluster) == set()
    (pod,) = cluster.list("Pod")
    assert pod["status"]["conditions"][-1]["message"].endswith("NoExecute taint b")


def test_a_pod_bound_to_a_tainted_node_stays_as_long_as_it_tolerates_that(cluster, build):
    cluster.create(build.node())
    taint(cluster, {"key": "maintenance"})
    cluster.advance(1000)
    for name, spec in (("brief", tolerating("maintenance", 20)), ("stranger", {})):
        cluster.create(build.pod(name, spec=spec))
        cluster.bind("default", name, "n")
    cluster.advance(1)
    assert there(cluster) == {"brief"}
    cluster.advance(19)
    assert there(cluster) == set()


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


def test_settling_does_not_wait_for_a_start_of_hours(cluster, build):
    cluster.create(build.node())
    cluster.create(build.pod("soon", annotations={"kailab.dev/ready-seconds": "3600"}))
    cluster.create(build.pod("late", annotations={"kailab.dev/ready-seconds": "3601"}))
    for name in ("soon", "late"):
        cluster.bind("default", name, "n")
    assert cluster.next_prompt() == cluster.now() + 3600
    cluster.advance(3600)
    assert (phase(cluster, "soon"), phase(cluster, "late")) == ("Running", "Pending")
    assert cluster.next_prompt() is None
    cluster.advance(1)
    assert phase(cluster, "late") == "Running"


@pytest.mark.parametrize("grace", [260_000_000_000, 2**53])
def test_a_grace_period_beyond_the_calendar_begins_now(cluster, running, grace):
    hook = {"preStop": {"sleep": {"seconds": 100}}}
    running(
        spec={"terminationGracePeriodSeconds": grace, "containers": [{"name": "c", "image": "x", "lifecycle": hook}]}
    )
    cluster.delete("Pod", "p", "default")
    assert cluster.get("Pod", "p", "default")["metadata"]["deletionTimestamp"] == "9999-12-31T23:59:59Z"
    cluster.advance(100)
    assert len(cluster.list("Pod")) == 1
    cluster.advance(1)
    assert cluster.list("Pod") == []


def test_a_pod_with_such_a_grace_period_can_be_told_to_go_at_once(cluster, running):
    running(spec={"terminationGracePeriodSeconds": 2**53})
    cluster.delete("Pod", "p", "default")
    cluster.delete("Pod", "p", "default", 0)
    assert cluster.list("Pod") == []


def test_pods_of_a_node_that_never_was_are_deleted_after_a_while(cluster, build):
    cluster.create(build.pod("bound"))
    cluster.advance(100)
    cluster.bind("default", "bound", "ghost")
    cluster.create(build.pod("made-there", spec={"nodeName": "ghost"}))
    assert cluster.next_prompt() is None
    cluster.advance(39)
    assert len(cluster.list("Pod")) == 2
    cluster.advance(1)
    assert cluster.list("Pod") == []
