"""What never runs is explained by what keeps it from running where nothing else is."""

from __future__ import annotations

import pytest

from kailab.explain import verdict
from kailab.fleet.reading import read_fleet
from kailab.lab import Lab
from kailab.lab.answer import CauseCode, Verdict
from tests.builders import job

FLEET = """
apiVersion: kailab.dev/v1
kind: Fleet
name: two
pools: [{name: a100, count: 2, gpus: 8, gpuModel: A100, cpu: 64, memory: 512Gi, taints: []}]
"""


def queue(name: str, limit: int = -1) -> dict:
    free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    amounts = {"gpu": {"quota": 8, "limit": limit, "overQuotaWeight": 1}, "cpu": free, "memory": free}
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"resources": amounts},
    }


def replicas(kind: str, name: str, queue: str, count: int, gpus: int) -> dict:
    labels = {"app": name, "kai.scheduler/queue": queue, "priorityClassName": "train"}
    container = {"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    pod = {"metadata": {"labels": labels}, "spec": {"schedulerName": "kai-scheduler", "containers": [container]}}
    spec = {"replicas": count, "selector": {"matchLabels": {"app": name}}, "template": pod}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "labels": labels}, "spec": spec}


def apart(name: str) -> dict:
    """One pod of this name on a node."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": name}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


@pytest.fixture
def lab():
    with Lab.open(read_fleet(FLEET)) as lab:
        lab.apply([queue("a"), queue("b", limit=4)])
        yield lab


def test_a_replica_beyond_the_limit_never_runs_whoever_holds_the_gpus_now(lab):
    lab.apply([replicas("Deployment", "full", "a", 16, 1)])
    lab.apply([replicas("Deployment", "web", "b", 2, 4)])
    lab.patch("Queue", "a", {"spec": {"resources": {"gpu": {"quota": 16}}}})
    lab.settle()
    answer = lab.explain("Deployment", "web")
    assert (answer.verdict, answer.cause.code) == (Verdict.NEVER, CauseCode.OVER_LIMIT)
    assert "limit" in answer.cause.sentence


def test_a_statefulset_is_judged_with_the_pods_that_are_still_to_come(lab):
    lab.apply([replicas("Deployment", "full", "a", 16, 1)])
    lab.settle()
    lab.apply([replicas("StatefulSet", "store", "a", 5, 8)])
    lab.settle()
    assert lab.explain("StatefulSet", "store").verdict == Verdict.NEVER
    lab.scale("StatefulSet", "store", 2)
    lab.settle()
    assert lab.explain("StatefulSet", "store").verdict == Verdict.LATER


def test_a_limit_is_raised_for_the_pods_that_are_still_to_come_too(lab):
    lab.apply([replicas("StatefulSet", "store", "b", 7, 1)])
    lab.settle()
    answer = lab.explain("StatefulSet", "store")
    assert answer.cause.code == CauseCode.OVER_LIMIT
    assert "Raise the gpu limit of queue b to 7" in answer.steps[0].do
    assert answer.steps[0].outcome.describe() == "tried on a copy: 7 pods of it run"


def test_one_pod_runs_and_a_quota_without_bound_is_said_so(lab):
    below = queue("far")
    below["spec"]["parentQueue"] = "gone"
    below["spec"]["resources"]["gpu"]["quota"] = -1
    lab.apply([below, replicas("StatefulSet", "store", "far", 1, 1)])
    lab.settle()
    made = next(step for step in lab.explain("StatefulSet", "store").steps if "Make queue gone" in step.do)
    assert "with an unlimited quota and no limit" in made.do
    assert made.outcome.describe() == "tried on a copy: 1 pod of it runs"


def test_a_statefulset_whose_limit_another_holds_is_judged_with_the_pods_that_are_still_to_come(lab):
    lab.apply([replicas("Deployment", "small", "b", 1, 4)])
    lab.settle()
    lab.apply([replicas("StatefulSet", "store", "b", 2, 4)])
    lab.settle()
    answer = lab.explain("StatefulSet", "store")
    assert (answer.verdict, answer.cause.code) == (Verdict.NEVER, CauseCode.OVER_LIMIT)
    lab.scale("StatefulSet", "store", 1)
    lab.settle()
    assert lab.explain("StatefulSet", "store").verdict == Verdict.LATER


@pytest.mark.parametrize("ends", [True, False])
def test_pods_of_its_own_that_end_make_room_within_the_quota(lab, ends):
    job = replicas("Job", "steps", "a", 0, 6)
    template = job["spec"]["template"]
    template["metadata"]["labels"]["priorityClassName"] = job["metadata"]["labels"]["priorityClassName"] = "build"
    template["metadata"]["annotations"] = {"kailab.dev/run-seconds": "400"} if ends else {}
    template["spec"]["restartPolicy"] = "Never"
    job |= {"apiVersion": "batch/v1", "spec": {"parallelism": 2, "completions": 2, "template": template}}
    lab.apply([job])
    lab.settle()
    answer = lab.explain("Job", "steps")
    assert (answer.verdict, answer.cause.code) == (Verdict.LATER, CauseCode.NON_PREEMPTIBLE_OVER_QUOTA)
    unknown = "It is not known when: 2 of 2 such pods have no known end"
    assert any(unknown in line for line in answer.lines()) is not ends


def test_one_job_of_a_cronjob_is_judged_without_the_others_of_it(lab):
    inner = replicas("Job", "tick", "b", 0, 3)
    template = inner["spec"]["template"]
    template["spec"]["restartPolicy"] = "Never"
    jobs = {"metadata": inner["metadata"], "spec": {"parallelism": 2, "completions": 2, "template": template}}
    spec = {"schedule": "* * * * *", "jobTemplate": jobs}
    lab.apply([{"apiVersion": "batch/v1", "kind": "CronJob", "metadata": inner["metadata"], "spec": spec}])
    lab.settle()
    lab.advance(125)
    first, second = (job["metadata"]["name"] for job in lab.get("Job"))
    # Each fits pod after pod.
    for name, running in ((first, 1), (second, 0)):
        answer = lab.explain("Job", name)
        assert (answer.running, answer.verdict, answer.cause.code) == (running, Verdict.LATER, CauseCode.OVER_LIMIT)


def test_what_is_refused_by_the_server_is_not_tried_for_a_day(monkeypatch):
    """Nothing has a place in the emptied lab, so that nothing ends: time brings only the next try of each binding."""
    moments, counted = Lab.moments, []

    def count(lab, seconds):
        for moment in moments(lab, seconds):
            counted.append(lab.now)
            assert len(counted) < 50
            yield moment

    made = replicas("Deployment", "web", "a", 3, 1)
    made["spec"]["template"]["spec"]["affinity"] = apart("web")
    with Lab.open(read_fleet(FLEET), config={"queueDepthPerAction": {"allocate": 1}}) as lab:
        lab.cluster.refuse_binds("default", "web-", "the webhook says no")
        lab.apply([queue("a"), made])
        lab.settle()
        monkeypatch.setattr(Lab, "moments", count)
        answer = lab.explain("Deployment", "web")
        # One is refused, and two are behind it.
        assert (answer.verdict, answer.cause.code) == (Verdict.NEVER, CauseCode.BIND_REFUSED)
        assert sorted(len(group.pods) for group in answer.groups) == [1, 2]
        told = [lab.explain("Pod", pod["metadata"]["name"]) for pod in lab.cluster.list("Pod")]
        assert (Verdict.NEVER, CauseCode.BEHIND_OTHERS) in {(one.verdict, one.cause.code) for one in told}


def test_a_day_of_refusals_is_not_looked_at_to_its_end(lab, monkeypatch):
    """One pod has its place, the next is refused one for ever: each try is a moment, and none brings anything."""
    moments, counted = Lab.moments, []

    def count(lab, seconds):
        for moment in moments(lab, seconds):
            counted.append(lab.now)
            yield moment

    lab.apply([queue("c"), replicas("Deployment", "other", "c", 1, 8)])
    lab.settle()
    lab.apply([replicas("StatefulSet", "web", "a", 3, 8)])
    lab.settle()
    lab.cluster.refuse_binds("default", "web-1", "the webhook says no")
    monkeypatch.setattr(Lab, "moments", count)
    monkeypatch.setattr(verdict, "MOST_MOMENTS", 80)
    answer = lab.explain("StatefulSet", "web")
    assert (answer.running, answer.verdict, answer.cause.code) == (1, Verdict.NEVER, CauseCode.BIND_REFUSED)
    assert 0 < len(counted) <= 80


@pytest.mark.parametrize(("count", "verdict"), [(2, Verdict.LATER), (3, Verdict.NEVER)])
def test_pods_that_a_resource_quota_refuses_may_exist_once_others_have_gone(lab, count, verdict):
    """The quota has room for two pods; ``full`` has taken it, so that none of ``beside`` and of ``web`` exists."""
    hard = {"requests.nvidia.com/gpu": "8"}
    bound = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "gpus"}, "spec": {"hard": hard}}
    lab.apply([bound, replicas("Deployment", "full", "a", 2, 4)])
    lab.settle()
    lab.apply([replicas("Deployment", "beside", "a", 1, 8)])
    lab.settle()
    lab.apply([replicas("Deployment", "web", "a", count, 4)])
    lab.settle()
    answer = lab.explain("Deployment", "web", tried=False)
    assert (answer.running, answer.verdict, answer.cause.code) == (0, verdict, CauseCode.PODS_NOT_CREATED)
    assert "exceeded quota: gpus" in answer.cause.sentence


def test_pods_of_a_job_that_a_resource_quota_refuses_may_exist_once_its_others_have_ended(lab):
    """The quota has room for two of its four pods. ``full`` has taken it, so that none exists."""
    hard = {"requests.nvidia.com/gpu": "8"}
    bound = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "gpus"}, "spec": {"hard": hard}}
    lab.apply([bound, replicas("Deployment", "full", "a", 2, 4)])
    lab.settle()
    lab.apply([job("long", "a", pods=4, gpus=4)])
    lab.settle()
    answer = lab.explain("Job", "long", tried=False)
    assert (answer.running, answer.verdict, answer.cause.code) == (0, Verdict.LATER, CauseCode.PODS_NOT_CREATED)


def test_a_resource_quota_is_raised_by_as_much_as_its_work_needs(lab):
    """Two pods of three exist. The third is refused for its GPUs, and would then be refused for the number of pods."""
    hard = {"requests.nvidia.com/gpu": "8", "pods": "2"}
    bound = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "gpus"}, "spec": {"hard": hard}}
    lab.apply([bound, replicas("Deployment", "web", "a", 3, 4)])
    lab.settle()
    answer = lab.explain("Deployment", "web")
    raised = [step for step in answer.steps if "ResourceQuota" in step.do]
    assert [step.do.partition(": kailab")[0] for step in raised] == [
        "Raise what ResourceQuota gpus allows: pods 3 (now 2), requests.nvidia.com/gpu 12 (now 8)"
    ]
    lab.patch("ResourceQuota", "gpus", raised[0].changes[0]["patch"]["patch"])
    lab.settle()
    assert lab.explain("Deployment", "web").running == 3


def test_a_resource_quota_is_raised_for_the_pods_that_are_made_after_a_refused_one_too(lab):
    """The workers of a group are made only once its leader exists, which the quota refuses; ``web`` is refused too."""
    hard = {"requests.nvidia.com/gpu": "0"}
    bound = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "gpus"}, "spec": {"hard": hard}}
    worker = replicas("Deployment", "serve", "a", 1, 2)["spec"]["template"]
    group = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet",
        "metadata": {"name": "serve", "labels": {"kai.scheduler/queue": "a"}},
        "spec": {"replicas": 1, "leaderWorkerTemplate": {"size": 3, "workerTemplate": worker}},
    }  # fmt: skip
    lab.apply([bound, replicas("Deployment", "web", "a", 1, 4), group])
    lab.settle()
    [step] = [step for step in lab.explain("LeaderWorkerSet", "serve").steps if "ResourceQuota" in step.do]
    assert "requests.nvidia.com/gpu 10 (now 0)" in step.do
    lab.patch("ResourceQuota", "gpus", step.changes[0]["patch"]["patch"])
    lab.settle()
    assert lab.explain("LeaderWorkerSet", "serve").running == 3


@pytest.mark.parametrize(("count", "verdict"), [(2, Verdict.LATER), (3, Verdict.NEVER)])
def test_a_gang_of_which_a_resource_quota_refuses_pods_may_be_whole_once_others_have_gone(lab, count, verdict):
    """The quota has room for two pods. ``full`` has taken half of it, so that one pod of the gang exists, or two of three."""
    hard = {"requests.nvidia.com/gpu": "8"}
    bound = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "gpus"}, "spec": {"hard": hard}}
    lab.apply([bound, replicas("Deployment", "full", "a", 1, 4)])
    lab.settle()
    gang = job("gang", "a", pods=count, gpus=4, gang=True)
    lab.apply([gang])
    lab.settle()
    answer = lab.explain("Job", "gang", tried=False)
    assert (answer.running, answer.verdict, answer.cause.code) == (0, verdict, CauseCode.GANG_INCOMPLETE)


def test_gates_of_pods_that_do_not_exist_yet_are_named_from_the_template(lab):
    hard = {"requests.nvidia.com/gpu": "1"}
    bound = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "gpus"}, "spec": {"hard": hard}}
    gated = replicas("Deployment", "gated", "b", 1, 1)
    gated["spec"]["template"]["spec"]["schedulingGates"] = [{"name": "lab/budget"}]
    lab.apply([bound, replicas("Deployment", "first", "b", 1, 1)])
    lab.settle()
    lab.apply([gated])
    lab.settle()
    answer = lab.explain("Deployment", "gated")
    assert answer.cause.code is CauseCode.SCHEDULING_GATED
    assert answer.steps[0].do.startswith(
        "Remove the scheduling gate lab/budget; then raise what ResourceQuota gpus allows"
    )


@pytest.mark.parametrize(("limit", "verdict"), [(0, Verdict.NEVER), (6, Verdict.LATER)])
def test_a_pod_on_a_node_that_is_not_ready_makes_room_by_its_eviction_unless_its_job_fails_by_that(lab, limit, verdict):
    two = job("two", "b", 2, gpus=4)
    two["spec"]["backoffLimit"] = limit
    lab.apply([two])
    lab.settle()
    assert lab.explain("Job", "two", timeout=0).verdict == Verdict.LATER
    [node] = {pod["spec"]["nodeName"] for pod in lab.cluster.list("Pod") if pod["spec"].get("nodeName")}
    lab.fail_node(node)
    answer = lab.explain("Job", "two", timeout=0)
    assert (answer.running, answer.verdict, answer.cause.code) == (1, verdict, CauseCode.OVER_LIMIT)


def test_a_pod_that_can_end_may_make_room_before_its_job_fails_by_the_eviction_of_another(lab):
    three = job("three", "b", 3, gpus=2)
    three["spec"]["backoffLimit"] = 0
    template = three["spec"]["template"]
    template["metadata"]["labels"]["app"] = "three"
    template["spec"]["affinity"] = apart("three")
    lab.apply([three])
    lab.settle()
    first, _ = (pod["spec"]["nodeName"] for pod in lab.cluster.list("Pod") if pod["spec"].get("nodeName"))
    lab.fail_node(first)
    answer = lab.explain("Job", "three", timeout=0)
    assert (answer.running, answer.verdict, answer.cause.code) == (2, Verdict.LATER, CauseCode.OVER_LIMIT)
