"""The documents' queues, applied to a lab as the text gives them: quotas and bursts, priorities, -1, 0 and unset."""

from __future__ import annotations

import pytest

from kailab.lab import expect

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
    assert [entry.pod for entry in lab.log.evictions] == ["default/background-training-job-1"]


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
    assert any(
        "spec.resources: has no cpu and no memory: their quotas and limits are 0" in warning for warning in warnings
    )
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


def test_against_the_text_a_queue_is_in_no_namespace(open_lab, queue):
    """The course says that queues live in the namespace kai-scheduler; KAI's definition has them outside of namespaces."""
    lab = open_lab()
    made = queue("research-team")
    made["metadata"]["namespace"] = "kai-scheduler"
    (told,) = [notice for notice in lab.apply(made).notices if notice.where.field == "metadata.namespace"]
    assert told.message == "is left out, because Queue objects live outside namespaces"
    assert "namespace" not in lab.cluster.get("Queue", "research-team")["metadata"]


# --- the module's tree, and how deep one may be -----------------------------------------------------------------------


def ml_organisation(queue):
    """Research owns 4 of 10 GPUs, for two projects, engineering 2; the department 6 in all."""
    return [
        queue("ml", {"quota": 6, "limit": -1, "overQuotaWeight": 1}),
        queue("research", {"quota": 4, "limit": -1, "overQuotaWeight": 3}, "ml"),
        queue("alpha", {"quota": 2, "limit": -1, "overQuotaWeight": 1}, "research"),
        queue("beta", {"quota": 2, "limit": -1, "overQuotaWeight": 1}, "research"),
        queue("engineering", {"quota": 2, "limit": -1, "overQuotaWeight": 1}, "ml"),
    ]


def test_the_four_gpus_that_the_departments_quotas_leave_go_by_weight(open_lab, queue, work):
    """Ten GPUs, 4 and 2 of them owned: the other four go three to one, as the weights are here."""
    lab = open_lab(nodes=1, gpus=10)
    lab.apply(ml_organisation(queue))
    lab.apply(work("a", "alpha", 10), work("b", "beta", 10), work("e", "engineering", 10))
    expect(lab.queue("research")).running(gpus=7)
    expect(lab.queue("engineering")).running(gpus=3)


def test_against_the_text_a_parent_without_children_takes_work_and_one_with_them_does_not(open_lab, queue, work):
    """The module: "a pod to a parent queue without children, the scheduler ignores it". Such a queue is a leaf, and runs it."""
    lab = open_lab(nodes=1, gpus=10)
    lab.apply(queue("ml", {"quota": 6, "limit": -1, "overQuotaWeight": 1}), work("early", "ml", 2))
    expect(lab.job("early")).running(pods=2)
    lab.apply(ml_organisation(queue)[1:], work("late", "research", 1))
    expect(lab.job("late")).pending(pods=1)


def test_against_the_recipe_a_tree_may_have_more_than_two_levels(open_lab, queue, work):
    lab = open_lab(nodes=1, gpus=8)
    levels = ["company", "department", "group", "team"]
    lab.apply([queue(name, None, parent) for name, parent in zip(levels, ["", *levels[:-1]], strict=True)])
    lab.apply(work("deep", "team", 8))
    expect(lab.queue("company")).running(gpus=8)
