"""Work that lacks room: what keeps it from taking what others hold, with the numbers that decide."""

import pytest

from kailab.lab.answer import CauseCode
from tests.explain.building import OPEN, causes, gang, lab, pod, pods, queue, settled


def shared(found, own=4, other=4, weight=1, **fields) -> None:
    settled(found, queue("org", 8), queue("mine", own, weight=weight, parent="org"))
    settled(found, queue("theirs", other, parent="org", **fields))


def borrowed(found, **fields) -> None:
    """``theirs`` has all eight GPUs, four beyond its quota."""
    shared(found, **fields)
    settled(found, *pods(8, "held", "theirs"))


def only(found, name="wants", kind="Pod"):
    [cause] = causes(found, kind, name)
    return cause


# Share and weight


@pytest.mark.parametrize(("weight", "share"), [(1, 2), (3, 3)])
def test_a_share_by_weight_is_reached(weight, share) -> None:
    with lab(gpus=4) as found:
        settled(found, queue("mine", 0, weight=weight), queue("theirs", 0, weight=1))
        settled(found, *pods(4, "held", "theirs"), *pods(4, "wants", "mine"))
        cause = causes(found, "Queue", "mine")[0]
    assert cause.code == CauseCode.FAIR_SHARE_REACHED
    assert cause.facts == {
        "queue": "mine",
        "resource": "gpu",
        "quota": 0,
        "held": share * 1000,
        "fairShare": share * 1000,
    }
    assert f"Queue mine holds {share} GPU" in cause.sentence
    assert f"theirs holds {4 - share} GPU" in cause.sentence


def test_the_department_whose_share_is_reached_is_named() -> None:
    with lab(gpus=8) as found:
        settled(found, queue("north", 4, weight=0), queue("south", 4, weight=1))
        settled(found, queue("north-ml", 0, parent="north"), queue("south-ml", 0, parent="south"))
        settled(found, *pods(8, "held", "south-ml"))
        settled(found, *pods(6, "wants", "north-ml"))
        cause = causes(found, "Queue", "north-ml")[0]
    # Four are the department's quota; its only team gets them all, and a weight of the department would bring more.
    assert (cause.code, cause.facts["queue"]) == (CauseCode.FAIR_SHARE_REACHED, "north")


def test_a_department_without_a_weight_is_named() -> None:
    with lab(gpus=8) as found:
        settled(found, queue("north", 2, weight=0), queue("south", 2, weight=1))
        settled(found, queue("north-ml", 0, parent="north"), queue("south-ml", 0, parent="south"))
        settled(found, *pods(8, "held", "south-ml"))
        settled(found, *pods(4, "wants", "north-ml"))
        cause = causes(found, "Queue", "north-ml")[0]
    assert (cause.code, cause.facts["queue"], cause.facts["held"]) == (CauseCode.NO_WEIGHT, "north", 2000)
    assert "Queue north, above its queue north-ml, has its quota of 2 GPUs" in cause.sentence


@pytest.mark.parametrize("quota", [0, 1, 3])
def test_no_weight_and_the_quota_is_used_up(quota) -> None:
    with lab() as found:
        settled(found, queue("mine", quota, weight=0), queue("theirs", 0))
        settled(found, *pods(8, "held", "theirs"), *pods(quota + 1, "wants", "mine"))
        cause = causes(found, "Queue", "mine")[0]
    assert (cause.code, cause.facts["quota"]) == (CauseCode.NO_WEIGHT, quota * 1000)
    assert f"quota of {quota} GPU" in cause.sentence


def test_a_weight_that_brings_too_little_keeps_nobody() -> None:
    """It would get a claim on one GPU more, and holds more than that: a larger quota alone lets it have others evicted."""
    with lab() as found:
        settled(found, queue("mine", 1, weight=0), queue("theirs", 2, weight=6))
        settled(found, *pods(3, "held", "mine"), gang("large", "theirs", 5))
        settled(found, pod("wants", "mine"))
        cause = only(found)
        assert cause.code == CauseCode.FAIR_SHARE_REACHED
        found.patch("Queue", "mine", {"spec": {"resources": {"gpu": {"overQuotaWeight": 1}}}})
        found.settle()
        assert only(found).code == CauseCode.FAIR_SHARE_REACHED
        found.patch("Queue", "mine", {"spec": {"resources": {"gpu": {"overQuotaWeight": 0, "quota": -1}}}})
        found.settle()
        assert not causes(found, "Pod", "wants")


def test_a_weight_that_brings_too_little_keeps_nobody_where_the_department_has_its_share_too() -> None:
    with lab() as found:
        settled(found, queue("org", 3, weight=0), queue("mine", 1, weight=0, parent="org"))
        settled(found, queue("theirs", 1, weight=2, parent="org"), queue("away", 5))
        settled(found, *pods(3, "held", "mine"), gang("large", "theirs", 5))
        settled(found, pod("wants", "mine"))
        assert only(found).code == CauseCode.FAIR_SHARE_REACHED
        for name in ("org", "mine"):
            found.patch("Queue", name, {"spec": {"resources": {"gpu": {"quota": -1}}}})
        found.settle()
        assert not causes(found, "Pod", "wants")


def test_where_others_keep_their_quotas_too_the_share_comes_before_the_weight() -> None:
    """A weight brings a larger share, and a quota as large as is wanted takes its place: with either, the quota of ``firm`` is next."""
    with lab() as found:
        settled(found, queue("mine", 1, weight=0), queue("theirs", 0, weight=1), queue("firm", 5, weight=0))
        settled(found, pod("held", "mine"), *pods(2, "lent", "theirs"), *pods(5, "kept", "firm"))
        settled(found, gang("wants", "mine", 4))
        assert only(found, kind="Job").code == CauseCode.FAIR_SHARE_REACHED
        found.patch("Queue", "mine", {"spec": {"resources": {"gpu": {"quota": -1}}}})
        found.settle()
        assert only(found, kind="Job").code == CauseCode.VICTIMS_WITHIN_QUOTA
        for name in ("firm", "theirs"):
            found.patch("Queue", name, {"spec": {"resources": {"gpu": {"quota": 0}}}})
        found.settle()
        assert not causes(found, "Job", "wants")


def test_no_weight_at_two_levels() -> None:
    """That of the team alone brings a larger share and no place."""
    with lab() as found:
        settled(found, queue("north", 2, weight=0), queue("south", 0, weight=1))
        settled(found, queue("north-ml", 0, weight=0, parent="north"), queue("north-web", 1, parent="north"))
        settled(found, queue("south-ml", 0, parent="south"), *pods(8, "held", "south-ml"))
        settled(found, *pods(2, "web", "north-web"), *pods(2, "wants", "north-ml"))
        cause = causes(found, "Queue", "north-ml")[0]
    assert (cause.code, cause.facts["queue"]) == (CauseCode.NO_WEIGHT, "north-ml")


def test_a_share_of_cpu_is_reached() -> None:
    fair = {"quota": 0, "limit": -1, "overQuotaWeight": 1}
    with lab(cpu=8) as found:
        settled(found, queue("mine", 8, cpu=fair), queue("theirs", 8, cpu=fair))
        settled(found, *pods(8, "held", "theirs", gpus=0, cpu="1"))
        settled(found, *pods(5, "wants", "mine", gpus=0, cpu="1"))
        cause = causes(found, "Queue", "mine")[0]
    assert (cause.code, cause.facts["resource"]) == (CauseCode.FAIR_SHARE_REACHED, "cpu")
    assert "4 CPU" in cause.sentence


def test_a_queue_that_has_all_to_itself_lacks_no_share() -> None:
    with lab() as found:
        shared(found)
        settled(found, *pods(8, "held", "mine"))
        settled(found, pod("wants", "mine"))
        assert not {CauseCode.FAIR_SHARE_REACHED, CauseCode.NO_WEIGHT} & {
            one.code for one in causes(found, "Pod", "wants")
        }


# What others may keep


def test_quotas_are_not_told_where_others_are_protected_and_work_in_front_is_in_the_way_too() -> None:
    """Without all quotas of others it would wait too: the minimum runtime has to end, and the gang has to go."""
    with lab() as found:
        settled(found, queue("mine", 2, reclaimMinRuntime="1h"))
        settled(found, queue("theirs", 6, weight=100, reclaimMinRuntime="1h"))
        settled(found, pod("held", "theirs", 8), pod("large", "mine", 8))
        settled(found, pod("wants", "mine"))
        assert only(found).code == CauseCode.NOT_ENOUGH_GPUS
        with found.fork() as fork:
            fork.patch("Queue", "theirs", {"spec": {"resources": {"gpu": {"quota": 0}}}})
            fork.settle()
            assert only(fork).code == CauseCode.NOT_ENOUGH_GPUS
        found.delete("Pod", "large")
        found.settle()
        assert only(found).code == CauseCode.VICTIMS_PROTECTED
        for name in ("mine", "theirs"):
            found.patch("Queue", name, {"spec": {"reclaimMinRuntime": "0s"}})
        found.settle()
        assert not causes(found, "Pod", "wants")


@pytest.mark.parametrize("size", [1, 3])
def test_others_within_their_quota(size) -> None:
    with lab() as found:
        shared(found, own=4, other=8)
        settled(found, *pods(8, "held", "theirs"))
        settled(found, gang("wants", "mine", size))
        cause = only(found, kind="Job")
    assert cause.code == CauseCode.VICTIMS_WITHIN_QUOTA
    assert cause.facts["others"] == ["theirs"]
    assert "none of the others holds more than its own quota: theirs holds 8 GPUs" in cause.sentence


def test_others_beyond_their_quota_by_less_than_it_wants() -> None:
    with lab() as found:
        shared(found, own=6, other=6)
        settled(found, *pods(8, "held", "theirs"))
        settled(found, gang("wants", "mine", 4))
        cause = only(found, kind="Job")
    assert cause.code == CauseCode.VICTIMS_WITHIN_QUOTA
    assert "the others hold too little beyond their own quota" in cause.sentence


def test_another_department_within_its_quota() -> None:
    with lab() as found:
        settled(found, queue("north", 4), queue("south", 8))
        settled(found, queue("north-ml", 4, parent="north"), queue("south-ml", 0, parent="south"))
        settled(found, *pods(8, "held", "south-ml"))
        settled(found, pod("wants", "north-ml"))
        cause = only(found)
    assert (cause.code, cause.facts["queue"], cause.facts["others"]) == (
        CauseCode.VICTIMS_WITHIN_QUOTA,
        "north",
        ["south"],
    )


# Victims


@pytest.mark.parametrize("level", ["theirs", "org"])
def test_protected_by_a_minimum_runtime_of_reclaim(level) -> None:
    with lab() as found:
        settled(found, queue("org", 8, **({"reclaimMinRuntime": "5m"} if level == "org" else {})))
        own = {"reclaimMinRuntime": "5m"} if level == "theirs" else {}
        settled(found, queue("mine", 4, parent="org"), queue("theirs", 4, parent="org", **own))
        settled(found, *pods(8, "held", "theirs"))
        found.advance(60)
        settled(found, pod("wants", "mine"))
        cause = only(found)
        rest = cause.facts["until"] - found.cluster.now()
    assert cause.code == CauseCode.VICTIMS_PROTECTED
    assert 0 < rest <= 240
    assert "queue theirs" in cause.sentence


def test_protected_by_a_minimum_runtime_of_preemption() -> None:
    with lab() as found:
        settled(found, queue("mine", 8, preemptMinRuntime="10m"), *pods(8, "held", "mine"))
        settled(found, pod("wants", "mine", priority="build"))
        cause = only(found)
    assert cause.code == CauseCode.VICTIMS_PROTECTED
    assert "work of lower priority in its own queue mine" in cause.sentence


@pytest.mark.parametrize("closed", [True, False])
def test_a_closed_node_that_would_be_its_own_before_protected_victims_that_others_would_take(closed) -> None:
    """``ahead`` comes first and may only use the node of the victims."""
    with lab(2) as found:
        settled(found, queue("mine", 8, preemptMinRuntime="10m"))
        found.patch("Node", "n-1", {"spec": {"unschedulable": True}})
        settled(found, pod("held", "mine", 8))
        if not closed:
            found.cluster.delete("Node", "n-1")
        ahead = pod("ahead", "mine", 8, priority="build")
        ahead["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "n-0"}
        settled(found, ahead)
        settled(found, pod("wants", "mine", 8, priority="build"))
        first, second = causes(found, "Pod", "ahead")[0], causes(found, "Pod", "wants")[0]
    assert first.code == CauseCode.VICTIMS_PROTECTED
    assert second.code == (CauseCode.NODES_CORDONED if closed else CauseCode.VICTIMS_PROTECTED)


@pytest.mark.parametrize("size", [1, 2])
def test_borrowers_that_have_become_non_preemptible(size) -> None:
    with lab() as found:
        shared(found, other=8)
        settled(found, *pods(8, "held", "theirs", priority="inference"))
        found.patch("Queue", "theirs", {"spec": {"resources": {"gpu": {"quota": 4}}}})
        found.settle()
        settled(found, gang("wants", "mine", size))
        cause = only(found, kind="Job")
    assert (cause.code, cause.facts["queues"]) == (CauseCode.VICTIMS_NON_PREEMPTIBLE, ["theirs"])
    assert "queue theirs holds beyond its" in cause.sentence


def test_of_a_department_that_holds_too_much() -> None:
    with lab() as found:
        settled(found, queue("north", 4), queue("south", 8))
        settled(found, queue("north-ml", 4, parent="north"), queue("south-ml", 8, parent="south"))
        settled(found, *pods(8, "held", "south-ml", priority="inference"))
        found.patch("Queue", "south", {"spec": {"resources": {"gpu": {"quota": 4}}}})
        found.settle()
        settled(found, pod("wants", "north-ml"))
        cause = only(found)
    assert (cause.code, cause.facts["queues"]) == (CauseCode.VICTIMS_NON_PREEMPTIBLE, ["south"])


def test_non_preemptible_work_that_would_only_be_moved() -> None:
    """A GPU is taken on each of two nodes, beyond the quota of its queue: were they preemptible, one would move to the other node."""
    with lab(2) as found:
        settled(found, queue("mine", 16), queue("theirs", 9))
        for name, gpus in (("held-0", 1), ("rest", 7), ("held-1", 1)):
            settled(found, pod(name, "theirs", gpus, priority="inference"))
        found.cluster.delete("Pod", "rest", "default")
        found.patch("Queue", "theirs", {"spec": {"resources": {"gpu": {"quota": 0}}}})
        settled(found, pod("wants", "mine", 8))
        first, *rest = causes(found, "Pod", "wants")
    assert (first.code, [one.code for one in rest]) == (CauseCode.VICTIMS_NON_PREEMPTIBLE, [CauseCode.FRAGMENTED])
    assert first.sentence.startswith("There would be room for it if Pod held-")
    assert first.sentence.endswith("moved to other nodes, but that is non-preemptible: nobody may move it.")


@pytest.mark.parametrize(("delay", "passed"), [("90s", 0), ("10m", 120), ("2m", 30)])
def test_a_preemption_delay(delay, passed) -> None:
    with lab() as found:
        borrowed(found)
        settled(found, pod("wants", "mine", preemption_delay=delay))
        found.advance(passed)
        cause = only(found)
    assert cause.code == CauseCode.PREEMPTION_DELAY
    assert cause.facts["until"] > found.cluster.now()
    assert "then Pod held-" in cause.sentence


def test_a_delay_explains_nothing_where_there_is_no_claim() -> None:
    with lab() as found:
        shared(found, other=8)
        settled(found, *pods(8, "held", "theirs"))
        settled(found, pod("wants", "mine", preemption_delay="1h"))
        assert only(found).code == CauseCode.VICTIMS_WITHIN_QUOTA


# Turns


@pytest.mark.parametrize("depth", [1, 2])
def test_behind_those_that_can_not_start_where_few_are_tried(depth) -> None:
    with lab(config={"queueDepthPerAction": {"allocate": depth}}) as found:
        settled(found, queue("mine", 8), pod("held", "mine", priority="build"))
        for number in range(depth):
            settled(found, gang(f"huge-{number}", "mine", 8))
        settled(found, pod("wants", "mine"))
        cause = only(found)
    assert (cause.code, cause.facts["first"]) == (
        CauseCode.BEHIND_OTHERS,
        [f"Job huge-{number}" for number in range(depth)],
    )
    assert f"tries {depth} job" in cause.sentence


def test_nobody_is_behind_others_that_take_nothing_from_it() -> None:
    with lab() as found:
        settled(found, queue("mine", 8), *pods(8, "held", "mine"), gang("huge", "mine", 8))
        settled(found, pod("wants", "mine"))
        assert CauseCode.BEHIND_OTHERS not in {one.code for one in causes(found, "Pod", "wants")}


def test_cpu_is_open_to_all_here() -> None:
    """What ``queue`` of these labs means: no rule of CPU decides."""
    assert queue("any")["spec"]["resources"]["cpu"] == OPEN


def test_a_share_keeps_nobody_from_what_is_too_little_anyway() -> None:
    """The others hold one GPU of eight; the rest is its own queue's. With all that they hold it could not start."""
    with lab() as found:
        settled(found, queue("mine", 2), queue("theirs", 4), *pods(6, "held", "mine"), *pods(1, "other", "theirs"))
        settled(found, gang("wants", "mine", 4))
        assert CauseCode.FAIR_SHARE_REACHED not in {one.code for one in causes(found, "Job", "wants")}


def test_protected_work_of_its_own_queue_below_a_limit() -> None:
    """Neither is there room for it, nor may the queue hold more: were they not protected, those of lower priority would make way."""
    with lab() as found:
        settled(found, queue("mine", 8, 8, preemptMinRuntime="10m"), *pods(8, "held", "mine"))
        settled(found, pod("wants", "mine", priority="build"))
        first, second = causes(found, "Pod", "wants")
    assert [first.code, second.code] == [CauseCode.VICTIMS_PROTECTED, CauseCode.OVER_LIMIT]


def test_a_limit_alone_is_the_cause_where_there_is_room() -> None:
    with lab() as found:
        settled(found, queue("mine", 8, 4, preemptMinRuntime="10m"), *pods(4, "held", "mine"))
        settled(found, pod("wants", "mine", priority="build"))
        assert only(found).code == CauseCode.OVER_LIMIT


@pytest.mark.parametrize("priority", ["build", "train"])
def test_a_cordoned_node_with_room_comes_before_a_share_that_alone_would_not_help(priority) -> None:
    """A larger share would free nothing, because ``theirs`` keeps what it holds: non-preemptible, or within its quota."""
    with lab(nodes=2, gpus=4) as found:
        found.patch("Node", "n-1", {"spec": {"unschedulable": True}})
        settled(found, queue("org", 4), queue("mine", 0, parent="org"), queue("theirs", 4, parent="org"))
        settled(found, gang("held", "theirs", 4, priority=priority))
        settled(found, gang("wants", "mine", 2))
        assert causes(found, "Job", "wants")[0].code == CauseCode.NODES_CORDONED
        found.patch("Queue", "mine", {"spec": {"resources": {"gpu": {"quota": 4}}}})
        found.settle()
        assert causes(found, "Job", "wants"), "it still waits with a larger share"
        found.patch("Node", "n-1", {"spec": {"unschedulable": False}})
        found.settle()
        assert not causes(found, "Job", "wants")


# Shares behind a limit


def test_what_taking_back_would_leave_below_a_limit_is_the_cause_before_the_limit() -> None:
    """The department is at its limit, and a higher one alone would not help: all GPUs are in use."""
    with lab() as found:
        settled(found, queue("org", 8, limit=8), queue("mine", 4, parent="org"), queue("theirs", 8, parent="org"))
        settled(found, *pods(8, "held", "theirs"))
        settled(found, pod("wants", "mine"))
        codes = [cause.code for cause in causes(found, "Pod", "wants")]
    assert codes == [CauseCode.VICTIMS_WITHIN_QUOTA, CauseCode.OVER_LIMIT]


def test_a_limit_that_alone_keeps_it_waiting_is_the_only_cause() -> None:
    with lab() as found:
        settled(found, queue("org", 8, limit=4), queue("mine", 4, parent="org"), queue("theirs", 8, parent="org"))
        settled(found, *pods(4, "held", "theirs"))
        settled(found, pod("wants", "mine"))
        codes = [cause.code for cause in causes(found, "Pod", "wants")]
    assert codes == [CauseCode.OVER_LIMIT]


def test_pods_beyond_the_minimum_of_several_roles_are_placed_one_by_one() -> None:
    """Master and workers are subgroups of one PodGroup, and each has its minimum."""
    role = {"spec": pod("role", "mine")["spec"], "metadata": {"labels": {"kai.scheduler/queue": "mine"}}}
    roles = {name: {"replicas": number, "template": role} for name, number in (("Master", 1), ("Worker", 7))}
    work = {
        "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob",
        "metadata": {"name": "wants", "labels": {"kai.scheduler/queue": "mine"}},
        "spec": {"runPolicy": {"schedulingPolicy": {"minAvailable": 2}}, "pytorchReplicaSpecs": roles},
    }  # fmt: skip
    with lab() as found:
        settled(found, queue("mine", 4), queue("theirs", 4))
        settled(found, *pods(4, "held", "theirs", priority="build"))
        settled(found, work)
        [cause, *_] = causes(found, "PyTorchJob", "wants")
    assert "Its next pod wants 1 GPU more" in cause.sentence
