"""A cycle leaves the working set unchanged, and its decisions do not depend on the order of its records."""

import pytest

from kailab.engine.config import EngineConfig
from kailab.engine.cycle import run_cycle
from kailab.engine.queueing.order import tasks_to_allocate
from kailab.engine.session import Session
from kailab.engine.snapshot.gpu_requests import ClaimedGpus, GpuMemory
from kailab.engine.snapshot.records import GPU, Constraint, Numa, NumaZone, PodSet, Status, SubGroup, ZoneShare
from kailab.engine.working.layout import GPUS

NOW = 1_000_000.0


def everything(world):
    """A world in which every action has something to do, with all that nodes keep account of."""
    zones = tuple(NumaZone(name=f"zone-{i}", allocatable=(("cpu", 8000), ("nvidia.com/gpu", 6))) for i in range(2))
    world.topology("network", "rack")
    for number in range(1, 7):
        rack = {"rack": f"r{number % 3}"}
        world.node(f"node-{number}", gpus=6, labels=rack, devices=6, numa=Numa(policy="restricted", zones=zones))
    world.queue("department", quota=24)
    for name, quota in (("a", 12), ("b", 12), ("c", 2)):
        world.queue(name, quota=quota, parent="department")
    held = {"numa_zones": (ZoneShare(zone="zone-0", amounts=(("nvidia.com/gpu", 2),)),)}
    for number in range(1, 5):
        world.job(f"borrowed{number}", queue="c", tasks=3, gpus=2, gang=1, on=f"node-{number}", task=held)
    world.job("halves", queue="c", tasks=2, gpus=0.5, on="node-5", groups=[("g",), ("g",)])
    world.claim("shared", gpus=1, allocated=True, node="node-5", reserved=("claimed-0", "claimed-1"))
    claim = {"gpu": ClaimedGpus(claimed=(("gpu", 1),)), "claims": ("default/shared",)}
    world.job("claimed", queue="c", tasks=2, shape=claim, on="node-5")
    world.job("filler", queue="c", tasks=4, on="node-5")
    world.job("joins", queue="c", shape=claim)
    world.job("low", queue="a", tasks=4, gang=4, on="node-6")
    world.job("stale", queue="a", gang=2, on="node-6", stale_since=NOW - 100)
    world.job("gang", queue="b", tasks=4, gang=4, gpus=2, constraint=Constraint(topology="network", required="rack"))
    world.job("pair", queue="b", gpus=0.5, tasks=2, gang=2)
    world.job("memory", queue="b", shape={"gpu": GpuMemory(devices=1, memory_mib=30_000)})
    world.job("urgent", queue="a", tasks=2, gang=2, gpus=4, priority=75)
    root = SubGroup(podsets=(PodSet(name="lead", min_available=1), PodSet(name="work", min_available=2)))
    world.job("parts", queue="a", root=root, members={"lead": 1, "work": 2})


@pytest.fixture
def busy(world):
    everything(world)
    return world


def test_there_is_something_to_undo(busy):
    """The other tests of this file would prove nothing in a quiet world."""
    decided = busy.decide()
    actions = {str(evict.action) for evict in decided.decisions.evictions}
    assert {"reclaim", "stalegangeviction"} <= actions
    assert decided.bound
    assert decided.promised


def test_a_cycle_leaves_everything_as_it_was(busy, state):
    working = busy.working()
    before = state(working)
    run_cycle(working, EngineConfig(), NOW)
    assert state(working) == before


def test_the_same_snapshot_decides_the_same_again(busy):
    working = busy.working()
    first = run_cycle(working, EngineConfig(), NOW)
    assert run_cycle(working, EngineConfig(), NOW) == first


def test_another_configuration_in_between_leaves_no_trace(busy):
    working = busy.working()
    first = run_cycle(working, EngineConfig(), NOW)
    run_cycle(working, EngineConfig(gpu_placement="spread", actions=("preempt", "reclaim")), NOW + 1000)
    assert run_cycle(working, EngineConfig(), NOW) == first


@pytest.mark.parametrize("seed", range(8))
def test_the_order_of_telling_does_not_matter(busy, seed):
    first = run_cycle(busy.working(), EngineConfig(), NOW)
    assert run_cycle(busy.working(busy.shuffled(seed)), EngineConfig(), NOW) == first


@pytest.mark.parametrize("seed", range(8))
def test_nor_does_telling_more_and_taking_it_back(busy, state, seed):
    """A working set that was used, changed and changed back is as good as a new one."""
    fresh = busy.working()
    working = busy.working(busy.shuffled(seed))
    run_cycle(working, EngineConfig(), NOW)
    tasks = [record for record in busy.shuffled(seed) if hasattr(record, "podgroup")][:10]
    for task in tasks:
        working.remove_task(task.uid)
    run_cycle(working, EngineConfig(), NOW)
    for task in tasks:
        working.set_task(task)
    assert state(working) == state(fresh)
    assert run_cycle(working, EngineConfig(), NOW) == run_cycle(fresh, EngineConfig(), NOW)


class TestAVictimMovedBefore:
    """A pod of node-1 that one statement promised node-2 and the next evicts again (KAI's Statement.Pipeline)."""

    @pytest.fixture(params=[False, True], ids=["kailab", "imitating"])
    def session(self, world, request):
        world.queue("team")
        for number in (1, 2, 3):
            world.node(f"node-{number}", gpus=1)
        world.job("moved", on="node-1")
        world.job("other")
        return Session(world.working(), EngineConfig(imitate_faults=request.param), NOW)

    @pytest.fixture
    def moved(self, session):
        task = session.jobs["moved"].tasks["moved-0"]
        session.evict(task)
        session.pipeline(task, "node-2", (), keep_in_place=True)
        session.commit(0, "consolidation")
        session.evict(task)
        return task

    def test_it_gets_its_promise_back_where_it_still_is(self, session, moved):
        session.pipeline(moved, "node-1", (), keep_in_place=True)
        assert (moved.status, moved.node) == (Status.PIPELINED, "node-2")

    def test_unless_the_room_was_given_away_which_kai_does_not_ask(self, session, moved):
        session.pipeline(session.jobs["other"].tasks["other-0"], "node-2", (), keep_in_place=True)
        session.pipeline(moved, "node-1", (), keep_in_place=True)
        assert moved.status == Status.PIPELINED
        assert moved.node == ("node-2" if session.config.imitate_faults else "node-1")

    def test_a_third_place_leaves_it_on_both_others(self, session, moved):
        session.pipeline(moved, "node-3", (), keep_in_place=True)
        assert moved.vacated == (("node-1", ()), ("node-2", ()))
        table = session.table
        assert table.idle[GPUS].tolist() == [0, 0, 1000]
        assert table.releasing[GPUS].tolist() == [1000, 1000, -1000]
        session.close()
        assert table.idle[GPUS].tolist() == [0, 1000, 1000]
        assert not table.releasing.any()


def test_tasks_that_are_evicted_for_good_count_for_nothing_in_the_order_of_queues(team):
    """Though the job's cached next tasks still name them."""
    team.node("n", gpus=2)
    team.job("victim", tasks=2, gang=2, on="n")
    working = team.working()
    session = Session(working, EngineConfig(), NOW)
    job = working.jobs["victim"]
    for task in job:
        session.evict(task)
    assert session.wanted(job)[2] == 2 * GPU
    job.version += 1  # as after a failed attempt to place the job
    assert len(tasks_to_allocate(job)) == 2
    session.commit(0, "preempt")
    assert session.wanted(job)[2] == 0


@pytest.mark.parametrize(("imitate_faults", "evicted"), [(False, {"victim-0"}), (True, set())])
def test_a_solution_that_leaves_the_gang_incomplete_keeps_its_room_in_kai(world, imitate_faults, evicted):
    """One of the two subgroups is enough to start, but KAI accepts only complete gangs, and then undoes nothing."""
    world.queue("team", quota=1)
    world.queue("other")
    world.node("n", gpus=1)
    world.job("victim", queue="other", on="n")
    podsets = tuple(PodSet(name=name, min_available=1) for name in "ab")
    world.job("parts", root=SubGroup(podsets=podsets, min_members=1), members={"a": 1, "b": 1}, priority=60)
    world.job("later", priority=50)
    assert world.decide(imitate_faults=imitate_faults).evicted == evicted


def test_victims_that_such_a_solution_keeps_change_who_goes_next(world):
    """As in KAI: without its surplus, ``elastic`` is at its minimum, and the newest of the jobs at theirs goes first."""
    world.queue("team", quota=2)
    world.queue("other")
    world.node("n", gpus=3)
    world.job("elastic", queue="other", tasks=2, on="n")
    world.job("newer", queue="other", on="n")
    podsets = tuple(PodSet(name=name, min_available=1) for name in "ab")
    world.job("parts", root=SubGroup(podsets=podsets, min_members=1), members={"a": 1, "b": 1}, priority=60)
    world.job("later", priority=50)
    assert world.decide(imitate_faults=(13,)).evicted == {"newer-0"}
