"""Min-runtime and preemption delay: times during which nothing is evicted."""

import pytest

from kailab.lab import eventually, expect, stays

pytestmark = pytest.mark.exercise("minruntime")


def test_reclaim_waits_for_min_runtime(lab):
    """A reclaimMinRuntime of 45 seconds on the borrower's queue: the owner waits for as long, and then has its share."""
    begun = lab.now
    lab.apply("manifests/queues-reclaim.yaml", "manifests/borrower.yaml")
    expect(lab.queue("team-a")).running(gpus=32)

    lab.apply("manifests/owner.yaml")
    expect(lab.queue("team-b")).running(pods=0)
    stays(lambda: expect(lab.queue("team-b")).running(pods=0), for_=begun + 44 - lab.now)
    eventually(lambda: expect(lab.queue("team-b")).running(gpus=16), within=60)


def test_work_that_has_run_long_enough_goes_at_once(lab):
    """The 45 seconds count from the start of the victim, not from the owner's request."""
    lab.apply("manifests/queues-reclaim.yaml", "manifests/borrower.yaml")
    lab.settle()
    lab.advance(50)

    lab.apply("manifests/owner.yaml")
    expect(lab.queue("team-b")).running(gpus=16)


def test_a_department_protects_its_teams(lab):
    """The department has the setting; team-a inherits it."""
    begun = lab.now
    lab.apply("manifests/queues-inherited.yaml", "manifests/borrower.yaml")
    expect(lab.queue("team-a")).running(gpus=32)

    lab.apply("manifests/owner.yaml")
    expect(lab.queue("team-b")).running(pods=0)
    stays(lambda: expect(lab.queue("team-b")).running(pods=0), for_=begun + 44 - lab.now)
    eventually(lambda: expect(lab.queue("team-b")).running(gpus=16), within=60)


def test_the_surplus_of_an_elastic_gang_is_not_protected(lab):
    """Min-runtime keeps a gang alive, not large: it shrinks to its minimum at once."""
    lab.apply("manifests/queues-reclaim.yaml", "manifests/elastic.yaml")
    expect(lab.job("elastic")).running(pods=32)

    lab.apply("manifests/owner.yaml")
    expect(lab.job("elastic")).running(pods=16).evicted(pods=16)


@pytest.mark.kailab_only(
    "other schedulers protect nothing, and a real KAI may take what is claimed in more than one cycle"
)
def test_a_protected_minimum_may_go_within_one_cycle(lab):
    """The limit of the promise: 28 claims of one pod each in one cycle. 24 take the surplus; the next one counts leaving pods
    as running, and takes the 8 that are needed."""
    lab.apply("manifests/queues-lost.yaml", "manifests/elastic-8.yaml")
    expect(lab.job("elastic")).running(pods=32)

    lab.apply("manifests/owner-28.yaml")
    expect(lab.queue("team-b")).running(gpus=28)
    expect(lab.job("elastic")).running(pods=0).evicted(pods=32)


def test_as_many_claims_as_there_is_surplus_leave_the_minimum(lab):
    """24 claims: the minimum runs on."""
    lab.apply("manifests/queues-lost.yaml", "manifests/elastic-8.yaml")
    expect(lab.job("elastic")).running(pods=32)

    lab.apply("manifests/owner-28.yaml")
    lab.scale("Deployment", "owner", 24)
    expect(lab.job("elastic")).running(pods=8).evicted(pods=24)


def test_preemption_waits_for_min_runtime(lab):
    """A preemptMinRuntime is the same against more important work of the same queue."""
    begun = lab.now
    lab.apply("manifests/queues-preempt.yaml", "manifests/low.yaml")
    expect(lab.app("low")).running(pods=8)

    lab.apply("manifests/high.yaml")
    expect(lab.app("high")).running(pods=0)
    stays(
        lambda: expect(lab.app("high")).running(pods=0).pending(pods=4, reason="OverLimit"), for_=begun + 44 - lab.now
    )
    eventually(lambda: expect(lab.app("high")).running(pods=4), within=60)
    expect(lab.app("low")).running(pods=4)


def test_a_patient_owner_evicts_nobody_at_first(lab):
    """preemption-delay is set on the waiting work: for 45 seconds it takes only free GPUs."""
    lab.apply("manifests/queues-plain.yaml", "manifests/borrower.yaml")
    expect(lab.queue("team-a")).running(gpus=32)

    asked = lab.now
    lab.apply("manifests/patient-owner.yaml")
    expect(lab.queue("team-b")).running(pods=0)
    stays(lambda: expect(lab.queue("team-a")).running(gpus=32).not_evicted(), for_=asked + 44 - lab.now)
    eventually(lambda: expect(lab.queue("team-b")).running(gpus=8), within=60)


def test_a_patient_owner_takes_what_becomes_free(lab):
    """Within its delay it is served like any other work as soon as there is room."""
    lab.apply("manifests/queues-plain.yaml", "manifests/borrower.yaml")
    lab.settle()
    lab.apply("manifests/patient-owner.yaml")
    expect(lab.queue("team-b")).pending(pods=8, reason="PreemptionDelayNotElapsed")

    lab.scale("Deployment", "borrower", 24)
    expect(lab.queue("team-b")).running(gpus=8)
    expect(lab.queue("team-a")).running(gpus=24).not_evicted()
