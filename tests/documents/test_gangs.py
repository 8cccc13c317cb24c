"""The manifests of the documents, applied to a lab as the text gives them, and seen to run.

What a document leaves to its reader is added openly in the test: a queue to go to, a volume claim that pods mount,
shipped fleets. Where KAI of today does not do what a document says, the test's name says so.
"""

from __future__ import annotations

import pytest

from kailab.lab import expect

WORKERS = ["distributed-training-worker-0", "distributed-training-worker-1"]
WORKERS += ["distributed-training-worker-2", "distributed-training-worker-3"]
GANG = "pg-training-job-20250227-001"


def phases(lab, namespace="default"):
    return {pod["metadata"]["name"]: pod["status"]["phase"] for pod in lab.get("Pod", namespace=namespace)}


# --- the four workers ------------------------------------------------------------------------------------------------


def test_four_bare_pods_on_three_gpus_three_run_and_one_waits(documents, open_lab):
    workers = documents["gangs"][0]
    lab = open_lab(nodes=3, gpus=1, scheduler="kube-scheduler")
    lab.apply(workers.text)
    expect(lab).running(pods=3).pending(pods=1)
    assert phases(lab)[WORKERS[3]] == "Pending"


@pytest.mark.parametrize("nodes, gpus", [(4, 1), (2, 2), (1, 4)])
def test_with_the_gang_labels_all_four_run(block, open_lab, queue, nodes, gpus):
    lab = open_lab(nodes=nodes, gpus=gpus)
    lab.apply(queue("default-queue"), block("gangs", 'job-id: "training-job-20250227-001"').text)
    expect(lab.podgroup(GANG)).runs_whole(pods=4)
    assert phases(lab) == dict.fromkeys(WORKERS, "Running")
    assert lab.get("PodGroup", GANG)["spec"]["minMember"] == 4


def test_with_the_gang_labels_none_runs_on_three_gpus_and_all_do_when_the_fourth_is_there(block, open_lab, queue, work):
    lab = open_lab(nodes=4, gpus=1)
    lab.apply(queue("default-queue"), work("other", "default-queue", 1))
    expect(lab.app("other")).running(pods=1)
    lab.apply(block("gangs", 'job-id: "training-job-20250227-001"').text)
    expect(lab.podgroup(GANG)).waits_whole(pods=4, reason="PodSchedulingErrors")
    lab.delete("Job", "other")
    expect(lab.podgroup(GANG)).runs_whole(pods=4)


def test_kube_scheduler_does_not_know_the_gang_labels(block, open_lab):
    lab = open_lab(nodes=3, gpus=1, scheduler="kube-scheduler")
    lab.apply(block("gangs", 'job-id: "training-job-20250227-001"').text)
    expect(lab).running(pods=3).pending(pods=1)


def test_pods_that_name_no_scheduler_are_nobodys_unless_the_lab_adopts_them(block, open_lab, queue):
    lab = open_lab(adopt_default_scheduler=False)
    lab.apply(queue("default-queue"), block("gangs", 'job-id: "training-job-20250227-001"').text)
    expect(lab).pending(pods=4)
    assert "schedulerName: kai-scheduler" in str(lab.explain_pod(WORKERS[0]))


@pytest.mark.parametrize("adopts", [False, True])
def test_work_with_a_queue_and_no_scheduler_is_warned_of_where_nobody_would_place_it(open_lab, queue, work, adopts):
    lab = open_lab(adopt_default_scheduler=adopts)
    job = work("w", "team", 2)
    del job["spec"]["template"]["spec"]["schedulerName"]
    warnings = lab.apply(queue("team"), job).warnings
    assert any("spec.template.spec.schedulerName: is missing" in warning for warning in warnings) is not adopts
    expect(lab.app("w")).running(pods=2 if adopts else 0)


def test_a_saved_lab_still_adopts_them(block, open_lab, queue, tmp_path):
    lab = open_lab()
    lab.apply(queue("default-queue"))
    lab.save(tmp_path / "lab.state")
    with type(lab).resume(tmp_path / "lab.state") as resumed:
        resumed.apply(block("gangs", 'job-id: "training-job-20250227-001"').text)
        expect(resumed.podgroup(GANG)).runs_whole(pods=4)


# --- the complete example: hierarchy of 100 GPUs, PyTorchJob -----------------------------------------------------------


TEAMS = {"llm-team": 24, "vision-team": 16, "analytics": 24.5, "inference": 10.5, "infrastructure": 25}


def test_the_hierarchy_divides_100_gpus_as_the_text_says(company):
    quotas = {q["metadata"]["name"]: q["spec"]["resources"]["gpu"]["quota"] for q in company.get("Queue")}
    assert quotas == {"research": 40, "data-science": 35, **TEAMS}


def test_when_every_team_wants_all_each_gets_its_own(company, work):
    company.apply([work(name, name, 100) for name in TEAMS])
    expect(company.queue("research")).running(gpus=40)
    expect(company.queue("data-science")).running(gpus=35)
    expect(company.queue("infrastructure")).running(gpus=25)
    expect(company.queue("llm-team")).running(gpus=24).within_quota()
    expect(company.queue("vision-team")).running(gpus=16).within_quota()
    # Half GPUs can't be given to pods that want whole ones; the two halves make one.
    held = {
        name: len([p for p in phases(company).items() if p[0].startswith(name) and p[1] == "Running"]) for name in TEAMS
    }
    assert held["analytics"] + held["inference"] == 35
    assert held["analytics"] in (24, 25)


def test_what_research_leaves_idle_others_burst_into_until_it_is_needed_back(company, work):
    company.apply(work("half", "llm-team", 20), work("analysis", "analytics", 100), work("ops", "infrastructure", 25))
    expect(company.queue("research")).running(gpus=20)
    expect(company.queue("analytics")).running(gpus=55).borrows()
    company.apply(work("more", "vision-team", 20))
    expect(company.queue("research")).running(gpus=40)
    expect(company.queue("data-science")).running(gpus=35).evicted(pods=20)
    expect(company.queue("infrastructure")).running(gpus=25).not_evicted()


@pytest.fixture
def pytorch(company, block, claim):
    """The company's lab, with the claim the job mounts; the namespace is given the team's queue."""
    company.patch("Namespace", "research-llm", {"metadata": {"labels": {"runai/queue": "llm-team"}}})
    company.apply(claim, namespace="research-llm")
    return company, block("gangs", "kind: PyTorchJob").text


def test_the_pytorch_job_of_one_master_and_three_workers_runs_as_one(pytorch):
    lab, job = pytorch
    lab.apply(job)
    expect(lab.workload("PyTorchJob", "llama-finetuning-v2", "research-llm")).runs_whole(pods=4)
    assert phases(lab, "research-llm") == {
        "llama-finetuning-v2-master-0": "Running",
        "llama-finetuning-v2-worker-0": "Running",
        "llama-finetuning-v2-worker-1": "Running",
        "llama-finetuning-v2-worker-2": "Running",
    }
    [group] = lab.get("PodGroup", namespace="research-llm")
    size = {pod["metadata"]["labels"]["kai.nvidia.com/job-size"] for pod in lab.get("Pod", namespace="research-llm")}
    assert size == {str(group["spec"]["minMember"])} == {"4"}
    assert group["spec"]["subGroups"] == [{"name": "master", "minMember": 1}, {"name": "worker", "minMember": 3}]
    assert group["spec"]["queue"] == "llm-team"
    assert group["metadata"]["ownerReferences"][0]["kind"] == "PyTorchJob"
    pods = lab.get("Pod", namespace="research-llm")
    assert [pod["metadata"]["labels"]["kai.scheduler/subgroup-name"] for pod in pods] == ["master", *["worker"] * 3]
    expect(lab.queue("research")).holding(gpus=4)


def test_the_pytorch_job_waits_whole_while_its_team_has_less_than_four_left(pytorch, work):
    lab, job = pytorch
    lab.apply(work("first", "llm-team", 21, priorityClassName="background-training"))
    expect(lab.app("first")).running(pods=21)
    lab.apply(job)
    waiting = lab.workload("PyTorchJob", "llama-finetuning-v2", "research-llm")
    expect(waiting).waits_whole(pods=4, reason="NonPreemptibleOverQuota")
    lab.delete("Job", "first")
    expect(waiting).runs_whole(pods=4)


def test_the_pytorch_job_is_told_of_the_volume_claim_it_lacks(company, block, queue):
    company.apply(queue("default-queue"), block("gangs", "kind: PyTorchJob").text)
    expect(company).pending(pods=4, reason="PodSchedulingErrors")
    told = str(company.explain_pod("llama-finetuning-v2-master-0", "research-llm"))
    assert 'persistentvolumeclaim "training-checkpoints-pvc" not found' in told


def test_the_pytorch_job_without_its_priority_class_is_refused_with_the_classes_there_are(
    open_lab, block, queue, claim
):
    lab = open_lab()
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "research-llm"}}
    lab.apply(space, queue("default-queue"))
    lab.apply(claim, namespace="research-llm")
    lab.apply(block("gangs", "kind: PyTorchJob").text)
    lab.settle()
    assert lab.get("Pod", namespace="research-llm") == []
    events = lab.get("Event", namespace="research-llm")
    assert any("background-training" in event["message"] for event in events)
