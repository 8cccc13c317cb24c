"""Past usage, for time-based fairness."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kailab.cluster.embedded import EmbeddedCluster
from kailab.engine.config import EngineConfig
from kailab.engine.decisions import QueueShare, QueueState
from kailab.scheduler.usage import UsageHistory, UsageParams

CAPACITY = {"gpu": 10_000, "cpu": 100_000, "memory": 10**12}


def state(name: str, gpus: int) -> QueueState:
    def share(amount: int) -> QueueShare:
        return QueueShare(quota=0, limit=-1, fair_share=0, allocated=amount, requested=amount)

    return QueueState(name=name, parent="", priority=100, gpu=share(gpus * 1000), cpu=share(0), memory=share(0))


def history(params: UsageParams | None = None) -> tuple[EmbeddedCluster, UsageHistory]:
    cluster = EmbeddedCluster()
    return cluster, UsageHistory.load(cluster, params or UsageParams())


def test_the_documents_example() -> None:
    _, past = history(UsageParams(window=36_000))
    past.observe(0, [state("q", 8)], CAPACITY)
    past.observe(3 * 3600, [state("q", 0)], CAPACITY)
    assert past.compute(36_000)["q"]["gpu"] == pytest.approx(0.24)


def test_usage_before_the_window_does_not_count() -> None:
    _, past = history(UsageParams(window=3600))
    past.observe(0, [state("q", 10)], CAPACITY)
    past.observe(3600, [state("q", 0)], CAPACITY)
    assert past.compute(3600)["q"]["gpu"] == pytest.approx(1.0)
    assert past.compute(5400)["q"]["gpu"] == pytest.approx(0.5)
    assert past.compute(7200) == {}


def test_use_one_half_life_ago_weighs_half() -> None:
    """Two equal intervals of one second, one now and one a half-life ago, with almost no capacity in between."""
    half_life = 1000.0
    _, past = history(UsageParams(half_life=half_life))
    past.observe(0, [state("old", 10)], CAPACITY)
    past.observe(1, [], CAPACITY)
    past.observe(half_life, [state("new", 10)], CAPACITY)
    found = past.compute(half_life + 1)
    assert found["old"]["gpu"] / found["new"]["gpu"] == pytest.approx(0.5)


def test_a_cron_window_begins_anew_when_the_expression_says() -> None:
    _, past = history(UsageParams(window_type="cron", cron="@daily"))
    past.observe(0, [state("q", 10)], CAPACITY)
    assert past.compute(86_399)["q"]["gpu"] == pytest.approx(1.0)
    past.observe(86_400 + 21_600, [state("q", 0)], CAPACITY)
    assert past.compute(86_400 + 43_200)["q"]["gpu"] == pytest.approx(0.5)
    assert past.compute(2 * 86_400 + 1).get("q", {}).get("gpu", 0.0) == 0.0


def test_a_tumbling_window_begins_anew() -> None:
    _, past = history(UsageParams(window=100, window_type="tumbling"))
    past.observe(0, [state("q", 10)], CAPACITY)
    assert past.compute(99)["q"]["gpu"] == pytest.approx(1.0)
    past.observe(100, [state("q", 0)], CAPACITY)
    assert past.compute(150) == {}


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(1, 500), st.integers(0, 10)), min_size=1, max_size=12),
    st.sampled_from([None, 60.0, 600.0]),
)
def test_pieces_add_up_to_samples_taken_often(pieces: list[tuple[int, int]], half_life: float | None) -> None:
    """The exact integral agrees with KAI's sum of decayed samples, taken every second."""
    _, past = history(UsageParams(half_life=half_life))
    now, samples = 0, []
    for length, gpus in pieces:
        past.observe(float(now), [state("q", gpus)], CAPACITY)
        samples += [(now + offset, gpus) for offset in range(length)]
        now += length
    weights = [0.5 ** ((now - when) / half_life) if half_life else 1.0 for when, _ in samples]
    expected = sum(w * gpus for w, (_, gpus) in zip(weights, samples)) / (10 * math.fsum(weights))
    assert past.compute(float(now)).get("q", {"gpu": 0.0})["gpu"] == pytest.approx(expected, abs=0.02)
    assert 0.0 <= past.compute(float(now)).get("q", {"gpu": 0.0})["gpu"] <= 1.0


def test_joining_old_pieces_keeps_their_sum() -> None:
    _, past = history()
    for second in range(2000):
        past.observe(float(second), [state("q", second % 3)], CAPACITY)
    expected = sum(second % 3 for second in range(2000)) / (10 * 2000)
    assert past.compute(2000.0)["q"]["gpu"] == pytest.approx(expected)


def test_it_is_kept_with_the_cluster() -> None:
    cluster, past = history(UsageParams(half_life=100))
    past.observe(0, [state("q", 8)], CAPACITY)
    past.observe(50, [state("q", 2)], CAPACITY)
    again = UsageHistory.load(cluster, UsageParams(half_life=100))
    assert again.compute(80) == past.compute(80)
    assert not again.observe(60, [state("q", 2)], CAPACITY)


def test_a_damaged_record_begins_anew() -> None:
    cluster, past = history()
    past.observe(0, [state("q", 8)], CAPACITY)
    cluster.patch("ConfigMap", "kailab-queue-usage", "kai-scheduler", {"data": {"history": "{"}})
    assert UsageHistory.load(cluster, UsageParams()).compute(10) == {}


def test_it_is_off_unless_asked_for(lab, build) -> None:
    lab.apply(build.queue("org"), build.queue("team", "org"), build.pod("a", 1, "team"))
    lab.settle()
    names = [obj["metadata"]["name"] for obj in lab.cluster.list("ConfigMap")]
    assert "kailab-queue-usage" not in names


def test_two_queues_take_turns(build) -> None:
    """One node of 8 GPUs and two queues without quota that request all of them: with past usage, the queue that waited is next."""
    lab = build.lab(nodes=1)
    lab.restart(config=EngineConfig(k_value=5.0), usage=UsageParams(half_life=1800.0))
    for name in ("a", "b"):
        lab.apply(build.queue(name, gpu=build.share(0, -1, 1)))
    lab.apply(build.pod("a0", 8, "a", restartPolicy="Always"))
    lab.settle()
    lab.apply(build.pod("b0", 8, "b"))
    lab.settle()
    assert lab.running() == ["a0"]
    for _ in range(240):
        lab.cluster.advance(60)
        lab.settle()
        if lab.running() == ["b0"]:
            break
    assert lab.running() == ["b0"]


def test_usage_is_given_to_the_engine_by_the_minute() -> None:
    _cluster, past = history()
    past.observe(0, [state("q", 10)], CAPACITY)
    first = past.shares(90.0)
    assert past.shares(119.0) is first
    assert past.next_refresh == 120.0
    assert past.shares(120.0) is not first
