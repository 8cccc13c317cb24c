"""Elastic jobs: a minimum that is needed, and optional pods beyond it."""

import pytest

from kailab.lab import expect

pytestmark = pytest.mark.exercise("elastic")


def test_it_takes_what_there_is_above_its_minimum(lab):
    """8 needed, 32 welcome, 8 free: 8 run."""
    lab.apply("manifests/queues-one-team.yaml", "manifests/filler.yaml")
    lab.settle()
    lab.apply("manifests/elastic.yaml")

    expect(lab.job("elastic")).running(pods=8).pending(pods=24)


def test_below_its_minimum_it_does_not_start(lab):
    """8 needed, 4 free: none runs."""
    lab.apply("manifests/queues-one-team.yaml", "manifests/crowded.yaml")
    lab.settle()
    lab.apply("manifests/elastic.yaml")

    expect(lab.job("elastic")).waits_whole(pods=32)


def test_it_grows_when_room_appears(lab):
    """The neighbour ends: all 32 run, and the earlier pods were not restarted."""
    lab.apply("manifests/queues-one-team.yaml", "manifests/filler.yaml")
    lab.settle()
    lab.apply("manifests/elastic.yaml")
    expect(lab.job("elastic")).running(pods=8)

    lab.delete("Deployment", "filler")
    expect(lab.job("elastic")).running(pods=32).no_pending().not_evicted()


def test_it_shrinks_to_make_room(lab):
    """The neighbour wants its 16 GPUs: 16 of 32 pods go, 16 work on."""
    lab.apply("manifests/queues.yaml", "manifests/elastic.yaml")
    expect(lab.job("elastic")).running(pods=32)

    lab.apply("manifests/b-needs.yaml")
    expect(lab.job("elastic")).running(pods=16).evicted(pods=16, by="reclaim")


def test_it_reclaims_only_what_is_its_own(lab):
    """team-b borrows 8 of team-a's 16 GPUs. The job starts on the 8 that are free and takes the 8 back pod by pod."""
    lab.apply("manifests/queues.yaml", "manifests/borrowed.yaml")
    lab.settle()
    lab.apply("manifests/elastic.yaml")

    expect(lab.job("elastic")).running(pods=16).pending(pods=16)
    expect(lab.app("borrowed")).running(pods=16).evicted(pods=8, by="reclaim", for_queue="team-a")


def test_minimum_comes_before_surplus(lab):
    """Two elastic jobs wait, 8 GPUs become free: each gets the 4 that it needs before either gets a fifth."""
    lab.apply("manifests/queues-one-team.yaml", "manifests/tenant.yaml")
    expect(lab.pod("tenant")).running()
    lab.apply("manifests/filler.yaml")
    lab.settle()
    lab.apply("manifests/two-elastic.yaml")
    expect(lab).running(gpus=32)

    lab.delete("Pod", "tenant")
    expect(lab.job("one")).running(pods=4)
    expect(lab.job("two")).running(pods=4)


def test_below_its_minimum_it_goes_as_a_whole(lab):
    """team-a owns only 4, its job needs 8. When the owner of the other 28 comes back, only 4 pods would be left, so all are evicted."""
    lab.apply("manifests/queues-small-a.yaml", "manifests/elastic.yaml")
    expect(lab.job("elastic")).running(pods=32)

    lab.apply("manifests/b-needs-all.yaml")
    expect(lab.queue("team-b")).running(gpus=28)
    expect(lab.job("elastic")).running(pods=0).evicted(pods=32)


@pytest.mark.kailab_operator("training-operator")
def test_an_elastic_pytorchjob(lab):
    """The operator's own field (minAvailable) counts: 8 free, 4 needed, 16 wanted: 8 run. (The embedded cluster
    creates the pods as the operator would; a control plane runs the operator.)"""
    lab.apply("manifests/queues-one-team.yaml", "manifests/filler.yaml")
    lab.settle()
    lab.apply("manifests/pytorch.yaml")

    expect(lab.workload("PyTorchJob", "llm")).running(pods=8).pending(pods=8)
