"""Short cuts of placing decide what the long way decides: a second look at the node found last, a count of the room before a gang is put
back, moves that leave out what cancels out, a set of victims that is not tried once more, a simulation that ends where too little room is
left, victims of which too many find no other place, a job like one that failed, victims of which only some may be taken."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from kailab.engine.actions import evicting
from kailab.engine.config import EngineConfig
from kailab.engine.cycle import run_cycle
from kailab.engine.placing import node_capacity
from kailab.engine.placing.allocation import Allocator
from kailab.engine.placing.placement import Placer
from kailab.engine.search import solver
from kailab.engine.search.bounds import SearchBounds
from kailab.engine.search.reclaimable import QueueBalances
from kailab.engine.search.shortfall import RemainingRoom, Shortfall
from kailab.engine.search.solver import Solver
from kailab.engine.search.victims_first import VictimsFirstBound
from kailab.engine.session import Session
from kailab.engine.snapshot.gpu_requests import GpuFraction, GpuMemory, WholeGpus
from kailab.engine.snapshot.records import Constraint, PodSet, Requirement, Status, SubGroup, Task
from kailab.engine.working.jobindex import JobIndex
from kailab.engine.working.nodes import NodeTable
from tests.engine.conftest import NOW, World
from tests.engine.test_victims_first import done


def _taken_away_and_added(table, task, status, node, vacated):
    before = task.status, task.node, task.vacated
    table.leave(task)
    task.status, task.node, task.vacated = status, node, vacated
    table.enter(task)
    task.status, task.node, task.vacated = before


def _of_all_victims(session, job, pick, queues, lists, *given, **options):
    return SearchBounds(session, job, pick, queues, session.victims.lists, *given, **options)


class _Forgetful(dict):
    def get(self, key, default=None):
        return default


def _gathers_anew(solver, *given, begin=Solver.__init__):
    begin(solver, *given)
    solver._orders = _Forgetful()


def the_long_way(working, config):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Placer, "_repeat", lambda *_: None)
        patch.setattr(Placer, "may_fit", lambda *_: True)
        patch.setattr(NodeTable, "move", _taken_away_and_added)
        patch.setattr(Solver, "_repeats", lambda *_: False)
        patch.setattr(Solver, "__init__", _gathers_anew)
        patch.setattr(VictimsFirstBound, "proves_failure", lambda *_: False)
        patch.setattr(VictimsFirstBound, "rules_out", lambda *_: False)
        patch.setattr(RemainingRoom, "too_little", lambda *_: False)
        patch.setattr(QueueBalances, "refuses_loss", lambda *_: False)
        patch.setattr(evicting, "lost_at_least", lambda *_: 0)
        patch.setattr(evicting, "SearchBounds", _of_all_victims)
        patch.setattr(evicting, "kind_of_job", lambda job: None)
        return run_cycle(working, config, NOW)


CONSTRAINTS = [
    None,
    None,
    Constraint(topology="network", required="rack"),
    Constraint(topology="network", required="zone"),
    Constraint(topology="network", preferred="rack"),
    Constraint(topology="network", required="zone", preferred="rack"),
]


def crowded(pick, nodes, jobs, constraints=None, shares=(0,)):
    """Queues that borrow from each other, and gangs of few shapes, of which some run: much is evicted, put back and moved, also twice in
    a cycle. ``pick``: one of some options. ``constraints``: of jobs; the nodes then are in racks and zones. ``shares``: numbers of waiting
    jobs that share GPUs."""
    world = World()
    free = {}
    if constraints:
        world.topology("network", "zone", "rack")
    for number in range(pick(nodes)):
        cpu, pods, gpus = pick([1_000_000, 600]), pick([110, 5]), pick([2, 4, 8])
        labels = {"zone": f"zone-{number // 4}", "rack": f"rack-{number // 2}"} if constraints else {}
        world.node(f"node-{number}", gpus=gpus, cpu=cpu, pods=pods, labels=labels)
        free[f"node-{number}"] = [gpus, min(pods, cpu // 100)]
    total = sum(gpus for gpus, _ in free.values())
    queues = [f"queue-{number}" for number in range(pick([1, 2, 3, 4]))]
    for name in queues:
        world.queue(name, quota=pick([0, total // len(queues), total // 2]))
    for number in range(pick(jobs)):
        tasks, gpus = pick([1, 1, 2, 4, 6, 8]), pick([0, 1, 1, 1, 2])
        places = []
        for _ in range(pick([0, tasks, tasks])):
            room = [node for node, (left, slots) in free.items() if left >= gpus and slots]
            if room:
                places.append(node := pick(room))
                free[node] = [free[node][0] - gpus, free[node][1] - 1]
        world.job(
            f"job-{number}", queue=pick(queues), tasks=tasks, gpus=gpus, on=places, gang=pick([1, tasks]),
            priority=pick([50, 50, 75, 100]), constraint=pick(constraints) if constraints else None,
        )  # fmt: skip
    for number in range(pick(shares)):
        tasks = pick([1, 2, 3])
        world.job(
            f"share-{number}", queue=pick(queues), tasks=tasks, gpus=pick([0.25, 0.5]), gang=pick([1, tasks]),
            priority=pick([50, 75]),
        )  # fmt: skip
    return world


@st.composite
def small_worlds(draw):
    constraints = draw(st.sampled_from([None, CONSTRAINTS]))
    return crowded(lambda options: draw(st.sampled_from(options)), [2, 3, 4], [2, 3, 4, 5, 6], constraints)


configurations = st.sampled_from(
    [
        EngineConfig(),
        EngineConfig(gpu_placement="spread"),
        EngineConfig(imitate_faults=True),
        EngineConfig(max_consolidation_victims=1),
    ]
)


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(small_worlds(), configurations)
def test_short_cuts_change_no_decision(world, config):
    working = world.working()
    decisions = run_cycle(working, config, NOW)
    assert decisions == the_long_way(world.working(), config)
    # What is kept from cycle to cycle is as it would be, too.
    assert run_cycle(working, config, NOW) == decisions


@pytest.mark.parametrize(
    "nodes, jobs, seed",
    [
        *(([4, 8, 16], range(10, 40), seed) for seed in range(16)),
        # Gangs of it are moved more than once in a cycle: who gives a promised place up makes room where there was none.
        ([8, 16, 24], range(20, 60), 17),
    ],
)
def test_nor_in_larger_worlds(nodes, jobs, seed):
    world = crowded(random.Random(seed).choice, nodes, jobs)
    decisions = run_cycle(world.working(), EngineConfig(), NOW)
    assert decisions == the_long_way(world.working(), EngineConfig())


@pytest.mark.parametrize("config", [EngineConfig(), EngineConfig(gpu_placement="spread")])
@pytest.mark.parametrize("seed", range(12))
def test_nor_among_racks_and_zones(seed, config):
    world = crowded(random.Random(seed).choice, [4, 6, 8], range(8, 20), CONSTRAINTS)
    decisions = run_cycle(world.working(), config, NOW)
    assert decisions == the_long_way(world.working(), config)


@pytest.mark.parametrize("seed", range(16))
def test_nor_where_work_that_shares_gpus_waits(seed):
    world = crowded(random.Random(seed).choice, [3, 4, 6], range(8, 20), shares=[1, 2, 4])
    decisions = run_cycle(world.working(), EngineConfig(), NOW)
    assert decisions == the_long_way(world.working(), EngineConfig())


@pytest.mark.parametrize("seed", range(24))
def test_victims_put_in_order_when_they_are_looked_for_are_those_of_the_cycle_s_begin(seed, monkeypatch):
    def at_once(index, kind, instead=None):
        begun(index, kind, instead)
        assert list(index.lists.values()) is not None

    begun, choice = JobIndex.__init__, random.Random(seed).choice
    world = crowded(choice, [2, 3, 4, 6], range(5, 25))
    config = EngineConfig(victim_order="priority")
    decisions = run_cycle(world.working(), config, NOW)
    monkeypatch.setattr(JobIndex, "__init__", at_once)
    assert decisions == run_cycle(world.working(), config, NOW)


class _EveryKind(set):
    def __contains__(self, kind):
        return True


@pytest.mark.parametrize("policies", [{}, {"victim_order": "priority"}])
@pytest.mark.parametrize("seed", range(8))
def test_searches_whose_bounds_come_first_decide_what_others_do(seed, policies):
    world = crowded(random.Random(seed).choice, [3, 4, 6], range(8, 20))
    config = EngineConfig(**policies)
    decisions = run_cycle(world.working(), config, NOW, reasons=False)
    working = world.working()
    working.ended_by_bound = _EveryKind()
    assert run_cycle(working, config, NOW, reasons=False) == decisions


@pytest.fixture
def borrowed(world):
    """A queue below its share, and gangs of another that hold all nodes, more than theirs."""
    world.queue("owner", quota=10)
    world.queue("borrower")
    for number in range(3):
        world.node(f"node-{number}", gpus=4)
    world.job("large", queue="borrower", tasks=6, gang=6, on=["node-0"] * 4 + ["node-1"] * 2)
    world.job("small", queue="borrower", tasks=6, gang=1, on=["node-1"] * 2 + ["node-2"] * 4)
    return world


def test_a_gang_that_has_no_room_left_is_not_put_back_in_part(borrowed):
    borrowed.job("wants", queue="owner", tasks=7, gang=7)
    decided = borrowed.decide()
    assert len(decided.promised) == 7
    assert decided.decisions == the_long_way(borrowed.working(), EngineConfig())
    assert {f"large-{number}" for number in range(6)} <= decided.lost


def test_a_cycle_leaves_nodes_as_they_were(borrowed, state):
    borrowed.job("wants", queue="owner", tasks=5, gang=5)
    working = borrowed.working()
    before = state(working)
    assert run_cycle(working, EngineConfig(), NOW).evictions
    assert state(working) == before


def _for_all(session, info, pool, others, shared=0):
    return int(node_capacity.pods_per_node(session, info, pool).sum())


@pytest.mark.slow
def test_room_that_those_who_move_need_themselves_changes_no_decision(monkeypatch):
    beside, fewer = node_capacity.places_beside, []

    def counted(*given):
        places = beside(*given)
        fewer.append(places < _for_all(*given))
        return places

    for seed in range(30):
        world = crowded(random.Random(seed).choice, [4, 8, 16], range(10, 40))
        config = EngineConfig(
            actions=("allocate", "consolidation"), max_consolidation_victims=random.Random(seed).choice([-1, 3, 16])
        )
        monkeypatch.setattr(node_capacity, "places_beside", counted)
        decisions = run_cycle(world.working(), config, NOW)
        monkeypatch.setattr(node_capacity, "places_beside", _for_all)
        assert done(decisions) == done(run_cycle(world.working(), config, NOW)), seed
    assert any(fewer)


def _only(model):
    return {"selector": (Requirement(key="model", operator="In", values=(model,)),)} if model else {}


def _two_models(choice, nodes, jobs):
    """Nodes of two models, of which one has shared devices; work that needs one of them, or takes both. Amounts of CPU are not in the
    proportion of the GPUs."""
    world, free = World(), {}
    for number in range(choice(nodes)):
        model = choice(["a", "b"])
        world.node(f"node-{number}", gpus=8, cpu=choice([800, 10_000]), labels={"model": model})
        free[f"node-{number}"] = [8, model]
    for name in ("one", "two"):
        world.queue(name, quota=choice([0, 8, -1]))
    for number in range(choice(jobs)):
        model = choice(["a", "b", "b", ""])
        gpus = choice([1, 1, 2, 4, 8, 0.5] if model == "b" else [1, 1, 2, 4, 8])
        tasks, places = (1 if gpus < 1 else choice([1, 2, 3])), []
        for _ in range(choice([0, tasks])):
            room = [node for node, (left, its) in free.items() if left >= gpus and model in ("", its)]
            if room:
                places.append(node := choice(room))
                # A share takes a device of its own here.
                free[node][0] -= max(1, gpus)
        world.job(
            f"job-{number}", queue=choice(["one", "two"]), tasks=tasks, gpus=gpus, on=places, gang=choice([1, tasks]),
            shape=_only(model) | {"cpu": choice([50, 100, 400])},
            groups=[(f"device-{number}",)] if gpus < 1 and places else (),
        )  # fmt: skip
    return world


@pytest.mark.parametrize("most", [16, -1])
def test_counting_beside_shared_devices_and_other_models_changes_no_decision(monkeypatch, most):
    proves, proved = Shortfall.proves_failure, []
    config = EngineConfig(max_consolidation_victims=most)
    for seed in range(40):
        world = _two_models(random.Random(seed).choice, [4, 6, 8], range(10, 24))
        with monkeypatch.context() as patch:
            patch.setattr(Shortfall, "proves_failure", lambda *given: proved.append(proves(*given)) or proved[-1])
            decisions = run_cycle(world.working(), config, NOW)
        with monkeypatch.context() as patch:
            patch.setattr(Shortfall, "proves_failure", lambda *_: False)
            patch.setattr(SearchBounds, "broken", lambda *_: None)
            assert done(decisions) == done(run_cycle(world.working(), config, NOW)), seed
    assert any(proved)


def test_pods_that_only_change_places_on_one_model_are_not_tried_one_after_the_other(world):
    """Eight GPUs that move need eight of the same model again, however few pod slots, and whatever is shared on the other model."""
    world.queue("one", quota=-1)
    for number in range(12):
        world.node(f"a-{number}", labels={"model": "a"})
        world.job(f"large-{number}", queue="one", gpus=8, on=f"a-{number}", shape=_only("a"))
    world.node("b", labels={"model": "b"})
    world.job("share", queue="one", gpus=0.5, on="b", shape=_only("b"), groups=[("device",)])
    world.job("small", queue="one", gpus=1, shape=_only("a"))
    [tried] = [text for action, text in world.decide().pending("small").tried if action == "consolidation"]
    assert (
        tried == "no set of victims could make room: with every possible victim moved there is room for 0 of its 1 pods"
    )


@pytest.mark.parametrize("reasons", [True, False])
def test_pods_on_nodes_to_which_they_may_no_longer_go_need_no_other_place(world, reasons):
    world.queue("one", quota=-1)
    # Its label was another one when they came.
    world.node("changed", gpus=12, labels={"model": "b"})
    for number in range(12):
        world.job(f"older-{number}", queue="one", gpus=1, on="changed", shape=_only("a"))
    for name in ("first", "second"):
        world.node(name, gpus=2, labels={"model": "a"})
        world.job(f"on-{name}", queue="one", gpus=1, on=name, shape=_only("a"))
    world.job("large", queue="one", gpus=2, shape=_only("a"))
    decisions = run_cycle(world.working(), EngineConfig(), NOW, reasons=reasons)
    assert [(evicted.podgroup, evicted.action) for evicted in decisions.evictions] == [("on-second", "consolidation")]


def _shares_that_move(choice):
    """Full nodes on which shares and whole GPUs that may move fill devices together; some have changed their model since."""
    world = World()
    world.queue("one", quota=-1)
    device = 0
    for number in range(choice([3, 4, 6])):
        name, model, memory = f"node-{number}", choice(["a", "a", "b"]), choice([40_000, 80_000])
        world.node(name, gpus=4, gpu_memory_mib=memory, labels={"model": model})
        for place in range(4):
            kind = choice(["whole", "whole", "shares", "shares", "free"])
            if kind == "whole":
                world.job(f"whole-{number}-{place}", queue="one", gpus=1, on=name, shape=_only(choice(["", "a"])))
            elif kind == "shares":
                device += 1
                for half in range(choice([1, 2])):
                    gpu = choice(
                        [GpuFraction(devices=1, portion=choice([300, 500])), GpuMemory(devices=1, memory_mib=18_000)]
                    )
                    world.job(
                        f"share-{device}-{half}", queue="one", on=name, groups=[(f"device-{device}",)], shape=_only(choice(["", "a"])) | {"gpu": gpu},
                        preemptible=choice([True, True, False]),
                    )  # fmt: skip
    for number in range(choice([2, 4])):
        world.job(
            f"waits-{number}",
            queue="one",
            gpus=choice([1, 1, 2, 4]),
            tasks=choice([1, 2]),
            shape=_only(choice(["", "a"])),
        )
    return world


def _places(decisions):
    entries = (*decisions.binds, *decisions.evictions, *decisions.pipelines)
    return [(type(entry).__name__, entry.task, entry.node, entry.action) for entry in entries]


@pytest.mark.parametrize("begin", range(0, 120, 30))
def test_bounds_beside_shares_that_move_change_no_decision(begin, monkeypatch):
    verdicts = []
    broken = SearchBounds.broken
    for seed in range(begin, begin + 30):
        world = _shares_that_move(random.Random(seed).choice)
        config = EngineConfig(max_consolidation_victims=random.Random(-seed).choice([-1, 3, 16]))
        with monkeypatch.context() as patch:
            patch.setattr(solver, "PATIENCE", 1)
            patch.setattr(SearchBounds, "broken", lambda *given: verdicts.append(broken(*given)) or verdicts[-1])
            bounded = run_cycle(world.working(), config, NOW)
            briefly = run_cycle(world.working(), config, NOW, reasons=False)
        with monkeypatch.context() as patch:
            patch.setattr(SearchBounds, "broken", lambda *_: None)
            unbounded = run_cycle(world.working(), config, NOW)
        # Numbers in the names of newly shared devices go on after a try, so they are left out.
        assert _places(bounded) == _places(briefly) == _places(unbounded), seed
    assert any(verdict and "moved" in verdict for verdict in verdicts)


def _sharing(choice):
    """Shares by fraction and by memory beside whole devices, on devices of two sizes; some are larger than any device."""
    world = World()
    for number in range(choice([1, 2, 3])):
        world.node(
            f"node-{number}", gpus=choice([1, 2]), gpu_memory_mib=choice([20_000, 80_000]), pods=choice([110, 6])
        )
    for name in ("one", "two"):
        world.queue(name, quota=choice([0, 1, -1]))
    for number in range(choice(range(4, 12))):
        gpu = choice(
            [WholeGpus(devices=1), GpuFraction(devices=1, portion=choice([300, 500, 900])),
             GpuFraction(devices=2, portion=500), GpuMemory(devices=1, memory_mib=choice([9_000, 30_000, 90_000]))]
        )  # fmt: skip
        world.job(f"job-{number}", queue=choice(["one", "two"]), tasks=choice([1, 2]), shape={"gpu": gpu})
    return world


@pytest.mark.parametrize("seed", range(30))
def test_bounds_of_shares_of_devices_change_no_decision(seed, monkeypatch):
    world = _sharing(random.Random(seed).choice)
    # What the first cycle binds runs in the second, where the rest searches for victims.
    first = run_cycle(world.working(), EngineConfig(), NOW)
    placed = {bind.task: bind for bind in first.binds}
    running = [
        structs.replace(record, status=Status.RUNNING, node=bind.node, gpu_groups=bind.gpu_groups)
        if isinstance(record, Task) and (bind := placed.get(record.uid))
        else record
        for record in world.records
    ]
    world.records = running
    for name in ("one", "two"):
        world.job(f"late-{name}", queue=name, shape={"gpu": GpuMemory(devices=1, memory_mib=15_000)}, priority=75)
    decisions = run_cycle(world.working(), EngineConfig(), NOW)
    # Otherwise the bounds are looked at only after some effort.
    monkeypatch.setattr(solver, "PATIENCE", 1)
    bounded = run_cycle(world.working(), EngineConfig(), NOW)
    monkeypatch.setattr(SearchBounds, "broken", lambda *_: None)
    unbounded = run_cycle(world.working(), EngineConfig(), NOW)
    assert done(decisions) == done(bounded) == done(unbounded)


def test_a_share_larger_than_any_device_ends_the_search_for_victims(world):
    world.queue("owner", quota=-1)
    world.queue("borrower")
    for number in range(12):
        world.node(f"node-{number}", gpus=1, gpu_memory_mib=20_000)
        world.job(f"held-{number}", queue="borrower", gpus=1, on=f"node-{number}")
    world.job("share", queue="owner", shape={"gpu": GpuMemory(devices=1, memory_mib=40_000)})
    [tried] = [text for action, text in world.decide().pending("share").tried if action == "reclaim"]
    assert (
        tried
        == "no set of victims could make room: even with every possible victim gone there is room for 0 of its 1 pods"
    )


def _with_ports(choice):
    """Pods that want host ports, some of them on one node, beside pods without."""
    world = World()
    nodes = [f"node-{number}" for number in range(choice([1, 2, 3]))]
    for name in nodes:
        world.node(name, gpus=4, labels={"model": name})
    for name in ("one", "two"):
        world.queue(name, quota=choice([0, 4, -1]))
    taken = {name: [0, set()] for name in nodes}
    for number in range(choice(range(4, 12))):
        ports = tuple(("", "TCP", port) for port in choice([(), (), (80,), (81,), (80, 81)]))
        gpus, node = choice([0, 1, 2]), choice([*nodes, ""])
        places = []
        if node and choice([True, True, False]) and taken[node][0] + gpus <= 4 and not taken[node][1] & set(ports):
            places = [node]
            taken[node][0] += gpus
            taken[node][1] |= set(ports)
        world.job(
            f"job-{number}", queue=choice(["one", "two"]), gpus=gpus, on=places, tasks=choice([1, 2]),
            priority=choice([50, 75]), preemptible=choice([True, True, False]), shape=_only(node) | {"ports": ports},
        )  # fmt: skip
    return world


@pytest.mark.parametrize("seed", range(60))
def test_bounds_of_host_ports_change_no_decision(seed, monkeypatch):
    world = _with_ports(random.Random(seed).choice)
    monkeypatch.setattr(solver, "PATIENCE", 1)
    bounded = run_cycle(world.working(), EngineConfig(), NOW)
    monkeypatch.setattr(SearchBounds, "broken", lambda *_: None)
    assert done(bounded) == done(run_cycle(world.working(), EngineConfig(), NOW))


def test_a_port_that_no_victim_holds_ends_the_search_for_victims(world):
    world.queue("owner", quota=-1)
    world.queue("borrower")
    port = {"ports": (("", "TCP", 80),)}
    for number in range(12):
        world.node(f"node-{number}", gpus=2, labels={"model": "a" if number == 0 else "b"})
        world.job(f"held-{number}", queue="borrower", gpus=1, on=f"node-{number}")
    world.job("first", queue="owner", gpus=1, on="node-0", shape=port)
    world.job("second", queue="owner", gpus=1, shape=port | _only("a"))
    [tried] = [text for action, text in world.decide().pending("second").tried if action == "reclaim"]
    assert (
        tried
        == "no set of victims could make room: even with every possible victim gone there is room for 0 of its 1 pods"
    )


@pytest.mark.parametrize("moved_before", [False, True])
def test_the_room_of_a_job_is_not_counted_if_a_promise_may_be_given_back(team, moved_before):
    """A task that was moved earlier in the cycle gets its promise of ``b`` back, and takes no room on ``a``."""
    team.node("a", gpus=2)
    team.node("b", gpus=1)
    team.job("moved", tasks=2, gang=2, on="a")
    team.job("new")
    working = team.working()
    session = Session(working, EngineConfig(), NOW)
    tasks, only_a = working.tasks, np.array([True, False])
    if moved_before:
        session.evict(tasks["moved-0"])
        session.pipeline(tasks["moved-0"], "b", (), True)
    for number in range(2):
        session.evict(tasks[f"moved-{number}"])
    session.pipeline(tasks["new-0"], "a", (), True)
    allocator = Allocator(session)
    job = working.jobs["moved"]
    assert allocator.may_fit(job, only_a) is allocator.place(job, only_a, True) is moved_before


@pytest.mark.parametrize(("gpus", "fits"), [(1, True), (0, False)])
def test_a_job_that_is_not_placed_for_lack_of_room_counts_as_tried_if_its_first_task_fits(team, gpus, fits):
    """Placing the first task and taking it back lets KAI compute anew what the job wants."""
    team.node("n", gpus=gpus)
    team.job("gang", tasks=2, gang=2)
    working = team.working()
    allocator = Allocator(Session(working, EngineConfig(), NOW))
    assert not allocator.may_fit(working.jobs["gang"], None)
    assert allocator.first_fits(working.jobs["gang"], None) is fits


def test_a_try_is_made_again_where_only_victims_that_it_left_alone_made_it_possible(team):
    """KAI asks for a rack with room for the job's running pods too (sumGpuRequirements). Together with ``far``, which was gathered first and
    cannot help, ``near`` passes that check and suffices. In the try of the whole job only ``near`` is recorded, so KAI gathers ``far`` once
    more, and evicts both.
    """
    team.topology("racks", "rack")
    for number in range(2):
        team.node(f"n-{number}", gpus=2, labels={"rack": f"r-{number}"})
    root = SubGroup(
        podsets=(PodSet(name="default", min_available=1),), constraint=Constraint(topology="racks", required="rack")
    )
    team.job("grows", tasks=2, on=["n-0"], root=root, priority=75)
    team.job("near", on="n-0")
    team.job("far", gpus=2, on="n-1")
    decided = team.decide()
    assert decided.promised == {"grows-1": "n-0"}
    assert decided.evicted == {"near-0", "far-0"}


def test_a_set_of_victims_that_takes_more_than_a_queue_may_lose_is_not_simulated(world, monkeypatch):
    """Each node has pods of four elastic jobs. In a simulation such a job gets one pod back, so those of whole nodes lose too many, wherever
    there is room."""
    world.queue("owner", quota=4)
    world.queue("borrower", quota=46)
    for number in range(12):
        world.node(f"node-{number}", gpus=4)
        nodes = [f"node-{(number + 3 * task) % 12}" for task in range(4)]
        world.job(f"job-{number}", queue="borrower", tasks=4, gpus=1, gang=1, on=nodes)
    world.job("wants", queue="owner", gpus=4)
    simulated = []
    place = Solver._place_all
    monkeypatch.setattr(Solver, "_place_all", lambda *given: simulated.append(1) or place(*given))
    decisions = run_cycle(world.working(), EngineConfig(), NOW)
    few = len(simulated)
    simulated.clear()
    assert decisions == the_long_way(world.working(), EngineConfig())
    assert not decisions.evictions
    assert few * 5 < len(simulated)
