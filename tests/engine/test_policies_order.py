"""Configured orders of jobs: the weighted score, and jobs that go first after a long wait."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kailab.engine.config import EngineConfig
from kailab.engine.cycle import run_cycle
from kailab.engine.policies.settings import DAY, WeightedOrder
from kailab.engine.policies.switches import DEFAULT_PLUGINS
from kailab.engine.snapshot.records import PodGroup, Status, Task

HOUR = 3600.0
NOW = 1_000_000.0


def without(name):
    return tuple(plugin for plugin in DEFAULT_PLUGINS if plugin != name)


def score(decided, job):
    return decided.pending(job).numbers["score"]


# --- the parts of the score -------------------------------------------------------------------------------------------


def test_priority_is_worth_its_level_among_those_that_wait(world):
    world.node("small", gpus=1)
    world.queue("team", quota=-1)
    for name, priority in (("low", 50), ("middle", 75), ("high", 99)):
        world.job(name, gpus=2, priority=priority)
    decided = world.decide(weighted_order=WeightedOrder())
    assert [score(decided, name)["priority"] for name in ("low", "middle", "high")] == [
        [0.0, 0.4],
        [0.5, 0.4],
        [1.0, 0.4],
    ]


def test_a_flood_of_equal_jobs_does_not_change_what_priority_is_worth(world):
    world.node("small", gpus=1)
    world.queue("team", quota=-1)
    world.job("high", gpus=2, priority=99)
    for number in range(20):
        world.job(f"low-{number}", gpus=2)
    decided = world.decide(weighted_order=WeightedOrder())
    assert score(decided, "high")["priority"][0] - score(decided, "low-7")["priority"][0] == 1.0


@pytest.mark.parametrize(("waited", "part"), [(0, 0.0), (6 * HOUR, 0.25), (24 * HOUR, 1.0), (48 * HOUR, 1.0)], ids=str)
def test_waiting_counts_up_to_a_day(world, waited, part):
    world.node("small", gpus=1)
    world.queue("team", quota=-1)
    world.job("train", gpus=2, created=NOW - waited)
    assert score(world.decide(weighted_order=WeightedOrder()), "train")["waiting"][0] == part


def test_waiting_begins_anew_with_an_eviction(world):
    world.node("small", gpus=1)
    world.queue("team", quota=-1)
    world.job("train", gpus=2, created=NOW - DAY, last_evicted=NOW - 12 * HOUR)
    assert score(world.decide(weighted_order=WeightedOrder()), "train")["waiting"][0] == 0.5


def test_who_ran_and_has_nothing_left_waits_since_its_last_start(world):
    world.node("small", gpus=1)
    world.queue("team", quota=-1)
    world.job("rounds", gpus=2, created=NOW - DAY, last_start=NOW - 6 * HOUR)
    assert score(world.decide(weighted_order=WeightedOrder()), "rounds")["waiting"][0] == 0.25


def test_who_runs_does_not_wait_for_more(world):
    world.node("small", gpus=1)
    world.queue("team", quota=-1)
    world.job("elastic", tasks=2, on=["small"], created=NOW - DAY)
    assert score(world.decide(weighted_order=WeightedOrder()), "elastic")["waiting"][0] == 0.0


@pytest.mark.parametrize(
    ("gpus", "gang", "part"), [(8, 1, 1.0), (1, 1, 0.125), (4, 1, 0.5), (4, 3, 0.75), (8, 2, 1.0), (0.5, 1, 0.0625)]
)
def test_efficiency_is_how_full_the_nodes_are_that_it_needs(world, gpus, gang, part):
    world.node("large", gpus=8)
    world.queue("team", quota=0, limit=0)
    world.job("train", gpus=gpus, tasks=gang, gang=gang)
    assert score(world.decide(weighted_order=WeightedOrder()), "train")["efficiency"][0] == part


def test_work_without_gpus_wastes_none(world):
    world.node("full", gpus=8, cpu=50)
    world.queue("team", quota=-1)
    world.job("etl", gpus=0)
    assert score(world.decide(weighted_order=WeightedOrder()), "etl")["efficiency"][0] == 1.0


def test_fairness_is_what_the_queue_lacks_of_its_share(world):
    world.node("node", gpus=4)
    world.queue("rich", quota=2)
    world.queue("poor", quota=2)
    world.job("r", queue="rich", gpus=1, tasks=4, gang=4, on="node", preemptible=False)
    world.job("r2", queue="rich")
    world.job("p", queue="poor", gpus=2)
    decided = world.decide(weighted_order=WeightedOrder())
    assert score(decided, "r2")["fairness"][0] == 0.0
    assert score(decided, "p")["fairness"][0] == 1.0


def test_the_score_is_the_weighted_sum(world):
    world.node("node", gpus=8)
    world.queue("team", quota=0, limit=0)
    world.job("train", gpus=4, created=NOW - 12 * HOUR)
    result = score(world.decide(weighted_order=WeightedOrder()), "train")
    assert result["total"] == pytest.approx(0.4 * 1 + 0.3 * 0.5 + 0.2 * 0.5 + 0.1 * 1)


# --- what it decides --------------------------------------------------------------------------------------------------


def test_a_long_wait_and_a_full_node_outweigh_priority(world):
    """high: 0.4 + 0.2/8; old: 0.3 + 0.2. KAI looks at the priority alone."""
    world.node("node", gpus=8)
    world.queue("team", quota=-1)
    world.job("old", gpus=8, created=NOW - DAY)
    world.job("high", gpus=1, priority=75, created=NOW - 60)
    assert set(world.decide().bound) == {"high-0"}
    assert set(world.decide(weighted_order=WeightedOrder()).bound) == {"old-0"}


def test_with_priority_alone_it_is_as_before(world):
    world.node("node", gpus=8)
    world.queue("team", quota=-1)
    world.job("old", gpus=8, created=NOW - DAY)
    world.job("high", gpus=1, priority=75, created=NOW - 60)
    weights = WeightedOrder(priority=1, waiting=0, efficiency=0, fairness=0)
    assert world.decide(weighted_order=weights).bound == world.decide().bound


def test_in_the_scope_of_a_queue_queues_keep_their_order(world):
    world.node("node", gpus=1)
    world.queue("first", priority=200)
    world.queue("second")
    world.job("young", queue="first", created=NOW)
    world.job("old", queue="second", created=NOW - DAY)
    assert set(world.decide(weighted_order=WeightedOrder()).bound) == {"young-0"}
    assert set(world.decide(weighted_order=WeightedOrder(scope="cluster")).bound) == {"old-0"}


def test_who_can_take_nothing_does_not_stand_in_the_way_of_who_can(world):
    """old is asked first, and may preempt nobody; high, as large, may."""
    world.node("node", gpus=1)
    world.queue("team", quota=-1)
    world.job("low", on="node", last_start=NOW - HOUR)
    world.job("old", created=NOW - DAY)
    world.job("high", priority=75, created=NOW)
    weights = WeightedOrder(priority=0.4, waiting=0.6, efficiency=0, fairness=0)
    assert world.decide(weighted_order=weights).promised == {"high-0": "node"}


# --- who is served and who may evict agree ----------------------------------------------------------------------------


def test_nobody_is_preempted_who_would_be_served_first_again(world):
    world.node("node", gpus=8)
    world.queue("team", quota=-1)
    world.job("big", gpus=8, on="node")
    world.job("high", priority=75)
    assert world.decide().evicted == {"big-0"}
    full_nodes_first = WeightedOrder(priority=0.1, waiting=0, efficiency=0.9, fairness=0)
    assert world.decide(weighted_order=full_nodes_first).nothing
    assert world.decide(weighted_order=WeightedOrder()).evicted == {"big-0"}


def test_within_its_quota_an_owner_takes_back_whatever_the_score(world):
    world.node("node", gpus=8)
    world.queue("owner", quota=2)
    world.queue("lender")
    world.job("big", queue="lender", gpus=8, on="node")
    world.job("small", queue="owner")
    full_nodes_first = WeightedOrder(priority=0, waiting=0, efficiency=1, fairness=0, scope="cluster")
    decided = world.decide(weighted_order=full_nodes_first)
    assert (decided.evicted, decided.promised) == ({"big-0"}, {"small-0": "node"})


def test_beyond_its_quota_the_score_decides(world):
    """Both own nothing; by share the small one may take from the big one, by score not."""
    world.node("node", gpus=8)
    world.queue("one")
    world.queue("two")
    world.job("big", queue="two", gpus=8, on="node")
    world.job("small", queue="one")
    full_nodes_first = WeightedOrder(priority=0, waiting=0, efficiency=1, fairness=0, scope="cluster")
    assert world.decide().evicted == {"big-0"}
    assert world.decide(weighted_order=full_nodes_first).nothing


def test_a_score_that_grows_by_waiting_wakes_the_scheduler_when_it_suffices(world):
    """big, to wait anew: 0.6. small: 0.4 + 0.6 / 8, and 0.5 x its wait: enough after a quarter of a day."""
    world.node("node", gpus=8)
    world.queue("team", quota=-1)
    world.job("big", gpus=8, on="node", last_start=NOW - HOUR)
    world.job("small", priority=75, created=NOW)
    config = EngineConfig(weighted_order=WeightedOrder(priority=0.4, waiting=0.5, efficiency=0.6, fairness=0))
    working = world.working()
    first = run_cycle(working, config, NOW)
    assert not first.evictions
    assert first.wake_at == pytest.approx(NOW + DAY / 4, abs=1)
    assert not run_cycle(working, config, first.wake_at - 60).evictions
    assert [evict.task for evict in run_cycle(working, config, first.wake_at).evictions] == ["big-0"]


def test_a_score_that_waiting_never_makes_suffice_wakes_nobody(world):
    world.node("node", gpus=8)
    world.queue("team", quota=-1)
    world.job("big", gpus=8, on="node")
    world.job("small", priority=75, created=NOW)
    full_nodes = WeightedOrder(priority=0.1, waiting=0.2, efficiency=0.7, fairness=0)
    assert world.decide(weighted_order=full_nodes).decisions.wake_at is None


# --- going first after a long wait ------------------------------------------------------------------------------------


@pytest.fixture
def backlog(world):
    """One GPU; an important job of now, and a humble one that has waited for a day."""
    world.node("node", gpus=1)
    world.queue("team", quota=-1)
    world.job("important", priority=75, created=NOW)
    world.job("humble", created=NOW - DAY)
    return world


def test_who_has_waited_long_enough_goes_first(backlog):
    assert set(backlog.decide().bound) == {"important-0"}
    assert set(backlog.decide(aged_after=DAY).bound) == {"humble-0"}


def test_a_second_too_short_is_too_short(backlog):
    assert set(backlog.decide(aged_after=DAY + 1).bound) == {"important-0"}


def test_among_the_aged_the_longest_wait_is_first(backlog):
    backlog.job("humbler", created=NOW - 2 * DAY)
    assert set(backlog.decide(aged_after=DAY).bound) == {"humbler-0"}


def test_a_turn_is_one_start(backlog):
    """The aged job starts with its minimum; what it would like beyond that comes in its usual place."""
    backlog.node("node-2", gpus=1)
    backlog.job("large", tasks=3, created=NOW - 2 * DAY)
    backlog.records = [record for record in backlog.records if getattr(record, "podgroup", record) != "humble"]
    assert set(backlog.decide(aged_after=DAY).bound) == {"large-0", "important-0"}


def test_the_queue_of_an_aged_job_comes_first_too(world):
    world.node("node", gpus=1)
    world.queue("first", priority=200)
    world.queue("second")
    world.job("important", queue="first", created=NOW)
    world.job("humble", queue="second", created=NOW - DAY)
    assert set(world.decide().bound) == {"important-0"}
    assert set(world.decide(aged_after=DAY).bound) == {"humble-0"}


def test_age_is_told(backlog):
    backlog.job("humbler", created=NOW - 2 * DAY)
    decided = backlog.decide(aged_after=DAY)
    assert decided.pending("humble").numbers["aged_since"] == NOW - DAY
    assert "aged_since" not in decided.pending("important").numbers


def test_age_takes_nothing_from_anyone(world):
    """It is an order of those that wait; a running job of higher priority stays."""
    world.node("node", gpus=1)
    world.queue("team", quota=-1)
    world.job("important", priority=75, on="node")
    world.job("humble", created=NOW - DAY)
    assert world.decide(aged_after=DAY).nothing


# --- no trace, no chance ----------------------------------------------------------------------------------------------

ORDERS = (
    {"weighted_order": WeightedOrder()},
    {"weighted_order": WeightedOrder(efficiency=5)},
    {"weighted_order": WeightedOrder(scope="cluster")},
    {"weighted_order": WeightedOrder(efficiency=5, scope="cluster"), "aged_after": HOUR},
    {"aged_after": HOUR},
    {"victim_order": "priority"},
    {"plugins": without("priority")},
    {"plugins": without("elastic")},
)
POLICIES = (
    {"weighted_order": WeightedOrder()},
    {"weighted_order": WeightedOrder(scope="cluster"), "aged_after": HOUR},
    {"victim_order": "priority", "max_evictions_per_cycle": 2},
    {"plugins": ("elastic", "priority")},
    {"plugins": ("predicates", "proportion")},
)


@st.composite
def mixed_worlds(draw, new_world):
    world = new_world()
    for number in range(draw(st.integers(1, 3))):
        world.node(f"node-{number}", gpus=draw(st.integers(1, 4)))
    world.queue("a", quota=draw(st.integers(0, 3)), priority=draw(st.sampled_from([100, 200])))
    world.queue("b", quota=draw(st.integers(0, 3)))
    free = {f"node-{number}": 1 for number in range(3)}
    for number in range(draw(st.integers(1, 8))):
        tasks = draw(st.integers(1, 3))
        place = draw(st.sampled_from(["", "node-0"]))
        running = place and free[place] > 0 and tasks == 1
        if running:
            free[place] -= 1
        world.job(
            f"job-{number}",
            queue=draw(st.sampled_from("ab")),
            tasks=tasks,
            gang=draw(st.integers(1, tasks)),
            gpus=1,
            on=place if running else (),
            priority=draw(st.sampled_from([50, 75, 100])),
            created=NOW - draw(st.integers(0, 100)) * 1000.0,
        )
    return world


@pytest.fixture
def world_class(world):
    return type(world)


@given(st.data())
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
def test_a_policy_decides_alike_in_any_order_of_telling_and_leaves_no_trace(world_class, data):
    world = data.draw(mixed_worlds(world_class))
    config = EngineConfig(**data.draw(st.sampled_from(POLICIES)))
    working = world.working()
    before = run_cycle(working, EngineConfig(), NOW)
    chosen = run_cycle(working, config, NOW)
    assert run_cycle(working, config, NOW) == chosen
    assert run_cycle(world.working(world.shuffled(1)), config, NOW) == chosen
    assert run_cycle(working, EngineConfig(), NOW) == before


def carried_out(records, decisions, now):
    """The records a second later: what was evicted waits again, what was bound runs."""
    bound = {bind.task: bind.node for bind in decisions.binds}
    evicted = {evict.task for evict in decisions.evictions}
    losers = {evict.podgroup for evict in decisions.evictions}
    after = []
    for record in records:
        if isinstance(record, Task) and record.uid in evicted:
            record = replace(record, status=Status.PENDING, node="")
        elif isinstance(record, Task) and record.uid in bound:
            record = replace(record, status=Status.RUNNING, node=bound[record.uid])
        elif isinstance(record, PodGroup):
            if record.uid in losers:
                record = replace(record, last_evicted=now)
            if record.uid in decisions.started:
                record = replace(record, last_start=now)
        after.append(record)
    return after


def comes_to_rest(world, config) -> bool:
    """Whether some cycle decides nothing. Each hands on to the next whom it made room for, as the scheduler does."""
    records, now = list(world.records), NOW
    for _ in range(40):
        decisions = run_cycle(world.working(records), config, now)
        if not decisions.changed:
            return True
        records = carried_out(records, decisions, now)
        config = replace(config, promised=decisions.heirs)
        now += 1
    return False


@given(st.data())
@settings(max_examples=150, suppress_health_check=list(HealthCheck))
def test_an_order_comes_to_rest(world_class, data):
    """Nobody is let in and put out again for ever."""
    world = data.draw(mixed_worlds(world_class))
    assert comes_to_rest(world, EngineConfig(**data.draw(st.sampled_from(ORDERS))))


def test_room_that_reclaim_made_goes_to_whom_it_was_made_for(world):
    """The order alone would give it to the queue that it was taken from, which reclaim takes it from again."""
    world.node("node-0", gpus=1)
    world.node("node-1", gpus=1)
    world.queue("borrower")
    world.queue("owner", quota=2)
    world.job("young", queue="borrower", created=NOW - 1000)
    world.job("old", queue="owner", tasks=2, created=NOW - 17000)
    world.job("large", queue="borrower", tasks=3, created=NOW - 4000)
    world.job("gang", queue="owner", tasks=3, gang=3, created=NOW)
    assert comes_to_rest(world, EngineConfig(weighted_order=WeightedOrder(scope="cluster")))
