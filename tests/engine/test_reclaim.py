"""reclaim: a queue below its share takes from queues above theirs, the youngest of lowest priority first, within
fairness.
"""

import pytest

from kailab.engine.decisions import PendingCode
from kailab.engine.snapshot.gpu_requests import GpuMemory
from kailab.engine.snapshot.records import Status


def two_queues(world, gpus, owner=1, borrower=0, **of_borrower):
    """A node of so many devices, and the quotas of the two queues that want it."""
    world.node("node-1", gpus=gpus)
    world.queue("owner", quota=owner)
    world.queue("borrower", quota=borrower, **of_borrower)


def owner_and_borrower(world):
    """``borrower`` fills the node, half of it beyond its quota, with jobs b0 (oldest) ... b7 (youngest)."""
    two_queues(world, gpus=8, owner=4, borrower=4)
    world.jobs(8, "b", queue="borrower", on="node-1")


def test_an_owner_gets_its_quota_back_from_the_youngest(world):
    owner_and_borrower(world)
    world.job("mine", queue="owner", tasks=2, gang=2)
    decided = world.decide()
    assert decided.lost == {"b7-0", "b6-0"}
    assert decided.promised == {"mine-0": "node-1", "mine-1": "node-1"}


def test_an_eviction_names_who_gains_and_how_both_queues_stand(world):
    owner_and_borrower(world)
    world.job("mine", queue="owner")
    evict = world.decide().eviction("b7-0")
    assert (evict.action, evict.beneficiary, evict.beneficiary_queue) == ("reclaim", "mine", "owner")
    before, after = evict.shares["borrower"]
    assert (before.allocated, after.allocated) == (8000, 7000)
    before, after = evict.shares["owner"]
    assert (before.allocated, after.allocated) == (0, 1000)


def test_no_more_is_taken_back_than_the_share(world):
    owner_and_borrower(world)
    world.jobs(6, "mine", queue="owner")
    assert len(world.decide().lost) == 4


def test_a_gang_larger_than_its_queue_s_share_reclaims_nothing(world):
    """Though the borrower has no claim to any of what it holds."""
    world.node("node-1", gpus=4)
    world.queue("owner", quota=2, weight=0)
    world.queue("borrower", quota=0, weight=0)
    world.jobs(4, "b", queue="borrower", on="node-1")
    world.job("mine", queue="owner", tasks=3, gang=3)
    assert world.decide().evicted == set()


def test_work_within_quota_is_not_touched(world):
    world.node("node-1", gpus=4)
    world.queue("owner", quota=2)
    world.queue("other", quota=4)
    world.job("held", queue="other", tasks=4, on="node-1")
    world.job("mine", queue="owner", tasks=4, gang=4)
    assert world.decide().evicted == set()


def test_non_preemptible_work_is_never_a_victim(world):
    two_queues(world, gpus=2, owner=2)
    world.job("firm", queue="borrower", tasks=2, on="node-1", priority=100)
    world.job("mine", queue="owner")
    assert world.decide().evicted == set()


def test_lowest_priority_goes_first_whatever_its_age(world):
    two_queues(world, gpus=2, borrower=1)
    world.job("low", queue="borrower", on="node-1", priority=40)
    world.job("high", queue="borrower", on="node-1", priority=60)
    world.job("mine", queue="owner")
    assert world.decide().lost == {"low-0"}


def test_a_gang_goes_whole(world):
    two_queues(world, gpus=4)
    world.job("gang", queue="borrower", tasks=4, gang=4, on="node-1")
    world.job("mine", queue="owner")
    assert world.decide().lost == {f"gang-{number}" for number in range(4)}


def test_surplus_of_an_elastic_job_goes_before_its_core_and_alone(world):
    two_queues(world, gpus=4)
    world.job("elastic", queue="borrower", tasks=4, gang=2, on="node-1")
    world.job("mine", queue="owner")
    assert world.decide().lost == {"elastic-3"}


def test_reclaim_reaches_across_departments(world):
    """The department is owed its quota, though the reclaiming queue in it has none of its own."""
    world.node("node-1", gpus=4)
    world.queue("research", quota=2)
    world.queue("product", quota=2)
    world.queue("llm", parent="research", quota=2)
    world.queue("search", parent="product", quota=0)
    world.jobs(4, "s", queue="search", on="node-1")
    world.job("mine", queue="llm", tasks=2, gang=2)
    assert world.decide().lost == {"s3-0", "s2-0"}


def test_a_queue_of_the_same_department_is_not_robbed_of_its_quota_while_a_neighbour_borrows(world):
    world.node("node-1", gpus=4)
    world.queue("department", quota=4)
    world.queue("careful", parent="department", quota=1)
    world.queue("greedy", parent="department", quota=1)
    world.queue("owner", parent="department", quota=2)
    world.job("kept", queue="careful", on="node-1")
    world.jobs(3, "g", queue="greedy", on="node-1")
    world.job("mine", queue="owner", tasks=2, gang=2)
    assert world.decide().lost == {"g2-0", "g1-0"}


def test_between_two_borrowers_the_one_further_above_its_share_gives(world):
    world.node("node-1", gpus=6)
    world.queue("owner", quota=2)
    world.queue("less", quota=2)
    world.queue("more", quota=2)
    world.jobs(2, "l", queue="less", on="node-1")
    world.jobs(4, "m", queue="more", on="node-1")
    world.job("mine", queue="owner", tasks=2, gang=2)
    assert world.decide().lost == {"m3-0", "m2-0"}


def test_a_share_of_a_device_is_reclaimed_by_itself(world):
    two_queues(world, gpus=1, owner=0.5)
    world.job("a", queue="borrower", gpus=0.5, on="node-1", groups=[("g",)])
    world.job("b", queue="borrower", gpus=0.5, on="node-1", groups=[("g",)])
    world.job("mine", queue="owner", gpus=0.5)
    decided = world.decide()
    assert decided.lost == {"b-0"}
    assert decided.promised == {"mine-0": "node-1"}


def test_gpu_memory_is_reclaimed_as_its_share_of_the_device(world):
    half = {"gpu": GpuMemory(devices=1, memory_mib=40_000)}
    world.node("node-1", gpus=1, gpu_memory_mib=80_000)
    world.queue("owner", quota=0.5)
    world.queue("borrower", quota=0)
    world.job("a", queue="borrower", shape=half, on="node-1", groups=[("g",)])
    world.job("b", queue="borrower", shape=half, on="node-1", groups=[("g",)])
    world.job("mine", queue="owner", shape=half)
    assert world.decide().lost == {"b-0"}


def test_a_whole_device_is_reclaimed_from_all_who_share_it(world):
    two_queues(world, gpus=1)
    for name in ("a", "b"):
        world.job(name, queue="borrower", gpus=0.5, on="node-1", groups=[("g",)])
    world.job("mine", queue="owner")
    assert world.decide().lost == {"a-0", "b-0"}


def test_a_victim_that_finds_another_place_is_moved_not_lost(world):
    """The big job wants a node of its own; the younger of the borrowers gives its node up and moves to the other's."""
    world.node("node-1", gpus=4)
    world.node("node-2", gpus=4)
    world.queue("owner", quota=4)
    world.queue("borrower", quota=2)
    world.job("older", queue="borrower", on="node-1")
    world.job("younger", queue="borrower", tasks=2, gang=2, on="node-2")
    world.job("mine", queue="owner", gpus=4, priority=100)
    decided = world.decide()
    assert decided.moved == {"younger-0": "node-1", "younger-1": "node-1"}
    assert decided.lost == set()
    assert decided.promised == {"mine-0": "node-2"}


def test_what_can_fit_on_no_node_evicts_nobody(world):
    owner_and_borrower(world)
    world.job("mine", queue="owner", gpus=16)
    decided = world.decide()
    assert decided.evicted == set()
    assert decided.pending("mine").code == PendingCode.POD_SCHEDULING_ERRORS


@pytest.mark.parametrize(("ran", "lost"), [(30, set()), (61, {"b-0"})])
def test_a_job_is_protected_until_its_minimum_run_time_is_over(world, ran, lost):
    two_queues(world, gpus=1, reclaim_min_runtime=60.0)
    world.job("b", queue="borrower", on="node-1", last_start=1_000_000.0 - ran)
    world.job("mine", queue="owner")
    decided = world.decide()
    assert decided.lost == lost
    if not lost:
        assert decided.decisions.wake_at == 1_000_000.0 + 30


def test_minimum_run_time_protects_the_core_of_an_elastic_job_only(world):
    two_queues(world, gpus=3, owner=2, reclaim_min_runtime=60.0)
    world.job("b", queue="borrower", tasks=3, gang=2, on="node-1", last_start=1_000_000.0 - 1)
    world.job("mine0", queue="owner")
    world.job("mine1", queue="owner")
    assert world.decide().lost == {"b-2"}


@pytest.mark.parametrize(
    ("claims", "lost"),
    [([3], set()), ([1, 1], {"b-3", "b-2"}), ([1, 1, 1], {"b-3", "b-2", "b-1", "b-0"})],
)
def test_for_that_minimum_pods_count_as_running_that_others_took_in_the_same_cycle(world, claims, lost):
    """As in KAI: the first two take a surplus pod each, and the third holds the core of two against four running pods."""
    two_queues(world, gpus=4, owner=3, reclaim_min_runtime=60.0)
    world.job("b", queue="borrower", tasks=4, gang=2, on="node-1", last_start=1_000_000.0 - 1)
    for number, gpus in enumerate(claims):
        world.job(f"mine{number}", queue="owner", gpus=gpus)
    assert world.decide().lost == lost


def test_minimum_run_time_is_inherited_from_the_department(world):
    world.node("node-1", gpus=1)
    world.queue("owners")
    world.queue("owner", parent="owners", quota=1)
    world.queue("borrowers", reclaim_min_runtime=60.0)
    world.queue("borrower", parent="borrowers")
    world.job("b", queue="borrower", on="node-1", last_start=1_000_000.0 - 1)
    world.job("mine", queue="owner")
    assert world.decide().evicted == set()


@pytest.mark.parametrize(("age", "lost"), [(10, set()), (100, {"b-0"})])
def test_a_preemption_delay_must_pass_before_others_are_evicted(world, age, lost):
    two_queues(world, gpus=1)
    world.job("b", queue="borrower", on="node-1")
    world.job("mine", queue="owner", created=1_000_000.0 - age, preemption_delay=60.0)
    decided = world.decide()
    assert decided.lost == lost
    if not lost:
        assert decided.pending("mine").code == PendingCode.PREEMPTION_DELAY
        assert decided.decisions.wake_at == 1_000_000.0 + 50


def test_a_place_promised_in_the_same_cycle_is_claimed_once(world):
    """Allocate promises the first pod what is being left; for the second there is a claim up to the quota, and no further."""
    two_queues(world, gpus=4, owner=2, borrower=2)
    world.job("leaving", queue="borrower", on="node-1", status=Status.RELEASING)
    world.jobs(3, "b", queue="borrower", on="node-1")
    world.job("mine", queue="owner", tasks=2)
    decided = world.decide()
    assert decided.lost == {"b2-0"}
    assert decided.promised == {"mine-0": "node-1", "mine-1": "node-1"}


def test_what_was_taken_of_the_last_job_of_a_queue_counts_when_queues_are_compared(world):
    """``large`` has one job that may go. With a pod of it to go, the next to go is of the other queue, as in KAI."""
    world.node("node-1", gpus=7)
    world.queue("owner", quota=2)
    world.queue("large", quota=2)
    world.queue("small", quota=1)
    world.job("firm", queue="large", priority=100, gpus=2, on="node-1")
    world.job("three", queue="large", tasks=3, on="node-1")
    world.jobs(2, "s", queue="small", on="node-1")
    world.job("mine", queue="owner", gpus=2)
    assert world.decide().lost == {"three-2", "s1-0"}
