"""What must hold whatever cluster the engine is given: random fleets, queue trees and workloads."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checks.fuzzing.randomcluster import random_opening
from checks.invariants import check, run_rounds, undecided
from checks.opening import NOW
from checks.table import Table
from kailab.engine.cycle import run_cycle


@st.composite
def clusters(draw):
    return random_opening(lambda options: draw(st.sampled_from(options)))


# Derandomised: a run finds the same every time; the seeds of `python -m checks fuzz` are for wider searches.
searching = settings(max_examples=60, derandomize=True, suppress_health_check=list(HealthCheck))


@searching
@given(clusters())
def test_one_cycle_keeps_every_invariant(opening):
    table = Table(opening)
    decisions = run_cycle(table.working(), opening.config, NOW)
    assert check(opening, table.tasks, decisions) == []


@searching
@given(clusters())
def test_the_same_cluster_is_decided_the_same_way(opening):
    assert undecided(opening, run_cycle) == []


@searching
@given(clusters())
def test_cycles_come_to_rest(opening):
    assert run_rounds(opening, run_cycle) == []
