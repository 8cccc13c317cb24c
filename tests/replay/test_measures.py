"""Figures of a replay that can be computed by hand."""

from __future__ import annotations

import pytest

from kailab.replay.sampling import jain_index
from kailab.replay.summary import distribution, summarise

TEAMS = "name,submit,seconds,gpus,team"
HOURS = 8 * 1000 / 3600  # GPU-hours of all 8 GPUs for 1000 s


def test_percentiles_are_numbers_that_there_were() -> None:
    found = distribution(list(range(1, 201)))
    assert (found.mean, found.p50, found.p99, found.most) == (100.5, 100, 198, 200)
    assert distribution([]) is None


def test_jobs_are_told_by_queue_and_size(trace_file, queue_file, replayed) -> None:
    path = trace_file("a,0,100,8,blue", "b,10,100,4,red", "c,20,100,0.5,red", "d,30,100,16,red", header=TEAMS)
    found = summarise(replayed(path, queue_file({"blue": 8, "red": 0})))
    rows = {row.name: row for row in (*found.queues, *found.sizes)}
    assert [row.name for row in found.sizes] == ["part of a GPU", "3-4 GPUs", "5-8 GPUs", "9-16 GPUs"]
    assert (rows["red"].jobs, rows["red"].began, rows["red"].ended) == (3, 2, 2)
    assert (rows["3-4 GPUs"].waited.mean, rows["part of a GPU"].waited.mean) == (90, 80)
    assert rows["3-4 GPUs"].slowdown.mean == pytest.approx(1.9)
    assert rows["9-16 GPUs"].waited is None
    assert rows["red"].asked == pytest.approx((4 + 0.5 + 16) * 100 / 3600, abs=1e-3)
    # Full until 100 s, then 4.5 of 8 GPUs until 200 s.
    assert found.allocated == pytest.approx((1 + 4.5 / 8) / 2, abs=1e-4)


def test_short_jobs_count_as_ten_seconds_in_the_slowdown(trace_file, replayed) -> None:
    found = summarise(replayed(trace_file("a,0,20,8", "b,0,1,8"), "one"))
    assert found.total.slowdown.most == pytest.approx(21 / 10)


def test_what_queues_held_stands_beside_their_fair_share(trace_file, queue_file, replayed) -> None:
    path = trace_file("a,0,1000,8,blue", "b,0,1000,8,red", header=TEAMS)
    # Both want all, and each job needs all of it: one runs, and the quota of the other is short all the time.
    found = summarise(replayed(path, queue_file({"blue": 4, "red": 4}), lasting=1000)).fairness
    queues = {queue.name: queue for queue in found.queues}
    assert sorted(queue.held for queue in queues.values()) == pytest.approx([0, HOURS], abs=0.01)
    assert [queue.fair for queue in queues.values()] == pytest.approx([HOURS / 2, HOURS / 2], abs=0.01)
    assert sorted(queue.short for queue in queues.values()) == pytest.approx([0, 4], abs=0.01)
    assert found.jain == pytest.approx(0.5, abs=0.001)


def test_queues_that_get_their_share_are_fair(trace_file, queue_file, replayed) -> None:
    path = trace_file("a,0,1000,4,blue", "b,0,1000,4,red", header=TEAMS)
    found = summarise(replayed(path, queue_file({"blue": 4, "red": 4}))).fairness
    assert found.jain == 1.0
    assert [queue.short for queue in found.queues] == pytest.approx([0, 0], abs=0.01)


def test_what_queues_held_is_what_was_held_however_short_the_jobs(trace_file, queue_file, replayed) -> None:
    """What a cycle binds is held from then on, and not from the next cycle on."""
    lines = ["a,0,36,1,blue", "b,0,36,1,red", "c,0,1,4,green"]
    found = summarise(replayed(trace_file(*lines, header=TEAMS), queue_file({"blue": 2, "red": 2, "green": 4})))
    queues = {queue.name: queue for queue in found.fairness.queues}
    assert {name: queue.held for name, queue in queues.items()} == {"blue": 0.01, "red": 0.01, "green": 0.001}
    assert [queue.short for queue in queues.values()] == [0, 0, 0]
    assert found.fairness.jain == 1.0


def test_queues_held_what_was_held_with_evictions_too(trace_file, queue_file, replayed) -> None:
    """An evicted pod holds its GPUs for a second more, until it is gone."""
    path = trace_file("early,0,3600,8,blue", "late,700,1200,8,red", header=TEAMS)
    done = replayed(path, queue_file({"blue": 0, "red": 8}))
    assert done.accounts.evictions
    held = {queue.name: queue.held for queue in done.fairness.queues}
    assert held["blue"] == pytest.approx(8 * (701 + 3600) / 3600)
    assert sum(held.values()) * 3_600_000 == pytest.approx(done.balance.held)


def test_a_queue_is_short_in_the_mean_over_the_time_in_which_it_asks(trace_file, queue_file, replayed) -> None:
    # Red asks for 4 GPUs of its quota from 1000 s on and gets them at 1500 s, for 500 s; then nobody of it is there for 9000 s.
    path = trace_file("a,0,1500,8,blue", "b,1000,500,4,red", "c,2000,9000,8,blue", header=TEAMS)
    queues = queue_file({"blue": 8, "red": 4})
    found = summarise(replayed(path, queues, config={"actions": "allocate"})).fairness
    assert {queue.name: queue.short for queue in found.queues} == {"blue": 0, "red": 2}


def test_fragmentation_counts_what_has_just_been_bound(trace_file, replayed) -> None:
    # One pod of three GPUs of eight: the one GPU beside it is a fragment from the first sample on.
    done = replayed(trace_file("a,0,3000,3"), "one", lasting=3000)
    assert done.fragmentation.of_all == pytest.approx(1 / 8)


def test_jain_s_index() -> None:
    assert jain_index([1, 1, 1, 1]) == 1.0
    assert jain_index([4, 0, 0, 0]) == 0.25
    assert jain_index([]) is None


def test_what_is_lost_by_how_often_work_is_saved(trace_file, queue_file, replayed) -> None:
    path = trace_file("early,0,3600,8,blue", "late,700,1200,8,red", header=TEAMS)
    found = summarise(replayed(path, queue_file({"blue": 0, "red": 8})))
    lost = found.lost_with_checkpoints
    # 701 s of 8 GPUs were behind it, the last of them while its pods left.
    assert found.total.lost == pytest.approx(8 * 701 / 3600, abs=1e-3)
    assert [lost[name] for name in ("1m", "10m", "30m")] == pytest.approx(
        [8 * 41 / 3600, 8 * 101 / 3600, 8 * 701 / 3600], abs=1e-3
    )
    assert found.goodput == pytest.approx((3600 + 1200) / (3600 + 1200 + 701), abs=1e-4)


def test_free_gpus_that_the_trace_s_pods_can_not_use_are_fragments(trace_file, replayed) -> None:
    # Three jobs of three GPUs, of which two run: a GPU is left on each node, of no use to the third.
    found = summarise(replayed(trace_file("a,0,900,3", "b,1,900,3", "c,2,900,3"), "one", endless=True)).fragmentation
    assert (found.last_of_all, found.last_of_free) == (0.25, 1.0)
    assert 0 < found.of_all < 0.25


def test_a_state_that_lasts_counts_for_as_long_as_it_does(trace_file, replayed) -> None:
    # After many short jobs that fill all, one leaves a GPU of each node free for most of the time.
    lines = [*(f"s{n},{n * 40},2,8" for n in range(10)), "long,400,10000,6", "last,9000,2,8"]
    found = summarise(replayed(trace_file(*lines), "one")).fragmentation
    # From 400 s to 10,400 s: 2 of 8 GPUs are of no use to jobs of 8, of 10,404 s.
    assert found.of_all == pytest.approx(0.25 * 10_000 / 10_404, abs=0.005)
    assert found.samples == pytest.approx(300 * 10_404 / 9000, abs=2)


def test_work_that_was_saved_is_not_lost_again(trace_file, queue_file, replayed) -> None:
    lines = ["early,0,3600,8,blue", *(f"late{n},{at},60,8,red" for n, at in enumerate((700, 1500, 2300)))]
    path, queues = trace_file(*lines, header=TEAMS), queue_file({"blue": 0, "red": 8})
    ran = 701, 1500 - 761, 2300 - 1561
    lost = summarise(replayed(path, queues, checkpoint=600)).lost_with_checkpoints
    assert lost["6h"] <= 8 * sum(ran) / 3600 + 0.01
    # As often as it was: what was lost is what is told to have been.
    done = summarise(replayed(path, queues, checkpoint=600))
    assert done.lost_with_checkpoints["10m"] == pytest.approx(done.total.lost, abs=1e-3)


def test_gpus_that_all_can_use_are_no_fragments(trace_file, replayed) -> None:
    found = summarise(replayed(trace_file("a,0,900,1", "b,1,900,1", "c,2,900,1"), "one", endless=True)).fragmentation
    assert (found.of_all, found.last_of_all) == (0.0, 0.0)


def test_jobs_that_never_begin_are_told_with_what_was_said_of_them(trace_file, replayed) -> None:
    path = trace_file(
        "a,0,60,4,,",
        "b,1,60,12,,",
        "c,2,60,1,H999,",
        "d,3,60,2,,build",
        header="name,submit,seconds,gpus,models,priority",
    )
    (few, first) = sorted(summarise(replayed(path)).unbegun, key=lambda one: one.jobs)
    assert (few.reason, few.jobs, few.example) == ("NonPreemptibleOverQuota", 1, "d")
    assert (first.reason, first.jobs, first.example) == ("PodSchedulingErrors", 2, "b")
    assert "there is room for 2 of the 3 pods that must start together" in first.message
    assert summarise(replayed(trace_file("a,0,60,4"))).unbegun == []
