"""What the operators of training, serving and data frameworks make of their objects."""

from __future__ import annotations

import pytest

from kailab.explain.subject import wanted_pods

RUN = "kailab.dev/run-seconds"
FAIL = "kailab.dev/fail"


def _training(world, kind, field, roles, *, version="kubeflow.org/v1", **spec):
    specs = {
        role: {"replicas": count, "restartPolicy": policy, "template": world.template(role.lower(), annotations=notes)}
        for role, (count, policy, notes) in roles.items()
    }
    return world.add(version, kind, {field: specs, **spec})


@pytest.mark.parametrize(
    ("kind", "field", "master"),
    [
        ("PyTorchJob", "pytorchReplicaSpecs", "Master"),
        ("TFJob", "tfReplicaSpecs", "Chief"),
        ("XGBoostJob", "xgbReplicaSpecs", "Master"),
    ],
)
def test_training_job_with_a_master(world, kind, field, master):
    _training(world, kind, field, {master: (1, "OnFailure", {RUN: "50"}), "Worker": (2, "OnFailure", None)})
    world.settle()
    assert world.names() == sorted([f"a-{master.lower()}-0", "a-worker-0", "a-worker-1"])
    labels = world.cluster.get("Pod", "a-worker-1", "default")["metadata"]["labels"]
    assert labels["training.kubeflow.org/job-name"] == "a"
    assert labels["training.kubeflow.org/replica-type"] == "worker"
    assert labels["training.kubeflow.org/replica-index"] == "1"
    first = world.cluster.get("Pod", f"a-{master.lower()}-0", "default")["metadata"]["labels"]
    assert first["training.kubeflow.org/job-role"] == "master"
    assert world.conditions(kind) == {"Created": "True", "Running": "True"}
    world.pass_time(60)
    assert world.conditions(kind) == {"Created": "True", "Running": "False", "Succeeded": "True"}


def test_training_job_replaces_evicted_pods_by_name(world):
    _training(world, "PyTorchJob", "pytorchReplicaSpecs", {"Master": (1, "Never", None), "Worker": (2, "Never", None)})
    world.settle()
    uid = world.cluster.get("Pod", "a-worker-0", "default")["metadata"]["uid"]
    world.cluster.evict("default", "a-worker-0", "Preempted", "")
    world.settle()
    assert world.cluster.get("Pod", "a-worker-0", "default")["metadata"]["uid"] != uid
    assert len(world.pods()) == 3
    assert world.conditions("PyTorchJob")["Running"] == "True"


def test_training_job_fails_with_a_replica_that_may_not_restart(world):
    _training(
        world, "PyTorchJob", "pytorchReplicaSpecs", {"Master": (1, "Never", None), "Worker": (1, "Never", {FAIL: "5"})}
    )
    world.pass_time(10)
    assert world.conditions("PyTorchJob")["Failed"] == "True"


def test_jax_job_has_no_master(world):
    _training(world, "JAXJob", "jaxReplicaSpecs", {"Worker": (3, "OnFailure", {RUN: "5"})})
    world.settle()
    assert world.names() == ["a-worker-0", "a-worker-1", "a-worker-2"]
    world.pass_time(10)
    assert world.conditions("JAXJob")["Succeeded"] == "True"


def test_mpi_job_has_a_launcher_job(world):
    roles = {"Launcher": (1, "Never", {RUN: "20"}), "Worker": (2, "Never", None)}
    _training(world, "MPIJob", "mpiReplicaSpecs", roles, version="kubeflow.org/v2beta1")
    world.settle()
    (job,) = world.cluster.list("Job")
    assert job["metadata"]["name"] == "a-launcher"
    (launcher,) = world.pods(**{"training.kubeflow.org/job-role": "launcher"})
    assert launcher["metadata"]["labels"]["training.kubeflow.org/job-name"] == "a"
    assert len(world.pods(**{"training.kubeflow.org/job-role": "worker"})) == 2
    world.pass_time(30)
    assert world.conditions("MPIJob")["Succeeded"] == "True"


def test_the_launcher_of_an_mpi_job_of_version_v1_is_a_pod(world):
    """The training-operator's: its launcher asks for an init container's CPU too, and ends the job."""
    roles = {"Launcher": (1, "Never", {RUN: "30"}), "Worker": (2, "Never", None)}
    _training(world, "MPIJob", "mpiReplicaSpecs", roles, version="kubeflow.org/v1", runPolicy={"cleanPodPolicy": "All"})
    world.settle()
    assert sorted(pod["metadata"]["name"] for pod in world.pods()) == ["a-launcher", "a-worker-0", "a-worker-1"]
    assert world.cluster.list("Job") == []
    launcher = next(pod for pod in world.pods() if pod["metadata"]["name"] == "a-launcher")
    assert launcher["spec"]["initContainers"][0]["resources"]["requests"] == {
        "cpu": "100m",
        "ephemeral-storage": "5Gi",
        "memory": "512Mi",
    }
    world.pass_time(60)
    assert world.conditions("MPIJob")["Succeeded"] == "True"
    assert world.pods() == []


def test_workers_wait_for_the_head_or_the_master_in_an_init_container(world):
    roles = {"Master": (1, "OnFailure", None), "Worker": (1, "OnFailure", None)}
    _training(world, "PyTorchJob", "pytorchReplicaSpecs", roles)
    world.add("ray.io/v1", "RayCluster", _ray(world), name="r")
    world.settle()
    waiting = {
        container["name"]: container["resources"]["requests"]["cpu"]
        for pod in world.pods()
        for container in pod["spec"].get("initContainers", ())
    }
    assert waiting == {"init-pytorch": "50m", "wait-gcs-ready": "200m"}
    assert "initContainers" not in world.cluster.get("Pod", "a-master-0", "default")["spec"]


def test_mpi_launcher_can_wait_for_the_workers(world):
    roles = {"Launcher": (1, "Never", None), "Worker": (2, "Never", None)}
    _training(
        world,
        "MPIJob",
        "mpiReplicaSpecs",
        roles,
        version="kubeflow.org/v2beta1",
        launcherCreationPolicy="WaitForWorkersReady",
    )
    world.step()
    assert world.cluster.list("Job") == []
    world.settle()
    assert len(world.cluster.list("Job")) == 1


@pytest.mark.parametrize("works", [False, True])
def test_mpi_pods_are_numbered(world, works):
    """As the MPI operator v0.8.2 marks them: a launcher that works, too, is number 0. No label says a replica type."""
    roles = {"Launcher": (1, "Never", None), "Worker": (2, "Never", None)}
    _training(world, "MPIJob", "mpiReplicaSpecs", roles, version="kubeflow.org/v2beta1", runLauncherAsWorker=works)
    world.settle()
    prefix = "training.kubeflow.org/"
    found = {pod["metadata"]["labels"].get(prefix + "replica-index") for pod in world.pods()}
    assert found == ({"0", "1", "2"} if works else {None, "0", "1"})
    assert not [pod for pod in world.pods() if prefix + "replica-type" in pod["metadata"]["labels"]]


def test_an_mpi_worker_that_ended_is_not_made_again(world):
    """The operator makes a worker where none has its name; one that ended has it."""
    roles = {"Launcher": (1, "Never", {RUN: "20"}), "Worker": (2, "Never", {RUN: "0"})}
    _training(world, "MPIJob", "mpiReplicaSpecs", roles, version="kubeflow.org/v2beta1")
    world.pass_time(10)
    workers = world.pods(**{"training.kubeflow.org/job-role": "worker"})
    assert [pod["status"]["phase"] for pod in workers] == ["Succeeded", "Succeeded"]
    world.pass_time(30)
    assert world.conditions("MPIJob")["Succeeded"] == "True"


def test_leader_worker_set(world):
    pods = {"leaderTemplate": world.template("l"), "workerTemplate": world.template("w"), "size": 3}
    world.add("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {"replicas": 2, "leaderWorkerTemplate": pods})
    world.settle()
    assert world.names() == ["a-0", "a-0-1", "a-0-2", "a-1", "a-1-1", "a-1-2"]
    prefix = "leaderworkerset.sigs.k8s.io/"
    worker = world.cluster.get("Pod", "a-1-2", "default")["metadata"]
    assert worker["labels"][prefix + "group-index"] == "1"
    assert worker["labels"][prefix + "worker-index"] == "2"
    assert worker["annotations"][prefix + "size"] == "3"
    assert world.get("LeaderWorkerSet")["status"]["readyReplicas"] == 2
    world.cluster.evict("default", "a-1", "Preempted", "")
    world.settle()
    assert world.names() == ["a-0", "a-0-1", "a-0-2", "a-1", "a-1-1", "a-1-2"]
    assert world.cluster.get("Pod", "a-1-2", "default")["metadata"]["uid"] != worker["uid"], "the group goes as a whole"


@pytest.mark.parametrize(("policy", "replaced"), [(None, 3), ("RecreateGroupOnPodRestart", 3), ("None", 1)])
def test_a_group_that_loses_a_worker_is_made_again_as_its_restart_policy_says(world, policy, replaced):
    pods = {"workerTemplate": world.template("w"), "size": 3, **({"restartPolicy": policy} if policy else {})}
    world.add("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {"replicas": 2, "leaderWorkerTemplate": pods})
    world.settle()
    before = {pod["metadata"]["uid"] for pod in world.pods()}
    world.cluster.evict("default", "a-1-2", "Preempted", "")
    world.pass_time(120)
    assert world.names() == ["a-0", "a-0-1", "a-0-2", "a-1", "a-1-1", "a-1-2"]
    assert len(before - {pod["metadata"]["uid"] for pod in world.pods()}) == replaced


@pytest.mark.parametrize(("policy", "replaced"), [(None, 3), ("RecreateGroupAfterStart", 3), ("None", 0)])
def test_a_group_whose_worker_restarts_is_made_again_as_its_restart_policy_says(world, policy, replaced):
    pods = {"workerTemplate": world.template("w"), "size": 3, **({"restartPolicy": policy} if policy else {})}
    world.add("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {"replicas": 2, "leaderWorkerTemplate": pods})
    world.settle()
    before = {pod["metadata"]["uid"] for pod in world.pods()}
    restarted = {"containerStatuses": [{"name": "c", "restartCount": 1}]}
    world.cluster.patch("Pod", "a-1-2", "default", {"status": restarted}, "status")
    world.pass_time(120)
    assert len(before - {pod["metadata"]["uid"] for pod in world.pods()}) == replaced


def test_a_group_and_its_subgroup_of_one_topology_get_the_terms_of_the_group(world):
    """As LeaderWorkerSet v0.9.0: there are terms of that topology already."""
    pods = {"workerTemplate": world.template("w"), "size": 2, "subGroupPolicy": {"subGroupSize": 2}}
    notes = {LWS + "exclusive-topology": RACK, LWS + "subgroup-exclusive-topology": RACK}
    spec = {"replicas": 1, "leaderWorkerTemplate": pods}
    world.add("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec, annotations=notes)
    world.settle()
    (pod,) = [pod for pod in world.pods() if pod["metadata"]["name"] == "a-0"]
    terms = pod["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert [term["labelSelector"]["matchExpressions"][0]["key"] for term in terms] == [LWS + "group-key"]


def test_an_annotation_of_older_releases_keeps_a_group_that_has_not_started(world):
    """Source: LeaderWorkerSet v0.9.0, handleRestartPolicy."""
    pods = {"workerTemplate": world.template("w"), "size": 3}
    spec = {"replicas": 1, "leaderWorkerTemplate": pods}
    note = LWS + "experimental-recreate-group-after-start"
    world.add("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec, annotations={note: "true"})
    world.settle()
    before = {pod["metadata"]["uid"] for pod in world.pods()}
    restarted = {"containerStatuses": [{"name": "c", "restartCount": 1}]}
    world.cluster.patch("Pod", "a-0-2", "default", {"status": {"phase": "Pending"}}, "status")
    world.cluster.patch("Pod", "a-0-1", "default", {"status": restarted}, "status")
    world.settle()
    assert {pod["metadata"]["uid"] for pod in world.pods()} == before


@pytest.mark.parametrize(("partition", "images"), [(0, {"new"}), (1, {"pause", "new"})])
def test_a_changed_template_replaces_group_by_group(world, partition, images):
    pods = {"workerTemplate": world.template("w"), "size": 2}
    rollout = {"rollingUpdateConfiguration": {"partition": partition, "maxUnavailable": 1}}
    spec = {"replicas": 2, "leaderWorkerTemplate": pods, "rolloutStrategy": rollout}
    world.add("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec)
    world.settle()
    changed = {"spec": {"containers": [{"name": "c", "image": "new"}]}}
    world.cluster.patch(
        "LeaderWorkerSet", "a", "default", {"spec": {"leaderWorkerTemplate": {"workerTemplate": changed}}}
    )
    world.pass_time(300)
    found = {pod["metadata"]["name"]: pod["spec"]["containers"][0]["image"] for pod in world.pods()}
    assert set(found.values()) == images
    assert (found["a-1"], found["a-1-1"]) == ("new", "new")
    assert world.get("LeaderWorkerSet")["status"]["updatedReplicas"] == 2 - partition
    lowered = {"rolloutStrategy": {"rollingUpdateConfiguration": {"partition": 0}}}
    world.cluster.patch("LeaderWorkerSet", "a", "default", {"spec": lowered})
    world.pass_time(300)
    assert {pod["spec"]["containers"][0]["image"] for pod in world.pods()} == {"new"}


@pytest.mark.parametrize(
    ("size", "kind", "segments"),
    [
        # Where the workers divide evenly the leader is one more in the first.
        (5, "LeaderWorker", {"a-0": "0", "a-0-1": "0", "a-0-2": "0", "a-0-3": "1", "a-0-4": "1"}),
        (4, "LeaderWorker", {"a-0": "0", "a-0-1": "0", "a-0-2": "1", "a-0-3": "1"}),
        (5, "LeaderExcluded", {"a-0": None, "a-0-1": "0", "a-0-2": "0", "a-0-3": "1", "a-0-4": "1"}),
    ],
)
def test_pods_of_a_group_know_their_subgroup(world, size, kind, segments):
    """As LeaderWorkerSet v0.9.0 marks them."""
    policy = {"subGroupSize": 2, "subGroupPolicyType": kind}
    pods = {"workerTemplate": world.template("w"), "size": size, "subGroupPolicy": policy}
    world.add("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {"replicas": 1, "leaderWorkerTemplate": pods})
    world.settle()
    prefix = "leaderworkerset.sigs.k8s.io/"
    found = {pod["metadata"]["name"]: pod["metadata"] for pod in world.pods()}
    assert {name: one["labels"].get(prefix + "subgroup-index") for name, one in found.items()} == segments
    assert {one["annotations"][prefix + "subgroup-size"] for one in found.values()} == {"2"}
    assert found["a-0"]["annotations"][prefix + "subgroup-policy-type"] == kind
    # Those of one subgroup find each other by a key that no other has.
    keys = {
        (one["labels"].get(prefix + "subgroup-index"), one["labels"].get(prefix + "subgroup-key"))
        for one in found.values()
    }
    assert len(keys) == len(set(segments.values()))


RACK = "example.com/rack"
LWS = "leaderworkerset.sigs.k8s.io/"


def _kept_out(pod):
    """The topology and the labels by which a pod keeps others out of its domain."""
    terms = pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return [(term["topologyKey"], term["labelSelector"]["matchExpressions"][0]["key"]) for term in terms]


def test_workers_of_an_exclusive_group_follow_their_leader_into_its_domain(world):
    world.cluster.patch("Node", "n0", None, {"metadata": {"labels": {RACK: "r0"}}})
    spec = {"replicas": 1, "leaderWorkerTemplate": {"workerTemplate": world.template("w"), "size": 3}}
    world.add("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec, annotations={LWS + "exclusive-topology": RACK})
    world.settle(bind=False)
    (leader,) = world.pods()
    assert _kept_out(leader) == [(RACK, LWS + "group-key")]
    world.settle()
    workers = [pod for pod in world.pods() if pod["metadata"]["name"] != "a-0"]
    assert [pod["spec"]["nodeSelector"] for pod in workers] == [{RACK: "r0"}] * 2


def test_a_leader_outside_of_every_domain_gets_no_workers_and_an_event_says_why(world):
    spec = {"replicas": 1, "leaderWorkerTemplate": {"workerTemplate": world.template("w"), "size": 2}}
    world.add("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec, annotations={LWS + "exclusive-topology": RACK})
    world.settle()
    assert world.names() == ["a-0"]
    assert any(f"no label {RACK}" in event["message"] for event in world.cluster.list("Event"))


def test_each_subgroup_has_a_domain_to_itself(world):
    pods = {"workerTemplate": world.template("w"), "size": 4, "subGroupPolicy": {"subGroupSize": 2}}
    notes = {LWS + "subgroup-exclusive-topology": RACK}
    spec = {"replicas": 1, "leaderWorkerTemplate": pods}
    world.add("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec, annotations=notes)
    world.settle()
    assert [_kept_out(pod) for pod in world.pods()] == [[(RACK, LWS + "subgroup-key")]] * 4


def test_leaders_and_workers_have_claims_of_their_own(world):
    claims = [{"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}]
    pods = {"workerTemplate": world.template("w"), "size": 2, "volumeClaimTemplates": claims}
    world.add("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {"replicas": 1, "leaderWorkerTemplate": pods})
    world.settle()
    used = {
        pod["metadata"]["name"]: pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] for pod in world.pods()
    }
    assert used == {"a-0": "data-a-0", "a-0-1": "data-a-0-1"}
    assert [claim["metadata"]["name"] for claim in world.cluster.list("PersistentVolumeClaim")] == list(used.values())


def test_leader_ready_policy_holds_workers_back(world):
    pods = {"workerTemplate": world.template("w"), "size": 2}
    spec = {"replicas": 1, "leaderWorkerTemplate": pods, "startupPolicy": "LeaderReady"}
    world.add("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec)
    world.step()
    assert world.names() == ["a-0"]
    world.settle()
    assert world.names() == ["a-0", "a-0-1"]


def _ray(world):
    return {
        "headGroupSpec": {"template": world.template("h")},
        "workerGroupSpecs": [{"groupName": "gpu", "replicas": 2, "minReplicas": 1, "maxReplicas": 4,
                              "template": world.template("w")}],
    }  # fmt: skip


def test_ray_cluster(world):
    world.add("ray.io/v1", "RayCluster", _ray(world))
    world.settle()
    (head,) = world.pods(**{"ray.io/node-type": "head"})
    assert head["metadata"]["name"].startswith("a-head-")
    assert head["metadata"]["labels"]["ray.io/group"] == "headgroup"
    workers = world.pods(**{"ray.io/group": "gpu"})
    assert len(workers) == 2
    assert workers[0]["metadata"]["name"].startswith("a-gpu-worker-")
    assert world.get("RayCluster")["status"]["state"] == "ready"
    world.cluster.evict("default", workers[0]["metadata"]["name"], "Preempted", "")
    world.settle()
    assert len(world.pods(**{"ray.io/group": "gpu"})) == 2


@pytest.mark.parametrize(
    ("counts", "workers"),
    [({"minReplicas": 2}, 2), ({"replicas": 5, "maxReplicas": 3}, 3), ({"replicas": 0, "minReplicas": 1}, 1), ({}, 0),
     ({"replicas": 2, "numOfHosts": 2}, 4), ({"replicas": 2, "suspend": True}, 0), ({"minReplicas": 3, "maxReplicas": 1}, 1)],
)  # fmt: skip
def test_ray_workers_between_their_bounds(world, counts, workers):
    spec = {
        "headGroupSpec": {"template": world.template("h")},
        "workerGroupSpecs": [{"groupName": "gpu", "template": world.template("w"), **counts}],
    }
    made = world.add("ray.io/v1", "RayCluster", spec)
    world.settle()
    assert len(world.pods(**{"ray.io/group": "gpu"})) == workers
    assert wanted_pods(made) == workers + 1


def test_ray_job_submits_once_its_cluster_is_ready(world):
    submitter = world.template("s", restart="Never", annotations={RUN: "30"})
    world.add(
        "ray.io/v1",
        "RayJob",
        {"rayClusterSpec": _ray(world), "submitterPodTemplate": submitter, "shutdownAfterJobFinishes": True},
    )
    world.step()
    (cluster,) = world.cluster.list("RayCluster")
    assert world.get("RayJob")["status"]["rayClusterName"] == cluster["metadata"]["name"]
    assert world.cluster.list("Job") == []
    world.settle()
    assert [job["metadata"]["name"] for job in world.cluster.list("Job")] == ["a"]
    world.pass_time(60)
    assert world.get("RayJob")["status"]["jobStatus"] == "SUCCEEDED"
    assert world.cluster.list("RayCluster") == []


def test_a_ray_job_submits_by_whoever_places_what_names_nobody(world):
    """As KubeRay v1.6.2 has it: its own submitter takes neither scheduler nor queue from the cluster."""
    spec = _ray(world)
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        group["template"]["spec"]["schedulerName"] = "kai-scheduler"
        group["template"]["metadata"]["labels"]["kai.scheduler/queue"] = "team-a"
    world.add("ray.io/v1", "RayJob", {"rayClusterSpec": spec, "entrypoint": "python work.py"})
    world.settle()
    (submitter,) = world.pods(**{"job-name": "a"})
    assert submitter["spec"]["schedulerName"] == "default-scheduler"
    assert not [key for key in submitter["metadata"]["labels"] if key.startswith(("kai.scheduler/", "ray.io/"))]
    assert submitter["spec"]["containers"][0]["image"] == "pause"


def test_ray_service_names_its_cluster(world):
    world.add("ray.io/v1", "RayService", {"rayClusterConfig": _ray(world)})
    world.settle()
    (cluster,) = world.cluster.list("RayCluster")
    status = world.get("RayService")["status"]
    assert status["activeServiceStatus"] == {"rayClusterName": cluster["metadata"]["name"]}


def _image(cluster):
    return cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["image"]


def _changed(world, **group):
    config = _ray(world)
    if group:
        config["workerGroupSpecs"][0].update(group)
    else:
        config["headGroupSpec"]["template"]["spec"]["containers"][0]["image"] = "newer"
    return {"spec": {"rayClusterConfig": config}}


def test_a_new_configuration_of_a_ray_service_gets_a_cluster_of_its_own(world):
    world.add("ray.io/v1", "RayService", {"rayClusterConfig": _ray(world), "serveConfigV2": "a"})
    world.settle()
    (old,) = world.cluster.list("RayCluster")
    # The served application does not decide about the cluster, and numbers of workers change the cluster that is there.
    world.cluster.patch("RayService", "a", "default", {"spec": {"serveConfigV2": "b"}})
    world.cluster.patch("RayService", "a", "default", _changed(world, replicas=3, maxReplicas=3))
    world.settle()
    (scaled,) = world.cluster.list("RayCluster")
    assert scaled["metadata"]["uid"] == old["metadata"]["uid"]
    assert scaled["spec"]["workerGroupSpecs"][0]["replicas"] == 3
    world.cluster.patch("RayService", "a", "default", _changed(world))
    world.settle()
    new = next(each for each in world.cluster.list("RayCluster") if _image(each) == "newer")
    status = world.get("RayService")["status"]
    assert (status["activeServiceStatus"], status["pendingServiceStatus"]) == (
        {"rayClusterName": new["metadata"]["name"]},
        {},
    )
    assert len(world.cluster.list("RayCluster")) == 2
    world.pass_time(70)
    assert [each["metadata"]["name"] for each in world.cluster.list("RayCluster")] == [new["metadata"]["name"]]


def test_a_ray_service_keeps_its_cluster_if_its_strategy_says_so(world):
    world.add("ray.io/v1", "RayService", {"rayClusterConfig": _ray(world), "upgradeStrategy": {"type": "None"}})
    world.settle()
    world.cluster.patch("RayService", "a", "default", _changed(world))
    world.pass_time(70)
    (cluster,) = world.cluster.list("RayCluster")
    assert _image(cluster) != "newer"
    world.cluster.delete("RayCluster", cluster["metadata"]["name"], "default")
    world.settle()
    assert [_image(each) for each in world.cluster.list("RayCluster")] == ["newer"]


def test_train_job_makes_a_job_set_from_its_runtime(world):
    node = {
        "name": "node",
        "template": {
            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
            "spec": {
                "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "node", "image": "torch"}]}}
            },
        },
    }
    job = {"runtimeRef": {"name": "torch"}, "trainer": {"numNodes": 3, "image": "mine"}, "labels": {"app": "t"}}
    world.add("trainer.kubeflow.org/v1alpha1", "TrainJob", job)
    world.settle()
    assert world.pods() == []
    world.cluster.create({
        "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "ClusterTrainingRuntime", "metadata": {"name": "torch"},
        "spec": {"mlPolicy": {"numNodes": 1}, "template": {"spec": {"replicatedJobs": [node]}}},
    })  # fmt: skip
    world.settle()
    assert world.cluster.list("JobSet")[0]["metadata"]["name"] == "a"
    pods = world.pods(app="t")
    assert len(pods) == 3
    assert pods[0]["spec"]["containers"][0]["image"] == "mine"


def test_spark_executors_follow_the_driver(world):
    spec = {
        "image": "spark", "driver": {"cores": 1, "memory": "1g", "labels": {"app": "d"}},
        "executor": {"instances": 2, "cores": 2, "memory": "4g", "gpu": {"name": "nvidia.com/gpu", "quantity": 1}},
    }  # fmt: skip
    world.add("sparkoperator.k8s.io/v1beta2", "SparkApplication", spec)
    world.step()
    assert world.names() == ["a-driver"]
    world.settle()
    assert world.names() == ["a-driver", "a-exec-1", "a-exec-2"]
    executor = world.cluster.get("Pod", "a-exec-1", "default")
    driver = world.cluster.get("Pod", "a-driver", "default")
    assert executor["metadata"]["ownerReferences"][0]["name"] == "a-driver"
    assert executor["metadata"]["labels"]["spark-app-selector"] == driver["metadata"]["labels"]["spark-app-selector"]
    assert executor["spec"]["containers"][0]["resources"]["requests"] == {
        "cpu": "2", "memory": "4505Mi", "nvidia.com/gpu": 1,
    }  # fmt: skip
    world.cluster.evict("default", "a-exec-1", "Preempted", "")
    world.settle()
    assert world.names() == ["a-driver", "a-exec-2", "a-exec-3"]


@pytest.mark.parametrize(
    ("memory", "requested"),
    [("512", "896Mi"), ("512m", "896Mi"), ("512MB", "896Mi"), ("512b", "384Mi"), ("104857600b", "484Mi"), ("4g", "4505Mi"), ("4GiB", "4505Mi"),
     ("2048k", "386Mi")],
)  # fmt: skip
def test_spark_memory_is_read_as_spark_reads_it(world, memory, requested):
    spec = {"image": "spark", "driver": {"memory": memory}, "executor": {"instances": 0}}
    world.add("sparkoperator.k8s.io/v1beta2", "SparkApplication", spec)
    world.step()
    assert world.pods()[0]["spec"]["containers"][0]["resources"]["requests"]["memory"] == requested


@pytest.mark.parametrize(
    ("app", "driver", "executor"),
    [
        ({"driver": {"memory": "4g", "memoryOverhead": "8g"}}, 12288, 1408),
        ({"driver": {"memory": "4g", "memoryOverhead": "512"}, "executor": {"memory": "2g", "memoryOverhead": "100m"}}, 4608, 2148),
        ({"driver": {"memory": "10g"}, "memoryOverheadFactor": "0.5"}, 15360, 1536),
        ({"driver": {"memory": "10g"}, "type": "Python"}, 14336, 1433),
        ({"driver": {"memory": "10g"}, "type": "R", "memoryOverheadFactor": "0.1"}, 11264, 1408),
        ({"sparkConf": {"spark.driver.memory": "4g", "spark.executor.memoryOverhead": "1g"}}, 4505, 2048),
        ({"sparkConf": {"spark.driver.memory": "4g", "spark.driver.memoryOverheadFactor": "0.5"}, "driver": {"memory": "8g"}}, 12288, 1408),
        ({"sparkConf": {"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "1073741824"}}, 1408, 2432),
        ({"type": "Python", "sparkConf": {"spark.executor.pyspark.memory": "1g"}}, 1433, 2457),
    ],
)  # fmt: skip
def test_spark_adds_the_overhead_of_memory_that_is_asked_for(world, app, driver, executor):
    roles = {
        role: {**({"instances": 1} if role == "executor" else {}), **app.get(role, {})}
        for role in ("driver", "executor")
    }
    world.add("sparkoperator.k8s.io/v1beta2", "SparkApplication", {"image": "spark", **app, **roles})
    world.settle()
    asked = [pod["spec"]["containers"][0]["resources"]["requests"]["memory"] for pod in world.pods()]
    assert asked == [f"{driver}Mi", f"{executor}Mi"]


def test_knative_service_runs_its_minimum_scale(world):
    template = world.template("k")
    template["metadata"]["annotations"] = {"autoscaling.knative.dev/min-scale": "2"}
    world.add("serving.knative.dev/v1", "Service", {"template": template})
    world.settle()
    assert [d["metadata"]["name"] for d in world.cluster.list("Deployment")] == ["a-00001-deployment"]
    assert len(world.pods(**{"serving.knative.dev/revision": "a-00001"})) == 2
    assert world.cluster.get("Service.serving.knative.dev", "a")["status"]["latestReadyRevisionName"] == "a-00001"


SCRIPTS = [
    test_ray_cluster,
    test_leader_worker_set,
    test_mpi_job_has_a_launcher_job,
    test_spark_executors_follow_the_driver,
]


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_same_script_twice_gives_the_same_cluster(world, script):
    again = type(world)()
    script(world)
    script(again)
    assert world.cluster.dump() == again.cluster.dump()


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_settled_cluster_stays_settled_when_resumed(world, script):
    script(world)
    before = world.cluster.dump()
    world.resume()
    world.settle()
    assert world.cluster.dump() == before
