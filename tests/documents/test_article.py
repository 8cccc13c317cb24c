"""What the article on gangs and fair shares claims, in its own numbers, and what really happens.

Its manifests run in ``test_gangs.py``. Each test here is a claim of its text; where KAI does otherwise, the name says so.
"""

from __future__ import annotations

import pytest
import yaml

from kailab.engine.config import EngineConfig
from kailab.lab import between, eventually, expect
from tests.documents.pods import HOUR, classes, nodes_of, pod

WORKERS = 'job-id: "training-job-20250227-001"'


def test_fifty_jobs_against_five_do_not_get_nine_tenths(open_lab, queue, work):
    """Who asks for less than its share gets all it asks for; the others share the rest alike."""
    lab = open_lab()
    for team in ("team-a", "team-b", "team-c"):
        lab.apply(queue(team, {"quota": 0, "limit": -1, "overQuotaWeight": 1}))
    lab.apply(work("a", "team-a", 50))
    expect(lab.queue("team-a")).running(gpus=32)
    lab.apply(work("b", "team-b", 5), work("c", "team-c", 50))
    expect(lab.queue("team-b")).running(gpus=5)
    expect(lab.queue("team-a")).running(gpus=between(13, 14))
    expect(lab.queue("team-c")).running(gpus=between(13, 14))


# --- the table of hours 0 to 12 --------------------------------------------------------------------------------------


def test_at_hour_6_nobody_needs_to_wait_as_42_gpus_are_free(company, work):
    """30 + 20 + 8 of 100 are in use, so 40 more run at once, and nobody gives anything back."""
    company.apply(work("llm", "llm-team", 30), work("analysis", "analytics", 20), work("serving", "inference", 8))
    expect(company.queue("llm-team")).running(gpus=30).borrows(gpus=6)
    company.advance(6 * HOUR)
    company.apply(work("ops", "infrastructure", 40))
    expect(company.queue("infrastructure")).running(gpus=40).borrows(gpus=15)
    expect(company).not_evicted()


def test_where_nothing_is_free_the_quota_comes_at_once_and_waiting_brings_no_more(company, work):
    company.apply(work("llm", "llm-team", 50), work("vision", "vision-team", 50))
    expect(company.queue("research")).running(gpus=100)
    company.apply(work("ops", "infrastructure", 40))
    held = 100 * 25 // 65  # the rest is divided by weight: 40 to 25, as data-science wants nothing
    expect(company.queue("infrastructure")).running(gpus=between(25, held + 1))
    before = len([node for node in nodes_of(company, "ops").values() if node])
    company.advance(24 * HOUR)
    assert len([node for node in nodes_of(company, "ops").values() if node]) == before


def test_a_day_of_waiting_gives_no_priority(open_lab, queue, work):
    """Nor does a week: a queue of higher priority that asks for everything gets everything beyond the quotas."""
    lab = open_lab()
    rich = queue("production", {"quota": 0, "limit": -1, "overQuotaWeight": 1})
    rich["spec"]["priority"] = 200
    lab.apply(rich, queue("background", {"quota": 0, "limit": -1, "overQuotaWeight": 1}))
    lab.apply(work("serve", "production", 64), work("late", "background", 1))
    for hours in (24, 7 * 24):
        lab.advance(hours * HOUR)
        expect(lab.queue("background")).pending(pods=1).running(pods=0)


# --- placement -------------------------------------------------------------------------------------------------------


def test_binpack_puts_four_gpus_on_one_of_two_empty_nodes(open_lab, queue, work):
    lab = open_lab(nodes=2, gpus=8)
    lab.apply(queue("team"), work("job", "team", 4))
    expect(lab.app("job")).running(pods=4).on_one("node")


@pytest.mark.parametrize(("placement", "lost"), [("spread", 1), ("binpack", 8)])
def test_a_node_that_fails_takes_one_of_ten_replicas_with_it_or_eight(open_lab, queue, placement, lost):
    """Spread puts one on each node; binpack fills the first."""
    lab = open_lab(nodes=10, gpus=8, config=EngineConfig(gpu_placement=placement))
    lab.apply(queue("team"), [pod(f"replica-{number}", "team") for number in range(10)])
    expect(lab.app("replica")).running(pods=10)
    placed = list(nodes_of(lab, "replica").values())
    fullest = max(placed, key=placed.count)
    assert placed.count(fullest) == lost
    lab.fail_node(fullest)
    lab.advance(HOUR)  # long after everybody has given the node up
    expect(lab.app("replica")).running(pods=10 - lost)


def test_binpack_does_not_put_four_pods_on_four_nodes(open_lab, queue, work):
    """2, 2, 1 and 2 GPUs are free. The article fills "sequentially" and ends with one pod on each node; KAI takes the fewest free
    first, and needs three nodes."""
    lab = open_lab(nodes=4, gpus=8)
    lab.apply(queue("team"))
    names = sorted(node["metadata"]["name"] for node in lab.get("Node"))
    for name, used in zip(names, (6, 6, 7, 6), strict=True):
        lab.apply(pod(f"held-{name}", "team", used, nodeSelector={"kubernetes.io/hostname": name}))
    lab.apply(work("llama", "team", 4))
    expect(lab.app("llama")).running(pods=4)
    nodes = list(nodes_of(lab, "llama").values())
    assert sorted(nodes.count(name) for name in set(nodes)) == [1, 1, 2]
    assert names[2] in nodes


def test_free_gpus_need_not_be_side_by_side(open_lab, queue):
    """Three pods of 4 GPUs on a node of 32 leave 20, not twelve, and any 8 of them do."""
    lab = open_lab(nodes=1, gpus=32)
    lab.apply(queue("team"), [pod(f"part-{number}", "team", 4) for number in range(3)], pod("new", "team", 8))
    expect(lab.pod("new")).running(gpus=8)
    lab.apply(pod("twelve", "team", 12), pod("one-more", "team", 1))
    expect(lab.pod("twelve")).running(gpus=12)
    expect(lab.pod("one-more")).pending(pods=1)


# --- preemption ------------------------------------------------------------------------------------------------------


@pytest.fixture
def one_gpu(block, open_lab, queue, claim):
    """A GPU, the article's classes, and two that KAI takes for preemptible."""
    lab = open_lab(nodes=1, gpus=1)
    lab.apply(block("gangs", "kind: PreemptionPolicy").text)
    lab.apply(queue("default-queue"), claim, classes(low=50, hardly=51))
    return lab


def test_background_training_is_preempted_by_nothing(one_gpu):
    """Its class is 100, and from 100 on KAI takes work for non-preemptible."""
    one_gpu.apply(pod("train", "default-queue", priorityClassName="background-training"))
    expect(one_gpu.pod("train")).running(pods=1)
    one_gpu.apply(pod("serve", "default-queue", priorityClassName="production-inference"))
    expect(one_gpu.pod("serve")).pending(pods=1)
    expect(one_gpu.pod("train")).running(pods=1).not_evicted()


def test_a_difference_of_one_is_enough_to_preempt(one_gpu):
    one_gpu.apply(pod("train", "default-queue", priorityClassName="low"))
    expect(one_gpu.pod("train")).running(pods=1)
    one_gpu.apply(pod("notebook", "default-queue", priorityClassName="hardly"))
    expect(one_gpu.pod("notebook")).running(pods=1)
    expect(one_gpu.pod("train")).evicted(pods=1, by="preempt")


def test_the_articles_training_pod_leaves_within_its_grace_and_does_not_come_back(one_gpu, block):
    """Its label ``priority-class`` is none of KAI's, so it has the class of all training and is preemptible. A pod that nobody owns
    is not made anew: nothing is resumed."""
    training = yaml.safe_load(block("gangs", "name: background-training-job-1").text)
    # Saving takes the article's training 30 s.
    training["metadata"]["annotations"] = {"kailab.dev/checkpoint-seconds": "30"}
    one_gpu.apply(training)
    expect(one_gpu.pod("background-training-job-1")).running(pods=1)
    asked = one_gpu.now
    one_gpu.apply(pod("serve", "default-queue", priorityClassName="production-inference"))
    expect(one_gpu.pod("serve")).pending(pods=1, reason="Pipelined")
    eventually(lambda: expect(one_gpu.pod("serve")).running(pods=1), within=121)
    assert one_gpu.now - asked >= 30
    one_gpu.delete("Pod", "serve")
    one_gpu.advance(HOUR)
    expect(one_gpu).no_pods()


# --- what waits, and how it is told ----------------------------------------------------------------------------------


def test_what_is_beyond_a_quota_is_not_rejected_it_waits(open_lab, queue, work):
    lab = open_lab()
    lab.apply(queue("team", {"quota": 4, "limit": 4, "overQuotaWeight": 1}), work("job", "team", 6))
    expect(lab.app("job")).running(pods=4).pending(pods=2, reason="OverLimit")
    lab.patch("Queue", "team", {"spec": {"resources": {"gpu": {"limit": 6}}}})
    expect(lab.app("job")).running(pods=6)


def test_a_gang_that_lacks_a_member_and_one_that_lacks_gpus_are_told_apart(block, open_lab, queue):
    members = block("gangs", WORKERS).text.split("\n---\n")
    assert len(members) == 4
    for there, gpus, told in ((3, 4, "GangIncomplete"), (4, 3, "LargerThanTheFleet")):
        lab = open_lab(nodes=gpus, gpus=1)
        lab.apply(queue("default-queue"), "\n---\n".join(members[:there]))
        expect(lab).running(pods=0).pending(pods=there)
        assert lab.explain_pod("distributed-training-worker-1").cause.code == told


def test_the_service_monitor_finds_no_service(block):
    """It selects Services by a label that the article's has not, and in its own namespace alone, where that one is not."""
    service, monitor = yaml.safe_load_all(block("gangs", "kind: ServiceMonitor").text)
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    assert not wanted <= service["metadata"].get("labels", {}).items()
    assert service["metadata"]["namespace"] != monitor["metadata"].get("namespace", "default")
    assert "namespaceSelector" not in monitor["spec"]
