"""Relaxations: what a cycle would decide for a job without one of its obstacles."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kailab.engine.cancellation import cancelled_by
from kailab.engine.config import EngineConfig
from kailab.engine.cycle import decide, run_cycle
from kailab.engine.decisions import PendingCode
from kailab.engine.relaxing.relaxed_cycles import RelaxedCycles
from kailab.engine.relaxing.rules import (
    DelayGone,
    GangLowered,
    HoldingsGone,
    LimitsLifted,
    MadePreemptible,
    OthersGone,
    OthersPreemptible,
    QueuesUnprotected,
    QuotasRaised,
    QuotasTaken,
    RefusalsForgotten,
    WeightsGiven,
)
from tests.engine.conftest import NOW, World

KAI = EngineConfig()


def trials(world, *subject, **config):
    return RelaxedCycles(world.working().value(), EngineConfig(**config), NOW, subject)


def test_without_a_relaxation_only_the_subject_has_a_turn(world):
    """Two wait for one GPU; either would get it at its turn, and the other is still there."""
    world.node("node-1", gpus=1)
    world.queue("team", quota=1)
    world.job("first")
    world.job("second")
    result = trials(world, "second")
    assert [bind.task for bind in result().binds] == ["second-0"]
    assert not result(everyone=True).further
    [pending] = result(everyone=True).pending
    assert pending.podgroup == "second"


def test_a_limit_lifted_at_the_level_that_has_it(world):
    world.node("node-1", gpus=8)
    world.queue("department", quota=8, limit=2)
    world.queue("team", quota=4, limit=4, parent="department")
    world.job("held", tasks=2, gang=2, on="node-1")
    world.job("mine")
    result = trials(world, "mine")
    assert result().pending[0].code == PendingCode.OVER_LIMIT
    assert not result(LimitsLifted(("team",))).further
    assert result(LimitsLifted(("department",))).whole


def test_of_another_resource_a_limit_stays(world):
    world.node("node-1", gpus=8)
    world.queue("team", limit=0)
    world.job("mine")
    assert not trials(world, "mine")(LimitsLifted(("team",), ("cpu", "memory"))).further
    assert trials(world, "mine")(LimitsLifted(("team",), ("gpu",))).whole


@pytest.mark.parametrize("change", [QuotasRaised(("team",)), MadePreemptible()])
def test_non_preemptible_work_needs_quota_or_to_be_preemptible(world, change):
    world.node("node-1")
    world.queue("team", quota=1)
    world.job("mine", gpus=2, preemptible=False)
    assert not trials(world, "mine")().further
    assert trials(world, "mine")(change).whole


def test_a_weight_gives_a_share_to_reclaim_by(world):
    world.node("node-1", gpus=4)
    world.queue("team", quota=0, weight=0)
    world.queue("other", quota=0, weight=1)
    world.jobs(4, "o", queue="other", on="node-1")
    world.job("mine")
    outcome = trials(world, "mine")(WeightsGiven(("team",)))
    assert [promise.task for promise in outcome.promises] == ["mine-0"]
    assert [evict.task for evict in outcome.evictions] == ["o3-0"]
    assert not trials(world, "mine")().further


def test_a_quota_taken_from_others_makes_victims_of_them(world):
    world.node("node-1", gpus=4)
    world.queue("team", quota=2)
    world.queue("other", quota=4)
    world.jobs(4, "o", queue="other", on="node-1")
    world.job("mine")
    assert not trials(world, "mine")().further
    assert trials(world, "mine")(QuotasTaken(("other",))).whole


def borrowed(world, **victim):
    world.node("node-1", gpus=1)
    world.queue("team", quota=1)
    world.queue("other", quota=0)
    world.job("theirs", queue="other", on="node-1", **victim)


def test_protection_and_time(world):
    borrowed(world, last_start=NOW - 10)
    world.job("mine")
    result = trials(world, "mine", reclaim_min_runtime=60.0)
    assert not result().further
    assert result(QueuesUnprotected()).whole
    assert not RelaxedCycles(result.snapshot, result.config, NOW + 40, result.subject)().further
    assert RelaxedCycles(result.snapshot, result.config, NOW + 60, result.subject)().whole


def test_preemptibility_of_others_and_their_going(world):
    borrowed(world, preemptible=False)
    world.job("mine")
    assert not trials(world, "mine")().further
    assert trials(world, "mine")(OthersPreemptible()).whole
    alone = trials(world, "mine")(OthersGone())
    assert alone.whole
    assert not alone.evictions


def test_delay_and_refused_binding(world):
    borrowed(world)
    world.job("mine", preemption_delay=60.0, created=NOW)
    assert not trials(world, "mine")().further
    assert trials(world, "mine")(DelayGone()).whole
    refused = trials(world, "mine", refused=frozenset({"mine-0"}))
    assert not refused(DelayGone()).further
    assert refused(RefusalsForgotten(), DelayGone()).whole


def test_those_that_wait_may_go_alone(world):
    """What others ask for takes part in fair shares, also while it waits."""
    world.node("node-1", gpus=2)
    world.queue("team")
    world.queue("other")
    world.queue("third")
    for name in ("one", "two"):
        world.job(name, queue="other", on="node-1")
    world.jobs(4, "w", queue="third")
    world.job("mine", gpus=2)
    result = trials(world, "mine")
    assert not result(OthersGone(placed=False)).further
    assert result(OthersGone(waiting=False)).whole


def test_surplus_of_a_job_that_runs_is_told_by_its_waiting_pods(world):
    world.node("node-1", gpus=2)
    world.queue("team", quota=2)
    world.job("mine", tasks=4, on=["node-1"])
    outcome = trials(world, "mine")()
    assert (outcome.further, outcome.whole, outcome.served) == (True, False, 1)
    assert outcome.waiting == {"mine-1", "mine-2", "mine-3"}


@st.composite
def worlds(draw):
    """A few nodes and queues, jobs that run and jobs that wait."""
    world = World()
    world.node("node-1", gpus=draw(st.integers(1, 4)))
    world.node("node-2", gpus=draw(st.integers(1, 4)))
    for name in ("team", "other"):
        quota = draw(st.integers(0, 3))
        world.queue(name, quota=quota, limit=draw(st.sampled_from([-1, quota])), weight=draw(st.integers(0, 2)))
    free = {node.name: node.gpus // 1000 for node in world.records if hasattr(node, "gpus")}
    for number in range(draw(st.integers(0, 5))):
        node = draw(st.sampled_from(sorted(free)))
        if free[node]:
            free[node] -= 1
            world.job(f"r{number}", queue=draw(st.sampled_from(["team", "other"])), on=node)
    for number in range(draw(st.integers(1, 3))):
        world.job(
            f"w{number}",
            queue=draw(st.sampled_from(["team", "other"])),
            tasks=draw(st.integers(1, 2)),
            preemptible=draw(st.booleans()),
        )
    return world


CHANGES = [
    (),
    (LimitsLifted(("team", "other")),),
    (QuotasRaised(("team",)), MadePreemptible()),
    (OthersGone(),),
    (OthersGone(placed=False),),
    (QuotasTaken(("other",)), OthersPreemptible()),
]


@settings(max_examples=60, deadline=None)
@given(worlds(), st.permutations(CHANGES))
def test_trials_leave_no_trace(world, order):
    """Each trial decides what a cycle on the changed snapshot would, whatever was tried before, and the working set ends as it
    began."""
    snapshot = world.working().value()
    result = RelaxedCycles(snapshot, KAI, NOW, ("w0",))
    for change in order:
        draft = result.draft(*change)
        everyone = result(*change, everyone=True)
        assert everyone.decisions == decide(draft.whole(), draft.config, draft.now)
        assert result(*change) == RelaxedCycles(snapshot, KAI, NOW, ("w0",))(*change)
    assert result.working.value() == snapshot


class Cancelled(Exception):
    """Raised in the middle of a cycle."""


@settings(max_examples=60, deadline=None)
@given(worlds(), st.sampled_from(CHANGES), st.integers(1, 12))
def test_a_cancelled_cycle_leaves_no_trace_and_no_outcome(world, change, last):
    """Wherever a cycle is cancelled, the working set is as before, and the next cycles decide as if it had never begun."""
    snapshot = world.working().value()
    result, checks = RelaxedCycles(snapshot, KAI, NOW, ("w0",)), 0

    def check():
        nonlocal checks
        checks += 1
        if checks >= last:
            raise Cancelled

    try:
        with cancelled_by(check):
            outcome = result(*change, everyone=True)
    except Cancelled:
        pass
    else:
        assert checks < last
        assert outcome == RelaxedCycles(snapshot, KAI, NOW, ("w0",))(*change, everyone=True)
    assert result.working.value() == snapshot
    assert result(*change, everyone=True) == RelaxedCycles(snapshot, KAI, NOW, ("w0",))(*change, everyone=True)


def test_a_cycle_is_cancelled_before_a_job_is_tried_and_before_a_reason_is_made(world):
    world.node("node-1", gpus=1)
    world.queue("team", quota=1)
    for name in ("one", "two", "three"):
        world.job(name)
    checks = []
    with cancelled_by(lambda: checks.append(1)):
        decisions = run_cycle(world.working(), KAI, NOW)
    assert len(checks) >= len(decisions.binds) + len(decisions.pending)
    checks.clear()
    run_cycle(world.working(), KAI, NOW)
    assert not checks


@settings(max_examples=60, deadline=None)
@given(worlds())
def test_a_turn_of_one_s_own_is_never_worse_than_among_all(world):
    """What a cycle gives a job without evicting anybody it would give it too if it came first."""
    result = RelaxedCycles(world.working().value(), EngineConfig(actions=("allocate",)), NOW, ("w0",))
    assert result().served >= result(everyone=True).served


@settings(max_examples=60, deadline=None)
@given(worlds())
def test_who_comes_after_the_subject_takes_nothing_from_it(world):
    """A cycle that ends with the subject's last turn gives it what a whole one does, where nobody is evicted."""
    result = RelaxedCycles(world.working().value(), EngineConfig(actions=("allocate",)), NOW, ("w0",))
    before, everyone = result(ahead=True), result(everyone=True)
    assert (before.binds, before.promises) == (everyone.binds, everyone.promises)
    assert set(before.decisions.binds) <= set(everyone.decisions.binds)
    assert {one.podgroup for one in before.decisions.pending} <= {"w0"}


@settings(max_examples=60, deadline=None)
@given(worlds(), st.sampled_from(CHANGES), st.booleans())
def test_a_cycle_that_ends_with_a_first_place_tells_whether_there_is_one(world, change, before):
    snapshot = world.working().value()
    subject = [job.uid for job in snapshot.podgroups if job.uid.startswith("w")]
    result = RelaxedCycles(snapshot, KAI, NOW, subject)
    assert result.further(*change, ahead=before) == result(*change, ahead=before).further
    assert result.working.value() == snapshot


def test_nobody_has_a_turn_after_the_first_place(world):
    world.node("node-1", gpus=4)
    world.queue("team", quota=4)
    subject = frozenset(("one", "two", "three"))
    for name in sorted(subject):
        world.job(name)
    assert len(run_cycle(world.working(), KAI, NOW, only=subject).binds) == 3
    assert len(run_cycle(world.working(), KAI, NOW, only=subject, once=True).binds) == 1
    assert len(run_cycle(world.working(), KAI, NOW, until=subject, once=True).binds) == 1


@settings(max_examples=60, deadline=None)
@given(worlds(), st.sampled_from(CHANGES), st.sampled_from(CHANGES))
def test_changes_made_beforehand_are_changes_made(world, first, second):
    snapshot = world.working().value()
    result = RelaxedCycles(snapshot, KAI, NOW, ("w0",))
    assert result.after(*first)(*second) == result(*first, *second)
    assert result.after(*first) is result.after(*first)
    assert result.working.value() == snapshot


def test_what_some_others_hold_is_free_without_them(world):
    world.node("node-1", gpus=4)
    world.queue("team", quota=-1)
    world.job("one", gpus=2, on="node-1", preemptible=False)
    world.job("two", gpus=2, on="node-1", preemptible=False)
    world.job("mine", gpus=4)
    result = trials(world, "mine")
    assert not result().further
    assert not result(HoldingsGone(("one",))).further
    assert result(HoldingsGone(("one", "two"))).whole
    # Pods that wait hold nothing.
    assert not result(HoldingsGone(("mine",))).further


def test_a_lower_gang_has_fewer_pods_in_its_largest_pod_set_and_needs_no_more(world):
    world.node("node-1", gpus=4)
    world.queue("team", quota=-1)
    world.job("mine", tasks=6, gang=6)
    result = trials(world, "mine")
    assert not result().further
    assert not result(GangLowered(5)).further
    assert result(GangLowered(4)).whole
    assert result(GangLowered(4)).served == 4
    assert result(GangLowered(2)).served == 2


def test_relaxations_that_change_the_same_share_one_cycle(world):
    world.node("node-1", gpus=4)
    world.queue("team", quota=-1)
    world.job("held", gpus=4, on="node-1")
    world.job("mine", gpus=4, preemption_delay=0.0)
    result = trials(world, "mine")
    # It has no delay, and nothing is protected.
    assert result(DelayGone()) is result()
    assert result(QueuesUnprotected()) is result()
    assert result(DelayGone(), MadePreemptible()) is result(MadePreemptible())
    assert result(HoldingsGone(("held",))) is not result()
    assert result(everyone=True) is not result()
