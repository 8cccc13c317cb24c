"""Borrowing: idle quota is lent, to work that can be taken away again."""

import pytest

from kailab.lab import expect

pytestmark = pytest.mark.exercise("borrow")


def test_idle_quota_is_lent(lab):
    """team-a asks for 24 with 16 owned, team-b for nothing: the 8 missing are team-b's."""
    lab.apply("manifests/queues.yaml", "manifests/a-train.yaml")

    expect(lab.queue("team-a")).running(gpus=24).borrows(gpus=8, from_queue="team-b")
    expect(lab.queue("team-b")).lends(gpus=8, to="team-a")


def test_what_is_left_over_is_split_by_weight(lab):
    """32 GPUs, 4 owned by each: the other 24 go 3:1, so 4 + 18 and 4 + 6."""
    lab.apply("manifests/queues-weights.yaml", "manifests/both-want-all.yaml")

    expect(lab.queue("team-a")).running(gpus=22)
    expect(lab.queue("team-b")).running(gpus=10)


@pytest.mark.kailab_only("others keep the shares that they work out to themselves")
def test_what_runs_is_the_fair_share(lab):
    """The split does not depend on the order of arrival: it is the fair share that the scheduler computed for each queue."""
    lab.apply("manifests/queues-weights.yaml", "manifests/both-want-all.yaml")

    expect(lab.queue("team-a")).fair_share(gpus=22)
    expect(lab.queue("team-b")).fair_share(gpus=10)


def test_a_queue_of_higher_priority_borrows_first(lab):
    """Weights divide within one priority. Across priorities the higher queue is served completely first, although it came
    second."""
    lab.apply("manifests/queues-priority.yaml", "manifests/both-want-24.yaml")

    expect(lab.queue("team-a")).running(gpus=24).no_pending()
    expect(lab.queue("team-b")).running(gpus=8).pending(pods=16)


def test_a_limit_stops_borrowing_however_idle_the_fleet(lab):
    """8 owned, limit 12, 24 asked for: 12 run, and 20 GPUs stay idle."""
    lab.apply("manifests/queues-limit.yaml", "manifests/a-train.yaml")

    expect(lab.queue("team-a")).running(gpus=12).borrows(gpus=4).pending(pods=12, reason="OverLimit")


def test_the_trap_a_plain_deployment_never_borrows(lab):
    """16 asked for, 8 owned, limit 16, half the fleet idle: it stays at 8, and looks as if borrowing did not work."""
    lab.apply("manifests/queues-trap.yaml", "manifests/plain-deployment.yaml")

    expect(lab.deployment("plain")).running(pods=8).pending(pods=8, reason="NonPreemptibleOverQuota")
    expect(lab.queue("team-a")).within_quota()


def test_the_trap_explained_a_deployment_is_inference(lab):
    """The workload's kind gave its PodGroups a class of 125, and 100 and above is non-preemptible."""
    lab.apply("manifests/queues-trap.yaml", "manifests/plain-deployment.yaml")
    lab.settle()

    assert {group["spec"]["priorityClassName"] for group in lab.get("PodGroup")} == {"inference"}
    assert lab.get("PriorityClass", "inference")["value"] == 125


@pytest.mark.parametrize("name", ["train", "preemptible"])
def test_the_way_out_one_label_makes_it_borrow(lab, name):
    """The same Deployment is preemptible, by its class or by its preemptibility label: 16 run."""
    lab.apply("manifests/queues-trap.yaml", f"manifests/{name}-deployment.yaml")

    expect(lab.deployment(name)).running(pods=16).no_pending()
    expect(lab.queue("team-a")).borrows(gpus=8, from_queue="team-b")
