"""Two schedulers in one cluster: each keeps its own account, and both count the same GPUs."""

from pathlib import Path

import pytest

from kailab.lab import expect

APART = str(Path(__file__).parent / "fleets" / "apart.yaml")

pytestmark = [
    pytest.mark.exercise("twoschedulers"),
    pytest.mark.kailab_scheduler("kailab+kube-scheduler"),
]


def test_quota_does_not_hold_for_pods_of_the_other(lab):
    """24 pods with the queue's label, but for the default scheduler: no queue counts them, and the owner of 16 GPUs gets 8."""
    lab.apply("manifests/queues.yaml", "manifests/stray.yaml")
    expect(lab.deployment("stray")).running(pods=24)
    assert "allocated" not in (lab.get("Queue", "team-a").get("status") or {})

    lab.apply("manifests/owner.yaml")
    expect(lab.deployment("owner")).running(pods=8).pending(pods=8)
    expect(lab.deployment("stray")).running(pods=24).not_evicted()


def test_the_reason_names_the_other_schedulers_work(lab):
    """Explained: there is no possible victim, and the step scales down work that KAI does not know."""
    lab.apply("manifests/queues.yaml", "manifests/stray.yaml")
    lab.settle()
    lab.apply("manifests/owner.yaml")
    lab.settle()

    waiting = [one["metadata"]["name"] for one in lab.get("Pod") if not one["spec"].get("nodeName")]
    # Reclaim is tried for the one that is first in turn. Of equals that is not the same one each time on a real API server.
    assert any("no victims to be had" in str(lab.explain("pod", name)) for name in waiting)
    assert "Scale Deployment stray down from 24 to 16" in str(lab.explain("queue", "team-b"))


def test_the_same_work_given_to_kai_gives_back(lab):
    """The contrast, and the first remedy: with schedulerName kai-scheduler team-a's loan comes back."""
    lab.apply("manifests/queues.yaml", "manifests/given-to-kai.yaml")
    expect(lab.deployment("stray")).running(pods=24)

    lab.apply("manifests/owner.yaml")
    expect(lab.deployment("owner")).running(pods=16).no_pending()
    expect(lab.deployment("stray")).running(pods=16).pending(pods=8)


def test_what_was_taken_back_for_one_the_other_takes(lab):
    """KAI evicts 16 pods to make room for the owner. The default scheduler sees GPUs become free, and is the first to take eight."""
    lab.apply("manifests/queues.yaml", "manifests/borrower.yaml")
    lab.settle()
    lab.apply("manifests/lurker.yaml")
    expect(lab.deployment("lurker")).pending(pods=8)

    lab.apply("manifests/owner.yaml")
    expect(lab.deployment("borrower")).running(pods=16)
    expect(lab.deployment("lurker")).running(pods=8)
    expect(lab.deployment("owner")).running(pods=8).pending(pods=8)


@pytest.mark.kailab_fleet(APART)
def test_a_pool_alone_is_half_a_cure(lab):
    """KAI leaves out nodes of another pool; the default scheduler knows no pools, and takes KAI's nodes, too."""
    lab.apply("manifests/queues.yaml", "manifests/stray.yaml")
    lab.settle()
    lab.apply("manifests/owner.yaml")

    expect(lab.deployment("stray")).running(pods=24)
    expect(lab.deployment("owner")).running(pods=6).pending(pods=10)


@pytest.mark.kailab_fleet(APART)
def test_nodes_set_apart_for_each_keep_the_quota(lab):
    """A node selector on the pods of the default scheduler, and the pool's label on the nodes: no GPU is counted by both."""
    lab.apply("manifests/queues.yaml", "manifests/stray-selected.yaml")
    lab.settle()
    lab.apply("manifests/owner.yaml")

    expect(lab.deployment("stray")).running(pods=8).pending(pods=16).on_nodes({"services-0": 8})
    expect(lab.deployment("owner")).running(pods=16).no_pending()
