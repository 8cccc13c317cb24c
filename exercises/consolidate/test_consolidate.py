"""Consolidation: enough GPUs are free, but not on one node. Moving something makes the room."""

import pytest

from kailab.lab import expect

pytestmark = pytest.mark.exercise("consolidate")


def two_half_empty_nodes(lab, small):
    """The big nodes are taken. Four workloads of 2 GPUs fill the two small nodes; then one on each of the two ends."""
    lab.apply("manifests/queues.yaml", "manifests/keep.yaml")
    lab.settle()
    lab.apply(small)
    lab.settle()
    for node in ("l40s-0", "l40s-1"):
        ends = next(row.app for row in lab.picture().rows if row.node == node)
        lab.delete("Deployment", ends)
    for node in ("l40s-0", "l40s-1"):
        expect(lab.node(node)).holding(gpus=2)


def test_moving_one_makes_room_for_another(lab):
    """2 + 2 GPUs free on two nodes, 4 wanted on one: a small workload moves over, and the big pod starts."""
    two_half_empty_nodes(lab, "manifests/small.yaml")

    lab.apply("manifests/big.yaml")
    expect(lab.pod("big")).running(pods=1, gpus=4)
    expect(lab).running(gpus=32).evicted(pods=1, by="consolidation").no_pending()


def test_nobody_loses_by_it(lab):
    """Consolidation evicts only pods that have a new place: both small workloads run afterwards, on one node."""
    two_half_empty_nodes(lab, "manifests/small.yaml")

    lab.apply("manifests/big.yaml")
    lab.settle()
    small = [row for row in lab.picture().rows if row.app.startswith("small")]
    assert [row.phase for row in small] == ["Running", "Running"]
    assert len({row.node for row in small}) == 1


def test_where_moving_does_not_help_nothing_is_moved(lab):
    """No move frees 8 GPUs on one node: the pod waits, and no other pod is evicted for it."""
    two_half_empty_nodes(lab, "manifests/small.yaml")

    lab.apply("manifests/too-big.yaml")
    expect(lab.pod("big")).pending(pods=1, reason="PodSchedulingErrors")
    expect(lab).not_evicted()


def test_non_preemptible_work_is_not_moved(lab):
    """The same nodes with work that can't be taken away: 4 GPUs stay free, and the big pod waits."""
    two_half_empty_nodes(lab, "manifests/small-fixed.yaml")

    lab.apply("manifests/big.yaml")
    expect(lab.pod("big")).pending(pods=1, reason="PodSchedulingErrors")
    expect(lab).running(gpus=28).not_evicted()


@pytest.mark.kailab_config(max_consolidation_victims=0)
def test_how_many_may_be_moved_is_a_setting(lab):
    """With no victims allowed the big pod waits next to 4 free GPUs, as it would under any scheduler that never moves."""
    two_half_empty_nodes(lab, "manifests/small.yaml")

    lab.apply("manifests/big.yaml")
    expect(lab.pod("big")).pending(pods=1)
    expect(lab).running(gpus=28).not_evicted()


def test_the_default_scheduler_never_moves_anything(baseline_lab):
    """The contrast: 4 GPUs free, 4 wanted, and the pod waits for ever."""
    two_half_empty_nodes(baseline_lab, "manifests/small.yaml")

    baseline_lab.apply("manifests/big.yaml")
    expect(baseline_lab.pod("big")).pending(pods=1)
    expect(baseline_lab).running(gpus=28).not_evicted()
