"""A job that an evicting action promised a place gets it before its queue's turn."""

from kailab.engine.snapshot.records import Status
from tests.engine.conftest import NOW


def to_and_fro(world):
    """One GPU is free. The first job of ``waiting`` is so large that ``borrowing`` is served first; the second has the better
    claim all the same."""
    world.node("node-1", gpus=2)
    world.queue("waiting", quota=1)
    world.queue("borrowing", quota=1)
    world.job("large", queue="waiting", gpus=8, preemptible=False)
    world.job("small", queue="waiting")
    world.job("elastic", queue="borrowing", tasks=2, on=["node-1"])


def test_room_that_is_given_and_taken_again_goes_to_nobody_in_one_cycle(world):
    to_and_fro(world)
    decided = world.decide()
    assert not decided.bound
    assert decided.promised == {"small-0": "node-1"}
    assert decided.decisions.again
    assert decided.decisions.heirs == ("small",)


def test_who_was_promised_it_goes_first_in_the_next_cycle(world):
    to_and_fro(world)
    decided = world.decide(promised=("small",))
    assert decided.bound == {"small-0": "node-1"}
    assert not decided.promised


def test_a_promise_is_no_right_to_what_the_queue_may_not_have(world):
    world.node("node-1", gpus=2)
    world.queue("team", quota=1, limit=1)
    world.queue("other", quota=1)
    world.job("running", on="node-1")
    world.job("more")
    world.job("theirs", queue="other")
    assert world.decide(promised=("more", "gone")).bound == {"theirs-0": "node-1"}


def test_who_still_has_to_wait_does_not_go_first(world):
    world.node("node-1", gpus=1)
    world.queue("team", quota=1)
    world.job("leaving", on="node-1", status=Status.RELEASING)
    world.job("urgent", priority=75)
    world.job("usual")
    assert world.decide(promised=("usual",)).promised == {"urgent-0": "node-1"}


def test_a_promise_for_which_nobody_leaves_is_none(world):
    # A new shared GPU takes a second pod slot, for the pod that reserves it; in thought the running pod frees one and stays.
    world.node("node-1", gpus=8, pods=2)
    world.queue("team", quota=-1)
    world.queue("other", quota=-1)
    world.job("running", queue="other", tasks=1, on="node-1")
    world.job("part", gpus=0.5)
    decided = world.decide()
    assert decided.nothing
    assert ("consolidation", "those who would go can all stay where they are: it makes no room") in decided.pending(
        "part"
    ).tried
    assert decided.decisions.heirs == ()


def test_a_promise_that_was_withdrawn_gives_no_right_to_go_first(world):
    """Its turn is behind one that never starts, and each queue tries one job in a cycle: that it was found room for is none."""
    world.node("node-1", gpus=8, pods=4)
    world.queue("team", quota=-1)
    world.job("large", gpus=16, priority=75)
    world.job("running", on="node-1")
    world.job("small")
    first = world.decide(queue_depth={"allocate": 1})
    assert first.nothing
    second = world.decide(queue_depth={"allocate": 1}, promised=first.decisions.heirs)
    assert second.nothing
    assert second.decisions.heirs == first.decisions.heirs


def fragmented(world, *, moved=False):
    """Two nodes of two GPUs, with one pod on each, or with one of them evicted so that ``big`` has a whole node. ``early`` is
    served before ``big``; its preemption delay keeps consolidation from looking at it."""
    world.node("node-1", gpus=2)
    world.node("node-2", gpus=2)
    world.queue("team", quota=-1)
    world.job("early", gpus=2, created=NOW - 1, preemption_delay=3600)
    world.job("big", gpus=2, created=NOW)
    world.job("stays", on="node-1", created=NOW - 2)
    world.job("moves", on=() if moved else "node-2", created=NOW)


def test_after_a_consolidation_its_job_goes_first_and_then_those_that_moved(world):
    fragmented(world)
    decided = world.decide()
    assert decided.promised == {"big-0": "node-2"}
    assert decided.moved == {"moves-0": "node-1"}
    assert decided.decisions.heirs == ("big", "moves")


def test_the_room_that_a_consolidation_made_goes_to_its_job(world):
    fragmented(world, moved=True)
    assert world.decide(promised=("big", "moves")).bound == {"big-0": "node-2", "moves-0": "node-1"}
    # KAI remembers no promise.
    assert world.decide().bound == {"early-0": "node-2", "moves-0": "node-1"}


def test_a_pod_that_a_consolidation_moves_does_not_lose_its_new_place(world):
    fragmented(world, moved=True)
    world.job("urgent", priority=75)
    assert world.decide().bound == {"urgent-0": "node-1", "early-0": "node-2"}
    assert world.decide(promised=("big", "moves"), actions=("allocate",)).bound == {
        "big-0": "node-2",
        "moves-0": "node-1",
    }
