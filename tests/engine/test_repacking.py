"""Victims that certainly all find places again in any order, and searches that end because of it."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from msgspec import structs

from kailab.engine.config import EngineConfig
from kailab.engine.cycle import run_cycle
from kailab.engine.placing.allocation import Allocator
from kailab.engine.search import solver
from kailab.engine.search.repacking import Repacking
from kailab.engine.search.solver import Solver
from kailab.engine.search.victims_first import VictimsFirstBound
from kailab.engine.session import Session
from kailab.engine.snapshot.records import Requirement, Status, Task
from kailab.engine.working.layout import GPUS
from tests.engine.conftest import NOW, World
from tests.engine.test_victims_first import CONFIGURATIONS, counted, done, long_way


def session_of(world, **config):
    return Session(world.working(), EngineConfig(**config), NOW)


def all_return(session, *victims, nodes=None):
    """``victims``: jobs that go; all of them unless given."""
    names = victims or tuple(session.jobs)
    nodes = session.table.all if nodes is None else np.isin([node.name for node in session.table.nodes], nodes)
    return Repacking(session).all_return(nodes, [task for name in names for task in session.jobs[name]])


def places_again(session, order):
    """Whether all of these jobs find places, one after the other, once all of them have gone."""
    for name in order:
        for task in session.jobs[name]:
            session.evict(task)
    allocator = Allocator(session)
    return all(allocator.place(session.jobs[name], session.table.all, True) for name in order)


@pytest.fixture
def packed(team):
    """Two full nodes of 8 GPUs, with pods of 4, 2 and 1."""
    for number in range(2):
        team.node(f"node-{number}", gpus=8)
        team.job(f"four-{number}", gpus=4, on=f"node-{number}")
        team.job(f"two-{number}", gpus=2, on=f"node-{number}")
        team.jobs(2, f"one-{number}-", gpus=1, on=f"node-{number}")
    return team


def test_amounts_that_divide_each_other_leave_no_gaps(packed):
    assert all_return(session_of(packed))


def test_others_may(team):
    team.node("node-0", gpus=6)
    team.node("node-1", gpus=6)
    for number in range(2):
        team.job(f"three-{number}", gpus=3, on=f"node-{number}")
        team.job(f"two-{number}", gpus=2, on=f"node-{number}")
    # Threes on one node and twos on the other are all right; two and three, then two: the last three has a node less.
    assert not all_return(session_of(team))


def test_what_stays_on_two_nodes_makes_gaps(packed):
    going = [f"{size}-{number}" for size in ("four", "two") for number in range(2)] + ["one-0-0", "one-1-0"]
    # Seven GPUs on either node: both fours may come to lie beside too few.
    assert not all_return(session_of(packed), *going)


def test_what_stays_on_one_node_does_not(packed):
    going = [name for name in session_of(packed).jobs if name != "one-1-1"]
    assert all_return(session_of(packed), *going)


@pytest.mark.parametrize(
    "config", [{"gpu_placement": "spread"}, {"plugins": ("predicates", "gpupack")}], ids=["spreading", "no packing"]
)
def test_only_where_the_fullest_node_comes_first(packed, config):
    assert not all_return(session_of(packed, **config))


def test_a_gpu_that_is_free_now_comes_before_the_fullest_node(packed):
    packed.node("node-2", gpus=8)
    assert not all_return(session_of(packed))
    assert all_return(session_of(packed), nodes=["node-0", "node-1"])


def test_something_else_that_runs_short_may_leave_one_out(team):
    for number in range(2):
        team.node(f"node-{number}", gpus=8, cpu=1000)
        team.jobs(2, f"job-{number}-", gpus=4, on=f"node-{number}", shape={"cpu": 500})
    assert all_return(session_of(team))
    team.job("another", gpus=1, on="", shape={"cpu": 10})
    team.node("node-2", gpus=8, cpu=1000)
    team.jobs(8, "light-", gpus=1, on="node-2", shape={"cpu": 125})
    assert all_return(session_of(team), *(name for name in session_of(team).jobs if name != "another"))
    team.node("node-3", gpus=8, cpu=2000)
    team.jobs(8, "heavy-", gpus=1, on="node-3", shape={"cpu": 250})
    assert not all_return(session_of(team), *(name for name in session_of(team).jobs if name != "another"))


def test_a_node_that_only_some_may_go_to_has_no_opinion(team):
    team.node("node-0", gpus=8, labels={"zone": "a"})
    team.node("node-1", gpus=8, labels={"zone": "b"})
    team.jobs(
        2, "bound-", gpus=4, on="node-0", shape={"selector": (Requirement(key="zone", operator="In", values=("a",)),)}
    )
    team.jobs(2, "loose-", gpus=4, on="node-1")
    assert not all_return(session_of(team))
    assert all_return(session_of(team), "bound-0", "bound-1", nodes=["node-0"])


@st.composite
def full_clusters(draw):
    """Nodes of a few sizes, full of jobs of one to three pods each, of which some go."""
    world = World()
    world.queue("team", quota=-1)
    sizes = draw(st.sampled_from([[1, 2, 4, 8], [1, 4, 8], [1, 8], [2, 4], [1, 2, 6], [3, 6], [1, 3], [2, 3]]))
    free = {}
    for number in range(draw(st.integers(1, 6))):
        gpus = draw(st.sampled_from([8, 8, 8, 4, 6, 16]))
        world.node(f"node-{number}", gpus=gpus, pods=draw(st.sampled_from([110, 110, 5])))
        free[f"node-{number}"] = gpus
    for number in range(draw(st.integers(3, 30))):
        gpus, tasks = draw(st.sampled_from(sizes)), draw(st.sampled_from([1, 1, 1, 2, 3]))
        places = []
        for _ in range(tasks):
            room = [node for node, left in free.items() if left >= gpus]
            if room:
                places.append(node := draw(st.sampled_from(room)))
                free[node] -= gpus
        if len(places) == tasks:
            world.job(f"job-{number}", tasks=tasks, gang=tasks, gpus=gpus, on=places)
    # What is left is held by pods that stay.
    for node, left in free.items():
        world.jobs(left, f"stays-{node}-", gpus=1, on=node)
    return world


@pytest.mark.slow
@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(full_clusters(), st.randoms(use_true_random=False), st.floats(0.3, 1.0))
def test_they_do_whatever_the_order(world, chance, share):
    names = [name for name in session_of(world).jobs if name.startswith("job-") and chance.random() < share]
    assume(names)
    assume(all_return(session_of(world), *names))
    for _ in range(4):
        chance.shuffle(names)
        assert places_again(session_of(world), names), names


def shared_by_two(pick, sizes=([1, 4, 8], [1, 2, 4, 8], [8], [4, 8], [1, 8], [1, 3]), left=(0,)):
    """Nodes of 8 GPUs, of pods of these sizes and gangs; queues beside each other, and gangs that wait. ``left``: how many GPUs of a node are
    held by nobody.
    """
    world, free = World(), {}
    for number in range(pick([3, 4, 6, 8, 10])):
        world.node(f"node-{number}", gpus=8)
        free[f"node-{number}"] = 8 - pick(left)
    total = 8 * len(free)
    queues = [f"queue-{number}" for number in range(pick([2, 2, 3, 4]))]
    for name in queues:
        world.queue(name, quota=pick([0, 2, total // len(queues), total // 3]), weight=pick([1, 1, 2]))
    sizes = pick(sizes)
    borrower = pick(queues)
    for number in range(200):
        gpus, tasks = pick(sizes), pick([1, 1, 1, 1, 2, 3])
        places = []
        for _ in range(tasks):
            room = [node for node, left in free.items() if left >= gpus]
            if room:
                places.append(node := min(room, key=free.__getitem__))
                free[node] -= gpus
        if len(places) == tasks:
            queue = borrower if pick([True, True, False]) else pick(queues)
            world.job(f"job-{number}", queue=queue, tasks=tasks, gang=tasks, gpus=gpus, on=places)
        else:
            for node in places:
                free[node] += gpus
    for queue in queues:
        # The first that waits often wants more than its queue may have, and all behind it have their turns after it.
        for number, tasks in enumerate([pick([1, 2, 3, 4]), *[pick([1, 1, 2]) for _ in range(pick([0, 1, 2, 3]))]]):
            world.job(f"waits-{queue}-{number}", queue=queue, tasks=tasks, gang=tasks, gpus=pick([*sizes, 8, 8]))
    return world


@pytest.mark.parametrize("block", range(4))
def test_searches_that_end_by_it_would_have_found_nothing(block, monkeypatch):
    messages = []
    monkeypatch.setattr(VictimsFirstBound, "_none_left_out", counted(VictimsFirstBound._none_left_out, messages))
    monkeypatch.setattr(VictimsFirstBound, "_served", lambda *_: None)
    for seed in range(block * 40, block * 40 + 40):
        pick = random.Random(seed).choice
        world, config = shared_by_two(pick), pick([EngineConfig(), EngineConfig(), EngineConfig(use_signatures=False)])
        assert done(run_cycle(world.working(), config, NOW)) == done(long_way(world, config)), seed
    assert sum(messages) > 8


GAPS = ([1, 2, 4, 6, 8], [1, 2, 4, 8], [2, 3], [1, 3, 6], [2, 4, 5], [1, 2, 6])


def test_victims_are_served_in_their_turn_on_counts_of_the_nodes(monkeypatch):
    messages, before_some, refused = [], [], []
    serves, proves = VictimsFirstBound._served, VictimsFirstBound.proves_failure

    def serve(bound, goal, victims, jobs):
        served = serves(bound, goal, victims, jobs)
        messages.append(served is not None and not served.placed)
        before_some.append(messages[-1] and not bound._before_job(goal, jobs))
        refused.append(served is not None and served.placed)
        return served

    def prove(bound, goal, victims, refuses=None):
        refused.append(False)
        hopeless = proves(bound, goal, victims, refuses)
        refused[-1] = hopeless and refused[-1]
        return hopeless

    monkeypatch.setattr(VictimsFirstBound, "_served", serve)
    monkeypatch.setattr(VictimsFirstBound, "proves_failure", prove)
    proved = 0
    for seed in range(160):
        pick = random.Random(seed).choice
        world, config = shared_by_two(pick, GAPS, pick([(0,), (0, 1, 2), (0, 0, 3)])), pick(CONFIGURATIONS)
        refused.clear()
        assert done(run_cycle(world.working(), config, NOW)) == done(long_way(world, config)), seed
        proved += sum(refused)
    assert sum(messages) > 60
    # In some of them, not all victims surely come before the job.
    assert sum(before_some) > 10, sum(before_some)
    # In some, the job finds room, and the queue rules refuse the loss.
    assert proved > 10, proved


@pytest.mark.parametrize("block", range(2))
def test_who_is_served_on_counts_is_who_finds_a_place_in_a_simulation(block, monkeypatch):
    """Each set of victims is simulated here, whatever the counts say."""
    compared, lost_some = [], []
    place_all = Solver._place_all

    def place(solver, goal, victims, nodes):
        before = solver.session.mark()
        for task in victims:
            solver.session.unevict(task)
        bound = VictimsFirstBound(solver.session, goal.job)
        jobs = bound._jobs_by_amounts(goal, victims)
        served = None if jobs is None else bound._served(goal, victims, jobs)
        solver.session.undo(before)
        placed = place_all(solver, goal, victims, nodes)
        if served is not None:
            assert served.placed == placed
            compared.append(placed)
        if served is not None and placed:
            lost = {task.job for task in victims if task.status == Status.RELEASING}
            assert set(served.lost) == lost
            lost_some.append(0 < len(lost) < len({task.job for task in victims}))
        return placed

    monkeypatch.setattr(Solver, "_must_fail", lambda *_: False)
    monkeypatch.setattr(Solver, "_place_all", place)
    for seed in range(block * 80, block * 80 + 80):
        pick = random.Random(seed).choice
        world, config = shared_by_two(pick, GAPS, pick([(0,), (0, 1, 2), (0, 0, 3)])), pick(CONFIGURATIONS)
        run_cycle(world.working(), config, NOW)
    assert sum(compared) > 200, sum(compared)
    assert len(compared) - sum(compared) > 100, len(compared)
    assert sum(lost_some) > 50, sum(lost_some)


def behind_borrowers(pick):
    """Nodes of 8 GPUs that two queues hold beyond their shares, and a third whose first job wants more than its share; behind it wait gangs
    of pods of other sizes.
    """
    world, nodes = World(), pick([4, 5, 6, 8])
    world.queue("mine", quota=8 * nodes // 2)
    for name in ("theirs", "others"):
        world.queue(name, quota=pick([nodes, 2 * nodes, 3 * nodes]))
    sizes = pick(([1, 2, 4, 8], [1, 2, 4, 8], [1, 2, 4], [1, 8], [2, 3, 8], [1, 3, 4]))
    for number in range(nodes):
        world.node(f"node-{number}", gpus=8)
        free = 8 - pick([0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3])
        while free:
            gpus = pick([size for size in (1, *sizes) if size <= free])
            free -= gpus
            stays = pick([True, True, False, False, False])
            queue = "mine" if stays else pick(["theirs", "others"])
            world.job(f"job-{number}-{free}", queue=queue, gpus=gpus, on=f"node-{number}", preemptible=not stays)
    world.job("large", queue="mine", tasks=nodes, gang=nodes, gpus=8)
    for number in range(3):
        tasks = pick([1, 2, 2, 3])
        world.job(f"waits-{number}", queue="mine", tasks=tasks, gang=tasks, gpus=pick([3, 4, 5, 6, 6, 7, 8]))
    return world


def test_victims_that_leave_too_little_whichever_of_them_go_end_searches(monkeypatch):
    proved, beside_larger = [], []
    proves = VictimsFirstBound.leaves_too_little

    def ask(bound, tasks, victims):
        proved.append(proves(bound, tasks, victims))
        beside_larger.append(proved[-1] and any(task.info.rows[GPUS] > tasks[0].info.rows[GPUS] for task in victims))
        return proved[-1]

    monkeypatch.setattr(VictimsFirstBound, "leaves_too_little", ask)
    for seed in range(160):
        pick = random.Random(seed).choice
        world, config = behind_borrowers(pick), pick(CONFIGURATIONS)
        with monkeypatch.context() as patch:
            patch.setattr(solver, "PATIENCE", 1)
            shortly = run_cycle(world.working(), config, NOW, reasons=False)
        assert done(shortly)[:3] == done(long_way(world, config))[:3], seed
    assert sum(proved) > 12, sum(proved)
    assert sum(beside_larger) > 1, sum(beside_larger)


def test_victims_that_could_not_start_again_leave_their_places():
    # What such a pod needs has gone since it started, so evicting it makes room although it has its turn first.
    gone = ('persistentvolumeclaim "data" not found',)
    for seed in range(230, 320):
        pick = random.Random(seed).choice
        world = shared_by_two(pick, ([1], [8], [4, 8], [1, 4, 8]))
        world.records = [
            structs.replace(record, shape=structs.replace(record.shape, blocked=gone))
            if isinstance(record, Task) and record.node and pick([True, False, False])
            else record
            for record in world.records
        ]
        assert done(run_cycle(world.working(), EngineConfig(), NOW)) == done(long_way(world, EngineConfig())), seed
