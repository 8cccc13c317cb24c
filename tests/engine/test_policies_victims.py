"""Configured victims: their order, the limit of evictions per cycle, and the search budget."""

import pytest

from kailab.engine.policies.settings import SearchBudget

NOW = 1_000_000.0
HOUR = 3600.0


@pytest.fixture
def lenders(world):
    """16 GPUs, all lent to two teams: over-a, far above its share, with important old work; over-b, less above, with humble
    work, the last of it young. The owner wants two GPUs."""
    world.node("node-a", gpus=8)
    world.node("node-b", gpus=8)
    world.queue("owner", quota=8)
    world.queue("over-a", quota=0)
    world.queue("over-b", quota=0)
    for number in range(10):
        node = "node-a" if number < 8 else "node-b"
        world.job(f"a-{number}", queue="over-a", on=node, priority=75, last_start=NOW - 9 * HOUR)
    for number in range(6):
        world.job(f"b-{number}", queue="over-b", on="node-b", priority=50, last_start=NOW - (6 - number) * HOUR)
    return world


def test_kai_takes_from_the_queue_furthest_above_its_share(lenders):
    lenders.job("wants", queue="owner", gpus=2)
    assert {task[0] for task in lenders.decide().evicted} == {"a"}


def test_lowest_priority_then_newest_takes_whatever_the_queue(lenders):
    lenders.job("wants", queue="owner", gpus=2)
    assert lenders.decide(victim_order="priority").evicted == {"b-5-0", "b-4-0"}


def test_a_queue_gives_no_more_than_the_rules_allow(world):
    """Three teams that own nothing share 16 GPUs as 5, 6 and 5. over-b holds 6 and gives one; the rest comes from over-a,
    though its work is more important."""
    world.node("node-a", gpus=8)
    world.node("node-b", gpus=8)
    world.queue("wanting")
    world.queue("over-a")
    world.queue("over-b")
    for number in range(10):
        world.job(f"a-{number}", queue="over-a", on="node-a" if number < 8 else "node-b", priority=75)
    for number in range(6):
        world.job(f"b-{number}", queue="over-b", on="node-b")
    world.job("wants", queue="wanting", tasks=5, gang=5)
    decided = world.decide(victim_order="priority")
    assert len(decided.evicted) == len(decided.promised) == 5
    assert {task for task in decided.evicted if task.startswith("b-")} == {"b-5-0"}


def test_within_a_queue_preemption_takes_the_newest_of_the_lowest(world):
    """Newest is who started last, not who was made last."""
    world.node("node", gpus=4)
    world.queue("team", quota=-1)
    for number, (priority, hours) in enumerate([(50, 5), (50, 1), (60, 1), (50, 3)]):
        world.job(f"low-{number}", on="node", priority=priority, last_start=NOW - hours * HOUR)
    world.job("high", priority=75)
    assert world.decide(victim_order="priority").evicted == {"low-1-0"}
    assert world.decide().evicted == {"low-3-0"}


# --- a maximum of evictions -------------------------------------------------------------------------------------------


@pytest.fixture
def full(world):
    """A team's 8 GPUs, full of humble one-GPU jobs."""
    world.node("node", gpus=8)
    world.queue("team", quota=-1)
    for number in range(8):
        world.job(f"low-{number}", on="node")
    return world


def test_no_more_than_the_maximum_go_in_a_cycle(full):
    for number in range(5):
        full.job(f"high-{number}", priority=75)
    assert len(full.decide().evicted) == 5
    decided = full.decide(max_evictions_per_cycle=2)
    assert len(decided.evicted) == 2
    assert set(decided.promised) == {"high-0-0", "high-1-0"}


def test_who_is_refused_is_told_why(full):
    full.job("high", priority=75)
    full.job("higher", priority=80, gpus=2)
    decided = full.decide(max_evictions_per_cycle=2)
    assert set(decided.promised) == {"higher-0"}
    assert decided.pending("high").tried[-1] == (
        "preempt",
        "it would take 1 eviction, and the maximum of 2 a cycle leaves 0",
    )


def test_a_decision_is_whole_or_none(full):
    full.job("gang", priority=75, tasks=3, gang=3)
    decided = full.decide(max_evictions_per_cycle=2)
    assert decided.nothing
    assert "so it never will" in decided.pending("gang").tried[-1][1]


def test_none_at_all(full):
    full.job("high", priority=75)
    assert full.decide(max_evictions_per_cycle=0).nothing


def test_a_maximum_for_victims_of_one_priority(full):
    full.job("mid", priority=60, on="node-2")
    full.node("node-2", gpus=1)
    for number in range(9):
        full.job(f"high-{number}", priority=75)
    decided = full.decide(max_evictions_by_priority=((50, 3), (60, 0)))
    assert len(decided.evicted) == 3
    assert "mid-0" not in decided.evicted


def test_what_is_only_moved_counts_too(world):
    world.node("one", gpus=4)
    world.node("two", gpus=4)
    world.queue("team", quota=-1)
    world.job("a", gpus=2, on="one")
    world.job("b", gpus=2, on="two")
    world.job("big", gpus=4)
    assert len(world.decide().moved) == 1
    assert world.decide(max_evictions_per_cycle=0).nothing


def test_a_stale_gang_goes_all_the_same(world):
    world.node("node", gpus=8)
    world.queue("team", quota=-1)
    world.job("gang", tasks=2, gang=3, on="node", stale_since=NOW - HOUR)
    assert len(world.decide(max_evictions_per_cycle=0).evicted) == 2


# --- a budget for searches --------------------------------------------------------------------------------------------


@pytest.fixture
def puzzle(world):
    """Three nodes of 4 GPUs, each with three single GPUs in use; a gang that wants two nodes whole."""
    world.queue("team", quota=-1)
    for node in range(3):
        world.node(f"node-{node}", gpus=4)
        for number in range(4):
            world.job(f"low-{node}-{number}", on=f"node-{node}")
    world.job("gang", gpus=4, tasks=2, gang=2, priority=75)
    return world


def test_a_search_ends_with_its_budget(puzzle):
    assert puzzle.decide().promised
    decided = puzzle.decide(search_budget=SearchBudget(per_job=1))
    assert decided.nothing
    assert decided.pending("gang").tried[-1] == (
        "preempt",
        "the search budget ended it after 1 set of victims; none of them made room",
    )


def test_a_budget_that_suffices_changes_nothing(puzzle):
    assert puzzle.decide(search_budget=SearchBudget(per_job=100)).decisions == puzzle.decide().decisions


def test_a_generator_has_a_budget_of_its_own(puzzle):
    """With the first way of proposing victims cut off the second still finds them."""
    decided = puzzle.decide(search_budget=SearchBudget(per_generator={"NodeLocalGreedy": 1}))
    assert decided.promised


@pytest.fixture
def queue_of_gangs(world):
    """Two teams, each with a full node and an important gang that wants half of it."""
    for team in ("one", "two"):
        world.queue(team, quota=4)
        world.node(f"node-{team}", gpus=4)
        for number in range(4):
            world.job(f"low-{team}-{number}", queue=team, on=f"node-{team}")
        world.job(f"high-{team}", queue=team, tasks=2, gang=2, priority=75)
    return world


def test_an_action_has_a_budget_for_all_its_jobs(queue_of_gangs):
    world = queue_of_gangs
    assert len(world.decide().promised) == 4
    for most in range(1, 30):
        decided = world.decide(search_budget=SearchBudget(per_action={"preempt": most}))
        if len(decided.promised) == 2:
            break
    else:
        raise AssertionError("no budget serves the one and not the other")
    assert "search budget" in decided.pending("high-two").tried[-1][1]
    more = world.decide(search_budget=SearchBudget(per_action={"preempt": most}, min_per_job=50))
    assert len(more.promised) == 4
