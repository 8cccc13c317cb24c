"""Job, CronJob, JobSet."""

from __future__ import annotations

import pytest

from kailab.errors import Invalid
from kailab.model.kinds import kind_key
from kailab.model.validation import validate
from kailab.workloads import jobs as indexes

RUN = "kailab.dev/run-seconds"
FAIL = "kailab.dev/fail"


def test_job_runs_to_completion(world):
    world.job(annotations={RUN: "60"}, parallelism=2, completions=5)
    world.settle()
    assert len(world.pods()) == 2
    pod = world.pods()[0]
    assert pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "a"
    assert pod["metadata"]["labels"]["job-name"] == "a"
    status = world.get("Job")["status"]
    assert (status["active"], status["ready"]) == (2, 2)
    world.pass_time(70)
    assert world.get("Job")["status"]["succeeded"] == 2
    world.pass_time(200)
    status = world.get("Job")["status"]
    assert status["succeeded"] == 5
    assert "active" not in status
    assert world.conditions("Job") == {"SuccessCriteriaMet": "True", "Complete": "True"}
    assert {pod["status"]["phase"] for pod in world.pods()} == {"Succeeded"}
    assert not any(pod["metadata"].get("finalizers") for pod in world.pods())


def test_parallel_job_without_completions_gets_all_its_pods(world):
    world.job(parallelism=4)
    world.settle()
    assert len(world.pods()) == 4


def test_evicted_pod_counts_as_failed_and_waits_for_its_replacement(world):
    world.job(parallelism=2, completions=2, backoffLimit=1000)
    world.settle()
    start = world.cluster.now()
    world.cluster.evict("default", world.names()[0], "Preempted", "")
    world.settle(until=start + 5)
    assert world.get("Job")["status"]["failed"] == 1
    assert len(world.pods()) == 1, "not before the back-off of ten seconds"
    world.settle()
    assert len(world.pods()) == 2
    assert world.cluster.now() - start == pytest.approx(11, abs=1)


def test_back_off_doubles_with_each_failure(world):
    world.job(annotations={FAIL: "5"}, backoffLimit=3)
    world.settle()
    gaps = []
    for _ in range(3):
        world.pass_time(6)
        failed_at = world.cluster.now()
        world.settle()
        gaps.append(round(world.cluster.now() - failed_at))
    assert gaps[1] > 1.5 * gaps[0]
    assert gaps[2] > 1.5 * gaps[1]


@pytest.mark.parametrize("resumed", [False, True])
def test_back_off_survives_a_resumed_lab(world, resumed):
    world.job(parallelism=1, backoffLimit=1000)
    world.settle()
    for _ in range(3):
        world.cluster.evict("default", world.names()[0], "Preempted", "")
        world.settle()
    world.cluster.evict("default", world.names()[0], "Preempted", "")
    world.step()
    if resumed:
        world.resume()
    start = world.cluster.now()
    world.settle()
    assert world.cluster.now() - start == pytest.approx(81, abs=2)


def test_too_many_evictions_fail_the_job_as_a_whole(world):
    world.job(parallelism=8, completions=8)
    world.settle()
    for name in world.names()[:6]:
        world.cluster.evict("default", name, "Preempted", "")
    world.step()
    assert "Failed" not in world.conditions("Job")
    world.cluster.evict("default", world.names()[-1], "Preempted", "")
    world.settle()
    assert world.conditions("Job") == {"FailureTarget": "True", "Failed": "True"}
    assert world.get("Job")["status"]["conditions"][0]["reason"] == "BackoffLimitExceeded"
    assert world.pods() == []


def test_pod_failure_policy_can_pass_over_disruptions(world):
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    world.job(parallelism=2, backoffLimit=0, podFailurePolicy={"rules": [rule]})
    world.settle()
    world.cluster.evict("default", world.names()[0], "Preempted", "")
    world.step()
    assert len([p for p in world.pods() if "deletionTimestamp" not in p["metadata"]]) == 1, "replaced only once ended"
    world.settle()
    assert len(world.pods()) == 2
    assert "failed" not in world.get("Job")["status"]


def test_pod_failure_policy_can_fail_the_job_at_once(world):
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [137]}}
    world.job(annotations={FAIL: "5:OOMKilled"}, podFailurePolicy={"rules": [rule]})
    world.pass_time(10)
    assert world.get("Job")["status"]["conditions"][0]["reason"] == "PodFailurePolicy"


def test_indexed_job_replaces_the_index_that_was_lost(world):
    world.job(completions=3, parallelism=3, completionMode="Indexed")
    world.settle()
    by_index = {p["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"]: p for p in world.pods()}
    assert sorted(by_index) == ["0", "1", "2"]
    assert by_index["1"]["metadata"]["name"].startswith("a-1-")
    assert by_index["1"]["spec"]["hostname"] == "a-1"
    world.cluster.evict("default", by_index["1"]["metadata"]["name"], "Preempted", "")
    world.settle()
    again = sorted(p["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] for p in world.pods())
    assert again == ["0", "1", "2"]


def test_indexed_job_with_a_limit_per_index_loses_only_that_index(world):
    world.job(completions=2, parallelism=2, completionMode="Indexed", backoffLimitPerIndex=1)
    world.settle()
    for _ in range(2):
        (pod,) = [p for p in world.pods() if p["metadata"]["name"].startswith("a-0-")]
        world.cluster.evict("default", pod["metadata"]["name"], "Preempted", "")
        world.settle()
    assert world.get("Job")["status"]["failedIndexes"] == "0"
    assert [name[:4] for name in world.names()] == ["a-1-"]


def test_deadline_fails_the_job(world):
    world.job(activeDeadlineSeconds=100)
    world.pass_time(99)
    assert len(world.pods()) == 1
    world.pass_time(5)
    assert world.get("Job")["status"]["conditions"][0]["reason"] == "DeadlineExceeded"
    assert world.pods() == []


def test_suspended_job_has_no_pods_and_counts_no_failures(world):
    world.job(parallelism=2, suspend=True)
    world.settle()
    assert world.pods() == []
    world.cluster.patch("Job", "a", "default", {"spec": {"suspend": False}})
    world.settle()
    assert len(world.pods()) == 2
    world.cluster.patch("Job", "a", "default", {"spec": {"suspend": True}})
    world.settle()
    assert world.pods() == []
    assert "failed" not in world.get("Job")["status"]
    assert world.conditions("Job")["Suspended"] == "True"


def test_finished_job_goes_after_its_ttl(world):
    world.job(annotations={RUN: "10"}, ttlSecondsAfterFinished=100)
    world.pass_time(50)
    assert world.conditions("Job")["Complete"] == "True"
    world.pass_time(100)
    assert world.cluster.list("Job") == []
    assert world.pods() == []


def test_deleting_a_job_takes_its_pods_and_their_finalizers(world):
    world.job(parallelism=3)
    world.settle()
    world.cluster.delete("Job", "a", "default")
    world.settle()
    assert world.pods() == []


def test_on_failure_restarts_count_toward_the_limit(world):
    world.job(annotations={FAIL: "1"}, restart="OnFailure", backoffLimit=2)
    world.pass_time(120)
    assert world.get("Job")["status"]["conditions"][0]["reason"] == "BackoffLimitExceeded"


def test_names_go_on_after_a_resume(world):
    world.job(parallelism=2, backoffLimit=1000)
    world.settle()
    seen = set(world.names())
    for _ in range(3):
        world.resume()
        for name in world.names():
            world.cluster.evict("default", name, "Preempted", "")
        world.settle()
        assert not seen & set(world.names())
        seen |= set(world.names())


def test_cron_job_runs_on_its_schedule(world):
    job = {"spec": {"template": world.template(restart="Never", annotations={RUN: "30"})}}
    world.add("batch/v1", "CronJob", {"schedule": "*/10 * * * *", "jobTemplate": job, "successfulJobsHistoryLimit": 2})
    world.settle()
    assert world.cluster.list("Job") == []
    world.pass_time(600)
    (made,) = world.cluster.list("Job")
    assert made["metadata"]["name"] == f"a-{(1767225600 + 600) // 60}"
    assert world.get("CronJob")["status"]["active"][0]["name"] == made["metadata"]["name"]
    world.pass_time(3600)
    assert len(world.cluster.list("Job")) == 3, "two kept, one running"
    assert world.get("CronJob")["status"]["lastScheduleTime"] == "2026-01-01T01:10:00Z"


@pytest.mark.parametrize("missed", [1, 99, 100, 101, 1000])
def test_only_the_last_of_the_times_that_were_missed_is_made_up_for(world, missed):
    job = {"spec": {"template": world.template(restart="Never")}}
    world.add("batch/v1", "CronJob", {"schedule": "* * * * *", "suspend": True, "jobTemplate": job})
    world.pass_time(missed * 60 + 30)
    assert world.cluster.list("Job") == []
    world.cluster.patch("CronJob", "a", "default", {"spec": {"suspend": False}})
    world.settle()
    assert [job["metadata"]["name"] for job in world.cluster.list("Job")] == [f"a-{1767225600 // 60 + missed}"]
    world.pass_time(60)
    assert len(world.cluster.list("Job")) == 2


@pytest.mark.parametrize(("policy", "running"), [("Allow", 3), ("Forbid", 1), ("Replace", 1)])
def test_cron_job_concurrency(world, policy, running):
    job = {"spec": {"template": world.template(restart="Never")}}
    world.add("batch/v1", "CronJob", {"schedule": "* * * * *", "jobTemplate": job, "concurrencyPolicy": policy})
    world.pass_time(185)
    assert len(world.pods()) == running


def _job_set(world, **spec):
    def entry(name, replicas, parallelism, annotations=None, **more):
        pod = world.template(name, restart="Never", annotations=annotations)
        job = {"spec": {"parallelism": parallelism, "completions": parallelism, "backoffLimit": 0, "template": pod}}
        return {"name": name, "replicas": replicas, "template": job, **more}

    return entry, lambda *entries: world.add(
        "jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": list(entries), **spec}
    )


def test_job_set_makes_jobs_and_labels(world):
    entry, make = _job_set(world)
    make(entry("driver", 1, 1), entry("worker", 2, 3))
    world.settle()
    assert [j["metadata"]["name"] for j in world.cluster.list("Job")] == ["a-driver-0", "a-worker-0", "a-worker-1"]
    pod = world.pods(**{"job-name": "a-worker-1"})[0]
    labels = pod["metadata"]["labels"]
    assert labels["jobset.sigs.k8s.io/replicatedjob-name"] == "worker"
    assert labels["jobset.sigs.k8s.io/job-index"] == "1"
    assert labels["jobset.sigs.k8s.io/job-global-index"] == "2"
    assert labels["jobset.sigs.k8s.io/jobset-name"] == "a"
    assert len(world.pods()) == 7
    rows = {row["name"]: row for row in world.get("JobSet")["status"]["replicatedJobsStatus"]}
    assert rows["worker"]["ready"] == 2


def test_job_set_marks_jobs_and_pods_by_group_and_coordinator(world):
    """As JobSet v0.12.0 marks them: labels, and the same as annotations; its webhook adds the priority as a label."""
    entry, make = _job_set(world, coordinator={"replicatedJob": "driver", "podIndex": 1}, network={"subdomain": "sub"})
    make(
        entry("driver", 1, 2),
        entry("worker", 2, 1, groupName="g"),
        entry("more", 1, 1),
        entry("last", 1, 1, groupName="g"),
    )
    world.settle()
    prefix = "jobset.sigs.k8s.io/"
    jobs = {job["metadata"]["name"]: job["metadata"] for job in world.cluster.list("Job")}
    keys = ("group-name", "group-replicas", "job-group-index", "job-global-index")
    assert {name: tuple(job["labels"][prefix + key] for key in keys) for name, job in jobs.items()} == {
        "a-driver-0": ("default", "2", "0", "0"),
        "a-worker-0": ("g", "3", "0", "1"),
        "a-worker-1": ("g", "3", "1", "2"),
        "a-more-0": ("default", "2", "1", "3"),
        "a-last-0": ("g", "3", "2", "4"),
    }
    assert len({job["labels"][prefix + "job-key"] for job in jobs.values()}) == 5
    for pod in world.pods():
        labels, notes = pod["metadata"]["labels"], pod["metadata"]["annotations"]
        marks = {key: value for key, value in labels.items() if key.startswith(prefix)}
        assert marks[prefix + "coordinator"] == "a-driver-0-1.sub"
        assert marks.pop(prefix + "priority") == "0"
        assert marks.items() <= notes.items()


def test_job_set_in_order(world):
    entry, make = _job_set(world, startupPolicy={"startupPolicyOrder": "InOrder"})
    make(entry("first", 1, 1), entry("second", 1, 1))
    world.settle(bind=False)
    assert [j["metadata"]["name"] for j in world.cluster.list("Job")] == ["a-first-0"]
    world.settle()
    assert [j["metadata"]["name"] for j in world.cluster.list("Job")] == ["a-first-0", "a-second-0"]


@pytest.mark.parametrize(("status", "after"), [("Ready", 0), ("Complete", 30)])
def test_a_replicated_job_starts_when_the_one_before_it_is_ready_or_complete(world, status, after):
    entry, make = _job_set(world)
    make(entry("first", 1, 1, {RUN: "20"}), entry("second", 2, 1, dependsOn=[{"name": "first", "status": status}]))
    world.settle(bind=False)
    assert [job["metadata"]["name"] for job in world.cluster.list("Job")] == ["a-first-0"]
    world.settle()
    started = len(world.cluster.list("Job"))
    assert started == (3 if status == "Ready" else 1)
    world.pass_time(after)
    assert len(world.cluster.list("Job")) == 3


def _mounting(world, name, *claims):
    pod = world.template(name, restart="Never")
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": claim, "mountPath": f"/{claim}"} for claim in claims]
    return {"name": name, "replicas": 1, "template": {"spec": {"template": pod}}}


def _claim_policy(when_deleted, name, **metadata):
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    policy = {"templates": [{"metadata": {"name": name, **metadata}, "spec": spec}]}
    return {**policy, "retentionPolicy": {"whenDeleted": when_deleted}} if when_deleted else policy


def test_job_set_makes_claims_and_mounts_them_where_a_container_asks(world):
    policies = [_claim_policy(None, "data", labels={"x": "y"}), _claim_policy("Retain", "out")]
    _, make = _job_set(world, volumeClaimPolicies=policies)
    make(_mounting(world, "first", "data"), _mounting(world, "both", "data", "out"), _mounting(world, "none"))
    world.settle()
    claims = {claim["metadata"]["name"]: claim["metadata"] for claim in world.cluster.list("PersistentVolumeClaim")}
    assert claims["data-a"]["labels"] == {"x": "y", "jobset.sigs.k8s.io/jobset-name": "a"}
    assert [owner["name"] for owner in claims["data-a"]["ownerReferences"]] == ["a"]
    assert not claims["out-a"].get("ownerReferences")
    mounted = {
        pod["metadata"]["labels"]["jobset.sigs.k8s.io/replicatedjob-name"]: [
            volume["persistentVolumeClaim"]["claimName"] for volume in pod["spec"].get("volumes") or ()
        ]
        for pod in world.pods()
    }
    assert mounted == {"first": ["data-a"], "both": ["data-a", "out-a"], "none": []}
    world.cluster.delete("JobSet", "a", "default")
    world.settle()
    assert [claim["metadata"]["name"] for claim in world.cluster.list("PersistentVolumeClaim")] == ["out-a"]


def test_a_job_set_whose_claim_a_quota_refuses_makes_no_jobs_until_it_may(world):
    quota = {"hard": {"persistentvolumeclaims": "0"}}
    world.add("v1", "ResourceQuota", quota, "q")
    _, make = _job_set(world, volumeClaimPolicies=[_claim_policy("Delete", "data")])
    make(_mounting(world, "first", "data"))
    world.settle()
    assert world.cluster.list("Job") == []
    world.cluster.delete("ResourceQuota", "q", "default")
    world.settle()
    assert len(world.cluster.list("Job")) == 1


_READY = [{"name": "w", "status": "Ready"}]


@pytest.mark.parametrize(
    ("spec", "more", "field"),
    [
        ({}, {"dependsOn": [{"name": "x", "status": "Ready"}]}, "spec.replicatedJobs[1].dependsOn[0].name"),
        ({"startupPolicy": {"startupPolicyOrder": "InOrder"}}, {"dependsOn": _READY}, "spec.replicatedJobs[1].dependsOn"),
        ({}, {"groupName": "1st"}, "spec.replicatedJobs[1].groupName"),
        ({}, {"name": "b" * 61}, "spec.replicatedJobs[1].name"),
        ({"network": {"subdomain": "1st"}}, {}, "spec.network.subdomain"),
        ({"successPolicy": {"targetReplicatedJobs": ["x"]}}, {}, "spec.successPolicy.targetReplicatedJobs[0]"),
        ({"failurePolicy": {"rules": [{"action": "FailJobSet", "name": "1"}]}}, {}, "spec.failurePolicy.rules[0].name"),
        (
            {"failurePolicy": {"rules": [{"action": "FailJobSet", "onJobFailureReasons": ["Bored"]}]}},
            {},
            "spec.failurePolicy.rules[0].onJobFailureReasons[0]",
        ),
        ({"coordinator": {"replicatedJob": "x"}}, {}, "spec.coordinator.replicatedJob"),
        ({"coordinator": {"replicatedJob": "w", "jobIndex": 1}}, {}, "spec.coordinator.jobIndex"),
        ({"volumeClaimPolicies": [_claim_policy(None, "data")]}, {}, "spec.volumeClaimPolicies[0].templates[0].metadata.name"),
    ],
)  # fmt: skip
def test_a_job_set_that_the_webhook_refuses_is_refused(world, spec, more, field):
    entry, make = _job_set(world, **spec)
    with pytest.raises(Invalid) as caught:
        make(entry("w", 1, 1), {**entry("b", 1, 1), **more})
    assert caught.value.field == field


def test_a_job_set_from_before_a_rule_keeps_what_breaks_it(world):
    entry, make = _job_set(world, successPolicy={"targetReplicatedJobs": ["w"]})
    old = make(entry("w", 1, 1))
    odd = {**old, "spec": {**old["spec"], "successPolicy": {"targetReplicatedJobs": ["x"]}}}
    assert validate(odd, kind_key(odd), odd) == []
    assert validate(odd, kind_key(odd)) != []


def test_job_set_completes(world):
    entry, make = _job_set(world)
    make(entry("w", 2, 1, {RUN: "20"}))
    world.pass_time(40)
    assert world.conditions("JobSet") == {"Completed": "True"}


def test_job_set_starts_over_then_fails(world):
    entry, make = _job_set(world, failurePolicy={"maxRestarts": 1})
    make(entry("w", 1, 1, {FAIL: "5"}), entry("x", 1, 1))
    world.pass_time(8)
    assert world.get("JobSet")["status"]["restarts"] == 1
    assert {j["metadata"]["labels"]["jobset.sigs.k8s.io/restart-attempt"] for j in world.cluster.list("Job")} == {"1"}
    world.pass_time(20)
    assert world.conditions("JobSet") == {"Failed": "True"}
    assert not any(p["status"]["phase"] == "Running" for p in world.pods())


@pytest.mark.parametrize("ids", [[], [0], [0, 1], [0, 1, 2, 5], [3, 7, 8, 9]])
def test_indexes_round_trip(ids):
    assert indexes.parse_indexes(indexes.format_indexes(ids)) == ids


RACK = "example.com/rack"
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"


def test_pods_of_an_exclusive_job_follow_their_leader_into_its_domain(world):
    """As JobSet's webhook does it: affinities for the leader, a node selector for the others, which wait until the leader is on a node."""
    world.cluster.patch("Node", "n0", None, {"metadata": {"labels": {RACK: "r0"}}})
    entry, _ = _job_set(world)
    spec = {"replicatedJobs": [entry("w", 1, 3)]}
    world.add("jobset.x-k8s.io/v1alpha2", "JobSet", spec, annotations={EXCLUSIVE: RACK})
    world.settle(bind=False)
    (leader,) = world.pods()
    affinity = leader["spec"]["affinity"]
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    key = leader["metadata"]["labels"]["jobset.sigs.k8s.io/job-key"]
    (own,), (others,) = affinity["podAffinity"][required], affinity["podAntiAffinity"][required]
    assert own["topologyKey"] == others["topologyKey"] == RACK
    assert own["labelSelector"]["matchExpressions"][0]["values"] == [key]
    assert [each["operator"] for each in others["labelSelector"]["matchExpressions"]] == ["Exists", "NotIn", "In"]
    events = [event for event in world.cluster.list("Event") if event["reason"] == "FailedCreate"]
    assert RACK in events[0]["message"]
    world.settle()
    followers = [pod for pod in world.pods() if pod["metadata"]["uid"] != leader["metadata"]["uid"]]
    assert [pod["spec"]["nodeSelector"] for pod in followers] == [{RACK: "r0"}] * 2


def test_pods_of_an_exclusive_job_move_when_their_leader_starts_elsewhere(world):
    for name, rack in (("n0", "r0"), ("n1", "r1")):
        world.cluster.patch("Node", name, None, {"metadata": {"labels": {RACK: rack}}})
    entry, make = _job_set(world)
    job = entry("w", 1, 2)
    job["template"]["metadata"] = {"annotations": {EXCLUSIVE: RACK}}
    job["template"]["spec"]["backoffLimit"] = 6
    make(job)
    world.settle()
    world.cluster.delete("Pod", "a-w-0-0-" + world.names()[0].rpartition("-")[2], "default")
    world.settle(bind=False)
    (leader,) = (pod for pod in world.pods() if not pod["spec"].get("nodeName") and "affinity" in pod["spec"])
    world.cluster.bind("default", leader["metadata"]["name"], "n1")
    world.pass_time(60)
    running = [pod for pod in world.pods() if pod["status"]["phase"] == "Running"]
    assert [pod["spec"].get("nodeSelector") for pod in running if "affinity" not in pod["spec"]] == [{RACK: "r1"}]


def test_a_job_with_nodes_labelled_for_it_selects_and_tolerates_them(world):
    entry, _ = _job_set(world)
    notes = {EXCLUSIVE: RACK, "alpha.jobset.sigs.k8s.io/node-selector": "true"}
    world.add("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [entry("w", 1, 2)]}, annotations=notes)
    world.settle(bind=False)
    assert len(world.pods()) == 2
    for pod in world.pods():
        assert pod["spec"]["nodeSelector"] == {"alpha.jobset.sigs.k8s.io/namespaced-job": "default_a-w-0"}
        assert "alpha.jobset.sigs.k8s.io/no-schedule" in {each.get("key") for each in pod["spec"]["tolerations"]}
        assert "affinity" not in pod["spec"]
