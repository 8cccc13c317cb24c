"""Resource claims that several pods share: their devices count once everywhere, from the first pod on."""

import random

import pytest

from checks.case_input import ACTIVE, CaseInput
from checks.invariants import run_rounds, undetermined
from checks.simulated_cluster import SimulatedCluster
from kailab.engine.config import EngineConfig
from kailab.engine.cycle import repeat_cycle, run_cycle
from kailab.engine.session import Session
from kailab.engine.snapshot.gpu_requests import ClaimedGpus
from kailab.engine.snapshot.records import GPU, Constraint, Node, PodGroup, Queue, ResourceClaim, Status, Task, Topology
from kailab.engine.working.layout import GPUS

CLASS = "gpu.example.com"
KINDS = {
    Node: "nodes", Queue: "queues", PodGroup: "podgroups", Task: "tasks", ResourceClaim: "claims", Topology: "topologies",
}  # fmt: skip


def sharing(*claims, gpus=1, cpu=100):
    """A pod that names these claims, for so many GPUs in all."""
    return {
        "gpu": ClaimedGpus(claimed=((CLASS, gpus),)),
        "claims": tuple(f"default/{claim}" for claim in claims),
        "cpu": cpu,
    }


def opening_of(world):
    parts = {kind: [] for kind in KINDS.values()}
    for record in world.records:
        parts[KINDS[type(record)]].append(record)
    return CaseInput(**{kind: tuple(records) for kind, records in parts.items()})


def at_rest(case_input, most=12):
    """The tasks, once a scheduler that decides again and again changes nothing any more."""
    table = SimulatedCluster(case_input)
    config = EngineConfig()
    for _ in range(most):
        working = table.working_as_mirrored()
        config, decisions = repeat_cycle(lambda given, w=working: run_cycle(w, given, 1e6), config)
        if not decisions.changed:
            return table
        table.apply(decisions)
        table.settle_round()
    raise AssertionError("never at rest")


def running(table):
    return {uid: task.node for uid, task in table.tasks.items() if task.status in ACTIVE}


@pytest.mark.parametrize("pods", [2, 3])
def test_pods_that_come_together_share_the_one_device_of_a_node(team, pods):
    team.node("node-1", gpus=1, devices=1)
    team.node("node-2", gpus=2, devices=2)
    team.claim("shared", gpus=1)
    team.jobs(pods, "s", shape=sharing("shared"))
    assert team.decide().bound == {f"s{number}-0": "node-1" for number in range(pods)}


def test_pods_that_share_a_claim_start_where_there_is_room_for_all_of_them(team):
    """The fuller node is packed first and has cores for one of them; the others are to follow."""
    team.node("node-1", gpus=1, devices=1, cpu=100)
    team.node("node-2", gpus=2, devices=2)
    team.claim("shared", gpus=1)
    team.jobs(3, "s", shape=sharing("shared"))
    table = at_rest(opening_of(team))
    assert running(table) == {"s0-0": "node-2", "s1-0": "node-2", "s2-0": "node-2"}


def test_a_gang_that_shares_a_claim_starts_where_there_is_room_for_all_of_it(team):
    team.node("node-1", gpus=1, devices=1, cpu=200)
    team.node("node-2", gpus=2, devices=2)
    team.claim("shared", gpus=1)
    team.job("gang", tasks=3, gang=3, shape=sharing("shared"))
    assert set(team.decide().bound.values()) == {"node-2"}


def test_a_gang_that_shares_a_claim_is_told_how_many_of_it_have_room(team):
    team.node("node-1", gpus=1, devices=1, cpu=200)
    team.claim("shared", gpus=1)
    team.job("gang", tasks=3, gang=3, shape=sharing("shared"))
    assert "room for 2 of the 3 pods" in team.decide().pending("gang").message


def test_a_device_that_a_cycle_has_just_given_counts_once_for_those_that_come_after(team):
    team.node("node-1", gpus=2, devices=2)
    team.claim("shared", gpus=1)
    team.claim("own", gpus=1)
    team.jobs(2, "s", shape=sharing("shared"))
    team.job("other", shape=sharing("own"))
    assert team.decide().bound == {"s0-0": "node-1", "s1-0": "node-1", "other-0": "node-1"}


def test_a_gang_that_shares_a_claim_finds_its_device_in_a_required_domain(team):
    for rack in ("a", "b"):
        team.node(f"node-{rack}", gpus=1, devices=1, labels={"rack": rack})
    team.topology("racks", "rack")
    team.claim("shared", gpus=1)
    within = Constraint(topology="racks", required="rack")
    team.job("gang", tasks=3, gang=3, shape=sharing("shared"), constraint=within)
    assert set(team.decide().bound.values()) == {"node-a"}


def test_one_victim_makes_room_for_a_gang_that_shares_a_claim(world):
    world.node("node-1", gpus=2, devices=2)
    world.queue("owner", quota=2)
    world.queue("borrower", quota=0)
    for number in range(2):
        claim = f"theirs-{number}"
        held = (("example.com", "node-1", f"device-{number}"),)
        world.claim(claim, gpus=1, allocated=True, node="node-1", reserved=(f"b{number}-0",), held=held)
        world.job(f"b{number}", queue="borrower", shape=sharing(claim), on="node-1")
    world.claim("shared", gpus=1)
    world.job("gang", queue="owner", tasks=2, gang=2, shape=sharing("shared"))
    decided = world.decide()
    assert len(decided.lost) == 1
    assert set(decided.promised) == {"gang-0", "gang-1"}


def test_a_running_pod_is_moved_for_a_gang_that_shares_a_claim(team):
    """Two devices in all are free, one on each node; the gang wants two on one node, once."""
    for node in ("node-1", "node-2"):
        team.node(node, gpus=2, devices=2)
        team.claim(f"of-{node}", gpus=1, allocated=True, node=node, reserved=(f"on-{node}-0",))
        team.job(f"on-{node}", shape=sharing(f"of-{node}"), on=node)
    team.claim("shared", gpus=2, devices=2)
    team.job("gang", tasks=3, gang=3, shape=sharing("shared", gpus=2))
    decided = team.decide()
    assert len(decided.moved) == 1
    assert set(decided.promised) == {"gang-0", "gang-1", "gang-2"}
    table = at_rest(opening_of(team))
    assert len(running(table)) == 5


def random_world(world, pick):
    """Nodes with few devices, and claims that one to four pods of two queues name, alone and in gangs. Some of them run already."""
    world.queue("owner", quota=pick.choice([1, 2, 4]))
    world.queue("borrower", quota=0)
    free = {f"node-{number}": pick.randint(1, 3) for number in range(pick.randint(1, 3))}
    cpu = {name: pick.choice([100, 1000]) for name in free}
    for name, gpus in free.items():
        world.node(name, gpus=gpus, devices=gpus, cpu=cpu[name])
    for number in range(pick.randint(1, 4)):
        gpus, sharers, home = pick.choice([1, 1, 2]), pick.randint(1, 4), pick.choice(sorted(free))
        runs = pick.random() < 0.4 and free[home] >= gpus and cpu[home] >= 20 * sharers
        free[home] -= gpus if runs else 0
        cpu[home] -= 20 * sharers if runs else 0
        together = pick.random() < 0.5
        jobs = {f"c{number}": sharers} if together else {f"c{number}-{one}": 1 for one in range(sharers)}
        uids = tuple(f"{job}-{task}" for job, tasks in jobs.items() for task in range(tasks))
        given = {"allocated": True, "node": home, "reserved": uids} if runs else {}
        world.claim(f"c{number}", gpus=gpus, devices=gpus, **given)
        queue = pick.choice(["owner", "borrower"])
        for job, tasks in jobs.items():
            shape = sharing(f"c{number}", gpus=gpus, cpu=pick.choice([0, 20]))
            gang = tasks if pick.random() < 0.7 else 1
            world.job(job, queue=queue, tasks=tasks, gang=gang, on=home if runs else (), shape=shape)
    if pick.random() < 0.5:
        world.job("cores", queue="owner", gpus=0, shape={"cpu": 100})


def room_unused(case_input, table):
    """Jobs that wait though some node has room for all that has to start together."""
    claims = {claim.name: claim.gpus for claim in case_input.claims}
    there = {}  # claim -> node
    gpus = {node.name: node.gpus // GPU for node in case_input.nodes}
    cpu = {node.name: node.cpu for node in case_input.nodes}
    for task in table.tasks.values():
        if task.status in ACTIVE:
            cpu[task.node] -= task.shape.cpu
            for claim in task.shape.claims:
                gpus[task.node] -= 0 if claim in there else claims[claim]
                assert there.setdefault(claim, task.node) == task.node
    assert min(gpus.values()) >= 0
    for group in case_input.podgroups:
        tasks = [task for task in table.tasks.values() if task.podgroup == group.uid]
        waiting = [task for task in tasks if task.status == Status.PENDING]
        if not waiting:
            continue
        needed = max(1, group.root.podsets[0].min_available - (len(tasks) - len(waiting)))
        (claim,) = waiting[0].shape.claims or ("",)
        devices = 0 if claim in there else claims.get(claim, 0)
        for node in [there[claim]] if claim in there else gpus:
            if gpus[node] >= devices and cpu[node] >= needed * waiting[0].shape.cpu:
                yield f"{group.uid} waits beside {node}"


@pytest.mark.parametrize("seed", range(60))
def test_in_any_world_devices_of_claims_count_once_and_none_is_left_idle(world, state, seed):
    random_world(world, random.Random(seed))
    case_input = opening_of(world)
    assert run_rounds(case_input, run_cycle) + undetermined(case_input, run_cycle) == []
    table = at_rest(case_input)
    assert list(room_unused(case_input, table)) == []
    # What a cycle tried is taken back exactly, and what is built in another order is the same.
    working = world.working()
    before = state(working)
    run_cycle(working, EngineConfig(), 1e6)
    assert state(working) == before == state(world.working(world.shuffled(seed)))


@pytest.mark.parametrize(
    ("imitate_faults", "allocated", "bound"),
    [(False, False, 2), (True, False, 1), ((15,), False, 1), ((4, 11), False, 2), (True, True, 2)],
)
def test_kai_counts_a_claim_once_for_each_pod_in_the_cycle_that_allocates_it(team, imitate_faults, allocated, bound):
    team.node("n", gpus=1, devices=1)
    team.claim("shared", gpus=1, **({"allocated": True, "node": "n"} if allocated else {}))
    team.jobs(2, "s", shape=sharing("shared"))
    assert len(team.decide(imitate_faults=imitate_faults).bound) == bound


@pytest.mark.parametrize(("imitate_faults", "free"), [(False, 0), ((15,), 0), ((16,), 1), (True, 1)])
def test_kai_does_not_count_a_promised_device_that_another_pod_is_leaving_once_the_promise_was_put_back(
    team, imitate_faults, free
):
    """The node takes the leaving pod and the promised one for two that share the device."""
    team.node("n", gpus=1, devices=1)
    for job, on in (("old", "n"), ("new", "")):
        team.claim(job, gpus=1, **({"allocated": True, "reserved": ("old-0",), "node": "n"} if on else {}))
        team.job(job, on=on, shape=sharing(job))
    working = team.working()
    session = Session(working, EngineConfig(imitate_faults=imitate_faults), 1e6)
    old, new = working.tasks["old-0"], working.tasks["new-0"]
    session.evict(old)
    session.pipeline(new, "n", (), True)
    assert session.table.free_of(GPUS)[0] == 0
    mark = session.mark()
    session.evict(new)
    assert session.table.free_of(GPUS)[0] == GPU
    session.pipeline(new, "n", (), True)
    assert (new.status, session.table.free_of(GPUS)[0]) == (Status.PIPELINED, free * GPU)
    session.undo(mark)
    session.undo(0)
    assert (session.table.free_of(GPUS)[0], session.table.releasing[GPUS, 0]) == (0, 0)


@pytest.mark.parametrize(("imitate_faults", "fits"), [(False, False), (True, True)])
def test_kai_frees_a_device_of_two_claims_once_one_gives_it_back(team, imitate_faults, fits):
    """A victim that is put back has its device again, though a promise was given the same."""
    team.node("n", gpus=2, devices=2)
    team.claim("old", gpus=1, allocated=True, reserved=("old-0",), node="n")
    team.job("old", tasks=1, on="n", shape=sharing("old"))
    team.claim("stays", gpus=1, allocated=True, reserved=("stays-0",), node="n")
    team.job("stays", tasks=1, on="n", shape=sharing("stays"))
    for job in ("first", "second"):
        team.claim(job, gpus=1)
        team.job(job, shape=sharing(job))
    working = team.working()
    session = Session(working, EngineConfig(imitate_faults=imitate_faults), 1e6)
    old, first = working.tasks["old-0"], working.tasks["first-0"]
    session.evict(old)
    session.pipeline(first, "n", (), True)
    mark = session.mark()
    session.unevict(old)
    session.undo(mark)
    assert (session.table.claims.lacking(working.tasks["second-0"].info.shape, 0) is None) == fits
