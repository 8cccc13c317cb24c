"""Nodes kept free for jobs without room, and the jobs that may start beside them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kailab.engine.decisions import PendingCode
from kailab.engine.policies.contract import Reservation, register_policy
from kailab.engine.policies.settings import PolicyChoice
from kailab.engine.policies.views import JobView
from kailab.engine.snapshot.records import Requirement, Status
from kailab.errors import PolicyError
from kailab.scheduler.settings.policies import policy_class
from tests.engine.conftest import World

NOW = 1_000_000.0
HOUR = 3600.0
ON_C = Requirement(key="n", operator="In", values=("c",))


def keeping(name: str = "backfill", /, **parameters: object) -> PolicyChoice:
    policy_class(name)
    return PolicyChoice(name=name, parameters=parameters)


def lasting(seconds: float) -> dict[str, float]:
    """``world.job(task=...)``: what its user says of its run time."""
    return {"expected_seconds": seconds}


@pytest.fixture
def full(team):
    """Two nodes of 8 GPUs; one is held for another hour. A gang of both waits, at the head."""
    team.node("a")
    team.node("b")
    team.job("runs", gpus=8, on="a", last_start=NOW - HOUR, task=lasting(2 * HOUR), priority=100)
    team.job("gang", tasks=2, gang=2, gpus=8, task=lasting(HOUR), priority=100)
    return team


def test_without_a_reservation_whoever_fits_starts(full) -> None:
    full.job("late", gpus=4, task=lasting(2 * HOUR))
    assert full.decide().bound == {"late-0": "b"}


def test_what_would_run_into_a_kept_place_waits(full) -> None:
    full.job("late", gpus=4, task=lasting(2 * HOUR))
    decided = full.decide(reservation_policy=keeping())
    assert not decided.bound
    [remaining] = decided.decisions.kept
    assert (remaining.podgroup, remaining.at, sorted(remaining.nodes), remaining.gpu) == (
        "gang",
        NOW + HOUR,
        ["a", "b"],
        16_000,
    )


def test_the_reason_tells_for_whom_and_from_when(full) -> None:
    full.job("late", gpus=4, task=lasting(2 * HOUR))
    decided = full.decide(reservation_policy=keeping())
    held = decided.pending("late")
    assert held.code == PendingCode.RESERVED
    assert (held.numbers["kept_for"], held.numbers["kept_from"]) == ("gang", NOW + HOUR)
    assert "what default/gang of queue team is to have from 1970-01-12T14:46:40Z on (nodes a, b)" in held.message
    assert "a place is kept for it from 1970-01-12T14:46:40Z on" in decided.pending("gang").message


def test_what_ends_before_may_start(full) -> None:
    full.job("short", gpus=4, task=lasting(HOUR))
    assert full.decide(reservation_policy=keeping()).bound == {"short-0": "b"}


def test_who_does_not_tell_its_run_time_is_not_counted_upon_to_end(full) -> None:
    full.job("mute", gpus=4)
    assert not full.decide(reservation_policy=keeping()).bound
    assert full.decide(reservation_policy=keeping(unknown=HOUR)).bound == {"mute-0": "b"}


def test_what_the_place_leaves_is_free_for_all(full) -> None:
    full.node("c", gpus=2)
    full.job("late", gpus=2, task=lasting(9 * HOUR))
    assert full.decide(reservation_policy=keeping()).bound == {"late-0": "c"}


def test_a_job_goes_beside_the_place_where_its_usual_node_is_kept(team) -> None:
    # Packing would put it on the fuller node, which the gang is to have whole.
    team.node("a")
    team.node("b", gpus=16)
    team.job("runs", gpus=2, on="a", task=lasting(2 * HOUR))
    team.job("other", gpus=8, on="b", task=lasting(99 * HOUR))
    team.job("gang", tasks=2, gang=2, gpus=6, task=lasting(HOUR), shape={"cpu": 100})
    team.job("whole", gpus=8, task=lasting(HOUR))
    decided = team.decide(reservation_policy=keeping())
    assert set(decided.bound.values()) == {"a", "b"}


def test_the_kept_place_moves_where_it_can_at_the_same_moment(team) -> None:
    # Either of two nodes will do for the head; the one where it was thought to go is the only one that fits the other job now.
    team.node("a", labels={"kind": "x"})
    team.node("b")
    team.job("one", gpus=4, on="a", task=lasting(2 * HOUR))
    team.job("two", gpus=8, on="b", task=lasting(2 * HOUR))
    team.job("head", gpus=8, task=lasting(HOUR))
    team.job("late", gpus=4, task=lasting(9 * HOUR))
    decided = team.decide(reservation_policy=keeping())
    assert decided.bound == {"late-0": "a"}
    assert [remaining.nodes for remaining in decided.decisions.kept] == [("b",)]


def test_as_many_places_as_asked_for_are_kept(full) -> None:
    full.job("next", gpus=8, task=lasting(HOUR + 1), priority=100)
    full.job("late", gpus=8, task=lasting(HOUR + 1))
    places = full.decide(reservation_policy=keeping(most=3)).decisions.kept
    assert [(place.podgroup, place.at) for place in places] == [
        ("gang", NOW + HOUR), ("next", NOW + 2 * HOUR), ("late", NOW + 2 * HOUR)
    ]  # fmt: skip


def test_only_large_jobs_are_kept_a_place_where_asked(full) -> None:
    full.job("late", gpus=4, task=lasting(9 * HOUR))
    assert full.decide(reservation_policy=keeping("keep-for-large", gpus=17)).bound == {"late-0": "b"}
    assert not full.decide(reservation_policy=keeping("keep-for-large", gpus=16)).bound
    waits = keeping("keep-for-large", gpus=16, after=2 * NOW)
    assert full.decide(reservation_policy=waits).bound == {"late-0": "b"}


def test_a_job_that_its_queue_refuses_is_kept_no_place(world) -> None:
    world.node("a")
    world.queue("team", quota=4, limit=4)
    world.queue("other", quota=4)
    world.job("large", gpus=8, task=lasting(HOUR))
    world.job("late", queue="other", gpus=8, task=lasting(HOUR))
    assert world.decide(reservation_policy=keeping()).bound == {"late-0": "a"}


@pytest.mark.parametrize("node, evicted", [("b", set()), ("c", {"low-0"})])
def test_evictions_do_not_take_what_is_kept(full, node, evicted) -> None:
    # It comes after the gang. On b are a victim and the rest of what is kept, on c nothing is.
    if node == "c":
        full.node("c", labels={"n": "c"})
    full.job("low", gpus=2, on=node, priority=10, task=lasting(HOUR))
    full.job("late", gpus=8, priority=60, task=lasting(HOUR), shape={} if node == "b" else {"selector": (ON_C,)})
    assert full.decide().evicted == {"low-0"}
    decided = full.decide(reservation_policy=keeping())
    assert decided.evicted == evicted
    if not evicted:
        assert any("it would take what default/gang" in messages for _, messages in decided.pending("late").tried)


def test_after_a_cycle_all_is_as_it_was(full, state) -> None:
    from kailab.engine.config import EngineConfig
    from kailab.engine.cycle import run_cycle

    full.job("late", gpus=4, task=lasting(2 * HOUR))
    full.job("share", gpus=0.5, task=lasting(2 * HOUR))
    working = full.working()
    before = state(working)
    run_cycle(working, EngineConfig(reservation_policy=keeping()), NOW)
    assert state(working) == before


def test_a_share_does_not_go_to_a_kept_node(full) -> None:
    full.job("share", gpus=0.5, task=lasting(2 * HOUR))
    assert not full.decide(reservation_policy=keeping()).bound
    full.node("c", gpus=1)
    assert full.decide(reservation_policy=keeping()).bound == {"share-0": "c"}


def test_leaving_pods_count_as_gone(team) -> None:
    team.node("a")
    team.job("leaves", gpus=8, on="a", status=Status.RELEASING)
    team.job("head", gpus=8, task=lasting(HOUR))
    assert team.decide(reservation_policy=keeping()).promised == {"head-0": "a"}


def test_what_leaves_still_counts_after_a_job_was_held_back(full) -> None:
    """The first is looked at with nothing free beside the place, what leaves among it; the second sees what leaves as it is."""
    full.job("leaves", gpus=4, on="b", status=Status.RELEASING)
    full.job("late", gpus=4, task=lasting(2 * HOUR))
    full.job("larger", gpus=8, task=lasting(HOUR / 2))
    held = full.decide(reservation_policy=keeping())
    assert [held.pending(name).code for name in ("late", "larger")] == [PendingCode.RESERVED, PendingCode.RESERVED]


class Rubbish(Reservation, frozen=True):
    answer: object = None
    seconds: object = None

    def reserves(self, job: JobView, kept: int) -> bool:
        return self.answer  # type: ignore[return-value]

    def expects(self, job: JobView) -> float | None:
        return self.seconds  # type: ignore[return-value]


register_policy("rubbish", Rubbish)


@pytest.mark.parametrize(
    "parameters, told",
    [
        ({"answer": 3}, "policy 'rubbish': reserves of PodGroup default/gang is 3; expected True or False"),
        (
            {"answer": True, "seconds": -1},
            "policy 'rubbish': expects of PodGroup default/[a-z]+ is -1; expected seconds from 0 on",
        ),
        ({"answer": True, "seconds": "long"}, "expects of PodGroup default/[a-z]+ is 'long'"),
    ],
)
def test_an_answer_that_is_none_ends_the_cycle(full, parameters, told) -> None:
    with pytest.raises(PolicyError, match=told):
        full.decide(reservation_policy=PolicyChoice(name="rubbish", parameters=parameters))


# Whole devices, one a task, on equal nodes: there counting tells all, as in the source.
GANGS = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 9), st.booleans()), min_size=1, max_size=12)


def counted(free: int, running: Sequence[tuple[int, int]], waiting: Sequence[tuple[int, int]]) -> set[int]:
    """Who starts by EASY's rule: (GPUs, seconds) of those that run still and of those that wait, in order; the places of those that do."""
    started: set[int] = set()
    held = list(running)
    head = extra = shadow = None
    for place, (gpus, seconds) in enumerate(waiting):
        if head is None:
            if gpus <= free:
                free -= gpus
                held.append((gpus, seconds))
                started.add(place)
                continue
            head, at_hand = place, free
            for ends in sorted({seconds for _, seconds in held}):
                at_hand = free + sum(others for others, end in held if end <= ends)
                if at_hand >= gpus:
                    shadow, extra = ends, at_hand - gpus
                    break
        elif gpus <= free and (shadow is None or seconds <= shadow or gpus <= extra):
            free -= gpus
            started.add(place)
            if shadow is not None and seconds > shadow:
                extra -= gpus
    return started


@given(st.integers(1, 3), GANGS, GANGS)
@settings(max_examples=50, deadline=None)
def test_those_start_that_the_source_lets_start_and_no_others(nodes, running, waiting) -> None:
    world = World()
    world.queue("team", quota=-1)
    for number in range(nodes):
        world.node(f"n{number}", gpus=4)
    spots = [f"n{number}" for number in range(nodes) for _ in range(4)]
    runs = []
    for number, (gpus, seconds, _) in enumerate(running):
        if gpus <= len(spots):
            on, spots = spots[:gpus], spots[gpus:]
            runs.append((gpus, seconds))
            world.job(
                f"r{number}", tasks=gpus, gang=gpus, on=on, priority=100, last_start=NOW, task=lasting(float(seconds))
            )
    queue = [(min(gpus, nodes * 4), seconds) for gpus, seconds, _ in waiting]
    for number, (gpus, seconds) in enumerate(queue):
        world.job(f"w{number}", tasks=gpus, gang=gpus, priority=100, task=lasting(float(seconds)))
    decided = world.decide(reservation_policy=keeping())
    begun = {int(task.split("-")[0][1:]) for task in decided.bound}
    assert begun == counted(len(spots), runs, queue)
    first = next((number for number in range(len(queue)) if number not in begun), None)
    assert [remaining.podgroup for remaining in decided.decisions.kept] == ([] if first is None else [f"w{first}"])
