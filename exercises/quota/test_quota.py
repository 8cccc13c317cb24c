"""Quota: the guaranteed part of a queue. The kind of work decides whether it may use more."""

import pytest

from kailab.lab import expect

pytestmark = pytest.mark.exercise("quota")


def test_each_team_gets_what_it_owns(lab):
    """Two teams ask for their 8 GPUs each, and have them."""
    lab.apply("manifests/queues.yaml", "manifests/within-quota.yaml")

    expect(lab.queue("team-a")).running(gpus=8).no_pending().within_quota()
    expect(lab.queue("team-b")).running(gpus=8).no_pending().within_quota()


def test_non_preemptible_work_is_refused_beyond_the_quota(lab):
    """12 asked for with 8 owned: 8 run and 4 wait, although 16 GPUs of the fleet stand idle."""
    lab.apply("manifests/queues.yaml", "manifests/beyond-quota.yaml")

    for team in ("team-a", "team-b"):
        expect(lab.queue(team)).running(gpus=8).pending(pods=4, reason="NonPreemptibleOverQuota")
    expect(lab).running(gpus=16)


def test_the_refusal_names_the_queue_and_its_quota(lab):
    """The reason is a code and numbers, not only a sentence."""
    lab.apply("manifests/queues.yaml", "manifests/beyond-quota.yaml")
    lab.settle()

    refusal = next(entry for entry in lab.picture().waiting() if entry.queue == "team-a")
    assert refusal.reason == "NonPreemptibleOverQuota"
    assert refusal.queue_context == "team-a"
    share = lab.explain_queue("team-a").data()
    assert (share["quota"], share["allocated"], share["requested"]) == (8_000, 8_000, 12_000)  # milli-GPU


def test_a_parents_limit_holds_for_its_children_together(lab):
    """No team has a limit of its own; 20 of the 32 GPUs stay idle all the same."""
    lab.apply("manifests/queues-limited-parent.yaml", "manifests/preemptible.yaml")

    expect(lab.queue("org")).running(gpus=12)
    expect(lab.queue("team-a")).running(gpus=6).pending(pods=10, reason="OverLimit")
    expect(lab.queue("team-b")).running(gpus=6).pending(pods=10, reason="OverLimit")


def test_a_parents_quota_holds_for_its_children_together(lab):
    """Teams that own 8 each inside a department that owns 8: the quota is checked at every level, and only 8 run."""
    applied = lab.apply("manifests/queues-small-parent.yaml", "manifests/within-quota.yaml")

    assert any("org" in warning for warning in applied.warnings)
    expect(lab.queue("org")).running(gpus=8).pending(pods=8, reason="NonPreemptibleOverQuota")


def test_a_quota_of_zero_means_nothing_is_sure(lab):
    """Non-preemptible work of a queue with quota 0 never starts, on an empty fleet either."""
    lab.apply("manifests/queues-zero.yaml", "manifests/guest-serve.yaml")

    expect(lab.queue("team-guest")).running(pods=0).pending(pods=2, reason="NonPreemptibleOverQuota")


def test_a_quota_of_zero_can_still_borrow(lab):
    """The same queue, preemptible work: it runs, all of it on loan."""
    lab.apply("manifests/queues-zero.yaml", "manifests/guest-train.yaml")

    expect(lab.queue("team-guest")).running(gpus=5).borrows(gpus=5)


def test_a_queue_without_resources_runs_nothing(lab):
    """A queue without resources does not have "no limit", but a limit of 0. Applying such a queue warns."""
    applied = lab.apply("manifests/queue-without-resources.yaml", "manifests/one-train.yaml")

    assert any("team-a" in warning for warning in applied.warnings)
    expect(lab.pod("one")).pending(pods=1, reason="OverLimit")


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        ("no-label", "QueueDoesNotExist"),
        ("unknown-queue", "QueueDoesNotExist"),
        ("parent-queue", "Unschedulable"),
    ],
)
def test_work_runs_in_leaf_queues_only(lab, pod, reason):
    """A pod without a queue, of an unknown one, or of one with children waits, each with a reason."""
    lab.apply("manifests/queues.yaml", "manifests/lost.yaml")

    expect(lab.pod(pod)).pending(pods=1, reason=reason)


def test_the_default_scheduler_knows_arrival_order_only(baseline_lab):
    """The contrast: 40 one-GPU pods where one GPU of 32 is taken. 31 run, 9 wait, whichever team they belong to."""
    baseline_lab.apply("manifests/queues.yaml", "manifests/taken.yaml")
    baseline_lab.settle()
    baseline_lab.apply("manifests/pressure.yaml")

    expect(baseline_lab.app("pressure")).running(pods=31).pending(pods=9)


def test_under_the_default_scheduler_the_second_team_gets_nothing(baseline_lab):
    """Its quota of 8 means nothing to a scheduler that does not know queues."""
    baseline_lab.apply("manifests/queues.yaml", "manifests/taken.yaml")
    baseline_lab.settle()
    baseline_lab.apply("manifests/pressure.yaml")
    baseline_lab.settle()
    baseline_lab.apply("manifests/late.yaml")

    expect(baseline_lab.queue("team-a")).running(gpus=31)
    expect(baseline_lab.app("late")).running(pods=0).pending(pods=8)


def test_with_queues_the_second_team_has_its_quota_waiting(lab):
    """The same manifests with quota: the first team stops at 8, the second finds its own 8 free."""
    lab.apply("manifests/queues.yaml", "manifests/taken.yaml", "manifests/pressure.yaml")
    lab.apply("manifests/late.yaml")

    expect(lab.queue("team-a")).running(gpus=8).pending(pods=32, reason="NonPreemptibleOverQuota")
    expect(lab.app("late")).running(pods=8)
