"""Random clusters, written and read as cases and manifests; failures are shrunk."""

from __future__ import annotations

import json

import msgspec
import pytest
import yaml

from checks.case_input import PLACED
from checks.fuzzing.case_manifest import as_yaml, objects
from checks.fuzzing.fuzz import kind_of, run_seeds, shrink_failures, shrink_seed, violations
from checks.fuzzing.random_cluster import seeded
from checks.fuzzing.shrinking import shrink
from checks.recorded.case_reading import build_case, read_cases
from checks.recorded.case_writing import as_case, write_cases
from checks.recorded.cases import run_case
from kailab.cluster.embedded import EmbeddedCluster
from kailab.engine.cycle import run_cycle
from kailab.engine.snapshot.records import Status
from kailab.errors import InputError
from kailab.model import labels
from kailab.scheduler.mirror import Mirror

TOLD = ("nodes", "queues", "podgroups", "tasks", "topologies", "config", "deleted_for_good")
CHUNKS = 40
CASES = 10_000


def careless(working, config, now):
    """An engine with a fault: of a gang's binds it forgets the last."""
    decisions = run_cycle(working, config, now)
    jobs = [bind.podgroup for bind in decisions.binds]
    gangs = [job for job in jobs if jobs.count(job) > 1]
    if not gangs:
        return decisions
    last = max(index for index, bind in enumerate(decisions.binds) if bind.podgroup == gangs[0])
    return msgspec.structs.replace(decisions, binds=decisions.binds[:last] + decisions.binds[last + 1 :])


def failing_seed(decide, kind):
    return next(seed for seed in range(500) if any(kind in one for one in violations(seeded(seed), decide)[:1]))


@pytest.mark.parametrize("start", range(0, 300, 100))
def test_a_random_cluster_survives_being_written_as_a_case(start):
    for seed in range(start, start + 100):
        case_input = seeded(seed)
        again = build_case(json.loads(json.dumps(as_case(case_input, f"random/{seed}", 12))))
        for part in TOLD:
            assert getattr(again, part) == getattr(case_input, part), (seed, part)


def test_random_clusters_have_the_rare_features_too():
    openings = [seeded(seed) for seed in range(300)]
    shapes = {task.shape for case_input in openings for task in case_input.tasks}
    roots = [group.root for case_input in openings for group in case_input.podgroups]
    assert any(shape.gpu.by_profile for shape in shapes)
    assert any(shape.gpu.shared and shape.gpu.devices > 1 for shape in shapes)
    assert any(shape.gpu.by_memory for shape in shapes)
    assert any(shape.affinity for shape in shapes)
    assert any(shape.anti_affinity for shape in shapes)
    assert any(shape.terms for shape in shapes)
    assert any(root.groups and root.min_members == 1 for root in roots)
    assert any(root.constraint and root.constraint.required == labels.HOSTNAME for root in roots)
    assert any(len({node.gpu_memory_mib for node in case_input.nodes}) > 1 for case_input in openings)
    assert any(sum(queue.name.count("-") == 2 for queue in case_input.queues) for case_input in openings)


def test_a_manifest_is_read_as_the_same_cluster():
    for seed in range(60):
        case_input = seeded(seed)
        if any(task.status == Status.RELEASING for task in case_input.tasks):
            continue  # a pod that is being deleted can't be applied
        cluster = EmbeddedCluster()
        for one in yaml.safe_load_all(as_yaml(case_input)):
            cluster.apply(one)
        mirror = Mirror(cluster)
        mirror.update()
        for queue in case_input.queues:
            seen = mirror.queues[queue.name]
            assert msgspec.structs.replace(seen, created=queue.created, uid=queue.uid) == queue, seed
        groups = {group.name: group for group in mirror.podgroups.values()}
        for group in case_input.podgroups:
            seen = groups[group.name]
            assert seen.queue == group.queue
            assert (seen.priority, seen.preemptible) == (group.priority, group.preemptible)
            assert (seen.preemption_delay, seen.staleness_grace) == (group.preemption_delay, group.staleness_grace)
            assert _leaves(seen.root) == _leaves(group.root), seed
        tasks = {task.name: task for task in mirror.tasks.values()}
        for task in case_input.tasks:
            seen = tasks[task.name]
            assert seen.shape.gpu == task.shape.gpu, seed
            assert (seen.shape.cpu, seen.shape.memory) == (task.shape.cpu, task.shape.memory)
            assert seen.shape.terms == task.shape.terms
            assert seen.node == task.node
            assert seen.priority == task.priority
            if task.status in PLACED:
                assert set(seen.gpu_groups) == set(task.gpu_groups), seed


def _leaves(group, above=()):
    here = (*above, group.min_members, group.constraint)
    return {
        **{podset.name: (podset.min_available, podset.constraint, here) for podset in group.podsets},
        **{name: leaf for inner in group.groups for name, leaf in _leaves(inner, here).items()},
    }


def test_what_fails_is_shrunk_to_a_gang_on_a_node():
    seed = failing_seed(careless, "is left in part")
    result = shrink_seed(seed, careless)
    assert "is left in part" in result.violation
    assert len(result.case_input.nodes) == len(result.case_input.queues) == len(result.case_input.podgroups) == 1
    assert len(result.case_input.tasks) == 2
    assert {task.shape.gpu.devices for task in result.case_input.tasks} == {1}
    assert result.case_input.podgroups[0].root.constraint is None
    kinds = [one["kind"] for one in yaml.safe_load_all(result.manifest())]
    assert kinds == ["Node", "Queue", "PodGroup", "Pod", "Pod"]
    assert result.manifest().startswith(f"# random/{seed}, shrunk: cycle 1: gang ")


def test_shrinking_comes_to_the_same_end_every_time():
    seed = failing_seed(careless, "is left in part")
    assert shrink_seed(seed, careless).manifest() == shrink_seed(seed, careless).manifest()


def test_what_was_shrunk_fails_alike_when_its_case_is_run(tmp_path):
    found = shrink_seed(failing_seed(careless, "is left in part"), careless)
    file = tmp_path / "found" / "case.json"
    write_cases(file, [found.case()])
    (case,) = read_cases([file])
    result = run_case(case, decide=careless)
    assert kind_of(result.differences[0]) == kind_of(found.violation)
    assert run_case(case).passed


def test_a_fault_that_stops_the_engine_is_shrunk_as_well():
    def stops(working, config, now):
        if any(job.record.priority == 125 for job in working.jobs.values()):
            raise ZeroDivisionError("division by zero")
        return run_cycle(working, config, now)

    result = shrink_seed(failing_seed(stops, "the engine failed"), stops)
    assert [group.priority for group in result.case_input.podgroups] == [125]


def test_a_cluster_that_keeps_the_invariants_is_not_shrunk():
    with pytest.raises(InputError, match="seed 0 in small keeps every invariant"):
        shrink_seed(0)


def test_only_sound_clusters_are_tried():
    tried = []

    def fails(case_input):
        tried.append(case_input)
        return len(tried) % 3 == 1

    case_input = seeded(5)
    shrink(case_input, fails, most_tries=200)
    for one in tried:
        nodes = {node.name for node in one.nodes}
        queues = {queue.name for queue in one.queues}
        assert all(task.node in nodes or not task.node for task in one.tasks)
        assert all(queue.parent in queues or not queue.parent for queue in one.queues)
        assert {group.queue for group in one.podgroups} <= queues
        assert {task.podgroup for task in one.tasks} == {group.uid for group in one.podgroups}


def test_kinds_of_violations_leave_out_names_and_numbers():
    first = "cycle 3: queue d0-q1: gpu 4600 beyond limit 4000"
    assert kind_of(first) == kind_of("cycle 1: queue d1: gpu 3000 beyond limit 2000")
    assert kind_of(first) != kind_of("cycle 1: queue d1: gpu 3000 beyond quota 2000")
    assert kind_of("still changing after 12 cycles: binds w1-0") == kind_of(
        "still changing after 12 cycles: evicts w7-1"
    )


def test_workers_report_what_one_process_reports():
    assert run_seeds(range(40), workers=2).as_dict() == run_seeds(range(40)).as_dict()


def test_progress_is_told():
    messages = []
    run_seeds(range(3), tell=lambda what, done, total: messages.append((what, done, total)))
    assert messages == [("random clusters", done, 3) for done in (1, 2, 3)]


def test_where_nothing_fails_nothing_is_shrunk():
    assert shrink_failures(run_seeds(range(5))) == []


def test_every_object_of_a_manifest_has_a_name():
    for one in objects(seeded(11)):
        assert one["metadata"]["name"]


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_ten_thousand_random_clusters_keep_every_invariant(chunk):
    size = CASES // CHUNKS
    report = run_seeds(range(chunk * size, (chunk + 1) * size))
    assert {result.id: result.differences for result in report.results if not result.passed} == {}
