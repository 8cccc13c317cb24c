"""Random clusters that are changed between cycles: each change does what it says, and the invariants hold after it."""

from __future__ import annotations

import random
from functools import partial

import pytest
from msgspec import structs

from checks.case_input import ACTIVE
from checks.fuzzing.areas import seeded
from checks.fuzzing.between_cycles import CHANGES, ChangingCluster, violations_of_changes
from checks.fuzzing.fuzz import ROUNDS, run_seed
from kailab.engine.cycle import run_cycle
from kailab.engine.snapshot.records import Status

SEEDS = range(12)


def changed(change, seed):
    """A cluster before and after one change; None if it is not possible there."""
    cluster = ChangingCluster(seeded(seed), random.Random(seed))
    before = cluster.case_input, dict(cluster.table.tasks)
    return (before, cluster) if change(cluster) else None


def each(change):
    found = [one for seed in range(40) if (one := changed(change, seed)) is not None]
    assert found
    return found


def test_a_job_that_ends_is_gone_with_its_tasks():
    for (before, tasks), cluster in each(ChangingCluster.end_job):
        (ended,) = {group.uid for group in before.podgroups} - {group.uid for group in cluster.case_input.podgroups}
        gone = tasks.keys() - cluster.table.tasks.keys()
        assert gone == {uid for uid, task in tasks.items() if task.podgroup == ended}
        assert all(tasks[uid].status in ACTIVE for uid in gone)


def test_a_running_job_that_is_deleted_leaves_and_is_gone_at_the_next_change():
    leaving = [
        (cluster, deleted)
        for (before, _), cluster in each(ChangingCluster.delete_job)
        for deleted in cluster.case_input.deleted_for_good - before.deleted_for_good
    ]
    assert leaving
    for cluster, deleted in leaving:
        assert {task.status for task in cluster.table.tasks.values() if task.podgroup == deleted} == {Status.RELEASING}
        cluster.change()
        assert all(task.podgroup != deleted for task in cluster.table.tasks.values())


def test_tasks_of_a_node_that_goes_wait_and_the_node_may_come_back():
    for (before, tasks), cluster in each(ChangingCluster.remove_node):
        (gone,) = {node.name for node in before.nodes} - {node.name for node in cluster.case_input.nodes}
        assert all(task.node != gone for task in cluster.table.tasks.values())
        assert any(task.node == gone for task in tasks.values()) or cluster.table.tasks == tasks
        assert cluster.bring_node()
        assert {node.name for node in cluster.case_input.nodes} == {node.name for node in before.nodes}


@pytest.mark.parametrize("change", [ChangingCluster.scale_up, ChangingCluster.scale_down])
def test_scaling_changes_the_tasks_of_one_job(change):
    for (_, tasks), cluster in each(change):
        now = cluster.table.tasks
        differing = [now[uid] for uid in now.keys() - tasks.keys()] + [tasks[uid] for uid in tasks.keys() - now.keys()]
        assert len({task.podgroup for task in differing}) == 1
        assert (len(now) > len(tasks)) == (change is ChangingCluster.scale_up)


def test_the_same_seed_changes_the_same():
    def made(seed):
        cluster = ChangingCluster(seeded(1), random.Random(seed))
        cluster.run(run_cycle, len(CHANGES), ROUNDS)
        return cluster.made

    assert made(1) == made(1) != made(2)


@pytest.mark.parametrize("area", ["small", "cpu-beside-shares"])
def test_clusters_that_change_keep_the_invariants(area):
    for seed in SEEDS if area == "small" else range(2):
        assert run_seed(seed, area, changes=6).passed, seed


def forgetful_without_a_node(nodes, working, config, now):
    """An engine that loses one of several binds once there are not so many nodes."""
    decisions = run_cycle(working, config, now)
    if len(working.nodes) == nodes or len(decisions.binds) < 2:
        return decisions
    return structs.replace(decisions, binds=decisions.binds[:-1], pipelines=(), evictions=())


def test_a_violation_after_a_change_names_it():
    found = []
    for seed in range(60):
        case_input = seeded(seed)
        careless = partial(forgetful_without_a_node, len(case_input.nodes))
        found += violations_of_changes(case_input, seed, 8, careless, ROUNDS)
    assert found
    assert all(violation.startswith("after change ") for violation in found)
