"""The pod grouper on an embedded cluster."""

from __future__ import annotations

import pytest

from kailab.cluster.embedded import EmbeddedCluster
from kailab.cluster.submitted_writes import SubmittedBatch
from kailab.errors import NotFound
from kailab.grouping import GroupingConfig, PodGrouper

GPU = [{"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]


class Bench:
    """A cluster with a pod grouper, and short methods to create objects."""

    def __init__(self, config=None):
        self.cluster = EmbeddedCluster()
        self.grouper = PodGrouper(self.cluster, config)

    def make(self, api_version, kind, name, spec=None, owner=None, **metadata):
        metadata = {"name": name, "namespace": "default", **metadata}
        if owner is not None:
            identity = {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
            reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True, **identity}
            metadata["ownerReferences"] = [reference]
        obj = {"apiVersion": api_version, "kind": kind, "metadata": metadata}
        return self.cluster.create(obj if spec is None else {**obj, "spec": spec})

    def pod(self, name, owner=None, scheduler="kai-scheduler", **metadata):
        spec = {"schedulerName": scheduler, "containers": GPU, "restartPolicy": "Never"}
        return self.make("v1", "Pod", name, spec, owner, **metadata)

    def job(self, name="train", **metadata):
        template = {"spec": {"containers": GPU, "restartPolicy": "Never"}}
        return self.make("batch/v1", "Job", name, {"template": template}, **metadata)

    def settle(self):
        """Steps until quiet; fails when it never is."""
        for _ in range(10):
            if not self.grouper.step():
                return
        pytest.fail("the podgrouper does not come to rest")

    def group_of(self, pod):
        return self.annotations(pod).get("pod-group-name")

    def annotations(self, pod):
        return self.cluster.get("Pod", pod, "default")["metadata"].get("annotations") or {}

    def groups(self):
        return {each["metadata"]["name"]: each for each in self.cluster.list("PodGroup")}

    def warnings(self):
        events = [each for each in self.cluster.list("Event") if each["reason"] == "PodGrouperWarning"]
        return {each["involvedObject"]["name"]: each["message"] for each in events}


@pytest.fixture
def bench():
    return Bench()


def test_pods_of_a_job_get_one_podgroup_and_are_told_its_name(bench):
    job = bench.job(labels={"kai.scheduler/queue": "team"})
    for index in range(3):
        bench.pod(f"train-{index}", job)
    bench.settle()
    [(name, group)] = bench.groups().items()
    assert {bench.group_of(f"train-{index}") for index in range(3)} == {name}
    assert group["spec"] == {"minMember": 1, "queue": "team", "priorityClassName": "train"}
    assert group["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]


def test_a_pod_is_written_once(bench):
    bench.pod("solo")
    bench.settle()
    version = bench.cluster.get("Pod", "solo", "default")["metadata"]["resourceVersion"]
    bench.settle()
    assert bench.cluster.get("Pod", "solo", "default")["metadata"]["resourceVersion"] == version
    assert bench.grouper.step() is False


def test_podgroups_go_with_their_owners(bench):
    job = bench.job()
    bench.pod("train-0", job)
    bench.pod("solo")
    bench.settle()
    assert len(bench.groups()) == 2
    bench.cluster.delete("Job", "train", "default")
    bench.cluster.delete("Pod", "solo", "default")
    bench.settle()
    assert bench.groups() == {}
    assert bench.warnings() == {}


def test_pods_of_other_schedulers_are_none_of_its_business(bench):
    bench.pod("other", scheduler="default-scheduler")
    bench.settle()
    assert bench.groups() == {}


def test_the_schedulers_it_works_for_can_be_named():
    bench = Bench(GroupingConfig(scheduler_names=("mine",)))
    bench.pod("mine", scheduler="mine")
    bench.pod("kai")
    bench.settle()
    assert (bench.group_of("mine") is None, bench.group_of("kai")) == (False, None)


def test_who_asks_to_be_skipped_is_skipped(bench):
    skip = {"kai.scheduler/skip-podgrouper": "true"}
    bench.pod("a", annotations=skip)
    bench.pod("b", bench.job(annotations=skip))
    bench.pod("c", bench.job("other", annotations={"kai.scheduler/skip-podgrouper": "false"}))
    bench.settle()
    assert [bench.group_of(name) is None for name in "abc"] == [True, True, False]


def test_a_bare_pod_keeps_the_podgroup_its_user_chose(bench):
    bench.pod("a", annotations={"pod-group-name": "mine"})
    bench.settle()
    assert bench.group_of("a") == "mine"
    assert bench.groups() == {}


def test_an_owned_pod_belongs_to_its_owners_podgroup_whatever_it_says(bench):
    job = bench.job()
    bench.pod("a", job, annotations={"pod-group-name": "mine"})
    bench.settle()
    assert bench.group_of("a") == f"pg-train-{job['metadata']['uid']}"


def test_each_replica_of_a_deployment_has_its_own(bench):
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": GPU}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    deployment = bench.make("apps/v1", "Deployment", "web", spec)
    replica_set = bench.make("apps/v1", "ReplicaSet", "web-1", spec, deployment)
    for name in ("web-1-a", "web-1-b"):
        bench.pod(name, replica_set)
    bench.settle()
    assert len(bench.groups()) == 2
    assert {each["spec"]["priorityClassName"] for each in bench.groups().values()} == {"inference"}
    bench.cluster.delete("Pod", "web-1-a", "default")
    bench.settle()
    assert len(bench.groups()) == 1


def jobset(bench, replicas=2):
    template = {"spec": {"parallelism": 2, "template": {"spec": {"containers": GPU}}}}
    spec = {"replicatedJobs": [{"name": "w", "replicas": replicas, "template": template}]}
    return bench.make("jobset.x-k8s.io/v1alpha2", "JobSet", "js", spec)


def jobset_pod(bench, top, name, index):
    labels = {"jobset.sigs.k8s.io/replicatedjob-name": "w", "jobset.sigs.k8s.io/job-index": str(index)}
    return bench.pod(name, top, labels=labels)


def test_pods_are_told_their_subgroup(bench):
    top = jobset(bench)
    for index in (0, 1):
        jobset_pod(bench, top, f"js-{index}", index)
    bench.settle()
    labels = [bench.cluster.get("Pod", f"js-{index}", "default")["metadata"]["labels"] for index in (0, 1)]
    assert [each["kai.scheduler/subgroup-name"] for each in labels] == ["w-replica-0", "w-replica-1"]


def ray_cluster(bench, replicas, owner=None):
    template = {"spec": {"containers": GPU}}
    workers = [{"groupName": "w", "replicas": replicas, "template": template}]
    spec = {"headGroupSpec": {"template": template}, "workerGroupSpecs": workers}
    return bench.make("ray.io/v1", "RayCluster", "rc", spec, owner)


def test_a_change_of_the_owner_reaches_the_podgroup_with_the_next_pod(bench):
    top = ray_cluster(bench, replicas=2)
    bench.pod("rc-0", top, labels={"ray.io/group": "w"})
    bench.settle()
    workers = [{**top["spec"]["workerGroupSpecs"][0], "replicas": 5}]
    bench.cluster.patch("RayCluster", "rc", "default", {"spec": {"workerGroupSpecs": workers}})
    bench.pod("rc-1", top, labels={"ray.io/group": "w"})
    bench.settle()
    [group] = bench.groups().values()
    assert group["spec"]["minMember"] == 6


def test_one_bad_owner_stops_nobody_and_says_why(bench):
    bad = bench.job("bad", annotations={"kai.scheduler/batch-min-member": "many"})
    for index in range(2):
        bench.pod(f"bad-{index}", bad)
    bench.pod("good", bench.job("good"))
    bench.settle()
    assert bench.group_of("good")
    assert bench.group_of("bad-0") is None
    assert bench.warnings().keys() == {"bad-0", "bad-1"}
    assert "'many' is not a whole number" in bench.warnings()["bad-0"]


def test_a_mended_owner_gets_its_pods_grouped(bench):
    bad = bench.job("bad", annotations={"kai.scheduler/batch-min-member": "many"})
    bench.pod("bad-0", bad)
    bench.settle()
    mended = {"metadata": {"annotations": {"kai.scheduler/batch-min-member": "1"}}}
    bench.cluster.patch("Job", "bad", "default", mended)
    bench.settle()
    assert bench.group_of("bad-0")


def test_a_ray_job_is_grouped_as_soon_as_its_cluster_is_known(bench):
    ray_job = bench.make("ray.io/v1", "RayJob", "rj", {"rayClusterSpec": {}, "entrypoint": "run"})
    cluster = ray_cluster(bench, 2, ray_job)
    bench.pod("head", cluster, labels={"ray.io/group": "headgroup"})
    bench.settle()
    assert "no RayCluster yet" in bench.warnings()["head"]
    bench.cluster.patch("RayJob", "rj", "default", {"status": {"rayClusterName": "rc"}}, "status")
    bench.settle()
    [group] = bench.groups().values()
    assert group["spec"]["minMember"] == 3
    assert bench.group_of("head") == group["metadata"]["name"]


@pytest.mark.parametrize("spec", [{"job": "x"}, {"job": {"options": []}}, {}])
def test_an_owner_out_of_shape_leads_to_a_reason_not_an_exception(bench, spec):
    top = bench.make("amlarc.azureml.com/v1alpha1", "AmlJob", "x", spec)
    bench.pod("x-0", top)
    bench.pod("fine")
    bench.settle()
    assert bench.group_of("fine")
    assert bench.warnings().keys() == {"x-0"}


def test_a_podgroup_deleted_by_hand_comes_back_for_owned_pods(bench):
    bench.pod("train-0", bench.job())
    bench.settle()
    [name] = bench.groups()
    bench.cluster.delete("PodGroup", name, "default")
    bench.settle()
    assert list(bench.groups()) == [name]


class SlowCluster(EmbeddedCluster):
    """Writes that nobody waits for are carried out at once, and answered by ``answer``."""

    def __init__(self):
        super().__init__()
        self.submitted = []

    @property
    def under_way(self):
        return len(self.submitted)

    def hand_over(self, chains):
        batch = SubmittedBatch()
        self.submitted.append((batch, self.write_all(chains)))
        return batch

    def answer(self):
        for batch, outcomes in self.submitted:
            batch.done += enumerate(outcomes)
        self.submitted = []


def test_a_podgroup_deleted_before_its_creation_is_answered_comes_back(bench):
    bench.cluster = cluster = SlowCluster()
    bench.grouper = PodGrouper(cluster, ahead=True)
    bench.pod("train-0", bench.job())
    bench.grouper.step()
    [name] = bench.groups()
    cluster.delete("PodGroup", name, "default")
    for _ in range(4):
        cluster.answer()
        bench.grouper.step()
    assert list(bench.groups()) == [name]
    assert bench.group_of("train-0") == name


def test_a_queue_given_to_a_podgroup_by_hand_stays(bench):
    job = bench.job(labels={"kai.scheduler/queue": "first"})
    bench.pod("train-0", job)
    bench.settle()
    [name] = bench.groups()
    bench.cluster.patch("PodGroup", name, "default", {"spec": {"queue": "second"}})
    bench.cluster.patch("Job", "train", "default", {"metadata": {"labels": {"kai.scheduler/queue": "third"}}})
    bench.pod("train-1", job)
    bench.settle()
    assert bench.groups()[name]["spec"]["queue"] == "second"


def test_a_new_podgrouper_carries_on_where_another_stopped(bench):
    job = bench.job()
    bench.pod("train-0", job)
    bench.settle()
    before = bench.groups()
    bench.grouper.close()
    bench.pod("train-1", job)
    bench.grouper = PodGrouper(bench.cluster)
    bench.settle()
    assert bench.groups() == before
    assert bench.group_of("train-1") == bench.group_of("train-0")


def gang_pod(bench, index, job="run", size="3"):
    labels = {f"kai.nvidia.com/job-{k}": v for k, v in (("id", job), ("size", size), ("index", str(index)))}
    return bench.pod(f"{job}-{index}", labels=labels)


def test_a_gang_by_labels_lives_as_long_as_one_of_its_pods(bench):
    for index in range(3):
        gang_pod(bench, index)
    bench.settle()
    [group] = bench.groups().values()
    assert group["spec"]["minMember"] == 3
    assert [each["name"] for each in group["metadata"]["ownerReferences"]] == ["run-0", "run-1", "run-2"]
    for index in range(3):
        assert len(bench.groups()) == 1
        bench.cluster.delete("Pod", f"run-{index}", "default")
        bench.settle()
    assert bench.groups() == {}


def test_the_first_pod_of_a_gang_decides_for_all(bench):
    gang_pod(bench, 0, size="3")
    gang_pod(bench, 1, size="5")
    bench.settle()
    [group] = bench.groups().values()
    assert group["spec"]["minMember"] == 3


def test_two_runs_write_the_same(bench):
    def run():
        each = Bench()
        top = jobset(each)
        for index in (1, 0):
            jobset_pod(each, top, f"js-{index}", index)
        gang_pod(each, 0)
        each.pod("solo")
        each.settle()
        return each.cluster.dump()

    assert run() == run()


def test_pods_of_one_owner_are_grouped_once(bench, monkeypatch):
    top = jobset(bench)
    calls = []
    from kailab.grouping.families import jobset as family

    original = family.default_grouping
    monkeypatch.setattr(family, "default_grouping", lambda *args: calls.append(1) or original(*args))
    for index in range(20):
        jobset_pod(bench, top, f"js-{index}", index % 2)
    bench.settle()
    assert len(bench.groups()) == 1
    # Once more than once: the reads made for the first pod were new to the podgrouper.
    assert 1 <= len(calls) <= 2


def test_a_pod_that_leaves_before_it_is_grouped_leaves_nothing(bench):
    bench.pod("gone")
    bench.cluster.delete("Pod", "gone", "default")
    bench.settle()
    assert bench.groups() == {}
    with pytest.raises(NotFound):
        bench.cluster.get("Pod", "gone", "default")


def test_owners_of_a_podgroup_are_as_kai_writes_them(bench):
    """Every KAI writes a reference of four fields, without ``controller``, and writes over one that somebody completed; the
    PodGroup of a user's own, whose pods nobody owns, it leaves alone."""
    job = bench.job()
    bench.pod("train-0", job)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": job["metadata"]["uid"]}
    own = bench.make("scheduling.run.ai/v2alpha2", "PodGroup", "mine", {"minMember": 1, "queue": "team"}, job)
    bench.pod("loose", annotations={"pod-group-name": "mine"})
    bench.settle()
    (name,) = bench.groups().keys() - {"mine"}
    assert bench.groups()[name]["metadata"]["ownerReferences"] == [owner]
    changed = {"metadata": {"ownerReferences": [{**owner, "controller": True}]}}
    bench.cluster.patch("PodGroup", name, "default", changed)
    bench.pod("train-1", job)
    bench.settle()
    assert bench.groups()[name]["metadata"]["ownerReferences"] == [owner]
    assert bench.groups()["mine"] == own
    assert own["metadata"]["ownerReferences"] == [{**owner, "controller": True}]


def test_the_shared_gpu_of_a_pod_says_nothing_of_its_podgroup(bench):
    job = bench.job()
    bench.pod("train-0", job)
    bench.settle()
    cluster = bench.cluster
    [(name, _)] = bench.groups().items()
    # What somebody else changes in a PodGroup is put right when a pod of it is grouped again.
    cluster.patch("PodGroup", name, "default", {"spec": {"minMember": 7}})
    cluster.patch("Pod", "train-0", "default", {"metadata": {"labels": {"runai-gpu-group": "g"}}})
    cluster.patch("Pod", "train-0", "default", {"metadata": {"labels": {"runai-gpu-group/h": "h"}}})
    bench.settle()
    assert bench.groups()[name]["spec"]["minMember"] == 7
    cluster.patch("Pod", "train-0", "default", {"metadata": {"labels": {"runai-gpu-group": "i", "user": "ann"}}})
    bench.settle()
    assert bench.groups()[name]["spec"]["minMember"] == 1
    assert bench.groups()[name]["metadata"]["labels"]["user"] == "ann"
