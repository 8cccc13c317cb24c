"""Pods, Deployments, Jobs and similar workloads."""

from __future__ import annotations

import pytest

from kailab.grouping import GroupingConfig, GroupingError, GroupOwner


def test_a_bare_pod_is_a_group_of_its_own(make, grouped):
    grouping = grouped(make.pod("solo"))
    assert (grouping.name, grouping.min_member, grouping.priority_class) == ("pg-solo-uid-pod-solo", 1, "train")
    assert grouping.owner == GroupOwner("v1", "Pod", "solo", "uid-pod-solo")


def test_spark_pods_share_the_group_of_their_application(make, grouped):
    labels = {"spark-app-name": "pi", "spark-app-selector": "spark-77"}
    assert {grouped(make.pod(name, labels=labels)).name for name in ("driver", "exec-1")} == {"spark-77"}


def gang(make, name, **labels):
    return make.pod(name, labels={f"kai.nvidia.com/job-{key}": value for key, value in labels.items()})


def test_bare_pods_of_one_job_id_are_a_gang_of_the_job_size(make, grouped):
    first, second = (grouped(gang(make, f"w-{i}", id="run-7", size="4", index=str(i))) for i in (0, 1))
    assert first.name == second.name == "pg-run-7"
    assert first.min_member == 4
    assert first.shared
    assert "kai.nvidia.com/job-index" not in first.labels


def test_job_ids_that_are_no_names_stay_apart(make, grouped):
    names = {grouped(gang(make, "w", id=job, size="2")).name for job in ("Run_7", "run.7", "run-7", "RUN-7")}
    assert len(names) == 4
    assert all(name == name.lower() and "_" not in name for name in names)


@pytest.mark.parametrize("size", ["four", "0", "-2", "", "1.5", "99999999999"])
def test_a_job_size_that_is_none_is_told(make, grouped, size):
    with pytest.raises(GroupingError, match=r"Pod ns/w: label kai\.nvidia\.com/job-size"):
        grouped(gang(make, "w", id="run", size=size))


def test_gang_labels_can_be_switched_off(make, grouped):
    grouping = grouped(gang(make, "w", id="run", size="4"), config=GroupingConfig(older_labels=False))
    assert (grouping.name, grouping.min_member) == ("pg-w-uid-pod-w", 1)


def test_each_replica_of_a_deployment_is_a_group_owned_by_its_pod(make, grouped):
    deployment = make.thing("apps/v1", "Deployment", "web", {}, labels={"kai.scheduler/queue": "q"})
    replica_set = make.thing("apps/v1", "ReplicaSet", "web-1", {})
    grouping = grouped(make.pod("web-1-a"), replica_set, deployment)
    assert grouping.name == "pg-web-1-a-uid-pod-web-1-a"
    assert grouping.owner == GroupOwner("v1", "Pod", "web-1-a", "uid-pod-web-1-a")
    assert (grouping.queue, grouping.priority_class) == ("q", "inference")


@pytest.mark.parametrize(
    ("version", "kind"),
    [("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet"), ("apps/v1", "DaemonSet"), ("v1", "ReplicationController")],
)
def test_pods_of_other_kinds_of_replicas_share_one_group_that_one_pod_is_enough_for(make, grouped, version, kind):
    top = make.thing(version, kind, "x", {"replicas": 5})
    names = {(grouped(make.pod(f"x-{i}"), top).name, grouped(make.pod(), top).min_member) for i in range(2)}
    assert names == {(f"pg-x-uid-{kind.lower()}-x", 1)}


def job(make, **annotations):
    return make.thing("batch/v1", "Job", "train", {"parallelism": 8}, annotations=annotations)


def test_a_job_needs_one_pod_unless_it_says_more(make, grouped):
    assert grouped(make.pod(), job(make)).min_member == 1
    assert grouped(make.pod(), job(make, **{"kai.scheduler/batch-min-member": "8"})).min_member == 8


@pytest.mark.parametrize("value", ["all", "", "-1", " 3", "3_0", "0x3"])
def test_a_batch_min_member_that_is_none_is_told(make, grouped, value):
    with pytest.raises(GroupingError, match=r"Job ns/train: annotation kai\.scheduler/batch-min-member"):
        grouped(make.pod(), job(make, **{"kai.scheduler/batch-min-member": value}))


def test_batch_min_member_comes_before_the_older_job_size(make, grouped):
    member = gang(make, "w", id="run", size="4")
    assert grouped(member, job(make)).min_member == 4
    assert grouped(member, job(make, **{"kai.scheduler/batch-min-member": "2"})).min_member == 2


def test_a_job_keeps_to_the_group_an_older_kai_made(make, grouped):
    old = make.thing("scheduling.run.ai/v2alpha2", "PodGroup", "pg-p-0-uid-job-train", {})
    legacy = GroupingConfig(legacy_pod_groups=True)
    assert grouped(make.pod("p-0"), job(make), reads=(old,), config=legacy).name == "pg-p-0-uid-job-train"
    assert grouped(make.pod("p-1"), job(make), reads=(old,), config=legacy).name == "pg-train-uid-job-train"
    assert grouped(make.pod("p-0"), job(make), reads=(old,)).name == "pg-train-uid-job-train"


def test_each_run_of_a_cron_job_is_a_group(make, grouped):
    cron = make.thing("batch/v1", "CronJob", "nightly", {})
    run = make.thing("batch/v1", "Job", "nightly-1", {})
    member = make.pod(ownerReferences=[{"apiVersion": "batch/v1", "kind": "Job", "name": "nightly-1", "uid": "u"}])
    assert grouped(member, run, cron, reads=(run,)).name == "pg-nightly-1-uid-job-nightly-1"
    with pytest.raises(GroupingError, match="Job ns/nightly-1"):
        grouped(member, run, cron)


@pytest.mark.parametrize(
    ("api_version", "kind", "priority_class"),
    [
        ("kubeflow.org/v1beta1", "Notebook", "build"),
        ("egx.nvidia.io/v1", "SPOTRequest", "inference"),
        ("workspace.devfile.io/v1alpha2", "DevWorkspace", "train"),
        ("nobody.knows/v9", "Thing", "train"),
    ],
)
def test_default_priority_class_by_kind(make, grouped, api_version, kind, priority_class):
    assert grouped(make.pod(), make.thing(api_version, kind, "x", {})).priority_class == priority_class


def test_a_wrapper_hands_its_labels_to_the_owner_below(make, grouped):
    inner = make.thing("batch/v1", "Job", "step", {}, labels={"kai.scheduler/queue": "own"})
    train_job = make.thing(
        "trainer.kubeflow.org/v1alpha1", "TrainJob", "t", {}, labels={"kai.scheduler/queue": "no", "team": "a"}
    )
    grouping = grouped(make.pod(), inner, train_job)
    assert grouping.name == "pg-step-uid-job-step"
    assert grouping.labels == {"kai.scheduler/queue": "own", "team": "a"}
    assert inner["metadata"]["labels"] == {"kai.scheduler/queue": "own"}, "what a cluster hands out is not changed"


def test_a_pod_right_below_a_wrapper_is_a_bare_pod_with_its_labels(make, grouped):
    workflow = make.thing("argoproj.io/v1alpha1", "Workflow", "w", {}, labels={"kai.scheduler/queue": "flows"})
    grouping = grouped(make.pod("step-1"), workflow)
    assert (grouping.name, grouping.queue) == ("pg-step-1-uid-pod-step-1", "flows")
