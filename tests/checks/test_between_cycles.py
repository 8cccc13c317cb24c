"""Random clusters that are changed between cycles: each change does what it says, and the invariants hold after it."""

from __future__ import annotations

import json
import random
from functools import partial

import pytest
from click.testing import CliRunner
from msgspec import structs

from checks.case_input import ACTIVE, NOW
from checks.cli import app
from checks.cluster_changes import forget_deleted
from checks.fuzzing.areas import seeded
from checks.fuzzing.between_cycles import CHANGES, ChangingCluster, drawn_changes, violations_of_changes
from checks.fuzzing.fuzz import ROUNDS, run_seed
from checks.recorded.case_reading import NAMES, read_cases
from checks.recorded.cases import run_case
from checks.simulated_cluster import SimulatedCluster
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


def drawn_with_changes(tmp_path, *more):
    options = ["--area", "large-mixed", "--cases", "3", "--seed", "3", "--cycles", "2", "--changes", "6", *more]
    done = CliRunner().invoke(app, ["draw", *options, "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    return tmp_path / "large-mixed.json"


def test_changes_between_cycles_are_written_into_a_case_and_read_again(tmp_path):
    for seed, case in zip((3, 4, 5), read_cases([drawn_with_changes(tmp_path)]), strict=True):
        assert case.changes == tuple(drawn_changes(seeded(seed, "large-mixed"), seed, 6, 2))
        assert [cycle for cycle, _ in case.changes] == [2, 4, 6, 8, 10, 12]
        assert case.rounds_until_match == 14


def test_a_case_with_changes_is_compared_with_an_outcome_that_has_them(tmp_path):
    """The outcome of the engine itself, with its changes, agrees; without its last change it does not."""

    def decided(case, changes):
        table = SimulatedCluster(case)
        for cycle in range(case.rounds_until_match):
            for before, change in changes:
                if before == cycle:
                    forget_deleted(table)
                    change.make(table)
            table.apply(run_cycle(table.working(), case.config, NOW))
            table.settle_round()
        return table.tasks

    def passes(case, tasks):
        states = {uid: {"status": NAMES[task.status], "node": task.node} for uid, task in tasks.items()}
        raw = case.raw | {
            "compare": "kai_actual",
            "kai_rounds": [],
            "kai_stability": {},
            "kai_summary": {"running_tasks_by_job": {}, "gpus_allocated_by_queue": {}},
            "kai_actual": {"jobs": {"all": {"tasks": states}}},
        }
        return run_case(structs.replace(case, raw=raw)).passed

    case = next(
        case
        for case in read_cases([drawn_with_changes(tmp_path)])
        if decided(case, case.changes) != decided(case, case.changes[:-1])
    )
    assert passes(case, decided(case, case.changes))
    fewer = dict(list(decided(case, case.changes).items())[:-1])
    more = fewer | {"more": next(iter(fewer.values()))}
    assert passes(case, fewer)
    assert not passes(case, more)
    assert not passes(structs.replace(case, changes=case.changes[:-1]), decided(case, case.changes))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"before_cycle": 1, "gone": ["nowhere"]}, "a change names nowhere, which the case does not have"),
        ({"before_cycle": 14}, "before_cycle of a change is 14, and must be a number from 0 to 13"),
    ],
)
def test_a_change_that_could_not_be_made_is_refused(tmp_path, change, message):
    file = drawn_with_changes(tmp_path)
    case = json.loads(file.read_text())[0]
    file.write_text(json.dumps([case | {"changes": [change]}]))
    refused = CliRunner().invoke(app, ["cases", str(file)])
    assert (refused.exit_code, message in refused.output) == (2, True)
