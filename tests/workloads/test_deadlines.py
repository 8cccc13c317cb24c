"""What holds its pods no longer: work past its deadline or its limit of restarts, and work that ended a while ago."""

from __future__ import annotations

import pytest

RUN = "kailab.dev/run-seconds"
FAIL = "kailab.dev/fail"
TRAINING = [
    ("PyTorchJob", "pytorchReplicaSpecs", "Master"),
    ("TFJob", "tfReplicaSpecs", "Chief"),
    ("XGBoostJob", "xgbReplicaSpecs", "Master"),
    ("PaddleJob", "paddleReplicaSpecs", "Master"),
    ("JAXJob", "jaxReplicaSpecs", "Worker"),
]


def training(world, kind, field, roles, version="kubeflow.org/v1", **policy):
    """``roles``: name -> (replicas, restartPolicy, annotations of the pods)."""
    specs = {
        role: {"replicas": count, "restartPolicy": restart, "template": world.template(role.lower(), annotations=notes)}
        for role, (count, restart, notes) in roles.items()
    }
    return world.add(version, kind, {field: specs, "runPolicy": policy})


@pytest.mark.parametrize("policy", [{}, {"cleanPodPolicy": "None"}, {"cleanPodPolicy": "Running"}])
@pytest.mark.parametrize(("kind", "field", "master"), TRAINING)
def test_a_training_job_past_its_deadline_has_no_pods(world, kind, field, master, policy):
    training(world, kind, field, {master: (2, "OnFailure", None)}, activeDeadlineSeconds=30, **policy)
    world.pass_time(25)
    assert len(world.pods()) == 2
    world.pass_time(20)
    assert world.conditions(kind)["Failed"] == "True"
    assert world.pods() == []
    world.pass_time(1000)
    assert world.pods() == []


@pytest.mark.parametrize(("kind", "field", "master"), TRAINING)
def test_a_training_job_at_its_limit_of_restarts_has_no_pods(world, kind, field, master):
    # Two pods of the one role that all of them have.
    roles = {"Worker": (2, "OnFailure", {FAIL: "5"})}
    training(world, kind, field, roles, backoffLimit=1)
    world.pass_time(600)
    assert world.conditions(kind)["Failed"] == "True"
    assert world.pods() == []


def test_a_training_job_whose_replica_may_not_restart_keeps_the_others(world):
    """As cleanPodPolicy has it: no limit was reached."""
    roles = {"Master": (1, "Never", None), "Worker": (1, "Never", {FAIL: "5"})}
    training(world, "PyTorchJob", "pytorchReplicaSpecs", roles, activeDeadlineSeconds=1000)
    world.pass_time(100)
    assert [pod["status"]["phase"] for pod in world.pods()] == ["Running", "Failed"]


def test_the_deadline_of_a_training_job_counts_from_when_it_was_resumed(world):
    made = training(
        world,
        "PyTorchJob",
        "pytorchReplicaSpecs",
        {"Master": (1, "OnFailure", None)},
        activeDeadlineSeconds=60,
        suspend=True,
    )
    world.pass_time(100)
    assert "startTime" not in world.get("PyTorchJob")["status"]
    for suspend, seconds in ((False, 40), (True, 100), (False, 40)):
        policy = {**made["spec"]["runPolicy"], "suspend": suspend}
        world.cluster.patch("PyTorchJob", "a", "default", {"spec": {"runPolicy": policy}})
        world.pass_time(seconds)
        assert len(world.pods()) == (not suspend)
        assert world.conditions("PyTorchJob")["Suspended"] == str(suspend)
    world.pass_time(40)
    assert world.conditions("PyTorchJob")["Failed"] == "True"


@pytest.mark.parametrize(
    ("version", "policy", "left"),
    [("v1", {}, 0), ("v2beta1", {"cleanPodPolicy": "Running"}, 0), ("v2beta1", {"cleanPodPolicy": "All"}, 0), ("v2beta1", {}, 2)],
)  # fmt: skip
def test_workers_of_an_mpi_job_past_its_deadline(world, version, policy, left):
    """The training-operator (v1) takes them down whatever cleanPodPolicy is; with the mpi-operator (v2beta1) they stay by cleanPodPolicy None."""
    roles = {"Launcher": (1, "Never", None), "Worker": (2, "Never", None)}
    training(world, "MPIJob", "mpiReplicaSpecs", roles, f"kubeflow.org/{version}", activeDeadlineSeconds=30, **policy)
    world.pass_time(60)
    assert world.conditions("MPIJob")["Failed"] == "True"
    assert len(world.pods()) == left


def ray_job(world, **spec):
    worker = {"groupName": "gpu", "replicas": 2, "minReplicas": 2, "template": world.template("w")}
    cluster = {"headGroupSpec": {"template": world.template("h")}, "workerGroupSpecs": [worker]}
    return world.add("ray.io/v1", "RayJob", {"rayClusterSpec": cluster, "entrypoint": "python x.py", **spec})


@pytest.mark.parametrize("mode", ["HTTPMode", "K8sJobMode"])
def test_a_ray_job_past_its_deadline_has_failed_and_its_cluster_goes(world, mode):
    ray_job(world, submissionMode=mode, activeDeadlineSeconds=50, shutdownAfterJobFinishes=True, backoffLimit=3)
    world.pass_time(40)
    assert len(world.pods()) == (3 if mode == "HTTPMode" else 4)
    world.pass_time(20)
    status = world.get("RayJob")["status"]
    assert (status["jobDeploymentStatus"], status["reason"]) == ("Failed", "DeadlineExceeded")
    assert world.pods() == []
    assert world.cluster.list("RayCluster") == []


def test_the_cluster_of_a_ray_job_stays_where_nothing_says_that_it_goes(world):
    ray_job(world, submissionMode="HTTPMode", activeDeadlineSeconds=50)
    world.pass_time(100)
    assert world.get("RayJob")["status"]["jobDeploymentStatus"] == "Failed"
    assert len(world.pods()) == 3


def test_the_cluster_of_a_ray_job_goes_after_its_time_to_live(world):
    ray_job(
        world,
        submissionMode="HTTPMode",
        activeDeadlineSeconds=50,
        shutdownAfterJobFinishes=True,
        ttlSecondsAfterFinished=100,
    )
    world.pass_time(140)
    assert len(world.pods()) == 3
    world.pass_time(20)
    assert world.pods() == []


def test_a_ray_job_that_does_not_get_to_run_in_time_has_failed(world):
    ray_job(world, submissionMode="HTTPMode", preRunningDeadlineSeconds=50, shutdownAfterJobFinishes=True)
    world.settle(bind=False)
    assert len(world.pods()) == 3
    world.cluster.advance(60)
    world.settle(bind=False)
    assert world.get("RayJob")["status"]["reason"] == "PreRunningDeadlineExceeded"
    assert world.pods() == []


def test_a_ray_job_that_failed_is_tried_again_on_a_cluster_of_its_own(world):
    submitter = world.template("s", restart="Never", annotations={FAIL: "5"})
    ray_job(world, submitterPodTemplate=submitter, submitterConfig={"backoffLimit": 0}, backoffLimit=2)
    clusters = set()
    for _ in range(60):
        world.pass_time(1)
        clusters |= {one["metadata"]["name"] for one in world.cluster.list("RayCluster")}
    status = world.get("RayJob")["status"]
    assert (status["jobDeploymentStatus"], status["failed"], len(clusters)) == ("Failed", 3, 3)


def test_a_job_set_that_ended_goes_after_its_time_to_live(world):
    pod = world.template("j", restart="Never", annotations={RUN: "30"})
    entry = {"name": "w", "replicas": 1, "template": {"spec": {"template": pod}}}
    world.add("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [entry], "ttlSecondsAfterFinished": 100})
    world.pass_time(120)
    assert world.conditions("JobSet")["Completed"] == "True"
    world.pass_time(20)
    assert world.cluster.list("JobSet") == [] == world.pods()


def train_job(world, **spec):
    node = {"name": "node", "template": {"spec": {"template": world.template("node", restart="Never")}}}
    world.cluster.create({
        "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "ClusterTrainingRuntime", "metadata": {"name": "torch"},
        "spec": {"template": {"metadata": {"labels": {"of": "runtime"}}, "spec": {"replicatedJobs": [node]}}},
    })  # fmt: skip
    return world.add("trainer.kubeflow.org/v1alpha1", "TrainJob", {"runtimeRef": {"name": "torch"}, **spec})


def test_a_train_job_past_its_deadline_has_failed_and_has_no_pods(world):
    train_job(world, activeDeadlineSeconds=60, suspend=True)
    world.pass_time(100)
    world.cluster.patch("TrainJob", "a", "default", {"spec": {"suspend": False}})
    world.pass_time(50)
    assert len(world.pods()) == 1
    world.pass_time(20)
    assert world.conditions("TrainJob")["Failed"] == "True"
    assert world.pods() == [] == world.cluster.list("JobSet")


def test_runtime_patches_of_a_train_job_reach_its_pods(world):
    def patch(manager, selector, **labels):
        pods = {"metadata": {"labels": labels}, "spec": {"nodeSelector": selector}}
        job = {"name": "node", "template": {"spec": {"template": pods}}}
        template = {"metadata": {"labels": labels}, "spec": {"replicatedJobs": [job]}}
        return {"manager": manager, "trainingRuntimeSpec": {"template": template}}

    train_job(
        world,
        runtimePatches=[patch("one.io/a", {"zone": "a", "tier": "x"}), patch("two.io/b", {"zone": "b"}, queue="q")],
    )
    world.settle()
    (pod,) = world.pods(queue="q")
    assert pod["spec"]["nodeSelector"] == {"zone": "b", "tier": "x"}
    assert pod["spec"]["containers"][0]["image"] == "pause"
    assert world.cluster.list("JobSet")[0]["metadata"]["labels"] == {"of": "runtime", "queue": "q"}


def test_a_runtime_patch_for_a_job_that_the_runtime_does_not_have_is_told(world):
    template = {"spec": {"replicatedJobs": [{"name": "launcher"}]}}
    train_job(world, runtimePatches=[{"manager": "one.io/a", "trainingRuntimeSpec": {"template": template}}])
    world.settle()
    assert world.pods() == []
    (event,) = [one for one in world.cluster.list("Event") if one["reason"] == "RuntimePatchFailed"]
    assert "no replicated job 'launcher'; it has: node" in event["message"]


@pytest.mark.parametrize(
    ("within", "runs", "made"),
    [
        # The start that was missed at 00:10 is made up for at 00:11:41; the one after it is due at 00:15.
        ({}, 400, ["00:05", "00:10"]),
        ({"startingDeadlineSeconds": 120}, 400, ["00:05", "00:10"]),
        ({"startingDeadlineSeconds": 60}, 400, ["00:05"]),
        # Of several that were missed the last is.
        ({}, 800, ["00:05", "00:15"]),
    ],
)
def test_a_start_that_was_missed_follows_the_run_before(world, within, runs, made):
    template = world.template(restart="Never", annotations={RUN: str(runs)})
    world.add(
        "batch/v1",
        "CronJob",
        {
            "schedule": "*/5 * * * *",
            "concurrencyPolicy": "Forbid",
            "jobTemplate": {"spec": {"template": template}},
            **within,
        },
    )
    world.pass_time(14 * 60 if runs == 400 else 19 * 60 + 30)
    due = [
        job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"]
        for job in world.cluster.list("Job")
    ]
    assert [time[11:16] for time in due] == made


@pytest.mark.parametrize(
    ("policy", "state", "attempts"),
    [
        ({}, "FAILED", 1),
        ({"restartPolicy": {"type": "OnFailure", "onFailureRetries": 2, "onFailureRetryInterval": 10}}, "FAILED", 3),
        ({"restartPolicy": {"type": "OnFailure"}}, "FAILED", 1),
    ],
)
def test_a_spark_application_runs_again_as_its_restart_policy_says(world, policy, state, attempts):
    driver = {"memory": "1g", "annotations": {FAIL: "5"}}
    spec = {"image": "spark", "driver": driver, "executor": {"instances": 1}, **policy}
    world.add("sparkoperator.k8s.io/v1beta2", "SparkApplication", spec)
    world.pass_time(300)
    status = world.get("SparkApplication")["status"]
    assert (status["applicationState"]["state"], status["executionAttempts"]) == (state, attempts)
    assert [pod["status"]["phase"] for pod in world.pods()] == ["Failed"]


def test_a_spark_application_that_always_runs_begins_again(world):
    driver = {"memory": "1g", "annotations": {RUN: "20"}}
    spec = {"image": "spark", "driver": driver, "executor": {"instances": 1}, "restartPolicy": {"type": "Always"}}
    world.add("sparkoperator.k8s.io/v1beta2", "SparkApplication", spec)
    world.pass_time(100)
    assert world.get("SparkApplication")["status"]["executionAttempts"] > 3
    assert len(world.pods()) == 2


def test_a_spark_application_that_ended_goes_after_its_time_to_live(world):
    driver = {"memory": "1g", "annotations": {RUN: "20"}}
    spec = {"image": "spark", "driver": driver, "executor": {"instances": 1}, "timeToLiveSeconds": 100}
    world.add("sparkoperator.k8s.io/v1beta2", "SparkApplication", spec)
    world.pass_time(110)
    assert world.get("SparkApplication")["status"]["applicationState"]["state"] == "COMPLETED"
    world.pass_time(30)
    assert world.cluster.list("SparkApplication") == [] == world.pods()


# --- what an ended RayJob leaves --------------------------------------------------------------------------------------


def ended_ray_job(world, fails=False, **spec):
    notes = {FAIL: "5"} if fails else {RUN: "5"}
    submitter = world.template("s", restart="Never", annotations=notes)
    return ray_job(world, submitterPodTemplate=submitter, submitterConfig={"backoffLimit": 0}, **spec)


def rules(**seconds):
    return {"deletionRules": [
        {"policy": policy, "condition": {"jobStatus": "SUCCEEDED", "ttlSeconds": after}} for policy, after in seconds.items()
    ]}  # fmt: skip


def ray_pods(world):
    return len(world.pods(**{"ray.io/is-ray-node": "yes"}))


def test_rules_delete_workers_cluster_and_job_one_after_the_other(world):
    ended_ray_job(world, deletionStrategy=rules(DeleteWorkers=30, DeleteCluster=60, DeleteSelf=90))
    left = []
    for _ in range(4):
        world.pass_time(25)
        left.append((ray_pods(world), len(world.cluster.list("RayCluster")), len(world.cluster.list("RayJob"))))
        world.pass_time(5)
    assert left == [(3, 1, 1), (1, 1, 1), (0, 0, 1), (0, 0, 0)]


@pytest.mark.parametrize(("fails", "left"), [(False, 0), (True, 1)])
def test_a_policy_for_success_and_one_for_failure(world, fails, left):
    strategy = {"onSuccess": {"policy": "DeleteCluster"}, "onFailure": {"policy": "DeleteWorkers"}}
    ended_ray_job(world, fails, deletionStrategy=strategy)
    world.pass_time(60)
    assert ray_pods(world) == left


def test_a_job_on_a_cluster_that_it_selects_waits_for_it_and_leaves_it(world):
    submitter = world.template("s", restart="Never", annotations={RUN: "20"})
    spec = {"clusterSelector": {"ray.io/cluster": "mine"}, "submitterPodTemplate": submitter, "entrypoint": "x"}
    world.add("ray.io/v1", "RayJob", {**spec, "shutdownAfterJobFinishes": True})
    world.pass_time(10)
    assert world.pods() == []
    world.add("ray.io/v1", "RayCluster", {"headGroupSpec": {"template": world.template("h")}}, "mine")
    world.pass_time(10)
    assert len(world.pods()) == 2
    world.pass_time(60)
    assert world.get("RayJob")["status"]["jobStatus"] == "SUCCEEDED"
    assert ray_pods(world) == 1


@pytest.mark.parametrize(("cluster", "job", "more"), [
    ({"enableInTreeAutoscaling": True}, {}, "autoscaler"), ({}, {"submissionMode": "SidecarMode"}, "ray-job-submitter"),
])  # fmt: skip
def test_containers_that_the_operator_adds_to_the_head_ask_for_something(world, cluster, job, more):
    spec = {"headGroupSpec": {"template": world.template("h")}, **cluster}
    world.add("ray.io/v1", "RayJob", {"rayClusterSpec": spec, "entrypoint": "x", **job})
    world.settle()
    head = world.pods(**{"ray.io/node-type": "head"})[0]["spec"]["containers"]
    assert [one["name"] for one in head] == ["c", more]
    assert head[1]["resources"]["requests"]["cpu"] == "500m"


# --- rules of Jobs and JobSets ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "ends"),
    [
        ({"succeededIndexes": "0"}, True),
        ({"succeededCount": 1}, True),
        ({"succeededIndexes": "1-2", "succeededCount": 1}, False),
    ],
)
def test_a_job_whose_success_policy_is_met_frees_its_other_pods(world, rule, ends):
    """Only the pod of index 0 ends."""
    policy = {"rules": [rule]}
    world.job(completions=3, parallelism=3, completionMode="Indexed", successPolicy=policy)
    world.settle()
    first = world.pods(**{"batch.kubernetes.io/job-completion-index": "0"})[0]
    ended = {**first, "status": {**first["status"], "phase": "Succeeded"}}
    world.cluster.replace_status("Pod", first, ended["status"])
    world.pass_time(60)
    assert ("Complete" in world.conditions("Job")) == ends
    assert sum(pod["status"]["phase"] == "Running" for pod in world.pods()) == (0 if ends else 2)


def job_set(world, **policy):
    """Two replicated jobs; the pod of the second one fails."""

    def entry(name, notes):
        template = world.template(name, restart="Never", annotations=notes)
        return {"name": name, "replicas": 1, "template": {"spec": {"backoffLimit": 0, "template": template}}}

    jobs = [entry("good", {}), entry("bad", {FAIL: "5"})]
    world.add("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": jobs, "failurePolicy": policy})


@pytest.mark.parametrize(
    ("rule", "restarts"),
    [
        ({"action": "FailJobSet"}, 0),
        ({"action": "FailJobSet", "targetReplicatedJobs": ["good"]}, 2),
        ({"action": "FailJobSet", "onJobFailureReasons": ["BackoffLimitExceeded"]}, 0),
        ({"action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}, 2),
        ({"action": "FailJobSet", "onJobFailureMessagePatterns": ["backoff limit"]}, 0),
        ({"action": "RestartJobSet"}, 2),
    ],
)
def test_rules_decide_which_failure_ends_a_job_set(world, rule, restarts):
    job_set(world, maxRestarts=2, rules=[rule])
    world.pass_time(300)
    assert world.conditions("JobSet")["Failed"] == "True"
    assert world.get("JobSet")["status"].get("restarts", 0) == restarts
    assert all(pod["status"]["phase"] != "Running" for pod in world.pods())


def test_some_failures_do_not_count_towards_the_most_restarts(world):
    job_set(world, maxRestarts=1, rules=[{"action": "RestartJobSetAndIgnoreMaxRestarts"}])
    world.pass_time(120)
    assert "Failed" not in world.conditions("JobSet")
    assert world.get("JobSet")["status"]["restarts"] > 2


# --- Spark and Trainer ------------------------------------------------------------------------------------------------


def spark(world, **spec):
    full = {"image": "spark", "driver": {"memory": "1g"}, "executor": {}, **spec}
    world.add("sparkoperator.k8s.io/v1beta2", "SparkApplication", full)
    world.pass_time(20)
    return world.pods(**{"spark-role": "executor"})


@pytest.mark.parametrize(
    ("dynamic", "instances", "executors"),
    [
        ({"enabled": True, "initialExecutors": 3, "minExecutors": 1}, None, 3),
        ({"enabled": True, "minExecutors": 2}, 4, 4),
        ({"enabled": False, "initialExecutors": 3}, None, 1),
    ],
)
def test_dynamic_allocation_begins_with_the_largest_number(world, dynamic, instances, executors):
    executor = {} if instances is None else {"instances": instances}
    assert len(spark(world, dynamicAllocation=dynamic, executor=executor)) == executors


def test_what_runs_beside_an_executor_and_where_it_runs_is_the_applications(world):
    sidecar = {"name": "log", "image": "x", "resources": {"limits": {"cpu": "2"}}}
    before = {"name": "init", "image": "x"}
    executor = {"sidecars": [sidecar], "initContainers": [before], "nodeSelector": {"a": "own"}}
    (pod,) = spark(world, nodeSelector={"a": "app", "b": "app"}, executor=executor)
    assert [one["name"] for one in pod["spec"]["containers"]] == ["spark-kubernetes-executor", "log"]
    assert [one["name"] for one in pod["spec"]["initContainers"]] == ["init"]
    assert pod["spec"]["nodeSelector"] == {"a": "own", "b": "app"}


@pytest.mark.parametrize("field", ["podTemplateOverrides", "podSpecOverrides"])
def test_overrides_of_older_trainers_reach_the_pods(world, field):
    spec = {"nodeSelector": {"gpu": "h100"}, "containers": [{"name": "c", "env": [{"name": "A", "value": "b"}]}]}
    given = spec if field == "podSpecOverrides" else {"spec": spec, "metadata": {"labels": {"x": "y"}}}
    train_job(world, **{field: [{"targetJobs": [{"name": "node"}], **given}]})
    world.settle()
    (pod,) = world.pods()
    assert pod["spec"]["nodeSelector"] == {"gpu": "h100"}
    assert {"name": "A", "value": "b"} in pod["spec"]["containers"][0]["env"]
    assert (pod["metadata"]["labels"].get("x") == "y") == (field == "podTemplateOverrides")
