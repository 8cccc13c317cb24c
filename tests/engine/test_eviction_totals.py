"""What is taken from others, beside what it is for: KAI's way, told with each eviction, and a bound for it.

KAI takes a gang as one unit, evicts all units of a set and packs anew whoever still finds a place
(job_solver.go, by_pod_solver.go, pod_scenario_builder.go); nothing compares what goes or moves with what it is for.
"""

from __future__ import annotations

import pytest

GANG = 93


def fragmented(world):
    """A gang of 93 pods over 14 nodes, each with a hole or two, and a job of one whole node."""
    places = []
    for number in range(14):
        world.node(f"node-{number:02}", gpus=8)
        places += [f"node-{number:02}"] * (7 if number < 9 else 6)
    world.job("many", tasks=GANG, gang=GANG, on=places)
    world.job("whole", gpus=8)


def interleaved(world):
    """Two gangs of 16 on four nodes, half and half on each, in a queue beyond its quota; 16 GPUs wanted by another."""
    world.queue("lender")
    world.queue("owner", quota=16)
    nodes = [f"node-{number}" for number in range(4)]
    for name in nodes:
        world.node(name, gpus=8)
    for name in ("first", "second"):
        world.job(name, queue="lender", tasks=16, gang=16, on=nodes * 4)
    world.job("claim", queue="owner", tasks=2, gang=2, gpus=8)


def totals_of(decided):
    """The taking that all evictions tell."""
    [taking] = {decided.eviction(task).taking for task in decided.evicted}
    return taking


def test_consolidation_moves_nearly_all_of_a_gang_for_a_job_of_one_node(team):
    fragmented(team)
    decided = team.decide()
    assert list(decided.promised) == ["whole-0"]
    assert not decided.lost
    taking = totals_of(decided)
    assert (taking.asked.gpu, taking.lost.gpu, taking.pods_lost) == (8_000, 0, 0)
    assert taking.moved.gpu == 1_000 * len(decided.moved) == 1_000 * taking.pods_moved
    assert taking.pods_moved > 80
    pod = next(iter(decided.evicted))
    assert decided.eviction(pod).message == (
        f"pod default/{pod} is moved to make room for default/whole; asked: 8 GPU; taken: {taking.pods_moved} GPU "
        f"({taking.pods_moved} pods, all of them only moved)"
    )


def test_a_reclaim_evicts_two_gangs_of_which_one_only_moves(world):
    interleaved(world)
    decided = world.decide()
    assert decided.lost == {f"second-{number}" for number in range(16)}
    assert {task.partition("-")[0] for task in decided.moved} == {"first"}
    taking = totals_of(decided)
    assert (taking.asked.gpu, taking.lost.gpu, taking.moved.gpu) == (16_000, 16_000, 1_000 * len(decided.moved))
    assert (taking.lost.cpu, taking.lost.memory) == (1_600, 16 * 10**6)
    assert (
        f"({16 + len(decided.moved)} pods, {len(decided.moved)} of them only moved)"
        in decided.eviction("second-0").message
    )


@pytest.mark.parametrize(("situation", "ratio", "asked"), [(fragmented, 2, 8), (interleaved, 1.5, 16)])
def test_beyond_the_ratio_nobody_is_taken_and_the_reason_says_so(world, situation, ratio, asked):
    world.queue("team", quota=-1)
    situation(world)
    decided = world.decide(max_taken_ratio=ratio)
    assert decided.nothing
    [waiting] = decided.decisions.pending
    tried = " ".join(outcome for _, outcome in waiting.tried)
    assert f"GPU or more for the {asked} GPU it asks for: beyond the maxTakenRatio of {ratio}" in tried


def test_up_to_the_ratio_it_is_as_without(world):
    interleaved(world)
    free = world.decide()
    exact = len(free.evicted) / 16
    assert world.decide(max_taken_ratio=exact).evicted == free.evicted
    assert world.decide(max_taken_ratio=exact - 0.01).nothing


def test_the_search_goes_on_to_victims_within_the_ratio(world):
    """The newest victim is a gang of two nodes; another, older, is as large as what is wanted."""
    world.queue("team", quota=-1, limit=24)
    for number in range(3):
        world.node(f"node-{number}", gpus=8)
    world.job("fitting", gpus=8, on="node-0")
    world.job("large", tasks=2, gang=2, gpus=8, on=("node-1", "node-2"))
    world.job("high", gpus=8, priority=75)
    assert world.decide().evicted == {"large-0", "large-1"}
    decided = world.decide(max_taken_ratio=1)
    assert decided.evicted == {"fitting-0"}
    assert decided.eviction("fitting-0").message.endswith("asked: 8 GPU; taken: 8 GPU (1 pod)")


def test_one_who_asks_for_more_is_tried_where_one_who_asked_for_less_was_refused(world):
    world.queue("team", quota=-1, limit=16)
    for number in range(2):
        world.node(f"node-{number}", gpus=8)
    world.job("large", tasks=2, gang=2, gpus=8, on=("node-0", "node-1"))
    world.job("small", gpus=8, priority=80)
    world.job("equal", tasks=2, gang=2, gpus=8, priority=75)
    decided = world.decide(max_taken_ratio=1)
    assert set(decided.promised) == {"equal-0", "equal-1"}


def test_work_without_gpus_is_held_against_cpu_and_memory(world):
    world.queue("team", quota=-1)
    world.node("node", gpus=0, cpu=8_000)
    world.job("large", tasks=2, gang=2, gpus=0, on="node", shape={"cpu": 4_000})
    world.job("small", gpus=0, priority=75, shape={"cpu": 2_000})
    assert world.decide(max_taken_ratio=3.9).nothing
    decided = world.decide(max_taken_ratio=4)
    assert decided.evicted == {"large-0", "large-1"}
    assert (
        "asked: 2 CPU and 0.001 GB memory; taken: 8 CPU and 0.002 GB memory (2 pods)"
        in decided.eviction("large-0").message
    )
