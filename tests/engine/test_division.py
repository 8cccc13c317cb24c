"""The reported division of fair shares is the one that the engine uses, and its parts add up."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checks.case_input import NOW
from checks.fuzzing.random_cluster import random_case_input
from checks.simulated_cluster import SimulatedCluster
from kailab.engine.queueing.division import Division
from kailab.engine.queueing.fairshare import sum_up, tree_shares
from kailab.engine.report.reclaim_options import divisions
from kailab.engine.session import Session
from kailab.engine.snapshot.records import GPU, Queue, ResourceShare
from kailab.engine.working.queues import NAMES

shares = st.builds(
    ResourceShare,
    quota=st.integers(-1, 20).map(lambda n: n * GPU if n > 0 else n),
    limit=st.integers(-1, 40).map(lambda n: n * GPU if n > 0 else n),
    weight=st.sampled_from([0, 0.1, 0.5, 1, 2, 3, 7.25]),
)


@st.composite
def trees(draw):
    """Queues, each below one of those before it or at the top; what each asks for itself; what there is; past usage."""
    count = draw(st.integers(1, 10))
    queues = [
        Queue(
            name=f"q{n}", uid=f"q{n}", parent=draw(st.sampled_from(["", *(f"q{m}" for m in range(n))])),
            priority=draw(st.sampled_from([50, 100, 200])), created=draw(st.integers(0, 3).map(float)),
            gpu=draw(shares), cpu=draw(shares), memory=draw(shares),
        )
        for n in range(count)
    ]  # fmt: skip
    own = {queue.name: tuple(draw(st.integers(0, 60_000)) for _ in NAMES) for queue in queues}
    totals = tuple(draw(st.integers(0, 100)) * GPU for _ in NAMES)
    usage = {queue.name: {"gpu": draw(st.sampled_from([0.0, 0.1, 0.33, 0.9]))} for queue in queues}
    return queues, sum_up(queues, own), totals, usage


def adds_up(division: Division) -> None:
    given = {one.queue: one.by_quota for one in division.queues}
    assert division.over_quota == division.total - sum(given.values())
    amount = max(0, division.over_quota)
    for one in division.rounds:
        assert one.amount == amount
        assert one.weights == sum(part.weight for part in one.parts)
        assert {next(q.priority for q in division.queues if q.queue == part.queue) for part in one.parts} == {
            one.priority
        }
        for part in one.parts:
            due = one.amount * part.weight / one.weights if one.weights else 0
            assert part.given <= min(part.wanted, due + 1e-6 * due)
            given[part.queue] += part.given
            amount -= part.given
    for one in division.remainders:
        assert 0 < one.given <= division.unit
        given[one.queue] += one.given
        amount -= one.given
    assert amount == division.left >= 0
    assert given == {one.queue: one.fair_share for one in division.queues}
    priorities = [one.priority for one in division.rounds]
    assert priorities == sorted(priorities, reverse=True)


@given(trees(), st.sampled_from([0.0, 1.0, 3.0]))
def test_what_is_told_adds_up_to_the_fair_shares(tree, k_value):
    queues, requests, totals, usage = tree
    messages: list[Division] = []
    result = tree_shares(queues, totals, requests, k_value=k_value, usage=usage, tell=messages.append)
    assert result == tree_shares(queues, totals, requests, k_value=k_value, usage=usage)
    parents = {queue.parent for queue in queues}
    assert sorted((one.parent, one.resource) for one in messages) == sorted(
        (parent, name) for parent in parents for name in NAMES
    )
    for one in messages:
        adds_up(one)
        place = NAMES.index(one.resource)
        assert {each.queue: each.fair_share for each in one.queues} == {
            queue.name: result[queue.name][place] for queue in queues if queue.parent == one.parent
        }
        assert one.total == (result[one.parent][place] if one.parent else totals[place])


@settings(max_examples=40, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_session_tells_the_shares_that_it_decides_by(data):
    case_input = random_case_input(lambda options: data.draw(st.sampled_from(options)))
    session = Session(SimulatedCluster(case_input).working(), case_input.config, NOW)
    try:
        messages = divisions(session)
        due = {(one.resource, each.queue): each.fair_share for one in messages for each in one.queues}
        for queue in session.tree.queues.values():
            if not queue.orphan:
                assert queue.fair == [due[name, queue.name] for name in NAMES]
        for one in messages:
            adds_up(one)
    finally:
        session.close()


def test_rounds_by_priority_and_what_rounding_left():
    def queue(name, quota=0, **rest):
        return Queue(name=name, uid=name, gpu=ResourceShare(quota=quota * GPU, limit=-1, weight=1), **rest)

    messages: list[Division] = []
    queues = [queue("high", 2, priority=200), queue("a", created=1.0), queue("b", created=2.0), queue("idle", 4)]
    asked = {"high": (0, 0, 3 * GPU), "a": (0, 0, 9 * GPU), "b": (0, 0, 9 * GPU)}
    tree_shares(queues, (0, 0, 10 * GPU), asked, tell=messages.append)
    gpu = next(one for one in messages if one.resource == "GPU")
    assert gpu.over_quota == 8 * GPU
    assert [(one.priority, one.amount) for one in gpu.rounds] == [(200, 8 * GPU), (100, 7 * GPU)]
    assert [(part.queue, part.given) for part in gpu.rounds[1].parts] == [("a", 3 * GPU), ("b", 3 * GPU)]
    assert [(one.queue, one.given) for one in gpu.remainders] == [("a", GPU)]
    assert {one.queue: one.fair_share / GPU for one in gpu.queues} == {"high": 3, "a": 4, "b": 3, "idle": 0}


def test_past_usage_shows_in_the_weights():
    queues = [Queue(name=name, uid=name, gpu=ResourceShare(limit=-1, weight=1)) for name in ("greedy", "patient")]
    messages: list[Division] = []
    asked = dict.fromkeys(("greedy", "patient"), (0, 0, 99 * GPU))
    usage = {"greedy": {"gpu": 0.8}, "patient": {"gpu": 0.2}}
    tree_shares(queues, (0, 0, 10 * GPU), asked, k_value=1.0, usage=usage, tell=messages.append)
    (one,) = next(division for division in messages if division.resource == "GPU").rounds
    assert [round(part.weight / one.weights, 6) for part in one.parts] == [0.2, 0.8]
