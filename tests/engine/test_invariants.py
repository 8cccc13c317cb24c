"""Invariants for any cluster: random fleets, queue trees and workloads."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checks.case_input import NOW
from checks.fuzzing.random_cluster import random_case_input
from checks.invariants import check, run_rounds, undetermined
from checks.simulated_cluster import SimulatedCluster
from kailab.engine.cycle import run_cycle


@st.composite
def clusters(draw):
    return random_case_input(lambda options: draw(st.sampled_from(options)))


# Derandomised: a run finds the same every time; the seeds of `python -m checks fuzz` are for wider searches.
searching = settings(max_examples=60, derandomize=True, suppress_health_check=list(HealthCheck))


@searching
@given(clusters())
def test_one_cycle_keeps_every_invariant(case_input):
    table = SimulatedCluster(case_input)
    decisions = run_cycle(table.working(), case_input.config, NOW)
    assert check(case_input, table.tasks, decisions) == []


@searching
@given(clusters())
def test_the_same_cluster_is_decided_the_same_way(case_input):
    assert undetermined(case_input, run_cycle) == []


@searching
@given(clusters())
def test_cycles_come_to_rest(case_input):
    assert run_rounds(case_input, run_cycle) == []
