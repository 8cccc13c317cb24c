"""Sharing: parts of a GPU, by fraction or by memory, and how they are packed."""

import pytest

from kailab.lab import at_least, expect

pytestmark = pytest.mark.exercise("sharing")


def test_two_halves_share_one_gpu(lab):
    """Two pods of 0.5: one device, full; to the queue they count as one GPU."""
    lab.apply("manifests/queues.yaml", "manifests/halves.yaml")

    expect(lab.app("half")).running(pods=2, gpus=1).sharing(devices=1)
    expect(lab.queue("team-a")).holding(gpus=1)


def test_shared_gpus_are_filled_before_new_ones_are_opened(lab):
    """Ten quarters: two devices full, a third half full. Not ten devices."""
    lab.apply("manifests/queues.yaml", "manifests/quarters.yaml")

    expect(lab.app("quarter")).running(pods=10, gpus=2.5).sharing(devices=3)


def test_what_does_not_fit_together_does_not_share(lab):
    """0.6 and 0.6 are more than one: three pods, three devices."""
    lab.apply("manifests/queues.yaml", "manifests/large.yaml")

    expect(lab.app("large")).running(pods=3, gpus=1.8).sharing(devices=3)


def test_a_part_can_be_asked_for_in_memory(lab):
    """20,000 MiB of an A100 of 80 GiB are a quarter: four pods on one device."""
    lab.apply("manifests/queues.yaml", "manifests/memory.yaml")

    expect(lab.app("memory")).running(pods=4).sharing(devices=1).on_one("node")


def test_parts_of_several_devices(lab):
    """gpu-fraction-num-devices: half of each of two GPUs, for one pod."""
    lab.apply("manifests/queues.yaml", "manifests/two-devices.yaml")

    expect(lab.pod("two")).running(pods=1, gpus=1).sharing(devices=2)


def test_quota_counts_parts(lab):
    """team-b owns 2 GPUs: four non-preemptible halves run, the fifth and sixth are over quota."""
    lab.apply("manifests/queues.yaml", "manifests/b-serve.yaml")

    expect(lab.queue("team-b")).running(pods=4, gpus=2).pending(pods=2, reason="NonPreemptibleOverQuota")


def test_the_last_gpu_takes_as_many_as_fit(lab):
    """31 GPUs are taken whole; of ten quarters four run, on the one GPU that is left."""
    lab.apply("manifests/queues.yaml", "manifests/almost-full.yaml")
    expect(lab).running(gpus=31)

    lab.apply("manifests/quarters.yaml")
    expect(lab.app("quarter")).running(pods=4).sharing(devices=1).pending(pods=6)


def test_reclaim_clears_a_shared_gpu(lab):
    """64 halves fill the fleet. The owner of a whole GPU comes back: two halves fewer run, and one device is clear.

    Victims are taken one by one until a device is. A victim whose eviction did not help gets a place again, but counts as evicted."""
    lab.apply("manifests/queues.yaml", "manifests/fleet-of-halves.yaml")
    expect(lab.queue("team-a")).running(pods=64, gpus=32)

    lab.apply("manifests/b-one.yaml")
    expect(lab.pod("b-one")).running(pods=1, gpus=1)
    expect(lab.app("halves")).running(pods=62).sharing(devices=31).evicted(
        at_least(2), by="reclaim", for_queue="team-b"
    )
