"""KAI's words in those of scheduler-plugins, as its documents use them (capacity scheduling: KEP 9, coscheduling: KEP 42)."""

from __future__ import annotations

from typing import Any

import pytest

from kailab.cluster.protocol import Object
from kailab.lab import Lab
from kailab.model.manifests import load
from kailab.undertest.contract import EvictionCondition, NotExpressible
from kailab.undertest.selection import choose_scheduler
from tests.undertest.translated import EXERCISES, each

SP = choose_scheduler("scheduler-plugins")


def only(became: list[list[Object]], kind: str, name: str | None = None, group: str = "") -> Object:
    """The one object of a kind, of all that was said."""
    (found,) = (
        obj
        for one in became
        for obj in one
        if obj["kind"] == kind
        and obj["apiVersion"].startswith(group)
        and (name is None or name in (obj["metadata"]["name"], obj["metadata"].get("namespace")))
    )
    return found


def quota(became: list[list[Object]], namespace: str) -> dict[str, Any]:
    spec: dict[str, Any] = only(became, "ElasticQuota", namespace)["spec"]
    return spec


def test_a_queue_is_a_namespace_with_an_elastic_quota(lab: Lab) -> None:
    """quota -> min; no limit -> no max. KAI's Queue stays beside it, as labs count by it."""
    became = each(SP, lab, "borrow/manifests/queues.yaml")
    org, team_a, _ = became
    assert [obj["kind"] for obj in org] == ["Queue"]  # it only holds the two together
    assert [obj["kind"] for obj in team_a] == ["Queue", "Namespace", "ServiceAccount", "ElasticQuota"]
    assert only(became, "ElasticQuota", "team-a")["metadata"] == {"name": "quota", "namespace": "team-a"}
    assert quota(became, "team-a")["min"]["nvidia.com/gpu"] == "16"
    assert "max" not in quota(became, "team-a")


def test_a_resource_without_a_quota_is_named_all_the_same(lab: Lab) -> None:
    """What min does not name counts as 0, and whoever is over one resource is over its quota."""
    least = quota(each(SP, lab, "borrow/manifests/queues.yaml"), "team-a")["min"]
    assert least == {"nvidia.com/gpu": "16", "cpu": "1000000", "memory": "1Pi", "ephemeral-storage": "1Pi"}


def test_a_limit_is_a_max(lab: Lab) -> None:
    spec = quota(each(SP, lab, "borrow/manifests/queues-limit.yaml"), "team-a")
    assert (spec["min"]["nvidia.com/gpu"], spec["max"]["nvidia.com/gpu"]) == ("8", "12")
    assert spec["max"]["cpu"] == "1000000"  # what max does not name is not to be had


@pytest.mark.parametrize(
    ("queues", "unowned"), [("borrow/manifests/queues.yaml", "0"), ("quota/manifests/queues.yaml", "16")]
)
def test_unowned_capacity_is_the_min_of_a_namespace_without_work(lab: Lab, queues: str, unowned: str) -> None:
    """All namespaces together may hold no more than the sum of all min: 32 GPUs with 16 owned would be 16."""
    assert quota(each(SP, lab, queues), "kailab-unowned")["min"]["nvidia.com/gpu"] == unowned


def test_unowned_capacity_counts_existing_queues(lab: Lab) -> None:
    lab.apply(EXERCISES / "quota/manifests/queues.yaml")
    (team_a,) = (
        one for one in load(EXERCISES / "quota/manifests/queues.yaml").objects if one["metadata"]["name"] == "team-a"
    )
    changed = {
        **team_a,
        "spec": {
            **team_a["spec"],
            "resources": {**team_a["spec"]["resources"], "gpu": {"quota": 20, "limit": -1, "overQuotaWeight": 1}},
        },
    }
    (became,) = SP.translate([changed], lab.cluster)
    assert quota([list(became)], "kailab-unowned")["min"]["nvidia.com/gpu"] == "4"


def test_work_goes_into_the_namespace_of_its_queue(lab: Lab) -> None:
    """With a note of where it was written for. All else of it stays, its name above all."""
    became = each(SP, lab, "borrow/manifests/queues.yaml", "borrow/manifests/a-train.yaml")
    job = only(became, "Job")
    assert (job["metadata"]["namespace"], job["metadata"]["name"]) == ("team-a", "a-train")
    assert job["metadata"]["annotations"]["kailab.dev/written-for"] == "default"
    template = job["spec"]["template"]
    assert template["spec"]["schedulerName"] == "scheduler-plugins-scheduler"
    assert template["spec"]["priorityClassName"] == "train"  # KAI's default for a Job
    assert template["metadata"]["labels"]["kai.scheduler/queue"] == "team-a"
    assert "scheduling.x-k8s.io/pod-group" not in template["metadata"]["labels"]


def test_a_gang_is_a_pod_group_that_its_pods_name(lab: Lab) -> None:
    became = each(SP, lab, "gang/manifests/queues.yaml", "gang/manifests/gang-of-10.yaml")
    group, job = became[-1]
    assert group == {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "job-gang", "namespace": "team-a"},
        "spec": {"minMember": 10, "scheduleTimeoutSeconds": 10},
    }
    assert job["spec"]["template"]["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] == "job-gang"


def test_a_gang_written_by_hand_is_translated_once(lab: Lab) -> None:
    """A PodGroup of KAI's, and four pods that name it."""
    became = each(SP, lab, "gang/manifests/queues.yaml", "gang/manifests/ring.yaml")
    group = only(became, "PodGroup", "ring", "scheduling.x-k8s.io/")
    assert (group["metadata"]["namespace"], group["spec"]["minMember"]) == ("team-a", 4)
    pods = [obj for one in became for obj in one if obj["kind"] == "Pod"]
    assert {pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] for pod in pods} == {"ring"}
    assert len(pods) == 4


def test_pods_of_another_scheduler_stay_as_they_are(lab: Lab) -> None:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "other"},
        "spec": {"template": {"spec": {"schedulerName": "mine", "containers": []}}},
    }
    assert SP.translate([job], lab.cluster) == [[job]]


@pytest.mark.parametrize(
    ("paths", "concept", "about"),
    [
        (["borrow/manifests/queues-weights.yaml"], "weight for what is over the quota", "Queue/team-a"),
        (["borrow/manifests/queues-priority.yaml"], "priority of queues", "Queue/team-a"),
        (["quota/manifests/queues-limited-parent.yaml"], "tree of queues", "Queue/org"),
        (["quota/manifests/queues-small-parent.yaml"], "tree of queues", "Queue/org"),
        (["reclaim/manifests/queues-departments.yaml"], "tree of queues", "Queue/dept-1"),
        (["reclaim/manifests/queues-protected.yaml"], "minimum run time", "Queue/team-a"),
        (
            ["quota/manifests/queues.yaml", "quota/manifests/within-quota.yaml"],
            "work that is not to be preempted",
            "Deployment/a-serve",
        ),
        (
            ["quota/manifests/queues.yaml", "quota/manifests/lost.yaml"],
            r"work in a queue that there is not \(default-queue\)",
            "Pod/no-label",
        ),
    ],
)
def test_concepts_that_it_lacks_are_refused(lab: Lab, paths: list[str], concept: str, about: str) -> None:
    with pytest.raises(
        NotExpressible, match=f"^{about}: not expressible for scheduler-plugins, which has no {concept}"
    ):
        each(SP, lab, *paths)


def test_its_conditions_are_parsed() -> None:
    """Its sentence for a pod that is taken is kube-scheduler's, whatever it is taken for."""
    assert SP.eviction(
        "scheduler-plugins-scheduler: preempting to accommodate a higher priority pod"
    ) == EvictionCondition("preempt", "")
    assert SP.eviction("Pod was deleted by hand") is None
    over = (
        "0/5 nodes are available: Pod team-a/a-1 is rejected in PreFilter because ElasticQuota team-a is more than Max."
    )
    assert SP.code(over) == "OverLimit"
    assert SP.code("0/5 nodes are available: 5 Insufficient nvidia.com/gpu.") == ""
