"""What ``whatif`` foretells of a lab on a control plane is what then happens there, with the same scheduler: recorded scenarios, step
by step, each foretold on a fork of the lab as it stands and then made."""

from __future__ import annotations

from collections import Counter

import pytest

from checks.recorded.scenarios import read_scenarios
from checks.recorded_files import shared_folder
from kailab.lab import Lab
from kailab.lab.change import Apply, Delete
from kailab.lab.venues import open_venue
from kailab.whatif.alternatives import Alternative, what_if
from kailab.whatif.outcome import Outcome

pytestmark = pytest.mark.slow
FOLDER = shared_folder() / "scenarios"
SUITES = ("borrow", "consolidate", "gang", "preempt", "quota", "reclaim", "starvation", "topology", "tree", "other")
EACH = 2
HELD_BACK = 30.0
"""Seconds for which a Job may hold back pods after evictions, which no settling waits for on a real cluster."""


@pytest.fixture(scope="module")
def venue(components):
    venue = open_venue("controlplane")
    yield venue
    venue.close()


def changes_of(step):
    doomed = [Delete(step["delete"]["kind"], step["delete"]["name"])] if "delete" in step else []
    return ([Apply(tuple(step["apply"]))] if "apply" in step else []) + doomed


def running(outcome):
    return {workload: dict(standing.nodes) for workload, standing in outcome.workloads.items() if standing.running}


def evicted(outcome):
    return Counter((one.workload, one.action, one.beneficiary) for one in outcome.evictions)


def held(outcome):
    return {name: (queue.quota, queue.allocated) for name, queue in outcome.queues.items()}


def told(outcome, together):
    places = running(outcome)
    if together:
        return places, evicted(outcome), held(outcome)
    return {workload: sum(counts.values()) for workload, counts in places.items()}, held(outcome)


def is_seen_together(step):
    """Whether the scheduler sees the whole step at once, as a fork does. Pods come to a real one, and leave it, one by one: of two
    workloads applied together, that whose pods come first takes the nodes and what can be borrowed, and the other reclaims it. How
    many pods run in the end, and what each queue then has, is the same all the same."""
    return "delete" not in step and sum(manifest["kind"] != "Queue" for manifest in step.get("apply", ())) <= 1


def foretold_and_made(scenario, venue):
    """After each step, what a fork said and what came of it."""
    with Lab.open(fleet=scenario.fleet, backend="controlplane", venue=venue) as lab:
        for number, step in enumerate(scenario.steps, 1):
            since, changes, together = len(lab.log.evictions), changes_of(step), is_seen_together(step)
            foretold = what_if(lab, [Alternative("step", tuple(changes))]).comparisons[0].after
            for change in changes:
                change.do(lab)
            lab.settle()
            if told(Outcome.of(lab, since), together) != told(foretold, together):
                for _ in lab.moments(HELD_BACK):
                    if told(Outcome.of(lab, since), together) == told(foretold, together):
                        break
            yield number, told(foretold, together), told(Outcome.of(lab, since), together)


@pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no recorded scenarios are in {FOLDER} (KAILAB_SHARED names another)")
@pytest.mark.parametrize("suite", SUITES)
def test_a_step_does_what_was_foretold(venue, suite):
    for scenario in read_scenarios([FOLDER / f"{suite}.json"])[:EACH]:
        for number, foretold, made in foretold_and_made(scenario, venue):
            assert made == foretold, f"{scenario.name}, step {number}"
