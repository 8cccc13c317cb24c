"""A node fails: what Kubernetes does and when, the effect on a gang that loses half of its pods, and which work gets the GPUs."""

import pytest

from kailab.lab import eventually, expect, stays

pytestmark = [pytest.mark.exercise("nodefailure"), pytest.mark.kailab_backend("embedded")]

MINUTE = 60
PATIENCE = 300  # seconds that a pod puts up with a node that nobody hears of
BACKOFF = 11 * MINUTE  # a Job that lost eight pods at once makes them anew after ten minutes
GRACE = 60  # seconds that KAI leaves a gang that lost a member


def taints(lab, node):
    return {(taint["key"], taint["effect"]) for taint in lab.get("Node", node)["spec"].get("taints", ())}


def leaving(lab):
    return [pod["metadata"]["name"] for pod in lab.get("Pod") if "deletionTimestamp" in pod["metadata"]]


@pytest.fixture
def trained(lab):
    """A gang of 16 on both nodes of A100s."""
    lab.apply("manifests/queues.yaml", "manifests/train.yaml")
    expect(lab.job("train")).runs_whole(pods=16)
    return lab


def test_a_node_that_nobody_hears_of_is_tainted(lab):
    """Ready is Unknown, and two taints keep new pods off and evict pods that do not tolerate them."""
    lab.fail_node("a100-0")
    lab.settle()

    assert taints(lab, "a100-0") == {
        ("node.kubernetes.io/unreachable", "NoSchedule"),
        ("node.kubernetes.io/unreachable", "NoExecute"),
    }
    lab.recover_node("a100-0")
    lab.settle()
    assert taints(lab, "a100-0") == set()


def test_for_five_minutes_nothing_is_done_about_its_pods(trained):
    """They count as running, and their GPUs as held: the network may be the only cause."""
    trained.fail_node("a100-0")

    stays(lambda: expect(trained.queue("team-a")).running(pods=16, gpus=16).not_evicted(), for_=PATIENCE - 2)
    assert not leaving(trained)


def test_a_node_that_is_back_within_that_time_has_lost_nothing(trained):
    """Four minutes of silence: no pod is evicted, then or later."""
    trained.fail_node("a100-0")
    trained.advance(4 * MINUTE)
    trained.recover_node("a100-0")

    stays(lambda: expect(trained.job("train")).runs_whole(pods=16).not_evicted(), for_=10 * MINUTE)


def test_then_its_pods_are_evicted_and_never_leave(trained):
    """No kubelet stops them: they are terminating for as long as the node is silent."""
    trained.fail_node("a100-0")
    trained.advance(PATIENCE + 1)
    assert len(leaving(trained)) == 8

    trained.advance(60 * MINUTE)
    assert len(leaving(trained)) == 8


def test_what_can_run_elsewhere_does(lab):
    """A gang for any GPU gets eight new pods on the remaining nodes, once its Job has created them."""
    lab.apply("manifests/queues.yaml", "manifests/train-anywhere.yaml")
    expect(lab.job("train")).runs_whole(pods=16)
    home = next(pod["spec"]["nodeName"] for pod in lab.get("Pod"))

    lab.fail_node(home)
    lab.advance(PATIENCE + BACKOFF)
    lost = leaving(lab)
    assert len(lost) == 8
    expect(lab.job("train")).evicted(pods=0)
    left = [row for row in lab.picture().rows if row.phase == "Running" and row.name.partition("/")[2] not in lost]
    assert (len(left), {row.node for row in left} & {home}) == (16, set())


def test_pods_that_are_leaving_keep_the_rest_of_the_gang(trained):
    """Eight of sixteen train nothing and hold eight A100s, an hour long: to KAI a leaving pod is still a member."""
    trained.fail_node("a100-0")
    trained.advance(PATIENCE + 1)

    stays(lambda: expect(trained.job("train")).running(pods=8).not_evicted(), for_=60 * MINUTE)


def test_with_the_node_deleted_the_gang_goes_after_its_grace(trained):
    """Now Kubernetes deletes the eight pods. The other eight are below the gang's minimum: after 60 s they are evicted too."""
    trained.fail_node("a100-0")
    trained.advance(PATIENCE + BACKOFF)
    trained.delete("Node", "a100-0")

    stays(lambda: expect(trained.job("train")).running(pods=8), for_=GRACE - 2)
    eventually(lambda: expect(trained.job("train")).running(pods=0).evicted(pods=8, by="stalegangeviction"), within=5)


def test_what_waited_gets_the_rest_of_the_node_s_neighbours(trained):
    """team-b's gang of 8 waits for A100s while half a gang holds them. It starts when that half is gone."""
    trained.fail_node("a100-0")
    trained.apply("manifests/next.yaml")
    trained.advance(PATIENCE + BACKOFF)
    expect(trained.job("next")).waits_whole(pods=8)

    trained.delete("Node", "a100-0")
    eventually(lambda: expect(trained.job("next")).runs_whole(pods=8), within=GRACE + 5)
    eventually(lambda: expect(trained.job("train")).waits_whole(pods=16), within=11 * MINUTE)


def test_the_gang_is_whole_again_when_the_node_is_back(trained):
    """Half an hour later: the old pods end, the eight new ones take their places."""
    trained.fail_node("a100-0")
    trained.advance(30 * MINUTE)
    trained.recover_node("a100-0")

    eventually(lambda: expect(trained.job("train")).runs_whole(pods=16), within=2 * MINUTE)
    assert not leaving(trained)


def test_work_may_be_less_patient(lab):
    """tolerationSeconds: 30 for node.kubernetes.io/unreachable: its pods are evicted after half a minute."""
    lab.apply("manifests/queues.yaml", "manifests/train-impatient.yaml")
    expect(lab.job("train")).runs_whole(pods=16)

    lab.fail_node("a100-0")
    stays(lambda: expect(lab.job("train")).running(pods=16), for_=28)
    lab.advance(3)
    assert len(leaving(lab)) == 8


def test_a_deployment_is_whole_at_once_a_statefulset_not(lab):
    """Any replica replaces another; a pod with its own name is not replaced while the old one may still run."""
    lab.apply("manifests/queues.yaml", "manifests/serve.yaml", "manifests/store.yaml")
    expect(lab.queue("team-b")).running(pods=8)
    for node in ("l40s-0", "l40s-1"):
        lab.fail_node(node)
    lab.advance(PATIENCE + 5)

    expect(lab.deployment("serve")).running(pods=4)
    expect(lab.app("store")).running(pods=0)
    lab.delete("Node", "l40s-0")
    lab.delete("Node", "l40s-1")
    expect(lab.app("store")).running(pods=4)


def test_a_failed_node_is_no_part_of_what_is_shared(lab):
    """Each team owns 12 GPUs and wants 16, of 32. Of the remaining 24 each is due its quota, and nothing more."""
    lab.apply("manifests/queues-part.yaml", "manifests/train-anywhere.yaml", "manifests/serve.yaml")
    lab.scale("Deployment", "serve", 16)
    expect(lab.queue("team-a")).fair_share(16)
    expect(lab.queue("team-b")).fair_share(16)

    lab.fail_node("h100-0")
    expect(lab.queue("team-a")).fair_share(12)
    expect(lab.queue("team-b")).fair_share(12)
