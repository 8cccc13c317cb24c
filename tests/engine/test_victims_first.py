"""Searches that end because every possible victim is served before the job and takes a place again. No decision
changes.
"""

from __future__ import annotations

import gc
import random
import weakref

import pytest
from msgspec import structs

from kailab.engine.actions import reclaim
from kailab.engine.config import EngineConfig
from kailab.engine.cycle import run_cycle
from kailab.engine.placing.allocation import Allocator
from kailab.engine.policies.contract import JobOrder, register_policy
from kailab.engine.policies.settings import PolicyChoice
from kailab.engine.queueing.jobqueue import JobQueue
from kailab.engine.search.solver import Solver
from kailab.engine.search.victims_first import VictimsFirstBound
from kailab.engine.session import Session
from kailab.engine.snapshot.gpu_requests import WholeGpus
from kailab.engine.snapshot.records import Status
from tests.engine.conftest import NOW, World

SERVED_FIRST = "have their turn before it, and would take their places again"


@pytest.fixture
def full(world):
    """16 GPUs, half of them for each queue; one holds a GPU too many, and the first job that waits in the other wants more than its queue may have."""
    for number in range(2):
        world.node(f"node-{number}", gpus=8)
    world.queue("mine")
    world.queue("theirs")
    for number in range(7):
        world.job(f"held-{number}", queue="mine", on="node-0")
    for number in range(9):
        world.job(f"lent-{number}", queue="theirs", on="node-0" if not number else "node-1")
    world.job("large", queue="mine", gpus=4)
    return world


def reclaimed(decided, job):
    return dict(decided.pending(job).tried)["reclaim"]


def test_a_search_ends_where_all_victims_are_served_first(full):
    full.job("small", queue="mine")
    decided = full.decide()
    assert decided.nothing
    assert f"the 9 pods that could go {SERVED_FIRST}" in reclaimed(decided, "small")
    assert not long_way(full, EngineConfig()).evictions


def test_a_search_leaves_nothing_to_the_cyclic_collector(full, monkeypatch):
    made = []
    for kind in (Solver, JobQueue):
        monkeypatch.setattr(kind, "__init__", recorded(kind.__init__, made))
    gc.disable()
    try:
        run_cycle(full.working(), EngineConfig(), NOW)
        assert made
        assert [each() for each in made if each() is not None] == []
    finally:
        gc.enable()


def test_a_job_that_is_the_first_of_its_queue_gets_its_place(full):
    full.records = [record for record in full.records if getattr(record, "name", "") not in ("large", "large-0")]
    full.job("small", queue="mine")
    assert len(full.decide().lost) == 1


def test_what_a_waiting_job_wants_is_read_anew_once_it_may_be_something_else(world):
    world.queue("lends", quota=0)
    world.queue("owed", quota=6)
    world.node("n", gpus=8)
    world.jobs(5, "other", queue="lends", on="n")
    world.job("elastic", queue="lends", tasks=4, gang=1, on=["n", "n", "n"])
    # The pod that waits wants more than the pods that run, so what the job wants next depends on which of them have gone.
    world.records = [
        structs.replace(record, shape=structs.replace(record.shape, gpu=WholeGpus(devices=4)))
        if getattr(record, "uid", "") == "elastic-3"
        else record
        for record in world.records
    ]
    world.job("first", queue="owed")
    session = Session(world.working(), EngineConfig(), NOW)
    reclaim.execute(session, Allocator(session))
    elastic, queue = session.jobs["elastic"], session.tree.queues["lends"]
    bound = VictimsFirstBound(session, session.jobs["first"])
    before = bound._line(queue).wanted
    mark = session.mark()
    session.evict(next(task for task in elastic if task.status == Status.RUNNING))
    session.undo(mark)
    after = [session.wanted(job) for _, job in session.waiting.lists["lends"]]
    assert before != after == bound._line(queue).wanted


def test_so_does_one_whose_victims_wait_for_more_than_it_does(full):
    full.job("older", queue="theirs", gpus=8, created=NOW - 10**6)
    full.job("small", queue="mine")
    decided = full.decide()
    assert len(decided.lost) == 1
    assert decided.decisions == long_way(full, EngineConfig())


def test_a_queue_that_holds_more_than_its_limit_does_not_get_all_back(world):
    for number in range(2):
        world.node(f"node-{number}", gpus=8)
    world.queue("mine")
    world.queue("theirs", limit=7)
    for number in range(7):
        world.job(f"held-{number}", queue="mine", on="node-0")
    for number in range(9):
        world.job(f"lent-{number}", queue="theirs", on="node-0" if not number else "node-1")
    world.job("large", queue="mine", gpus=4)
    world.job("small", queue="mine")
    decided = world.decide()
    assert decided.lost
    assert decided.decisions == long_way(world, EngineConfig())


def long_way(world, config):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(VictimsFirstBound, "proves_failure", lambda *_: False)
        patch.setattr(VictimsFirstBound, "rules_out", lambda *_: False)
        return run_cycle(world.working(), config, NOW)


def single_pods(pick):
    """Full nodes, mostly of pods by themselves, and queues about as large as their shares."""
    world, free = World(), {}
    for number in range(pick([2, 3, 4, 6])):
        gpus, slots = pick([2, 4, 8]), pick([110, 110, 6])
        world.node(f"node-{number}", gpus=gpus, pods=slots)
        free[f"node-{number}"] = [gpus, slots]
    total, sizes = sum(gpus for gpus, _ in free.values()), pick([[1], [1, 2], [1, 2, 4], [2], [0, 1]])
    queues = [f"queue-{number}" for number in range(pick([2, 2, 3, 4]))]
    parents = pick([[""], [""], ["left", "right"]])
    for name in filter(None, parents):
        world.queue(name, quota=total // 2)
    for name in queues:
        quota, limit = pick([0, 1, total // len(queues)]), pick([-1, -1, -1, -1, total // 2])
        world.queue(name, quota=quota, limit=limit, weight=pick([1, 1, 2, 3]), parent=pick(parents))
    for number in range(pick(range(8, 60))):
        tasks, gpus = pick([*[1] * 12, 2, 3]), pick(sizes)
        places = []
        for _ in range(pick([0, tasks, tasks])):
            room = [node for node, (left, slots) in free.items() if left >= gpus and slots > 1]
            if room:
                places.append(node := pick(room))
                free[node] = [free[node][0] - gpus, free[node][1] - 1]
        world.job(
            f"job-{number}", queue=pick(queues), tasks=tasks, gpus=gpus, on=places, gang=pick([1, tasks]),
            priority=pick([50, 50, 50, 75, 100]),
        )  # fmt: skip
    return world


class LargestFirst(JobOrder, frozen=True):
    """What runs comes after what waits, so that keys change with an eviction."""

    def key(self, job):
        return job.holds.gpu, -job.wants.gpu


register_policy("largest-first", LargestFirst)
LARGEST_FIRST = PolicyChoice(name="largest-first")
CONFIGURATIONS = [
    EngineConfig(),
    EngineConfig(gpu_placement="spread"),
    EngineConfig(use_signatures=False),
    EngineConfig(allow_consolidating_reclaim=False),
    EngineConfig(job_order_policy=LARGEST_FIRST),
    EngineConfig(job_order_policy=LARGEST_FIRST, victim_order="priority"),
]


@pytest.mark.parametrize("block", range(3))
def test_whatever_is_ended_so_would_have_found_nothing(block, monkeypatch):
    messages = []
    for name in ("proves_failure", "rules_out"):
        monkeypatch.setattr(VictimsFirstBound, name, counted(getattr(VictimsFirstBound, name), messages))
    for seed in range(block * 60, block * 60 + 60):
        pick = random.Random(seed).choice
        world, config = single_pods(pick), pick(CONFIGURATIONS)
        assert done(run_cycle(world.working(), config, NOW)) == done(long_way(world, config)), seed
    assert any(messages)


def counted(asked, told):
    def ask(*given):
        told.append(asked(*given))
        return told[-1]

    return ask


def done(decisions):
    """All but the words on what was tried in vain, and how often."""
    return decisions.binds, decisions.evictions, decisions.pipelines, [one.podgroup for one in decisions.pending]


def recorded(init, made):
    def make(new, *given, **named):
        made.append(weakref.ref(new))
        init(new, *given, **named)

    return make
