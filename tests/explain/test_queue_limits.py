"""Queue rules that refuse work however much room there is: the level that decides, with its numbers."""

import pytest

from kailab.lab.answer import CauseCode
from tests.explain import node_building
from tests.explain.building import OPEN, causes, gang, lab, pod, pods, queue, settled

CLOSED = {"quota": 0, "limit": 0, "overQuotaWeight": 0}


@pytest.mark.parametrize(
    ("level", "limits"),
    [("team", (-1, -1, 3)), ("department", (-1, 3, -1)), ("company", (3, -1, -1))],
)
def test_the_queue_that_has_the_limit_is_named_at_every_level(level, limits) -> None:
    company, department, team = limits
    with lab() as found:
        settled(
            found,
            queue("company", 8, company),
            queue("department", 8, department, parent="company"),
            queue("team", 8, team, parent="department"),
            *pods(2, "held", "team"),
        )
        settled(found, gang("mine", "team", 2))
        [cause] = causes(found, "Job", "mine")
    assert cause.code == CauseCode.OVER_LIMIT
    assert cause.facts == {"queue": level, "resource": "gpu", "limit": 3000, "held": 2000, "wanted": 2000}
    assert cause.sentence.startswith(f"Queue {level}")
    assert "holds 2 GPUs of its limit of 3 GPUs" in cause.sentence
    assert "2 pods, which start together, want 2 GPUs more" in cause.sentence


@pytest.mark.parametrize(
    ("resource", "block", "said"),
    [
        ("cpu", {"quota": 4000, "limit": 4000, "overQuotaWeight": 1}, "limit of 4 CPU, and it wants 6 CPU"),
        ("cpu", {"quota": 0, "limit": 5500, "overQuotaWeight": 1}, "limit of 5.5 CPU, and it wants 6 CPU"),
    ],
)
def test_a_limit_of_cpu_counts_too(resource, block, said) -> None:
    with lab() as found:
        settled(found, queue("team", 8, **{resource: block}), pod("mine", "team", cpu="6"))
        [cause] = causes(found, "Pod", "mine")
    assert (cause.code, cause.facts["resource"]) == (CauseCode.OVER_LIMIT, resource)
    assert said in cause.sentence


def test_of_two_limits_each_is_a_cause() -> None:
    with lab() as found:
        settled(found, queue("department", 8, 2), queue("team", 8, 1, parent="department"), *pods(1, "held", "team"))
        settled(found, gang("mine", "team", 2))
        first, second = causes(found, "Job", "mine")
        assert [first.facts["queue"], second.facts["queue"]] == ["team", "department"]


@pytest.mark.parametrize(
    ("blocks", "resources", "said"),
    [
        ({}, ["gpu"], "has no resources block"),
        ({"cpu": OPEN, "memory": OPEN}, ["gpu"], "has no GPUs in its resources"),
        ({"gpu": OPEN, "memory": OPEN}, ["cpu"], "has no CPU in its resources"),
    ],
)
def test_a_queue_without_resources_is_no_limit_that_somebody_set(blocks, resources, said) -> None:
    bare = queue("bare", parent="org") | {"spec": {"parentQueue": "org", **({"resources": blocks} if blocks else {})}}
    wanted = pod("mine", "bare", cpu="2" if blocks.get("gpu") else "")
    with lab() as found:
        settled(found, queue("org", 8), bare, wanted)
        [cause] = causes(found, "Pod", "mine")
    assert cause.code == CauseCode.QUEUE_HAS_NO_RESOURCES
    assert cause.facts == {"queue": "bare", "resources": resources}
    assert said in cause.sentence


def test_a_parent_without_resources_is_named() -> None:
    bare = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "bare"}, "spec": {}}
    with lab() as found:
        settled(found, bare, queue("team", 8, parent="bare"), pod("mine", "team"))
        [cause] = causes(found, "Pod", "mine")
    assert (cause.code, cause.facts["queue"]) == (CauseCode.QUEUE_HAS_NO_RESOURCES, "bare")


def test_a_limit_of_zero_that_somebody_set_is_a_limit() -> None:
    closed = queue("team")
    closed["spec"]["resources"]["gpu"] = CLOSED
    with lab() as found:
        settled(found, closed, pod("mine", "team"))
        [cause] = causes(found, "Pod", "mine")
    assert cause.code == CauseCode.OVER_LIMIT


@pytest.mark.parametrize("level", ["team", "department"])
def test_non_preemptible_work_stays_within_the_quota_of_every_level(level) -> None:
    small, large = (2, 8) if level == "department" else (8, 2)
    with lab() as found:
        settled(found, queue("department", small), queue("team", large, parent="department"))
        settled(found, *pods(2, "held", "team", priority="inference"))
        settled(found, pod("mine", "team", priority="build"))
        [cause] = causes(found, "Pod", "mine")
    assert cause.code == CauseCode.NON_PREEMPTIBLE_OVER_QUOTA
    assert cause.facts == {"queue": level, "resource": "gpu", "quota": 2000, "held": 2000, "wanted": 1000}


def test_a_quota_of_cpu_binds_non_preemptible_work() -> None:
    with lab() as found:
        cpu = {"quota": 3000, "limit": -1, "overQuotaWeight": 1}
        settled(found, queue("team", 8, cpu=cpu), pod("mine", "team", cpu="4", priority="build"))
        [cause] = causes(found, "Pod", "mine")
    assert cause.code == CauseCode.NON_PREEMPTIBLE_OVER_QUOTA
    assert "a quota of 3 CPU" in cause.sentence
    assert "it wants 4 CPU" in cause.sentence


def test_a_limit_and_a_quota_are_named_in_the_order_of_the_tables() -> None:
    with lab() as found:
        settled(found, queue("team", 1, 1), *pods(1, "held", "team", priority="build"))
        settled(found, pod("mine", "team", priority="build"))
        assert [one.code for one in causes(found, "Pod", "mine")] == [
            CauseCode.OVER_LIMIT,
            CauseCode.NON_PREEMPTIBLE_OVER_QUOTA,
        ]
        [table] = found.picture().waiting()
        assert table.reason == CauseCode.OVER_LIMIT
        [step, *_] = found.explain("Pod", "mine").steps
        assert step.do.startswith("Raise the gpu quota of queue team to 2 and the gpu limit of queue team to 2")


def test_a_quota_is_named_before_a_limit_below_which_its_own_queue_would_make_room() -> None:
    """Were it within the quota, it would evict work of lower priority of its queue, which stays at its limit."""
    with lab() as found:
        settled(found, queue("team", 1, 4), pod("held", "team", priority="build"), *pods(3, "low", "team"))
        settled(found, pod("mine", "team", priority="build"))
        first, second = causes(found, "Pod", "mine")
        [table] = found.picture().waiting()
        assert (first.code, second.code) == (CauseCode.NON_PREEMPTIBLE_OVER_QUOTA, CauseCode.OVER_LIMIT)
        assert table.reason == CauseCode.OVER_LIMIT
        found.patch("Queue", "team", {"spec": {"resources": {"gpu": {"quota": 2}}}})
        found.settle()
        assert found.cluster.get("Pod", "mine", "default")["spec"]["nodeName"]


LARGE = node_building.pool("large", 1, 1, gpuModel="A100", gpuMemory="80Gi")
SMALL = node_building.pool("small", 1, 4, gpuModel="L40S", gpuMemory="48Gi")


def by_memory(name, priority, mebibytes=40000):
    """Of a large GPU a half, of a small one most."""
    made = pod(name, "science", 0, priority)
    made["metadata"]["annotations"]["gpu-memory"] = str(mebibytes)
    made["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": "L40S"}
    return made


@pytest.mark.parametrize(
    ("priority", "quota", "limit", "code", "rule"),
    [
        ("inference", 2.3, -1, CauseCode.NON_PREEMPTIBLE_OVER_QUOTA, "quota"),
        ("train", 2.3, 2.3, CauseCode.OVER_LIMIT, "limit"),
    ],
)
def test_what_gpu_memory_counts_for_on_its_node_is_held_against_the_bounds(priority, quota, limit, code, rule) -> None:
    with node_building.opened(LARGE, SMALL) as found:
        settled(found, queue("science", quota, limit), *(by_memory(f"held-{number}", priority) for number in range(2)))
        settled(found, by_memory("mine", priority))
        [cause] = causes(found, "Pod", "mine")
        assert cause.code == code
        assert cause.facts == {"queue": "science", "resource": "gpu", rule: 2300, "held": 1640, "wanted": 820}
        found.patch("Queue", "science", {"spec": {"resources": {"gpu": {rule: 3}}}})
        found.settle()
        assert not causes(found, "Pod", "mine")


def test_what_gpu_memory_counts_for_where_nothing_is_free_is_held_against_the_quota() -> None:
    """On a large GPU, by which it is judged first, it counts for a quarter and stays within the quota; where it may go, for more."""
    small = node_building.pool("small", 1, 2, gpuModel="L40S", gpuMemory="48Gi")
    with node_building.opened(LARGE, small) as found:
        settled(found, queue("science", 2), by_memory("held-0", "inference"), by_memory("held-1", "inference"))
        settled(found, by_memory("mine", "inference", 20000))
        [cause] = causes(found, "Pod", "mine")
        assert cause.code == CauseCode.NON_PREEMPTIBLE_OVER_QUOTA
        assert cause.facts == {"queue": "science", "resource": "gpu", "quota": 2000, "held": 1640, "wanted": 410}
        found.patch("Queue", "science", {"spec": {"resources": {"gpu": {"quota": 3}}}})
        found.settle()
        assert [one.code for one in causes(found, "Pod", "mine")] == [CauseCode.NOT_ENOUGH_GPUS]
