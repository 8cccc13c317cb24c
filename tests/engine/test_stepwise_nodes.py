"""The counts of nodes with KAI's faults imitated, and without: GPUs lost by promises, and shares left by an undo."""

from __future__ import annotations

import pytest

from kailab.engine.config import EngineConfig
from kailab.engine.cycle import run_cycle
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


@pytest.mark.parametrize(("imitate_faults", "free"), [(False, 1), (True, 0)])
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


@pytest.mark.parametrize(("imitate_faults", "held"), [(False, 0.5), (True, 1.0)])
def test_a_share_moved_on_its_node_leaves_a_copy_when_the_move_is_undone(opened, imitate_faults, held):
    """The promise replaces the node's record of the leaving copy, so the undo does not find the copy."""
    session, tasks = opened(imitate_faults)
    session.evict(tasks["half-0"])
    session.pipeline(tasks["half-0"], "n", ("another",), True)
    session.undo(0)
    shared = session.table.shared[0]
    assert shared.groups["g"].allocated == held * shared.memory


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
