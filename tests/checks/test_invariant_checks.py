"""Each invariant finds a violation that is made on purpose."""

from __future__ import annotations

import msgspec
import pytest

from checks.case_input import NOW, CaseInput
from checks.fuzzing.fuzz import run_seed
from checks.fuzzing.random_cluster import seeded
from checks.invariants import check, run_rounds, undetermined
from kailab.engine.decisions import Bind, Decisions, Evict, Pipeline, QueueShare, QueueState
from kailab.engine.snapshot.gpu_requests import GpuFraction, WholeGpus
from kailab.engine.snapshot.records import (
    GPU,
    Node,
    PodGroup,
    PodSet,
    Queue,
    ResourceShare,
    Shape,
    Status,
    SubGroup,
    Task,
)

FREE = ResourceShare(quota=-1, limit=-1, weight=1.0)


def queue(name, gpu=FREE):
    return Queue(name=name, uid=name, gpu=gpu, cpu=FREE, memory=FREE)


def workload(name, queue="q", pods=1, gpu=GPU, minimum=None, status=Status.PENDING, node="", groups=(), **rest):
    request = GpuFraction(devices=1, portion=gpu) if gpu < GPU else WholeGpus(devices=gpu // GPU)
    group = PodGroup(
        uid=name,
        name=name,
        namespace="default",
        queue=queue,
        root=SubGroup(podsets=(PodSet(name="default", min_available=minimum or pods),)),
        **rest,
    )
    tasks = [
        Task(
            uid=f"{name}-{index}",
            name=f"{name}-{index}",
            namespace="default",
            podgroup=name,
            shape=Shape(cpu=1000, memory=1, gpu=request),
            status=status,
            node=node,
            gpu_groups=groups,
        )
        for index in range(pods)
    ]
    return group, tasks


def cluster(*workloads, queues=None, gpus=2):
    return CaseInput(
        nodes=[Node(name="n0", cpu=10_000, memory=10**6, gpus=gpus * GPU)],
        queues=queues or [queue("q"), queue("r")],
        podgroups=[group for group, _ in workloads],
        tasks=[task for _, tasks in workloads for task in tasks],
    )


def running(name, **rest):
    return workload(name, status=Status.RUNNING, node="n0", **rest)


def bind(task, groups=()):
    return Bind(task=task, podgroup=task.rsplit("-", 1)[0], queue="q", node="n0", gpu_groups=groups)


def evict(task, action="reclaim", queue="q", beneficiary=""):
    return Evict(
        task=task, podgroup=task.rsplit("-", 1)[0], queue=queue, node="n0", action=action, beneficiary=beneficiary
    )


def pipeline(task, action="reclaim", moved=False):
    return Pipeline(task=task, podgroup=task.rsplit("-", 1)[0], queue="q", node="n0", action=action, moved=moved)


def violations(case_input, binds=(), evictions=(), pipelines=(), queues=()):
    decisions = Decisions(
        now=NOW, binds=tuple(binds), evictions=tuple(evictions), pipelines=tuple(pipelines), queues=tuple(queues)
    )
    return check(case_input, {task.uid: task for task in case_input.tasks}, decisions)


def test_good_decisions_have_no_violations():
    assert violations(cluster(workload("a", pods=2)), [bind("a-0"), bind("a-1")]) == []


def test_a_gpu_given_twice():
    result = violations(cluster(workload("a", pods=3)), [bind("a-0"), bind("a-1"), bind("a-2")])
    assert "node n0 gives out 3000 of 2000 GPUs now" in result


def test_a_share_beyond_one_device():
    case_input = cluster(workload("a", pods=2, gpu=600))
    assert "GPU group g is given out 1.2 times now" not in violations(
        case_input, [bind("a-0", ("g",)), bind("a-1", ("h",))]
    )
    result = violations(case_input, [bind("a-0", ("g",)), bind("a-1", ("g",))])
    assert "GPU group g on n0 is given out 1.2 times now" in result


def test_a_share_without_a_device():
    assert "a-0 wants 1 shared devices and has 0" in violations(cluster(workload("a", gpu=500)), [bind("a-0")])


def test_a_device_a_leaving_task_still_holds():
    case_input = cluster(running("a"), workload("b"), gpus=1)
    leaving = [evict("a-0", queue="r", beneficiary="b")]
    result = violations(case_input, [bind("b-0")], leaving)
    assert "node n0 gives out 2000 of 1000 GPUs now" in result


def test_a_promise_of_more_than_will_be_free():
    case_input = cluster(running("a"), workload("b", pods=2), gpus=2)
    result = violations(case_input, pipelines=[pipeline("b-0", "allocate"), pipeline("b-1", "allocate")])
    assert result == ["node n0 gives out 3000 of 2000 GPUs once those leaving are gone"]


def test_a_queue_beyond_its_limit():
    queues = [queue("q", ResourceShare(quota=0, limit=GPU, weight=1.0))]
    result = violations(cluster(workload("a", pods=2), queues=queues), [bind("a-0"), bind("a-1")])
    assert result == ["queue q: gpu 2000 beyond limit 1000"]


def test_non_preemptible_work_beyond_quota():
    queues = [queue("q", ResourceShare(quota=GPU, limit=-1, weight=1.0))]
    case_input = cluster(workload("a", pods=2, preemptible=False), queues=queues)
    assert violations(case_input, [bind("a-0"), bind("a-1")]) == ["queue q: non-preemptible gpu 2000 beyond quota 1000"]


def test_what_was_over_its_limit_may_stay():
    queues = [queue("q", ResourceShare(quota=0, limit=0, weight=1.0))]
    assert violations(cluster(running("a"), queues=queues)) == []


def test_a_gang_in_part():
    assert violations(cluster(workload("a", pods=2)), [bind("a-0")]) == ["gang a is left in part: {'default': 1}"]


def test_a_gang_evicted_in_part():
    case_input = cluster(running("a", pods=2), workload("b", queue="r"))
    result = violations(case_input, evictions=[evict("a-0", beneficiary="b")], pipelines=[pipeline("b-0")])
    assert result == ["gang a is left in part: {'default': 1}"]


@pytest.mark.parametrize(
    ("victim", "pending", "action", "expected"),
    [
        ({"preemptible": False}, {"queue": "r"}, "reclaim", "reclaim evicts a-0, which is not preemptible"),
        ({}, {"queue": "q"}, "reclaim", "reclaim evicts a-0 for b of the same queue"),
        ({}, {"queue": "r", "priority": 75}, "preempt", "preempt evicts a-0 for b, which is not of higher priority"),
        ({}, {"queue": "q", "priority": 50}, "preempt", "preempt evicts a-0 for b, which is not of higher priority"),
        ({}, {"queue": "q"}, "consolidation", "consolidation evicts a-0 without a new place for it"),
    ],
)
def test_a_wrong_victim(victim, pending, action, expected):
    case_input = cluster(running("a", **victim), workload("b", **pending), gpus=1)
    result = violations(
        case_input, evictions=[evict("a-0", action, beneficiary="b")], pipelines=[pipeline("b-0", action)]
    )
    assert [violation for violation in result if violation.startswith(expected)]


def test_an_eviction_for_nothing():
    case_input = cluster(running("a"), workload("b", queue="r"))
    assert violations(case_input, evictions=[evict("a-0")]) == ["reclaim evicts a-0 for nobody"]
    result = violations(case_input, evictions=[evict("a-0", beneficiary="b")])
    assert result == ["reclaim evicts a-0 for b, which gets no place by it"]


def test_fair_shares_beyond_what_there_is():
    def state(name, fair):
        share = QueueShare(quota=0, limit=-1, fair_share=fair, allocated=0, requested=9 * GPU)
        none = QueueShare(quota=0, limit=-1, fair_share=0, allocated=0, requested=0)
        return QueueState(name=name, parent="", priority=100, gpu=share, cpu=none, memory=none)

    case_input = cluster(workload("a"))
    assert violations(case_input, queues=[state("q", GPU), state("r", GPU)]) == []
    result = violations(case_input, queues=[state("q", 2 * GPU), state("r", GPU)])
    assert result == ["fair shares of gpu at the root add up to 3000 of 2000"]


def test_decisions_that_vary_are_seen():
    turns = iter(range(9))
    case_input = cluster(workload("a"))
    result = undetermined(case_input, lambda working, config, now: Decisions(now=next(turns)))
    assert result == [
        "the same working set decided twice: now differ",
        "the same records told in another order: now differ",
    ]


def test_a_cluster_that_never_rests_is_seen():
    case_input = cluster(running("a"), workload("b", queue="r"), gpus=1)

    def to_and_fro(working, config, now):
        turn = next(turns)
        return (
            Decisions(now=now, evictions=(evict("a-0", "stalegangeviction"),))
            if turn % 2 == 0
            else Decisions(now=now, binds=(bind("a-0"),))
        )

    turns = iter(range(99))
    (result,) = run_rounds(case_input, to_and_fro, most=4)
    assert result == "still changing after 4 cycles: binds a-0"


def test_random_clusters_start_within_every_invariant():
    for seed in range(150):
        case_input = seeded(seed)
        assert violations(case_input) == [], seed
        assert msgspec.json.encode(seeded(seed).tasks) == msgspec.json.encode(case_input.tasks)


def test_random_clusters_differ():
    openings = [seeded(seed) for seed in range(50)]
    assert {len(case_input.nodes) for case_input in openings} == {1, 2, 3, 4}
    statuses = {task.status for case_input in openings for task in case_input.tasks}
    assert statuses == {Status.PENDING, Status.RUNNING, Status.RELEASING}


def test_a_fault_of_the_engine_is_reported_by_seed():
    def broken(working, config, now):
        raise KeyError("n9")

    result = run_seed(3, decide=broken)
    assert result.id == "small/3"
    assert result.differences[0].startswith("the engine failed: KeyError: 'n9'")


def test_surplus_left_behind_by_its_gang_is_excused_unless_strict():
    # KAI may take the core of an elastic job and leave its surplus on another node.
    elastic, winner = running("e", queue="r", pods=3, minimum=2), workload("w", pods=2)
    case_input = cluster(elastic, winner, gpus=3)
    evictions = [evict(f"e-{n}", queue="r", beneficiary="w") for n in (0, 1)]
    pipelines = [pipeline("w-0"), pipeline("w-1")]
    tasks = {task.uid: task for task in case_input.tasks}
    decisions = Decisions(now=NOW, evictions=tuple(evictions), pipelines=tuple(pipelines))
    assert check(case_input, tasks, decisions, strict=False) == []
    assert check(case_input, tasks, decisions, strict=True) == ["gang e is left in part: {'default': 1}"]


def test_a_gang_without_surplus_that_is_torn_apart_is_not_excused():
    gang, winner = running("g", queue="r", pods=2), workload("w")
    result = violations(
        cluster(gang, winner), evictions=[evict("g-0", queue="r", beneficiary="w")], pipelines=[pipeline("w-0")]
    )
    assert result == ["gang g is left in part: {'default': 1}"]


@pytest.mark.parametrize(("promised", "excused"), [(2, True), (3, False)])
def test_a_limit_is_passed_by_no_more_than_what_was_taken_twice(promised, excused):
    # The elastic job's surplus counts twice when it goes: by so much a queue may pass its limit, as in KAI.
    elastic, winner = running("e", pods=2, minimum=1, priority=50), workload("w", pods=3, minimum=1, priority=75)
    limited = [queue("q", ResourceShare(quota=-1, limit=2 * GPU, weight=1.0))]
    case_input = cluster(elastic, winner, queues=limited, gpus=4)
    decisions = Decisions(
        now=NOW,
        evictions=(evict("e-1", "preempt", beneficiary="w"),),
        pipelines=tuple(pipeline(f"w-{n}", "preempt") for n in range(promised)),
    )
    tasks = {task.uid: task for task in case_input.tasks}
    over = [f"queue q: gpu {1000 + promised * 1000} beyond limit 2000"]
    assert check(case_input, tasks, decisions, strict=True) == over
    assert check(case_input, tasks, decisions, strict=False) == ([] if excused else over)
