"""The counts of nodes with KAI's faults imitated, and without: GPUs lost by promises, and shares left by an undo."""

from __future__ import annotations

import pytest

from kailab.engine.config import EngineConfig
from kailab.engine.cycle import run_cycle
from kailab.engine.placing.placement import Placer
from kailab.engine.session import Session
from kailab.engine.snapshot.records import GPU
from kailab.engine.working.layout import GPUS
from kailab.engine.working.nodes import NodeTable

NOW = 1_000_000.0


@pytest.fixture
def opened(team):
    """Opens a session on one node of three GPUs: two are held by ``whole``, half of the third by ``half``."""
    team.node("n", gpus=3)
    team.job("whole", tasks=2, on="n")
    team.job("half", gpus=0.5, on="n", groups=[("g",)])
    team.job("next", tasks=2)
    working = team.working()

    def open_session(imitate_faults):
        session = Session(working, EngineConfig(imitate_faults=imitate_faults), NOW)
        return session, working.tasks

    return open_session


@pytest.mark.parametrize(("imitate_faults", "free"), [(False, 1), (True, 0), ((4,), 0), ((11,), 1)])
def test_a_shared_gpu_is_lost_where_whole_ones_are_promised(opened, imitate_faults, free):
    """Promises count as used beside the pods that leave, so the node seems to use more GPUs than it has."""
    session, tasks = opened(imitate_faults)
    for number in range(2):
        session.evict(tasks[f"whole-{number}"])
    for number in range(2):
        session.pipeline(tasks[f"next-{number}"], "n", (), True)
    session.evict(tasks["half-0"])
    assert session.table.free_of(GPUS)[0] == free * GPU


@pytest.mark.parametrize("imitate_faults", [False, True])
def test_without_promises_no_gpu_is_lost(opened, imitate_faults):
    session, tasks = opened(imitate_faults)
    session.evict(tasks["half-0"])
    for number in range(2):
        session.evict(tasks[f"whole-{number}"])
    assert session.table.free_of(GPUS)[0] == 3 * GPU
    session.undo(0)
    assert (session.table.free_of(GPUS)[0], session.table.releasing[GPUS, 0]) == (0, 0)


@pytest.mark.parametrize(("imitate_faults", "held"), [(False, 0.5), (True, 1.0), ((4,), 0.5), ((11,), 1.0)])
def test_a_share_moved_on_its_node_leaves_a_copy_when_the_move_is_undone(opened, imitate_faults, held):
    """The promise replaces the node's record of the leaving copy, so the undo does not find the copy."""
    session, tasks = opened(imitate_faults)
    session.evict(tasks["half-0"])
    session.pipeline(tasks["half-0"], "n", ("another",), True)
    session.undo(0)
    shared = session.table.shared[0]
    assert shared.groups["g"].allocated == held * shared.memory
    assert session.table.free_of(GPUS)[0] == 0


@pytest.mark.parametrize("imitate_faults", [False, True])
def test_a_share_moved_to_another_node_leaves_nothing(team, opened, imitate_faults):
    team.node("other", gpus=1)
    session, tasks = opened(imitate_faults)
    session.evict(tasks["half-0"])
    session.pipeline(tasks["half-0"], "other", ("another",), True)
    session.undo(0)
    shared = session.table.shared[session.table.index["n"]]
    assert shared.groups["g"].allocated == 0.5 * shared.memory


def test_drifted_counts_end_with_the_cycle(opened):
    session, tasks = opened(True)
    session.evict(tasks["half-0"])
    session.pipeline(tasks["half-0"], "n", ("another",), True)
    session.close()
    table = session.working.table
    assert type(table) is NodeTable
    assert table.shared[0].groups["g"].allocated == 0.5 * table.shared[0].memory


def test_a_cycle_with_faults_is_followed_by_one_without(team):
    team.node("n", gpus=2)
    team.job("halves", tasks=3, gpus=0.5, on="n", groups=[("g",), ("g",), ("h",)], queue="b")
    team.job("urgent", tasks=2, gang=2, priority=75)
    working = team.working()
    right = run_cycle(working, EngineConfig(), NOW)
    run_cycle(working, EngineConfig(imitate_faults=True), NOW)
    assert run_cycle(working, EngineConfig(), NOW) == right


@pytest.mark.parametrize("imitate_faults", [False, True])
def test_a_second_eviction_on_a_node_with_promises_counts_a_lost_gpu_as_idle_again(opened, imitate_faults):
    """KAI removes the record of the leaving share and adds it once more, each time with the same comparison."""
    session, tasks = opened(imitate_faults)
    session.evict(tasks["half-0"])
    for number in range(2):
        session.evict(tasks[f"whole-{number}"])
    for number in range(2):
        session.pipeline(tasks[f"next-{number}"], "n", (), True)
    once = session.table.free_of(GPUS)[0]
    session.evict(tasks["half-0"])
    twice = session.table.free_of(GPUS)[0]
    assert (once, twice) == ((GPU, 0) if imitate_faults else (GPU, GPU))


@pytest.mark.parametrize(("imitate_faults", "fits"), [(False, True), (True, False)])
def test_a_node_that_lacks_gpus_refuses_pods_without_gpus(team, imitate_faults, fits):
    """KAI compares every resource, so asking for no GPU is more than one GPU less than none."""
    team.node("n", gpus=1)
    team.job("large", gpus=2, on="n")
    team.job("cpu", gpus=0)
    session = Session(team.working(), EngineConfig(imitate_faults=imitate_faults), NOW)
    now, later = Placer(session).candidates(session.working.tasks["cpu-0"], None)
    assert (bool(now[0]), bool(later[0])) == (fits, fits)


@pytest.mark.parametrize(("held", "fits"), [(1, True), (2, False)])
def test_a_share_does_not_fit_beside_others_where_whole_gpus_are_lacking(team, held, fits):
    team.node("n", gpus=2)
    team.job("whole", gpus=held, on="n")
    team.job("half", gpus=0.5, on="n", groups=[("g",)])
    team.job("next", gpus=0.5)
    session = Session(team.working(), EngineConfig(), NOW)
    now, later = Placer(session).candidates(session.working.tasks["next-0"], None)
    assert (bool(now[0]), bool(later[0])) == (fits, fits)


@pytest.mark.parametrize(("imitate_faults", "device"), [(False, "a"), (True, "b")])
def test_of_equally_full_devices_the_first_used_one_is_taken(team, imitate_faults, device):
    team.node("n", gpus=2)
    team.job("halves", tasks=2, gpus=0.5, on="n", groups=[("b",), ("a",)])
    team.job("next", gpus=0.5)
    assert team.decide(imitate_faults=imitate_faults).groups("next-0") == (device,)
