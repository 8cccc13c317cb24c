"""Gangs: pods that are useful only together start together, or not at all."""

import pytest

from kailab.lab import at_least, between, eventually, expect, never, stays

pytestmark = pytest.mark.exercise("gang")


def test_ten_wanted_eight_free_none_runs(lab):
    """The gang takes nothing until the whole gang fits, and the 8 free GPUs stay free for other work."""
    lab.apply("manifests/queues.yaml", "manifests/filler.yaml")
    lab.settle()
    lab.apply("manifests/gang-of-10.yaml")

    expect(lab.job("gang")).waits_whole(pods=10, reason="PodSchedulingErrors")
    expect(lab).running(gpus=24)


def test_room_is_made_and_all_ten_start(lab):
    """The filler ends; all ten pods are placed."""
    lab.apply("manifests/queues.yaml", "manifests/filler.yaml")
    lab.settle()
    lab.apply("manifests/gang-of-10.yaml")
    expect(lab.job("gang")).waits_whole()

    lab.delete("Deployment", "filler")
    expect(lab.job("gang")).runs_whole(pods=10)


@pytest.mark.kailab_backend("embedded")
def test_all_ten_start_in_the_same_moment(lab):
    """On real nodes too they are placed in one decision, but each node starts its pods in its own time."""
    lab.apply("manifests/queues.yaml", "manifests/gang-of-10.yaml")

    expect(lab.job("gang")).runs_whole(pods=10)
    assert len({pod["status"]["startTime"] for pod in lab.get("Pod")}) == 1


def test_a_gang_is_never_seen_in_part(lab):
    """Room comes bit by bit, as the filler shrinks from 24 to 0: at no moment do some of the ten run."""
    lab.apply("manifests/queues.yaml", "manifests/filler.yaml")
    lab.settle()
    lab.apply("manifests/gang-of-10.yaml")
    expect(lab.job("gang")).waits_whole()

    for replicas in (23, 12, 0):
        lab.scale("Deployment", "filler", replicas)
        never(lambda: expect(lab.job("gang")).running(pods=between(1, 9)), for_=5)

    expect(lab.job("gang")).runs_whole(pods=10)


def test_a_deployment_is_no_gang(lab):
    """The same annotation on a Deployment has no effect: each replica is a PodGroup of its own, and 8 of 10 run."""
    lab.apply("manifests/queues.yaml", "manifests/filler.yaml")
    lab.settle()
    lab.apply("manifests/deployment-of-10.yaml")

    expect(lab.deployment("gang")).running(pods=8).pending(pods=2)
    assert all(group["spec"]["minMember"] == 1 for group in lab.get("PodGroup"))


def runs_and_waits(lab):
    """Return the running gang and the waiting one, which depend on the order of the pods."""
    expect(lab).running(pods=20).pending(pods=20)
    running = {row.app for row in lab.picture().rows if row.phase == "Running"}
    return ("first", "second") if "first" in running else ("second", "first")


def test_two_gangs_of_twenty_on_32_gpus_one_runs(lab):
    """No deadlock: one runs whole, the other waits whole and holds nothing."""
    lab.apply("manifests/queues.yaml", "manifests/two-gangs.yaml")

    runs, waits = runs_and_waits(lab)
    expect(lab.job(runs)).runs_whole(pods=20)
    expect(lab.job(waits)).waits_whole(pods=20)


def test_the_other_gang_follows_when_the_first_is_done(lab):
    """The wait ends by itself, and all twenty start."""
    lab.apply("manifests/queues.yaml", "manifests/two-gangs.yaml")
    runs, waits = runs_and_waits(lab)
    expect(lab.job(waits)).waits_whole(pods=20)

    lab.delete("Job", runs)
    expect(lab.job(waits)).runs_whole(pods=20)


def test_the_default_scheduler_starts_gangs_in_part(baseline_lab):
    """The contrast: 8 of the 10 run and wait for two that can't start, holding 8 GPUs without work."""
    baseline_lab.apply("manifests/queues.yaml", "manifests/filler.yaml")
    baseline_lab.settle()
    baseline_lab.apply("manifests/gang-of-10.yaml")

    expect(baseline_lab.job("gang")).running(pods=8).pending(pods=2)


def pods_of_both_gangs_arrive_in_turn(lab):
    """As in a real cluster, where the pods of two Jobs are created in turn: five of each, ten, fifteen, twenty."""
    lab.apply("manifests/queues.yaml", "manifests/two-gangs-arriving.yaml")
    for pods in (10, 15, 20):
        lab.settle()
        for name in ("first", "second"):
            lab.patch("Job", name, {"spec": {"parallelism": pods}})


def test_the_default_scheduler_deadlocks(baseline_lab):
    """Each gang gets a part, neither is complete, and this never changes: 32 GPUs held, no work done."""
    pods_of_both_gangs_arrive_in_turn(baseline_lab)

    expect(baseline_lab.job("first")).running(pods=between(1, 19)).pending(pods=at_least(1))
    expect(baseline_lab.job("second")).running(pods=between(1, 19)).pending(pods=at_least(1))
    stays(lambda: expect(baseline_lab).running(gpus=32).pending(gpus=8), for_=30)


def test_gang_scheduling_does_not(lab):
    """The same arrivals: no pod starts before its gang is complete, and then one gang runs whole."""
    pods_of_both_gangs_arrive_in_turn(lab)

    runs, waits = runs_and_waits(lab)
    expect(lab.job(runs)).runs_whole(pods=20)
    expect(lab.job(waits)).waits_whole(pods=20)


def test_an_elastic_gang_starts_small_and_grows(lab):
    """4 are enough, 12 are wanted, 8 are free: 8 run now, the other 4 when there is room."""
    lab.apply("manifests/queues.yaml", "manifests/filler.yaml")
    lab.settle()
    lab.apply("manifests/elastic.yaml")
    expect(lab.job("elastic")).running(pods=8).pending(pods=4)

    lab.scale("Deployment", "filler", 20)
    expect(lab.job("elastic")).running(pods=12).no_pending().not_evicted()


def test_a_gang_that_lost_a_member_goes_after_its_grace(lab):
    """One of four pods is gone for good. The others hold their GPUs for 60 s in case it returns, then they are evicted too."""
    lab.apply("manifests/queues.yaml", "manifests/ring.yaml")
    expect(lab.app("ring")).runs_whole(pods=4)

    lost = lab.now
    lab.delete("Pod", "ring-2")
    expect(lab.app("ring")).running(pods=3)
    stays(lambda: expect(lab.app("ring")).running(pods=3), for_=lost + 58 - lab.now)
    eventually(lambda: expect(lab.app("ring")).running(pods=0).evicted(pods=3, by="stalegangeviction"), within=60)


def test_a_gang_that_gets_its_member_back_stays(lab):
    """The fourth pod returns within the grace: nothing is evicted, then or later."""
    lab.apply("manifests/queues.yaml", "manifests/ring.yaml")
    expect(lab.app("ring")).runs_whole(pods=4)
    lost = lab.now
    lab.delete("Pod", "ring-2")
    lab.advance(10)
    lab.apply("manifests/ring.yaml")
    expect(lab.app("ring")).runs_whole(pods=4)

    stays(lambda: expect(lab.app("ring")).runs_whole(pods=4).not_evicted(), for_=lost + 75 - lab.now)
