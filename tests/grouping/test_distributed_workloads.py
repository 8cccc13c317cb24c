"""Gangs: Kubeflow jobs, JobSets, LeaderWorkerSets, Ray, Knative revisions, Grove."""

from __future__ import annotations

import pytest

from kailab.grouping import GroupingConfig, GroupingError, PlannedTopology


def shape(grouping):
    return [(each.name, each.min_member, each.min_sub_group, each.parent) for each in grouping.sub_groups]


def replicas(**counts):
    return {name: {"replicas": count} for name, count in counts.items()}


def pytorch(make, master=1, worker=3, **more):
    spec = {"pytorchReplicaSpecs": replicas(Master=master, Worker=worker), **more}
    return make.thing("kubeflow.org/v1", "PyTorchJob", "llm", spec)


def torch_pod(make, role, index=0, **annotations):
    labels = {"training.kubeflow.org/replica-type": role, "training.kubeflow.org/replica-index": str(index)}
    return make.pod(f"llm-{role}-{index}", labels=labels, annotations=annotations)


def test_a_pytorch_job_is_a_gang_with_masters_and_workers(make, grouped, sub_group_of):
    for role in ("master", "worker"):
        grouping = grouped(torch_pod(make, role), pytorch(make))
        assert grouping.min_member == 4
        assert shape(grouping) == [("master", 1, None, None), ("worker", 3, None, None)]
        assert sub_group_of(grouping, f"llm-{role}-0") == role


def test_an_elastic_pytorch_job_needs_its_minimum(make, grouped):
    elastic = pytorch(make, elasticPolicy={"minReplicas": 2})
    assert shape(grouped(torch_pod(make, "worker"), elastic))[1] == ("worker", 1, None, None)
    policy = pytorch(make, elasticPolicy={"minReplicas": 2}, runPolicy={"schedulingPolicy": {"minAvailable": 3}})
    assert grouped(torch_pod(make, "worker"), policy).min_member == 3


def test_segments_of_workers(make, grouped, sub_group_of):
    asked = {
        "kai.scheduler/segment-size": "4",
        "kai.scheduler/topology": "racks",
        "kai.scheduler/segment-topology-required-placement": "rack",
    }
    job = pytorch(make, worker=10, elasticPolicy={"minReplicas": 8})
    grouping = grouped(torch_pod(make, "worker", 9, **asked), job)
    assert shape(grouping)[1:] == [
        ("worker", 0, 3, None),
        ("worker-0", 4, None, "worker"),
        ("worker-1", 4, None, "worker"),
        ("worker-2", 0, None, "worker"),
    ]
    assert grouping.sub_groups[2].topology == PlannedTopology("racks", required_level="rack")
    assert sub_group_of(grouping, "llm-worker-9") == "worker-2"


@pytest.mark.parametrize(("size", "index"), [("0", "0"), ("x", "0"), ("4", "-1"), ("4", "x")])
def test_segments_that_make_no_sense_are_told(make, grouped, size, index):
    with pytest.raises(GroupingError):
        grouped(torch_pod(make, "worker", index, **{"kai.scheduler/segment-size": size}), pytorch(make))


@pytest.mark.parametrize(
    ("kind", "field", "specs", "total"),
    [
        ("TFJob", "tfReplicaSpecs", replicas(PS=2, Worker=4), 6),
        ("XGBoostJob", "xgbReplicaSpecs", replicas(Master=1, Worker=4), 5),
        ("JAXJob", "jaxReplicaSpecs", replicas(Worker=3), 3),
        ("MPIJob", "mpiReplicaSpecs", replicas(Launcher=1, Worker=4), 5),
    ],
)
def test_kubeflow_jobs_are_gangs_of_all_replicas(make, grouped, kind, field, specs, total):
    assert grouped(make.pod(), make.thing("kubeflow.org/v1", kind, "j", {field: specs})).min_member == total
    spec = {field: specs, "runPolicy": {"schedulingPolicy": {"minAvailable": 2}}}
    assert grouped(make.pod(), make.thing("kubeflow.org/v1", kind, "j", spec)).min_member == 2
    none = {field: {**specs, "Worker": {"replicas": 0}}}
    with pytest.raises(GroupingError, match=f"{kind} ns/j: spec.{field}.Worker.replicas"):
        grouped(make.pod(), make.thing("kubeflow.org/v1", kind, "j", none))
    with pytest.raises(GroupingError, match=f"spec.{field} is missing"):
        grouped(make.pod(), make.thing("kubeflow.org/v1", kind, "j", {}))


def test_a_launcher_that_waits_for_the_workers_is_not_counted_before_it_is_there(make, grouped):
    spec = {
        "mpiReplicaSpecs": replicas(Launcher=1, Worker=4),
        "launcherCreationPolicy": "WaitForWorkersReady",
    }
    job = make.thing("kubeflow.org/v2beta1", "MPIJob", "j", spec)
    labels = {"training.kubeflow.org/job-name": "j", "training.kubeflow.org/job-role": "launcher"}
    launcher = make.pod("j-launcher", labels=labels)
    leaving = make.pod("j-launcher", labels=labels, deletionTimestamp="2026-01-01T00:00:00Z")
    assert grouped(make.pod(), job).min_member == 4
    assert grouped(make.pod(), job, reads=(launcher,)).min_member == 5
    assert grouped(make.pod(), job, reads=(leaving,)).min_member == 4


def jobset(make, *replicated, annotations=None, **spec):
    spec = {"replicatedJobs": list(replicated), **spec}
    return make.thing("jobset.x-k8s.io/v1alpha2", "JobSet", "js", spec, annotations=annotations or {})


def replicated_job(name, count, parallelism, **annotations):
    template = {"spec": {"parallelism": parallelism}, "metadata": {"annotations": annotations}}
    return {"name": name, "replicas": count, "template": template}


def jobset_pod(make, name="work", index=0):
    prefix = "jobset.sigs.k8s.io"
    return make.pod("js", labels={f"{prefix}/replicatedjob-name": name, f"{prefix}/job-index": str(index)})


def test_a_jobset_is_a_tree_of_replicated_jobs_and_replicas(make, grouped, sub_group_of):
    top = jobset(make, replicated_job("lead", 1, 1), replicated_job("work", 2, 4))
    grouping = grouped(jobset_pod(make, index=1), top)
    assert (grouping.min_sub_group, grouping.min_member) == (2, 0)
    assert shape(grouping) == [
        ("lead", 0, 1, None),
        ("lead-replica-0", 1, None, "lead"),
        ("work", 0, 2, None),
        ("work-replica-0", 4, None, "work"),
        ("work-replica-1", 4, None, "work"),
    ]
    assert sub_group_of(grouping, "js") == "work-replica-1"


def test_a_jobset_in_order_begins_with_one(make, grouped):
    jobs = replicated_job("lead", 1, 1), replicated_job("work", 1, 4, **{"kai.scheduler/batch-min-member": "3"})
    in_order = jobset(make, *jobs, startupPolicy={"startupPolicyOrder": "InOrder"})
    grouping = grouped(jobset_pod(make), in_order)
    assert grouping.min_sub_group == 1
    assert shape(grouping)[-1] == ("work-replica-0", 3, None, "work")
    more = jobset(make, *jobs, annotations={"kai.scheduler/batch-min-member": "7"})
    assert grouped(jobset_pod(make), more).min_sub_group == 2


def test_a_jobset_pod_that_has_no_place_is_told(make, grouped):
    with pytest.raises(GroupingError, match="work-replica-5"):
        grouped(jobset_pod(make, index=5), jobset(make, replicated_job("work", 2, 4)))
    with pytest.raises(GroupingError, match="job-index"):
        grouped(jobset_pod(make, index=""), jobset(make, replicated_job("work", 2, 4)))


def lws(make, size, policy=None, **template):
    spec = {"leaderWorkerTemplate": {"size": size, **template}}
    if policy:
        spec["startupPolicy"] = policy
    return make.thing("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "lws", spec)


def lws_pod(make, index, group="1"):
    prefix = "leaderworkerset.sigs.k8s.io"
    labels = {f"{prefix}/worker-index": str(index), f"{prefix}/group-index": group}
    return make.pod(f"lws-{group}-{index}", labels=labels)


def test_each_group_of_a_leader_worker_set_is_a_gang(make, grouped, sub_group_of):
    leader, worker = (grouped(lws_pod(make, index), lws(make, 5)) for index in (0, 3))
    assert leader.name == worker.name == "pg-lws-uid-leaderworkerset-lws-group-1"
    assert (leader.min_member, shape(leader)) == (5, [("leader", 1, None, None), ("workers", 4, None, None)])
    assert sub_group_of(leader, "lws-1-0") == "leader"
    assert sub_group_of(worker, "lws-1-3") == "workers"


def test_workers_that_come_after_the_leader_are_not_waited_for(make, grouped):
    top, leader = lws(make, 5, "LeaderReady"), lws_pod(make, 0)
    assert grouped(leader, top).min_member == 1
    leader["spec"]["nodeName"] = "n1"
    assert grouped(leader, top).min_member == 5
    assert grouped(lws_pod(make, 1), top).min_member == 5


def test_segments_of_a_leader_worker_set(make, grouped, sub_group_of):
    top = lws(make, 9, subGroupPolicy={"subGroupSize": 4})
    grouping = grouped(lws_pod(make, 4), top)
    assert shape(grouping) == [
        ("segment-0", 0, 2, None),
        ("segment-1", 4, None, None),
        ("leader", 1, None, "segment-0"),
        ("workers", 4, None, "segment-0"),
    ]
    assert sub_group_of(grouping, "lws-1-4") == "workers"
    assert sub_group_of(grouped(lws_pod(make, 5), top), "lws-1-5") == "segment-1"
    apart = lws(make, 9, subGroupPolicy={"subGroupSize": 4, "subGroupPolicyType": "LeaderExcluded"})
    assert [name for name, *_ in shape(grouped(lws_pod(make, 0), apart))] == ["leader", "segment-0", "segment-1"]


@pytest.mark.parametrize("segment", [1, 0, -3, 10])
def test_segments_that_do_not_fit_the_group_are_told(make, grouped, segment):
    with pytest.raises(GroupingError, match=f"segment size {segment}"):
        grouped(lws_pod(make, 0), lws(make, 9, subGroupPolicy={"subGroupSize": segment}))


def ray_cluster(make, *groups, name="rc"):
    return make.thing("ray.io/v1", "RayCluster", name, {"headGroupSpec": {}, "workerGroupSpecs": list(groups)})


def test_a_ray_cluster_is_a_gang_of_head_and_worker_groups(make, grouped, sub_group_of):
    top = ray_cluster(
        make,
        {"groupName": "big", "replicas": 4, "minReplicas": 2, "numOfHosts": 2},
        {"replicas": 3},
        {"groupName": "none", "replicas": 5, "suspended": True},
    )
    grouping = grouped(make.pod("r", labels={"ray.io/group": "big"}), top)
    assert grouping.min_member == 1 + 4 + 3
    assert [(name, least) for name, least, *_ in shape(grouping)] == [
        ("headgroup", 1),
        ("big", 4),
        ("worker-group-1", 3),
    ]
    assert sub_group_of(grouping, "r") == "big"


def test_ray_jobs_are_grouped_by_the_cluster_their_status_names(make, grouped):
    cluster = ray_cluster(make, {"replicas": 2}, name="made")
    job = make.thing("ray.io/v1", "RayJob", "rj", {}, status={})
    with pytest.raises(GroupingError, match="RayJob ns/rj has no RayCluster yet"):
        grouped(make.pod(), job)
    job["status"] = {"rayClusterName": "made"}
    grouping = grouped(make.pod(), cluster, job, reads=(cluster,))
    assert (grouping.name, grouping.min_member) == ("pg-rj-uid-rayjob-rj", 3)


def test_fewer_ray_replicas_than_the_least_is_told(make, grouped):
    with pytest.raises(GroupingError, match="minReplicas 3"):
        grouped(make.pod(), ray_cluster(make, {"replicas": 1, "minReplicas": 3}))


def test_a_knative_revision_is_a_gang_of_its_least_scale(make, grouped):
    service = make.thing("serving.knative.dev/v1", "Service", "s", {})
    annotations = {"autoscaling.knative.dev/min-scale": "3"}
    revision = make.thing("serving.knative.dev/v1", "Revision", "s-1", {}, annotations=annotations)
    member = make.pod("s-1-a", labels={"serving.knative.dev/revision": "s-1"})
    gang = grouped(member, service, reads=(revision,))
    assert (gang.name, gang.min_member, gang.priority_class) == ("pg-s-1-uid-revision-s-1", 3, "inference")
    each = grouped(member, service, reads=(revision,), config=GroupingConfig(knative_gang=False))
    assert (each.name, each.min_member) == ("pg-s-1-a-uid-pod-s-1-a", 1)


def test_a_pod_gang_of_grove_is_the_group(make, grouped, sub_group_of):
    def references(*names):
        return [{"namespace": "ns", "name": name} for name in names]

    spec = {
        "podgroups": [
            {"name": "prefill", "minReplicas": 2, "podReferences": references("a", "b")},
            {"name": "decode", "minReplicas": 1, "podReferences": references("c")},
        ],
        "topologyConstraintGroupConfigs": [
            {
                "name": "serving",
                "podGroupNames": ["prefill"],
                "topologyConstraint": {"packConstraint": {"required": "rack"}},
            }
        ],
    }
    gang = make.thing(
        "scheduler.grove.io/v1alpha1", "PodGang", "g", spec, annotations={"grove.io/topology-name": "racks"}
    )
    top = make.thing("grove.io/v1alpha1", "PodCliqueSet", "pcs", {}, labels={"kai.scheduler/queue": "q"})
    member = make.pod("b", labels={"grove.io/podgang": "g"})
    grouping = grouped(member, top, reads=(gang,))
    assert grouping.min_member == 3
    assert shape(grouping) == [
        ("serving", 0, 1, None),
        ("prefill", 2, None, "serving"),
        ("decode", 1, None, None),
    ]
    assert grouping.sub_groups[0].topology == PlannedTopology("racks", required_level="rack")
    assert sub_group_of(grouping, "b") == "prefill"
    with pytest.raises(GroupingError, match="PodGang ns/g"):
        grouped(member, top)
