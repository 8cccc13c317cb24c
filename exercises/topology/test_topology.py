"""Topology: the placement of the pods of a gang. Two zones of three racks of four nodes of 8 GPUs."""

import pytest

from kailab.lab import expect

pytestmark = [pytest.mark.exercise("topology"), pytest.mark.kailab_fleet("racks")]


def test_a_required_rack_holds_the_whole_gang(lab):
    """Four pods of 8 GPUs, as many as a rack has: all in one."""
    lab.apply("manifests/queues.yaml", "manifests/one-rack.yaml")

    expect(lab.job("gang")).runs_whole(pods=4).on_one("rack").spread_over(4, "node")


def test_a_gang_goes_where_it_fits_whole(lab):
    """A GPU is in use in every rack but rack-5, so only rack-5 has four whole nodes."""
    lab.apply("manifests/queues.yaml", "manifests/scattered.yaml")
    expect(lab.app("scattered")).running(pods=5)

    lab.apply("manifests/one-rack.yaml")
    expect(lab.job("gang")).on_nodes(["h100-16", "h100-17", "h100-18", "h100-19"])


def test_a_gang_too_big_for_a_rack_waits(lab):
    """40 GPUs required in one rack of 32: 192 are free, and it waits all the same."""
    lab.apply("manifests/queues.yaml", "manifests/too-big-for-a-rack.yaml")

    expect(lab.job("gang")).waits_whole(pods=5)


def test_a_preferred_rack_is_given_up(lab):
    """The same gang with a preference only: it runs, over two racks."""
    lab.apply("manifests/queues.yaml", "manifests/one-rack-preferred.yaml")

    expect(lab.job("gang")).runs_whole(pods=5).spread_over(2, "rack")


def test_a_required_zone(lab):
    """96 GPUs are exactly one zone; with one GPU in use in the first, it must be the second."""
    lab.apply("manifests/queues.yaml", "manifests/one-gpu-in-zone-1.yaml")
    expect(lab.pod("taken")).running()

    lab.apply("manifests/one-zone.yaml")
    expect(lab.job("gang")).runs_whole(pods=12).on_one("zone").on_nodes(f"h100-{node}" for node in range(12, 24))


def test_a_required_node(lab):
    """The lowest level is the node itself: eight pods, one machine."""
    lab.apply("manifests/queues.yaml", "manifests/one-node.yaml")

    expect(lab.job("gang")).runs_whole(pods=8).on_one("node")


def test_required_and_preferred_together(lab):
    """One zone at least; within it as few racks as will do: two, although no rack but rack-5 is whole."""
    lab.apply("manifests/queues.yaml", "manifests/scattered.yaml")
    expect(lab.app("scattered")).running(pods=5)

    lab.apply("manifests/both.yaml")
    expect(lab.job("gang")).runs_whole(pods=5).on_one("zone").spread_over(2, "rack")


def test_the_tightest_rack_that_fits(lab):
    """rack-2 is half full; a gang of 16 fills it up and leaves the empty racks whole for others."""
    lab.apply("manifests/queues.yaml", "manifests/half-full-rack.yaml")
    expect(lab.app("taken")).running(pods=2)

    lab.apply("manifests/half-a-rack.yaml")
    expect(lab.job("gang")).on_nodes(["h100-06", "h100-07"])


def test_an_unknown_level_is_an_error_not_a_wish(lab):
    """A level that the topology lacks: the gang waits."""
    lab.apply("manifests/queues.yaml", "manifests/unknown-level.yaml")

    expect(lab.job("gang")).waits_whole(pods=4, reason="Unschedulable")


@pytest.mark.kailab_only("KAI says that it can't, and not why")
def test_the_reason_names_the_unknown_level(lab):
    """A typing error is found in a minute, not in a day."""
    lab.apply("manifests/queues.yaml", "manifests/unknown-level.yaml")

    expect(lab.job("gang")).waits_whole(pods=4).says("lab/row")
