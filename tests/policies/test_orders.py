"""Orders of jobs and victims, each compared with its source."""

from __future__ import annotations

import pytest

from kailab.engine.policies.views import JobView, Resources
from kailab.engine.snapshot.gpu_requests import WholeGpus
from kailab.engine.snapshot.records import GPU, PodGroup, Shape, Task
from kailab.policies.orders import Fifo, LeastAttained, MostAttained, ShortestJob, SmallestJob, Tiresias

NOW = 10_000.0


def job(
    name: str,
    *,
    came: float = 0.0,
    gpus: int = 1,
    expected: float | None = None,
    ran: float | None = None,
    ended: float | None = None,
    priority: int = 50,
    before: float = 0.0,
) -> JobView:
    """``ran``: when it last began; ``ended``: when it was evicted after that; ``before``: seconds of its earlier runs."""
    waits = ran is None or ended is not None
    amounts = Resources(0, 0, gpus * GPU)
    none = Resources(0, 0, 0)
    task = Task(
        uid=name, name=name, namespace="d", podgroup=name, shape=Shape(gpu=WholeGpus(devices=gpus)),
        expected_seconds=expected, ran_seconds=before,
    )  # fmt: skip
    return JobView(
        group=PodGroup(
            uid=name, name=name, namespace="d", queue="q", created=came, priority=priority, last_start=ran, last_evicted=ended
        ),
        tasks=(task,),
        wants=amounts if waits else none,
        holds=none if waits else amounts,
        minimum="below" if waits else "at",
        waiting_since=came if waits else None,
        queue=None,
        now=NOW,
    )  # fmt: skip


def order(policy, *jobs: JobView) -> list[str]:
    method = policy.cost if isinstance(policy, MostAttained) else policy.key
    return [one.group.name for one in sorted(jobs, key=method)]


def test_fifo_is_by_arrival_whatever_the_priority() -> None:
    assert order(Fifo(), job("late", came=9, priority=90), job("early", came=1)) == ["early", "late"]


def test_shortest_job_first_and_those_of_unknown_length_last() -> None:
    jobs = job("unknown"), job("long", expected=900), job("short", expected=30, came=5)
    assert order(ShortestJob(), *jobs) == ["short", "long", "unknown"]


def test_the_job_of_fewest_gpus_first() -> None:
    assert order(SmallestJob(), job("large", gpus=8), job("small", gpus=1)) == ["small", "large"]


def test_tiresias_takes_the_least_attained_service_by_time_and_gpus() -> None:
    fresh = job("fresh", came=500)
    # 8 GPUs for 500 s had 4000 GPU-seconds, beyond the first threshold; 1 GPU for 3000 s had not.
    wide, long = job("wide", gpus=8, ran=NOW - 500, came=1), job("long", gpus=1, ran=NOW - 3000, came=2)
    assert order(Tiresias(), wide, long, fresh) == ["long", "fresh", "wide"]


def test_within_a_queue_of_tiresias_who_came_first_is_first() -> None:
    more, less = job("more", ran=NOW - 3000, came=1), job("less", ran=NOW - 10, came=2)
    assert order(Tiresias(), less, more) == ["more", "less"]
    assert order(Tiresias(thresholds=(100.0, 3250.0)), less, more) == ["less", "more"]


def test_an_evicted_job_keeps_what_it_had() -> None:
    evicted = job("evicted", gpus=4, ran=1000.0, ended=3000.0, came=1)
    assert order(Tiresias(), evicted, job("new", came=50)) == ["new", "evicted"]


def test_attained_service_is_that_of_all_runs() -> None:
    # 8 GPUs for 400 s before and 50 s now; 8 GPUs for 420 s now.
    twice = job("twice", gpus=8, ran=NOW - 50, before=400, came=1)
    once = job("once", gpus=8, ran=NOW - 420, came=2)
    assert order(MostAttained(), once, twice) == ["twice", "once"]
    assert order(Tiresias(thresholds=(3500.0,)), twice, once) == ["once", "twice"]
    # A waiting job's earlier runs are those that its pods declare: the last one is among them.
    waits = job("waits", gpus=8, ran=NOW - 300, ended=NOW - 100, before=450)
    assert order(Tiresias(thresholds=(3500.0,)), waits, once) == ["once", "waits"]


def test_in_a_class_of_least_attained_a_running_job_stays() -> None:
    runs, waits, fresh = job("runs", ran=NOW - 10, came=5), job("waits", came=1), job("served", ran=NOW - 4000, came=0)
    assert order(LeastAttained(), waits, fresh, runs) == ["runs", "waits", "served"]


def test_who_had_the_most_is_evicted_first() -> None:
    assert order(MostAttained(), job("new", ran=NOW - 10), job("old", ran=NOW - 900)) == ["old", "new"]


@pytest.mark.parametrize("policy", [Fifo(), ShortestJob(), SmallestJob(), Tiresias(), LeastAttained()])
def test_a_key_is_made_of_numbers(policy) -> None:
    key = policy.key(job("one"))
    assert all(part == part for part in (key if isinstance(key, tuple) else (key,)))
