"""Min-runtime and preemption delay: time during which nobody is evicted."""

import pytest

from kailab.lab import expect, stays

pytestmark = pytest.mark.exercise("minruntime")


def test_reclaim_waits_for_min_runtime(lab):
    """A reclaimMinRuntime of ten minutes on the borrower's queue: the owner waits for as long, and then has its share."""
    lab.apply("manifests/queues-reclaim.yaml", "manifests/borrower.yaml")
    expect(lab.queue("team-a")).running(gpus=32)

    lab.apply("manifests/owner.yaml")
    stays(lambda: expect(lab.queue("team-b")).running(pods=0), for_=590)
    lab.advance(20)
    expect(lab.queue("team-b")).running(gpus=16)


def test_work_that_has_run_long_enough_goes_at_once(lab):
    """The ten minutes count from the start of the victim, not from the wish of the owner."""
    lab.apply("manifests/queues-reclaim.yaml", "manifests/borrower.yaml")
    lab.settle()
    lab.advance(660)

    lab.apply("manifests/owner.yaml")
    expect(lab.queue("team-b")).running(gpus=16)


def test_a_department_protects_its_teams(lab):
    """The setting stands on the department; team-a inherits it."""
    lab.apply("manifests/queues-inherited.yaml", "manifests/borrower.yaml")
    expect(lab.queue("team-a")).running(gpus=32)

    lab.apply("manifests/owner.yaml")
    stays(lambda: expect(lab.queue("team-b")).running(pods=0), for_=590)
    lab.advance(20)
    expect(lab.queue("team-b")).running(gpus=16)


def test_the_surplus_of_an_elastic_gang_is_not_protected(lab):
    """Min-runtime keeps a gang alive, not large: it shrinks to its minimum at once."""
    lab.apply("manifests/queues-reclaim.yaml", "manifests/elastic.yaml")
    expect(lab.job("elastic")).running(pods=32)

    lab.apply("manifests/owner.yaml")
    expect(lab.job("elastic")).running(pods=16).evicted(pods=16)


def test_preemption_waits_for_min_runtime(lab):
    """A preemptMinRuntime is the same thing towards the queue's own more important work."""
    lab.apply("manifests/queues-preempt.yaml", "manifests/low.yaml")
    expect(lab.app("low")).running(pods=8)

    lab.apply("manifests/high.yaml")
    stays(lambda: expect(lab.app("high")).running(pods=0).pending(pods=4, reason="OverLimit"), for_=590)
    lab.advance(20)
    expect(lab.app("high")).running(pods=4)
    expect(lab.app("low")).running(pods=4)


def test_a_patient_owner_evicts_nobody_at_first(lab):
    """preemption-delay stands on the one who wants: for ten minutes it takes free GPUs only."""
    lab.apply("manifests/queues-plain.yaml", "manifests/borrower.yaml")
    expect(lab.queue("team-a")).running(gpus=32)

    lab.apply("manifests/patient-owner.yaml")
    stays(lambda: expect(lab.queue("team-a")).running(gpus=32).not_evicted(), for_=590)
    lab.advance(20)
    expect(lab.queue("team-b")).running(gpus=8)


def test_a_patient_owner_takes_what_becomes_free(lab):
    """Within its delay it is served like anyone else as soon as there is room."""
    lab.apply("manifests/queues-plain.yaml", "manifests/borrower.yaml")
    lab.settle()
    lab.apply("manifests/patient-owner.yaml")
    expect(lab.queue("team-b")).pending(pods=8, reason="PreemptionDelayNotElapsed")

    lab.scale("Deployment", "borrower", 24)
    expect(lab.queue("team-b")).running(gpus=8)
    expect(lab.queue("team-a")).running(gpus=24).not_evicted()
