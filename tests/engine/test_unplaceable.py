"""Work that does not fit even on the cluster's empty nodes."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checks.case_input import NOW
from checks.fuzzing.random_cluster import random_case_input
from checks.simulated_cluster import SimulatedCluster
from kailab.engine.config import EngineConfig
from kailab.engine.cycle import run_cycle
from kailab.engine.report.unplaceable import unplaceable_groups
from kailab.engine.snapshot.records import PodTerm


def nowhere(world) -> dict[str, int]:
    """Group -> how many of its pods found a place."""
    return {
        uid: one.placed
        for one in unplaceable_groups(world.working().value(), EngineConfig(), NOW)
        for uid in one.podgroups
    }


def test_what_others_hold_and_what_queues_forbid_does_not_count(world):
    world.node("n", gpus=8)
    world.queue("team", quota=8, limit=4)
    world.job("filler", tasks=8, on="n")
    world.job("fits", tasks=8, gang=8)
    world.job("firm", tasks=8, gang=8, preemptible=False)
    world.job("large", tasks=9, gang=9)
    world.job("wide", gpus=9)
    assert nowhere(world) == {"large": 8, "wide": 0}


def test_what_runs_in_part_or_needs_others_beside_it_is_not_judged(world):
    world.node("n", gpus=8)
    world.queue("team", quota=8)
    world.job("elastic", tasks=20, on=["n"] * 8)
    term = PodTerm(topology_key="kubernetes.io/hostname", requirements=(), namespaces=("default",))
    world.job("beside", gpus=9, shape={"affinity": (term,)})
    world.job("incomplete", tasks=2, gang=3, gpus=9)
    assert nowhere(world) == {}


@settings(max_examples=40, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_nothing_that_a_cycle_starts_is_said_to_fit_nowhere(data):
    case_input = random_case_input(lambda options: data.draw(st.sampled_from(options)))
    working = SimulatedCluster(case_input).working()
    unheld = {uid for one in unplaceable_groups(working.value(), case_input.config, NOW) for uid in one.podgroups}
    assert not unheld & set(run_cycle(working, case_input.config, NOW).started)
