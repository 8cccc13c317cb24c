"""What the documents ask of KAI and KAI has not: for each the run that shows what happens instead.

The documents' own objects are applied beside the work: a lab keeps them, and they change nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kailab.engine.config import EngineConfig
from kailab.lab import expect
from tests.documents.pods import HOUR, classes, nodes_of, pod

NO_QUOTA = {"quota": 0, "limit": -1, "overQuotaWeight": 1}


def lending(lab, queue, *, own: int, rest: int) -> None:
    """A team that owns ``own`` GPUs beside one that owns the rest."""
    lab.apply(queue("team", {**NO_QUOTA, "quota": own}), queue("others", {**NO_QUOTA, "quota": rest}))


# --- the article: quotas ---------------------------------------------------------------------------------------------


def test_burst_asks_for_no_idle_fifth_of_the_cluster(block, open_lab, queue, work):
    """``conditionRequired: cluster-underutilized``, more than 20 % idle: 4 GPUs of 32 are, and all four are lent."""
    lab = open_lab()
    lab.apply(block("gangs", "maxPodsPerDay").text)
    lending(lab, queue, own=0, rest=32)
    lab.apply(work("held", "others", 28), work("burst", "team", 6))
    expect(lab.queue("team")).running(gpus=4).borrows(gpus=4)


def test_no_pods_are_counted_by_the_day(block, open_lab, queue, work):
    """``maxPodsPerDay: 50`` with a quota of 24 GPUs: 72 pods have run within the hour."""
    lab = open_lab("hundred")
    lab.apply(block("gangs", "maxPodsPerDay").text)
    lab.apply(queue("research-llm", {"quota": 24, "limit": 24, "overQuotaWeight": 1}))
    many = work("short", "research-llm", 72)
    many["spec"]["parallelism"] = 24
    many["spec"]["template"]["metadata"]["annotations"] = {"kailab.dev/run-seconds": "600"}
    lab.apply(many)
    lab.advance(HOUR)
    expect(lab.job("short")).succeeded(pods=72)


@pytest.mark.parametrize("allowed", [False, True])
def test_whether_a_queue_may_be_preempted_is_said_by_its_work(block, open_lab, queue, work, allowed):
    """``preemptionAllowed: false`` of research, ``true`` of analytics: what is borrowed comes back from both."""
    name = "data-science-analytics" if allowed else "research-llm"
    quotas = block("gangs", "maxPodsPerDay").text
    assert f"namespace: {name}" in quotas
    lab = open_lab()
    lab.apply(quotas, queue(name, {**NO_QUOTA, "quota": 8}), queue("others", {**NO_QUOTA, "quota": 24}))
    lab.apply(work("borrower", name, 32))
    expect(lab.queue(name)).running(gpus=32)
    lab.apply(work("owner", "others", 24))
    expect(lab.queue("others")).running(gpus=24)
    expect(lab.job("borrower")).evicted(pods=24, by="reclaim")
    # What KAI goes by is the work: non-preemptible, it would not have borrowed.
    lab.apply(work("sure", name, 1, priorityClassName="build"))
    expect(lab.job("sure")).running(pods=1).not_evicted()


def test_no_job_is_too_small(block, open_lab, queue):
    """``minimumResourcesPerJob`` of a GPU and 32 GiB: a pod that asks for neither runs."""
    lab = open_lab()
    lab.apply(block("gangs", "minimumResourcesPerJob").text, queue("team"))
    small = pod("small", "team")
    small["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    lab.apply(small)
    expect(lab.pod("small")).running(pods=1, gpus=0)


def test_shares_do_not_know_the_time_of_day(open_lab, queue, work):
    """The module's team that needs 4 GPUs by day and one by night holds as many at each hour of the day."""
    lab = open_lab(nodes=1)
    lending(lab, queue, own=4, rest=4)
    lab.apply(work("day", "team", 8), work("night", "others", 8))
    lab.settle()
    held = []
    for _ in range(24):
        held.append((running(lab, "day"), running(lab, "night")))
        lab.advance(HOUR)
    assert set(held) == {(4, 4)}


def running(lab, app: str) -> int:
    return sum(
        one["status"].get("phase") == "Running" for one in lab.get("Pod") if one["metadata"]["name"].startswith(app)
    )


# --- the article: placement ------------------------------------------------------------------------------------------


def test_nodes_are_packed_to_the_last_gpu(block, open_lab, queue, work):
    """``gpuDensityTarget: 0.95`` would stop before the eighth of eight."""
    lab = open_lab(nodes=2)
    lab.apply(block("gangs", "gpuDensityTarget").text, queue("team"), work("job", "team", 8))
    expect(lab.job("job")).running(pods=8).on_one("node")


def test_spread_keeps_to_no_most_gpus_of_a_node_and_no_fewest_nodes(block, open_lab, queue, work):
    """``maxGPUsPerNode: 2`` and ``minNodeCount: 5`` on three nodes: ten pods run, three and more on each."""
    lab = open_lab(nodes=3, config=EngineConfig(gpu_placement="spread"))
    lab.apply(block("gangs", "minNodeCount").text, queue("team"), work("serve", "team", 10))
    expect(lab.job("serve")).running(pods=10)
    assert sorted(Counter(nodes_of(lab, "serve").values()).values()) == [3, 3, 4]


def test_training_is_packed_and_inference_spread_at_once_if_its_pods_say_so(block, open_lab, queue, work):
    """The two SchedulingPolicies say it of classes of work, and change nothing. The article's own preferred anti-affinity, written
    into the pods, does: KAI scores it above binpack."""
    lab = open_lab(nodes=4)
    lab.apply(block("gangs", "gpuDensityTarget").text, block("gangs", "minNodeCount").text, queue("team"))
    lab.apply(work("train", "team", 4), work("plain", "team", 4))
    expect(lab.job("train")).running(pods=4).on_one("node")
    expect(lab.job("plain")).running(pods=4).on_one("node")
    term = {"labelSelector": {"matchLabels": {"app": "vllm"}}, "topologyKey": "kubernetes.io/hostname"}
    apart = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]}
    lab.apply(work("vllm", "team", 3, affinity={"podAntiAffinity": apart}))
    expect(lab.job("vllm")).running(pods=3).spread_over(3, "node")
    lab.apply(work("more", "team", 4))
    expect(lab.job("more")).running(pods=4).on_one("node")


# --- the article: preemption -----------------------------------------------------------------------------------------


def test_an_evicted_jobs_pod_begins_from_the_beginning(open_lab, queue, work):
    """The article has it resume "from the checkpoint". Kubernetes makes a new pod, and what that reads at its start is its own affair:
    here ten minutes of work take ten minutes again, after nine are lost."""
    lab = open_lab(nodes=1, gpus=1)
    lab.apply(queue("team"), classes(low=50, high=60))
    train = work("train", "team", 1, priorityClassName="low")
    train["spec"]["template"]["metadata"]["annotations"] = {"kailab.dev/run-seconds": "600"}
    lab.apply(train)
    lab.advance(540)
    lab.apply(pod("urgent", "team", priorityClassName="high"))
    expect(lab.job("train")).evicted(pods=1, by="preempt")
    lab.delete("Pod", "urgent")
    lab.advance(540)
    expect(lab.job("train")).running(pods=1).succeeded(pods=0)
    lab.advance(120)
    expect(lab.job("train")).succeeded(pods=1)


# --- the page on policies --------------------------------------------------------------------------------------------


def test_a_policy_named_by_annotation_is_asked_by_nobody(block, open_lab, queue):
    """Its ``strategy: SpreadEvenly`` or ``SingleNode`` would be such a policy's: pods land as they do without one."""
    placed = []
    for noted in ({}, {"kai.nvidia.com/scheduling-policy": "gpu-topology-aware"}):
        lab = open_lab(nodes=4)
        lab.apply(queue("team"))
        lab.apply([{**one, "metadata": {**one["metadata"], "annotations": noted}} for one in four("team")])
        expect(lab.app("part")).running(pods=4)
        placed.append(nodes_of(lab, "part"))
    assert placed[0] == placed[1]


def four(team: str) -> list[dict[str, Any]]:
    return [pod(f"part-{number}", team) for number in range(4)]


def test_a_devices_memory_is_given_out_to_the_last_part(open_lab, queue):
    """``memoryThreshold: 80%``: four parts of a quarter fill the device, and a fifth waits for want of room, not of a threshold."""
    lab = open_lab(nodes=1, gpus=1)
    lab.apply(queue("team"))
    for number in range(5):
        part = pod(f"part-{number}", "team", annotations={"gpu-fraction": "0.25"}, gpus=0)
        lab.apply(part)
    expect(lab.app("part")).running(pods=4).pending(pods=1)


@pytest.mark.parametrize("admitted", [8, 6])
def test_kueue_above_kai_is_two_sets_of_books(open_lab, queue, work, admitted):
    """The page's stack: Kueue for quotas, KAI for placement. Kueue holds a Job back by ``suspend``, and KAI sees no pods of it. Once it is
    let go KAI counts it in its own queue, whose limit is asked again. Letting go is done by the test here."""
    lab = open_lab()
    lab.apply(queue("team", {"quota": 6, "limit": 6, "overQuotaWeight": 1}))
    job = work("stacked", "team", admitted)
    job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "team"
    job["spec"]["suspend"] = True
    lab.apply(job)
    expect(lab.queue("team")).running(gpus=0)
    assert lab.get("Pod") == []
    lab.patch("Job", "stacked", {"spec": {"suspend": False}})
    expect(lab.job("stacked")).running(pods=6)
    if admitted > 6:
        expect(lab.job("stacked")).pending(pods=2, reason="OverLimit")


# --- the lab: HAMi ---------------------------------------------------------------------------------------------------


def test_hamis_limit_of_gpu_memory_is_a_resource_that_no_node_has(open_lab, queue):
    """HAMi's device plugin offers ``nvidia.com/gpumem`` and its library holds processes to it. KAI has ``gpu-memory``, which counts
    and holds nobody to it."""
    lab = open_lab(nodes=1, gpus=1)
    lab.apply(queue("team"))
    hami = pod("hami", "team")
    hami["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpumem"] = "3000"
    lab.apply(hami)
    expect(lab.pod("hami")).pending(pods=1)
    assert "nvidia.com/gpumem" in " ".join(lab.explain_pod("hami").lines())
    lab.delete("Pod", "hami")
    lab.apply(
        pod("one", "team", annotations={"gpu-memory": "3000"}, gpus=0),
        pod("two", "team", annotations={"gpu-memory": "3000"}, gpus=0),
    )
    expect(lab).running(pods=2)


# --- the article: whose turn it is -----------------------------------------------------------------------------------


SCORED = """kailab:
  jobOrder:
    weights: {priority: 0.4, waiting: 0.3, efficiency: 0.2, fairness: 0.1}
    fullWait: 6h
    scope: cluster
"""
ORDER = ["job-42", "job-5", "job-18"]


@pytest.mark.parametrize("config", [SCORED, "{}"], ids=["by its weights", "by KAI's rules"])
def test_the_articles_three_jobs_are_drained_in_its_order(block, open_lab, queue, tmp_path, config):
    """Class 100 for 6 hours, 500 for 2 of a team that has just run, 100 for an hour and a half, while class 1000 holds the GPUs: 42, 5,
    18, as it says. The scores are 0.6, 0.5 and 0.375, where the article has 0.82, 0.71 and 0.58: it counts percentiles of heads, and does
    not tell its efficiencies. KAI, which knows no score and asks for the queue first, comes to the same order."""
    (tmp_path / "scheduler.yaml").write_text(config)
    lab = open_lab(nodes=3, gpus=1, config=tmp_path / "scheduler.yaml")
    lab.apply(block("gangs", "kind: PreemptionPolicy").text)  # its classes
    for team, quota in (("data-science", 1), ("research", 3), ("analytics", 1)):
        lab.apply(queue(team, {**NO_QUOTA, "quota": quota}))
    lab.apply([pod(f"held-{number}", "research", priorityClassName="production-inference") for number in range(3)])
    expect(lab.app("held")).running(pods=3)
    lab.apply(pod("job-42", "data-science", priorityClassName="background-training"))
    lab.advance(4 * HOUR)
    lab.apply(pod("job-5", "research", priorityClassName="interactive-notebooks"))
    lab.advance(0.5 * HOUR)
    lab.apply(pod("job-18", "analytics", priorityClassName="background-training"))
    lab.advance(1.5 * HOUR)
    if config == SCORED:
        assert [score(lab, name) for name in ORDER] == pytest.approx([0.6, 0.5, 0.375], abs=0.002)
    begun: list[str] = []
    for number in range(3):
        lab.delete("Pod", f"held-{number}")
        lab.settle()
        begun += [name for name in ORDER if name not in begun and nodes_of(lab, name)[name]]
        assert len(begun) == number + 1
    assert begun == ORDER


def score(lab, name: str) -> float:
    told = lab.explain_pod(name).data()["pending"]["numbers"]["score"]
    return sum(told[part][0] * told[part][1] for part in ("priority", "waiting", "efficiency", "fairness"))
