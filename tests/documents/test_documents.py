"""The manifests of the documents, applied to a lab as the text gives them, and seen to run.

What a document leaves to its reader is added openly in the test: a queue to go to, a volume claim that pods mount,
shipped fleets. Where KAI of today does not do what a document says, the test's name says so.
"""

from __future__ import annotations

import pytest

from kailab.errors import InputError
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


def queues_of(hierarchy, queue, gpus):
    """The document's hierarchy as queues: a weight is the per cent of what the level above owns."""

    def level(children, owned, parent):
        for child in children:
            quota = owned * child["weight"] / 100
            yield queue(child["name"], {"quota": quota, "limit": -1, "overQuotaWeight": child["weight"]}, parent)
            yield from level(child.get("children", ()), quota, child["name"])

    return list(level(hierarchy, gpus, ""))


@pytest.fixture
def company(block, open_lab, queue):
    """The lab of 100 GPUs with the document's classes, namespace and hierarchy."""
    lab = open_lab("hundred")
    lab.apply(block("gangs", "kind: PreemptionPolicy").text)
    lab.apply(block("gangs", "kind: KAISchedulerConfig").text)
    applied = lab.apply(block("gangs", "hierarchy:").text)
    # Not an object of KAI's: kept, said so, and turned into queues here.
    assert any("ResourceQuota of kai.nvidia.com/v1 is not known to kailab" in warning for warning in applied.warnings)
    kept = lab.get("ResourceQuota.kai.nvidia.com", "fair-share-config", None)
    lab.apply(queues_of(kept["spec"]["hierarchy"], queue, gpus=100))
    return lab


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


# --- guaranteed and burst, priorities ----------------------------------------------------------------------------------


def test_guaranteed_and_burst_quotas_are_a_queues_quota_and_limit(block, open_lab, queue, work):
    lab = open_lab("hundred")
    warnings = lab.apply(block("gangs", "maxPodsPerDay: 100").text).warnings
    assert len(warnings) == 2  # neither is an object of KAI's
    for kept in lab.get("Quota.kai.nvidia.com", None, None):
        spec = kept["spec"]
        own, burst = spec["guaranteedQuota"]["gpus"], spec["burstQuota"]["gpus"]
        lab.apply(queue(spec["namespace"], {"quota": own, "limit": own + burst, "overQuotaWeight": 1}))
        lab.apply(work(spec["namespace"], spec["namespace"], 100))
    expect(lab.queue("research-llm")).running(gpus=24 + 12).borrows(gpus=12)
    expect(lab.queue("data-science-analytics")).running(gpus=24 + 15).borrows(gpus=15)


def test_production_inference_takes_the_gpu_of_a_background_pod(block, open_lab, queue, work, claim):
    """The pod's preStop hook saves a checkpoint: it has the whole grace period of two minutes for that."""
    lab = open_lab(nodes=1, gpus=1)
    lab.apply(queue("default-queue"), claim)
    lab.apply(block("gangs", "kind: PreemptionPolicy").text)
    lab.apply(block("gangs", "name: background-training-job-1").text)
    expect(lab.pod("background-training-job-1")).running(pods=1)
    lab.apply(work("serving", "default-queue", 1, priorityClassName="production-inference"))
    expect(lab.app("serving")).pending(pods=1)
    lab.advance(110)
    expect(lab.app("serving")).pending(pods=1)
    lab.advance(15)
    expect(lab.app("serving")).running(pods=1)
    assert [entry["pod"] for entry in lab.log.evictions] == ["default/background-training-job-1"]


def test_against_the_text_the_class_background_training_is_never_preempted(block, open_lab, queue, work):
    """Its value is 100, and from 100 on KAI holds work for non-preemptible, whatever the class is called."""
    lab = open_lab(nodes=1, gpus=1)
    lab.apply(queue("default-queue"), block("gangs", "kind: PreemptionPolicy").text)
    lab.apply(work("training", "default-queue", 1, priorityClassName="background-training"))
    expect(lab.app("training")).running(pods=1)
    lab.apply(work("serving", "default-queue", 1, priorityClassName="production-inference"))
    expect(lab.app("serving")).pending(pods=1)
    expect(lab.app("training")).running(pods=1).not_evicted()


# --- the recipe: queues with -1, the namespace label, priority classes --------------------------------------------------


@pytest.fixture
def recipe(block, open_lab):
    """A lab of 32 GPUs with the recipe's queues: root -1, training 16 to 24, inference 8 to 16, development 4 to 8."""
    lab = open_lab()
    lab.apply(block("recipe", "kind: Queue").text)
    return lab


def test_a_root_of_minus_one_holds_its_children_to_their_own_limits_only(recipe, work):
    recipe.apply(work("t", "training", 32))
    expect(recipe.queue("training")).running(gpus=24)
    expect(recipe.app("t")).pending(pods=8)
    expect(recipe.queue("root")).holding(gpus=24)


def test_what_is_over_goes_by_weight_and_in_whole_gpus(recipe, work):
    recipe.apply([work(name, name, 32) for name in ("training", "inference", "development")])
    # 28 are guaranteed. Of the 4 left, by 2 : 1 : 0.5, training gets 2, inference 1, and the odd one goes to the
    # largest fraction, development's.
    expect(recipe.queue("training")).running(gpus=18)
    expect(recipe.queue("inference")).running(gpus=9)
    expect(recipe.queue("development")).running(gpus=5)


def test_the_recipes_queues_run_nothing_that_asks_for_cpu(recipe, block, work):
    """They give GPUs alone; cpu and memory are then 0, limit included. The load says so."""
    warnings = recipe.apply(block("recipe", "kind: Queue").text).warnings
    assert any("spec.resources.cpu: is missing" in warning for warning in warnings)
    job = work("cpu", "training", 1)
    job["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "1"}
    recipe.apply(job)
    expect(recipe.app("cpu")).pending(pods=1, reason="OverLimit")


def test_the_namespace_label_is_the_queue_of_pods_that_name_none(recipe, block, work):
    recipe.apply(block("recipe", "kind: Namespace").text)
    recipe.apply(work("plain", "", 4), namespace="ai-workloads")
    expect(recipe.queue("training")).running(gpus=4)
    [group] = recipe.get("PodGroup", namespace="ai-workloads")
    assert group["spec"]["queue"] == "training"


def test_the_recipes_job_runs_in_the_queue_of_its_older_label(recipe, block):
    recipe.apply(block("recipe", "kind: Namespace").text, block("recipe", "kind: Job").text)
    expect(recipe.queue("training")).running(pods=1, gpus=1)
    expect(recipe.job("gpu-test", "ai-workloads")).running(pods=1)


def test_the_class_marked_global_default_is_the_jobs(recipe, block):
    recipe.apply(block("recipe", "globalDefault: true").text)
    recipe.apply(block("recipe", "kind: Namespace").text, block("recipe", "kind: Job").text)
    expect(recipe.queue("training")).running(pods=1)
    [pod] = recipe.get("Pod", namespace="ai-workloads")
    assert (pod["spec"]["priorityClassName"], pod["spec"]["priority"]) == ("kai-normal-priority", 50)


def test_the_recipes_high_priority_keeps_to_the_quota_and_its_low_one_borrows(recipe, block, work):
    recipe.apply(block("recipe", "globalDefault: true").text)
    recipe.apply(work("high", "development", 8, priorityClassName="kai-high-priority"))
    expect(recipe.app("high")).running(pods=4).pending(pods=4, reason="NonPreemptibleOverQuota")
    recipe.apply(work("low", "inference", 16, priorityClassName="kai-low-priority"))
    expect(recipe.app("low")).running(pods=16)


# --- the course: -1, 0 and unset -----------------------------------------------------------------------------------------

RESEARCH = "0 0 0 1 0 1 1 2 3 3 2 3 3"
ML_TEAM = "0 0 0 1 0 1 1 1 1 2 3 3 2 3 3"


def test_research_team_with_its_indentation_put_back_guarantees_one_gpu_and_caps_at_two(block, open_lab, work):
    lab = open_lab()
    lab.apply(block("course", "name: research-team").indented(RESEARCH))
    lab.apply(work("firm", "research-team", 4, priorityClassName="build"))
    expect(lab.app("firm")).running(pods=1).pending(pods=3, reason="NonPreemptibleOverQuota")
    lab.apply(work("loose", "research-team", 4))
    expect(lab.queue("research-team")).running(gpus=2)


def test_against_the_text_ml_team_with_its_indentation_put_back_runs_nothing(block, open_lab, work):
    """It gives no limit, and an unset limit is 0: its quota of one GPU is never reached."""
    lab = open_lab()
    applied = lab.apply(
        block("course", "name: research-team").indented(RESEARCH), block("course", "name: ml-team").indented(ML_TEAM)
    )
    assert any("spec.resources.gpu.limit: is missing, which means 0" in warning for warning in applied.warnings)
    lab.apply(work("m", "ml-team", 1))
    expect(lab.app("m")).pending(pods=1, reason="OverLimit")
    lab.patch("Queue", "ml-team", {"spec": {"resources": {"gpu": {"limit": -1}}}})
    expect(lab.app("m")).running(pods=1)


@pytest.mark.parametrize(
    "gpus, running",
    [
        pytest.param({"quota": -1, "limit": -1}, 8, id="unlimited-quota"),
        pytest.param({"quota": -1, "limit": 2}, 2, id="unlimited-quota-under-a-limit"),
        pytest.param({"quota": 0, "limit": -1, "overQuotaWeight": 1}, 8, id="no-guarantee-borrows-what-is-idle"),
        pytest.param({"quota": 0, "limit": -1}, 8, id="no-weight-runs-on-what-nobody-else-wants"),
        pytest.param({"limit": -1, "overQuotaWeight": 1}, 8, id="unset-quota-is-0"),
        pytest.param({"quota": 0, "limit": 0, "overQuotaWeight": 1}, 0, id="limit-0"),
        pytest.param({"quota": 2, "limit": 0}, 0, id="limit-0-under-a-quota"),
        pytest.param({"quota": 2, "overQuotaWeight": 1}, 0, id="unset-limit-is-0"),
        pytest.param({}, 0, id="nothing-set"),
    ],
)
def test_minus_one_zero_and_unset_mean_what_the_course_says(open_lab, queue, work, gpus, running):
    lab = open_lab(nodes=1, gpus=8)
    q = queue("team")
    q["spec"]["resources"]["gpu"] = gpus
    lab.apply(q, work("w", "team", 8))
    expect(lab.app("w")).running(pods=running).pending(pods=8 - running)


def test_the_courses_pod_with_its_indentation_put_back_runs_in_the_default_queue(block, open_lab, queue):
    lab = open_lab(adopt_default_scheduler=False)  # it names its scheduler itself
    lab.apply(queue("default-queue"))
    lab.apply(block("course", "name: gpu-pod").indented("0 0 0 1 1 2 0 1 1 1 2 2 2 2 3 4"))
    expect(lab.pod("gpu-pod")).running(pods=1, gpus=1)
    expect(lab.queue("default-queue")).holding(gpus=1)


# --- policies and resource claims ----------------------------------------------------------------------------------------

SHARED = "0 0 0 1 1 0 1 2 2 3 3 1 1 0 " + "0 0 0 0 1 0 1 1 2 2 3 3 4 1 1 2 0 " + "0 0 0 1 0 1 1 2 2 3 3 4 1 1 2"


def test_the_training_job_of_the_policies_is_refused_for_the_restart_policy_it_leaves_out(block, open_lab):
    lab = open_lab()
    with pytest.raises(InputError, match="restartPolicy: 'Always' is not valid; expected OnFailure or Never"):
        lab.apply(block("policies", "name: llm-training").indented("0 0 0 1 1 2 0 1 2 3 3 3 4 4 5 6 4 4 5"))
    assert lab.get("Job") == []


def test_the_training_job_of_the_policies_runs_on_one_node_once_it_has_one(block, open_lab, queue):
    lab = open_lab()
    job = block("policies", "name: llm-training").indented("0 0 0 1 1 2 0 1 2 3 3 3 4 4 5 6 4 4 5")
    lab.apply(queue("default-queue"), job.replace("      containers:", "      restartPolicy: Never\n      containers:"))
    expect(lab.job("llm-training")).running(pods=1, gpus=8).spread_over(1)


def test_pods_that_share_a_claim_must_be_in_its_namespace_and_are_told_so(block, open_lab, queue):
    """The text puts the claim in ml-research and gives its pods no namespace."""
    lab = open_lab()
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml-research"}}
    lab.apply(space, queue("default-queue"))
    lab.apply(block("policies", "name: inference-2").indented(SHARED))
    expect(lab).pending(pods=2)
    assert "resource claim default/shared-gpu does not exist" in str(lab.explain_pod("inference-1"))
