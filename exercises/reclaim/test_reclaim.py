"""Reclaim: a loan comes back when its owner asks, no more than that, and from queues that hold too much."""

import pytest

from kailab.lab import eventually, expect, stays

pytestmark = pytest.mark.exercise("reclaim")


def test_the_owner_gets_exactly_its_share_back(lab):
    """team-a had borrowed all of team-b's 16 GPUs; team-b asks for 16 and has them."""
    lab.apply("manifests/queues.yaml", "manifests/borrower.yaml")
    expect(lab.queue("team-a")).running(gpus=32).borrows(gpus=16, from_queue="team-b")

    lab.apply("manifests/owner.yaml")
    expect(lab.queue("team-b")).running(gpus=16).no_pending()
    expect(lab.queue("team-a")).running(gpus=16).within_quota().evicted(pods=16, by="reclaim", for_queue="team-b")


def test_only_what_is_asked_for_is_taken(lab):
    """team-b asks for 4: four pods go, the other twelve on loan stay."""
    lab.apply("manifests/queues.yaml", "manifests/borrower.yaml")
    expect(lab.queue("team-a")).running(gpus=32)

    lab.apply("manifests/owner-few.yaml")
    expect(lab.queue("team-b")).running(gpus=4)
    expect(lab.queue("team-a")).running(gpus=28).borrows(gpus=12).evicted(pods=4)


def test_work_within_quota_is_never_reclaimed(lab):
    """team-b asks for 32, twice what it owns: it gets its 16. team-a's own 16 stay, although they are preemptible."""
    lab.apply("manifests/queues.yaml", "manifests/borrower.yaml")
    expect(lab.queue("team-a")).running(gpus=32)

    lab.apply("manifests/owner-greedy.yaml")
    expect(lab.queue("team-b")).running(gpus=16).pending(pods=16)
    expect(lab.queue("team-a")).running(gpus=16).evicted(pods=16)


def test_non_preemptible_work_is_never_a_victim(lab):
    """team-a's service fills its quota, its training is on loan: the training is evicted, the service loses nothing."""
    lab.apply("manifests/queues.yaml", "manifests/a-serve.yaml", "manifests/a-train.yaml")
    expect(lab.queue("team-a")).running(gpus=32)

    lab.apply("manifests/owner.yaml")
    expect(lab.app("a-serve")).running(pods=16).not_evicted()
    expect(lab.app("a-train")).running(pods=0).evicted(pods=16)


def test_the_newest_go_first(lab):
    """Two Deployments of one class, one ten seconds older: the newer one gives back the loan."""
    lab.apply("manifests/queues.yaml", "manifests/older.yaml")
    lab.advance(10)
    lab.apply("manifests/newer.yaml")
    expect(lab.queue("team-a")).running(gpus=32)

    lab.apply("manifests/owner.yaml")
    expect(lab.app("older")).running(pods=16).not_evicted()
    expect(lab.app("newer")).running(pods=0).evicted(pods=16)


def test_an_elastic_job_gives_its_surplus(lab):
    """A gang of 16 grown to 32 loses the 16 beyond its minimum and works on."""
    lab.apply("manifests/queues.yaml", "manifests/elastic.yaml")
    expect(lab.job("elastic")).running(pods=32)

    lab.apply("manifests/owner.yaml")
    expect(lab.job("elastic")).running(pods=16).evicted(pods=16)
    expect(lab.queue("team-b")).running(gpus=16)


def test_a_gang_without_surplus_goes_as_a_whole(lab):
    """8 of its 24 GPUs would have been enough, but 16 of 24 pods are useless."""
    lab.apply("manifests/queues.yaml", "manifests/whole.yaml")
    expect(lab.job("whole")).runs_whole(pods=24)

    lab.apply("manifests/owner.yaml")
    expect(lab.job("whole")).running(pods=0).evicted(pods=24)
    expect(lab.queue("team-b")).running(gpus=16)


def test_a_gang_reclaims_as_a_gang(lab):
    """Eight pods that start together: eight GPUs are taken, not seven."""
    lab.apply("manifests/queues.yaml", "manifests/borrower.yaml")
    expect(lab.queue("team-a")).running(gpus=32)

    lab.apply("manifests/owner-gang.yaml")
    expect(lab.job("owner")).runs_whole(pods=8)
    expect(lab.queue("team-a")).running(gpus=24).evicted(pods=8)


def test_min_runtime_protects_until_it_has_passed(lab):
    """reclaimMinRuntime: 45s on the borrower's queue: the owner waits, at most 45 seconds."""
    begun = lab.now
    lab.apply("manifests/queues-protected.yaml", "manifests/borrower.yaml")
    expect(lab.queue("team-a")).running(gpus=32)

    lab.apply("manifests/owner.yaml")
    expect(lab.queue("team-b")).running(pods=0).pending(pods=16)

    stays(lambda: expect(lab.queue("team-a")).running(gpus=32), for_=begun + 44 - lab.now)
    eventually(lambda: expect(lab.queue("team-b")).running(gpus=16), within=60)
    expect(lab.queue("team-a")).running(gpus=16)


def test_within_a_department_first(lab):
    """team-b takes its 8 from its sister team-a, whose department is not over its own 16. team-c loses nothing."""
    lab.apply("manifests/queues-departments.yaml", "manifests/departments-full.yaml")
    expect(lab).running(gpus=32)

    lab.apply("manifests/b-returns.yaml")
    expect(lab.queue("team-b")).running(gpus=8)
    expect(lab.queue("team-a")).running(gpus=8).evicted(pods=8, for_queue="team-b")
    expect(lab.queue("team-c")).running(gpus=16).not_evicted()


def test_across_departments(lab):
    """team-a has spread over both departments; team-c of the other one gets its department's 16 back."""
    lab.apply("manifests/queues-departments.yaml", "manifests/a-everywhere.yaml")
    expect(lab.queue("team-a")).running(gpus=32)

    lab.apply("manifests/c-returns.yaml")
    expect(lab.queue("team-c")).running(gpus=16)
    expect(lab.queue("dept-1")).running(gpus=16).evicted(pods=16, for_queue="team-c")


def test_the_log_tells_who_went_and_for_whom(lab):
    """An eviction names victim and beneficiary. In the cluster, an event on each victim's PodGroup says the same."""
    lab.apply("manifests/queues.yaml", "manifests/borrower.yaml")
    lab.settle()
    lab.apply("manifests/owner-gang.yaml")
    lab.settle()

    eviction = lab.log.evictions[-1]
    assert (eviction.action, eviction.app, eviction.queue) == ("reclaim", "borrower", "team-a")
    assert eviction.beneficiary_queue == "team-b"
    assert eviction.beneficiary.startswith("default/pg-owner-")
    told = [event for event in lab.get("Event") if event["reason"] == "Evict"]
    assert len({event["involvedObject"]["name"] for event in told}) == 8


@pytest.mark.kailab_only("others keep no log of shares before and after")
def test_the_log_tells_why_it_was_fair(lab):
    """Both queues' shares before and after: the losing queue stays at or above its own, the winning one at or below."""
    lab.apply("manifests/queues.yaml", "manifests/borrower.yaml")
    lab.settle()
    lab.apply("manifests/owner-gang.yaml")
    lab.settle()

    shares = lab.log.evictions[-1].shares
    lost, won = shares["team-a"], shares["team-b"]
    assert (lost.before.allocated, lost.after.allocated) == (32_000, 24_000)  # milli-GPU
    assert (won.before.allocated, won.after.allocated) == (0, 8_000)
    assert won.after.allocated <= won.after.fair_share


def test_a_place_is_promised_while_the_victims_leave(lab):
    """The scheduler waits for victims that take 20 s to leave: no other work gets their places, and nothing else is evicted."""
    lab.apply("manifests/queues.yaml", "manifests/slow-to-leave.yaml")
    expect(lab.queue("team-a")).running(gpus=32)

    lab.apply("manifests/owner-gang.yaml")
    expect(lab.job("owner")).waits_whole(pods=8)
    promised = [event for event in lab.get("Event") if event["reason"] == "Pipelined"]
    assert len({event["involvedObject"]["name"] for event in promised}) == 8

    lab.advance(30)
    expect(lab.job("owner")).runs_whole(pods=8)
    expect(lab.queue("team-a")).running(gpus=24).evicted(pods=8)


@pytest.mark.kailab_backend("embedded")
def test_a_jobs_patience_ends_at_six(lab):
    """To the Job controller an evicted pod is a failed one: 16 of 32 go, backoffLimit is 6, and the whole Job fails."""
    lab.apply("manifests/queues.yaml", "manifests/impatient.yaml")
    expect(lab.job("impatient")).running(pods=32)

    lab.apply("manifests/owner.yaml")
    expect(lab.job("impatient")).running(pods=0)
    assert "Failed" in {condition["type"] for condition in lab.get("Job", "impatient")["status"]["conditions"]}


def test_a_patient_job_lives_on(lab):
    """The same with a high backoffLimit: 16 pods go on working, and the Job has not failed."""
    lab.apply("manifests/queues.yaml", "manifests/patient.yaml")
    expect(lab.job("patient")).running(pods=32)

    lab.apply("manifests/owner.yaml")
    expect(lab.job("patient")).running(pods=16)
    conditions = lab.get("Job", "patient")["status"].get("conditions", ())
    assert "Failed" not in {condition["type"] for condition in conditions}


@pytest.mark.kailab_backend("embedded")
def test_a_patient_job_makes_its_pods_anew(lab):
    """The other 16 return and wait their turn. A Job delays this, twice as long after each failure, up to ten
    minutes."""
    lab.apply("manifests/queues.yaml", "manifests/patient.yaml")
    expect(lab.job("patient")).running(pods=32)

    lab.apply("manifests/owner.yaml")
    eventually(lambda: expect(lab.job("patient")).running(pods=16).pending(pods=16), within=660)


def test_the_default_scheduler_gives_nothing_back(baseline_lab):
    """The contrast: the first team keeps all 32 GPUs, and the owner waits."""
    baseline_lab.apply("manifests/queues.yaml", "manifests/borrower.yaml")
    baseline_lab.settle()
    baseline_lab.apply("manifests/owner.yaml")

    expect(baseline_lab.queue("team-a")).running(gpus=32).not_evicted()
    expect(baseline_lab.queue("team-b")).running(gpus=0).pending(pods=16)
