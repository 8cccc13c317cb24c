"""Amounts and reasons of decisions: every resource of each task, the ground of each eviction, and serving positions."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checks.case_input import NOW
from checks.fuzzing.random_cluster import random_case_input
from checks.simulated_cluster import SimulatedCluster
from kailab.engine.cycle import run_cycle
from kailab.engine.decisions import EvictionGround, TaskAmounts
from kailab.engine.session import Session
from kailab.engine.snapshot.gpu_requests import GpuMemory, MigInstances
from kailab.engine.snapshot.records import ALLOCATED, GPU, Status
from kailab.engine.working.order_criteria import JobCriterion

MIG = "nvidia.com/mig-1g.5gb"


def only(entries, task):
    return next(entry for entry in entries if entry.task == task)


def test_amounts_of_what_is_bound_waits_and_goes(team):
    team.node("n", gpus=2, extended=((MIG, 2), ("example.com/fpga", 4)), labels={"nvidia.com/mig.strategy": "mixed"})
    team.job("mig", gpus=0, shape={"gpu": MigInstances(profiles=((MIG, 1),)), "extended": (("example.com/fpga", 2),)})
    team.job("cpu", gpus=0, shape={"cpu": 1500, "memory": 2**30})
    team.job("large", gpus=3, tasks=2)
    decisions = team.decide().decisions
    assert only(decisions.binds, "mig-0").amounts == TaskAmounts(
        gpu=GPU, cpu=100, memory=10**6, extended=(("example.com/fpga", 2), (MIG, 1))
    )
    assert only(decisions.binds, "cpu-0").amounts == TaskAmounts(cpu=1500, memory=2**30)
    (pending,) = decisions.pending
    assert pending.tasks == ("large-0", "large-1")
    assert pending.amounts == (TaskAmounts(gpu=3 * GPU, cpu=100, memory=10**6),) * 2


def test_gpu_memory_counts_by_the_device_it_is_on_and_by_the_smallest_while_it_waits(world):
    world.queue("team", quota=8)
    world.node("large", gpus=1, gpu_memory_mib=80_000)
    world.node("small", gpus=1, gpu_memory_mib=40_000, unavailable="cordoned")
    memory = {"gpu": GpuMemory(devices=1, memory_mib=60_000)}
    world.job("first", shape=memory)
    world.job("second", shape=memory)
    decisions = world.decide().decisions
    assert [bind.amounts.gpu for bind in decisions.binds] == [750]
    assert [pending.amounts[0].gpu for pending in decisions.pending] == [1500]


def test_a_reclaim_tells_the_level_and_the_resource_that_decided_it(world):
    world.queue("left", quota=4)
    world.queue("left-a", quota=4, parent="left")
    world.queue("right", quota=4)
    world.queue("right-a", quota=2, parent="right")
    world.queue("right-b", quota=2, parent="right")
    world.node("n", gpus=8)
    world.job("greedy", "right-a", tasks=6, on="n")
    world.job("modest", "right-b", tasks=2, on="n")
    world.job("owed", "left-a", tasks=4, gang=4)
    decided = world.decide()
    assert decided.lost == {"greedy-2", "greedy-3", "greedy-4", "greedy-5"}
    eviction = decided.eviction("greedy-5")
    assert eviction.amounts == TaskAmounts(gpu=GPU, cpu=100, memory=10**6)
    assert eviction.ground == EvictionGround(
        rule="fair share", queue="right", beside="left", resource="GPU", bound=4 * GPU, before=8 * GPU, after=4 * GPU
    )


def test_a_preemption_tells_the_priorities(team):
    team.node("n", gpus=1)
    team.job("low", on="n", priority=50)
    team.job("high", priority=75)
    ground = team.decide().eviction("low-0").ground
    assert ground == EvictionGround(rule="priority", queue="team", beside="team", priorities=(50, 75))


def test_who_is_moved_gives_its_queue_nothing_up(team):
    for name in ("n1", "n2"):
        team.node(name, gpus=2)
    team.job("a", on="n1")
    team.job("b", on="n2")
    team.job("both", gpus=2)
    decided = team.decide(actions=("allocate", "consolidation"))
    (moved,) = decided.moved
    assert decided.eviction(moved).ground == EvictionGround(rule="move", queue="team")


def test_a_stale_gang_goes_as_such(team):
    team.node("n", gpus=4)
    team.job("gang", tasks=2, gang=3, on="n", stale_since=0.0)
    assert {evict.ground for evict in team.decide().decisions.evictions} == {EvictionGround(rule="gang", queue="team")}


def test_turns_are_told_where_asked_for(team):
    team.node("n", gpus=1)
    team.job("runs", on="n")
    team.job("second")
    team.job("first", priority=75, preemptible=True)
    plain = team.decide(actions=("allocate",)).decisions
    assert [pending.turn for pending in plain.pending] == [None, None]
    messages = team.decide(actions=("allocate",), tell_turns=True).decisions
    places = {pending.podgroup: (pending.turn.place, pending.turn.because) for pending in messages.pending}
    assert places == {"first": (1, ""), "second": (2, JobCriterion.PRIORITY)}
    assert (messages.binds, messages.evictions, messages.pipelines) == (plain.binds, plain.evictions, plain.pipelines)


@st.composite
def clusters(draw):
    return random_case_input(lambda options: draw(st.sampled_from(options)))


@settings(max_examples=80, derandomize=True, suppress_health_check=list(HealthCheck))
@given(clusters())
def test_amounts_told_are_those_that_queues_count(case_input):
    """What a queue holds before a cycle, less what it lost, plus what was bound, is what it holds after."""
    table = SimulatedCluster(case_input)
    working = table.working()
    decisions = run_cycle(working, case_input.config, NOW)
    for bind in decisions.binds:
        shape = working.tasks[bind.task].record.shape
        assert (bind.amounts.cpu, bind.amounts.memory) == (shape.cpu, shape.memory)
        assert bind.amounts.extended == (*shape.extended, *shape.gpu.profiles)
    for pending in decisions.pending:
        assert len(pending.amounts) == len(pending.tasks)
    held = {state.name: state.gpu.allocated for state in decisions.queues}
    parents = {queue.name: queue.parent for queue in case_input.queues}
    change = [(bind.queue, bind.amounts.gpu) for bind in decisions.binds]
    change += [
        (evict.queue, -evict.amounts.gpu)
        for evict in decisions.evictions
        if ALLOCATED[working.tasks[evict.task].record.status]
    ]
    for name, amount in change:
        while name:
            held[name] += amount
            name = parents[name]
    table.apply(decisions)
    table.tasks = {uid: task for uid, task in table.tasks.items() if task.status is not Status.PIPELINED}
    after = Session(table.working(), case_input.config, NOW)
    try:
        assert {name: queue.allocated[2] for name, queue in after.tree.queues.items()} == held
    finally:
        after.close()
    for evict in decisions.evictions:
        assert evict.ground is not None
        if evict.action == "reclaim" and evict.ground.rule in ("fair share", "quota"):
            assert evict.ground.before > evict.ground.bound
            assert evict.ground.after < evict.ground.before
