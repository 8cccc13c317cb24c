"""preempt: higher priority evicts lower preemptible priority within one queue. consolidation: pods move, none is lost."""

import pytest


@pytest.mark.parametrize(("priority", "lost"), [(75, {"low-0"}), (50, set()), (40, set())])
def test_only_a_strictly_higher_priority_preempts(team, priority, lost):
    team.node("node-1", gpus=1)
    team.job("low", on="node-1", priority=50)
    team.job("new", priority=priority)
    decided = team.decide()
    assert decided.lost == lost
    if lost:
        assert decided.eviction("low-0").action == "preempt"
        assert decided.promised == {"new-0": "node-1"}


def test_preemption_stays_within_the_queue(world):
    world.node("node-1", gpus=2)
    world.queue("team", quota=1)
    world.queue("other", quota=1)
    world.job("theirs", queue="other", on="node-1", priority=40)
    world.job("ours", on="node-1", priority=50)
    world.job("new", priority=75)
    assert world.decide().lost == {"ours-0"}


def test_non_preemptible_work_is_not_preempted(team):
    team.node("node-1", gpus=1)
    team.job("firm", on="node-1", priority=100)
    team.job("new", priority=125)
    assert team.decide().evicted == set()


def test_the_lowest_priority_and_of_that_the_youngest_goes(team):
    team.node("node-1", gpus=3)
    team.job("middle", on="node-1", priority=60)
    team.job("old", on="node-1", priority=50)
    team.job("young", on="node-1", priority=50)
    team.job("new", priority=75)
    assert team.decide().lost == {"young-0"}


def test_a_gang_preempts_just_as_many_as_it_needs(team):
    team.node("node-1", gpus=4)
    for number in range(4):
        team.job(f"low{number}", on="node-1")
    team.job("new", tasks=3, gang=3, priority=75)
    assert team.decide().lost == {"low1-0", "low2-0", "low3-0"}


def test_a_gang_that_can_t_have_all_preempts_nobody(team):
    team.node("node-1", gpus=4)
    team.job("firm", on="node-1", priority=100)
    for number in range(3):
        team.job(f"low{number}", on="node-1")
    team.job("new", tasks=4, gang=4, priority=75)
    assert team.decide().evicted == set()


@pytest.mark.parametrize(("ran", "lost"), [(10, set()), (100, {"low-0"})])
def test_minimum_run_time_protects_from_preemption(world, ran, lost):
    world.queue("team", quota=-1, preempt_min_runtime=60.0)
    world.node("node-1", gpus=1)
    world.job("low", on="node-1", last_start=1_000_000.0 - ran)
    world.job("new", priority=75)
    assert world.decide().lost == lost


def test_consolidation_moves_work_so_that_a_larger_job_fits(team):
    team.node("node-1", gpus=2)
    team.node("node-2", gpus=2)
    team.job("a", on="node-1")
    team.job("b", on="node-2")
    team.job("big", gpus=2)
    decided = team.decide()
    assert decided.lost == set()
    assert len(decided.moved) == 1
    assert decided.decisions.evictions[0].action == "consolidation"
    assert set(decided.promised) == {"big-0"}
    assert set(decided.moved.values()) != set(decided.promised.values())


def test_consolidation_loses_nobody(team):
    """There is room for the big job only if somebody goes for good."""
    team.node("node-1", gpus=2)
    team.node("node-2", gpus=2)
    for number, node in enumerate(("node-1", "node-2", "node-2")):
        team.job(f"small{number}", on=node)
    team.job("big", gpus=2)
    assert team.decide().evicted == set()


def test_consolidation_does_not_move_non_preemptible_work(team):
    team.node("node-1", gpus=2)
    team.node("node-2", gpus=2)
    team.job("a", on="node-1", priority=100)
    team.job("b", on="node-2", priority=100)
    team.job("big", gpus=2)
    assert team.decide().evicted == set()


@pytest.mark.parametrize(("most", "moved"), [(-1, 3), (2, 3), (1, 0), (0, 0)])
def test_so_many_jobs_are_looked_at_as_the_configuration_allows_and_one_more(team, most, moved):
    """Three must move; KAI looks at one more than the number it is given, but at none for 0."""
    for number in range(1, 4):
        team.node(f"node-{number}", gpus=6)
        for task in range(3):
            team.job(f"small{number}{task}", on=f"node-{number}")
    team.job("big", gpus=6)
    assert len(team.decide(max_consolidation_victims=most).moved) == moved


@pytest.mark.parametrize(
    ("firm", "soft", "pods", "lost"),
    [
        (("build", 100), ("high", 75), 1, {"low1-0"}),
        (("", 100), ("", 75), 1, {"low1-0"}),  # only the value differs
        (("", None), ("", None), 1, set()),  # the pods themselves have none: the PodGroups' is not looked at
        (("", None), ("", None), 2, {"low0-0", "low1-0"}),
    ],
)
def test_pods_of_another_priority_are_tried_though_one_was_refused_by_the_quota(world, firm, soft, pods, lost):
    """A job is skipped for one that failed only where as many pods of the same priority wait, as in KAI."""
    world.node("node-1", gpus=3)
    world.queue("team", quota=1)
    world.job("held", on="node-1", priority=100)
    for number in range(2):
        world.job(f"low{number}", on="node-1", priority=50)
    world.job("firm", priority=125, task={"pod_priority": firm})
    world.job("soft", priority=75, tasks=pods, gang=pods, task={"pod_priority": soft})
    assert world.decide().lost == lost


@pytest.mark.parametrize(("pods", "lost"), [(3, set()), (2, {"low-0"})])
def test_jobs_are_compared_by_what_waited_when_the_cycle_began(world, pods, lost):
    """The first has started a pod since, and is refused more by the quota."""
    world.node("node-1", gpus=2)
    world.queue("team", quota=1)
    world.job("low", on="node-1", priority=50)
    world.job("firm", priority=125, tasks=3)
    world.job("soft", priority=75, tasks=pods)
    decided = world.decide()
    assert set(decided.bound) == {"firm-0"}
    assert decided.lost == lost


def test_a_job_within_its_preemption_delay_uses_up_no_depth(team):
    team.node("node-1", gpus=1)
    team.job("low", on="node-1", priority=50)
    team.job("delayed", priority=90, created=1_000_000.0 - 10, preemption_delay=60.0)
    team.job("next", priority=75)
    decided = team.decide(queue_depth={"preempt": 1})
    assert decided.lost == {"low-0"}
    assert set(decided.promised) == {"next-0"}
    assert decided.decisions.wake_at == 1_000_000.0 + 50


def test_a_queue_is_not_compared_by_a_job_within_its_preemption_delay(world):
    """Who has its turn first is told by the jobs that may have others evicted."""
    world.node("node-1", gpus=2)
    for name in ("one", "two"):
        world.queue(name, quota=1)
    world.queue("rich")
    world.job("taken", queue="rich", on="node-1", tasks=1, gpus=2)
    # Larger than the quota of its queue, so that the queue would come last with it.
    world.job("delayed", queue="one", gpus=2, priority=90, created=1_000_000.0 - 10, preemption_delay=60.0)
    world.job("small", queue="one", gpus=1)
    world.job("other", queue="two", gpus=1)
    decided = world.decide()
    assert decided.lost == {"taken-0"}
    assert next(iter(decided.promised)) == "small-0"


def test_consolidation_gives_up_early_where_those_that_move_need_as_much_room_as_they_make(team):
    for number in range(12):
        team.node(f"full-{number}", gpus=8)
        team.job(f"held-{number}", gpus=8, on=f"full-{number}")
    for number in range(2):
        team.node(f"half-{number}", gpus=8)
        team.job(f"stays-{number}", gpus=4, on=f"half-{number}", priority=100)
    team.job("waits", gpus=8)
    decided = team.decide()
    assert decided.nothing
    assert dict(decided.pending("waits").tried)["consolidation"] == (
        "no set of victims could make room: with every possible victim moved there is room for 0 of its 1 pods"
    )


@pytest.mark.parametrize(
    ("imitate_faults", "cpu", "lost"), [(False, 200, {"low-0"}), (True, 200, set()), (True, 100, {"low-0"})]
)
def test_a_failed_search_for_a_whole_gpu_rules_out_a_share_with_more_cpu_only_in_kai(team, imitate_faults, cpu, lost):
    team.node("node-1", gpus=1)
    team.job("firm", gpus=0.5, on="node-1", priority=100, groups=[("shared",)])
    team.job("low", gpus=0.5, on="node-1", priority=50, groups=[("shared",)])
    team.job("whole", gpus=1, priority=75)
    team.job("half", gpus=0.5, priority=75, shape={"cpu": cpu})
    assert team.decide(imitate_faults=imitate_faults).lost == lost
