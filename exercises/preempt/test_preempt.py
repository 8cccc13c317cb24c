"""Preemption: inside one queue, more important work takes the place of less important preemptible work."""

import pytest

from kailab.lab import expect

pytestmark = pytest.mark.exercise("preempt")


def test_a_higher_class_takes_the_place_of_a_lower(lab):
    """8 GPUs full of `train`; four pods of `build` come, and four of `train` go."""
    lab.apply("manifests/queues.yaml", "manifests/low.yaml")
    expect(lab.app("low")).running(pods=8)

    lab.apply("manifests/high.yaml")
    expect(lab.app("high")).running(pods=4)
    expect(lab.app("low")).running(pods=4).evicted(pods=4, by="preempt", for_queue="team-a")


def test_the_same_class_waits(lab):
    """Arriving later is no reason to evict."""
    lab.apply("manifests/queues.yaml", "manifests/low.yaml")
    expect(lab.app("low")).running(pods=8)

    lab.apply("manifests/same.yaml")
    expect(lab.app("same")).running(pods=0).pending(pods=4, reason="OverLimit")
    expect(lab.app("low")).running(pods=8).not_evicted()


def test_non_preemptible_work_is_safe_from_any_class(lab):
    """`inference` (125) ranks above `build` (100), but `build` can't be taken away."""
    lab.apply("manifests/queues.yaml", "manifests/safe.yaml")
    expect(lab.app("safe")).running(pods=8)

    lab.apply("manifests/highest.yaml")
    expect(lab.app("highest")).running(pods=0).pending(pods=4, reason="OverLimit")
    expect(lab.app("safe")).running(pods=8).not_evicted()


def test_the_lowest_class_goes_first(lab):
    """Victims are taken from the bottom: `train` (50) before `build-preemptible` (75)."""
    lab.apply("manifests/queues.yaml", "manifests/three-classes.yaml")
    expect(lab.queue("team-a")).running(gpus=8)

    lab.apply("manifests/high.yaml")
    expect(lab.app("high")).running(pods=4)
    expect(lab.app("middle")).running(pods=4).not_evicted()
    expect(lab.app("low")).running(pods=0).evicted(pods=4)


def test_preemptible_work_preempts_too(lab):
    """`build-preemptible` may evict `train`, although it may be evicted itself."""
    lab.apply("manifests/queues.yaml", "manifests/low.yaml")
    expect(lab.app("low")).running(pods=8)

    lab.apply("manifests/build-preemptible.yaml")
    expect(lab.app("middle")).running(pods=4)
    expect(lab.app("low")).running(pods=4)


def test_a_gang_preempts_as_a_gang(lab):
    """Six together or none: six go."""
    lab.apply("manifests/queues.yaml", "manifests/low.yaml")
    expect(lab.app("low")).running(pods=8)

    lab.apply("manifests/high-gang.yaml")
    expect(lab.job("high")).runs_whole(pods=6)
    expect(lab.app("low")).running(pods=2).evicted(pods=6)


def test_importance_ends_at_the_queue(lab):
    """team-b's important work takes the place of team-b's own; team-a, within its quota, loses nothing."""
    lab.apply("manifests/queues-two-teams.yaml", "manifests/both-full.yaml")
    expect(lab).running(gpus=32)

    lab.apply("manifests/b-high.yaml")
    expect(lab.app("b-high")).running(pods=4)
    expect(lab.app("b-low")).running(pods=12).evicted(pods=4, by="preempt", for_queue="team-b")
    expect(lab.app("a-low")).running(pods=16).not_evicted()
