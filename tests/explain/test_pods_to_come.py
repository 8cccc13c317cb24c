"""Work whose pods are not there: about to be made, made by nobody here, failed for good, leaving, or waiting for something that is named."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kailab.errors import InputError
from kailab.explain.questions import ask
from kailab.explain.subject import min_member
from kailab.lab import Lab
from kailab.lab.answer import CauseCode
from kailab.whatif.simulation import When, simulate
from tests.builders import job
from tests.explain.building import queue


@pytest.fixture
def lab() -> Iterator[Lab]:
    with Lab.open() as lab:
        yield lab


def pod_spec(gpus: int = 1) -> dict[str, Any]:
    container = {"name": "c", "image": "pause", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    return {"schedulerName": "kai-scheduler", "containers": [container]}


def owned(api_version: str, kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "labels": {"kai.scheduler/queue": "team"}}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def deployment(name: str, replicas: int) -> dict[str, Any]:
    labels = {"app": name, "kai.scheduler/queue": "team"}
    template = {"metadata": {"labels": labels}, "spec": pod_spec()}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return owned("apps/v1", "Deployment", name, spec)


WORKSPACE = owned("workspace.devfile.io/v1alpha2", "DevWorkspace", "nb", {"template": {"spec": pod_spec()}})


def test_what_controllers_have_yet_to_make_may_run(lab: Lab) -> None:
    lab.apply([queue("team", quota=-1), deployment("web", 4), deployment("huge", 400)])
    soon = ask(lab, "Deployment", "web")
    assert (str(soon.verdict), soon.cause.code) == ("later", CauseCode.PODS_NOT_CREATED)
    assert "yet to act" in soon.cause.sentence
    huge = ask(lab, "Deployment", "huge")
    assert (str(huge.verdict), huge.cause.code) == ("never", CauseCode.NOT_ENOUGH_GPUS)
    assert not lab.cluster.list("Pod")


def test_a_pod_that_is_yet_to_be_grouped_may_run(lab: Lab) -> None:
    lab.apply(queue("team", quota=-1))
    lab.settle()
    metadata = {"name": "one", "labels": {"kai.scheduler/queue": "team"}}
    lab.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec()})
    assert str(ask(lab, "Pod", "one").verdict) == "later"


@pytest.mark.parametrize(
    "work",
    [
        WORKSPACE,
        owned("grove.io/v1alpha1", "PodGangSet", "nb", {"replicas": 1, "template": {"cliques": []}}),
        owned("tekton.dev/v1", "PipelineRun", "nb", {"pipelineRef": {"name": "main"}}),
        owned("trainer.kubeflow.org/v1alpha1", "TrainingRuntime", "nb", {"template": {"spec": {"replicatedJobs": []}}}),
    ],
    ids=lambda work: work["kind"],
)
def test_of_what_nobody_here_makes_pods_it_is_not_known_whether_it_would_run(lab: Lab, work: dict[str, Any]) -> None:
    lab.apply([queue("team", quota=-1), work])
    lab.settle()
    answer = ask(lab, work["kind"], "nb")
    assert (answer.verdict, answer.cause.code) == (None, CauseCode.NO_CONTROLLER)
    text = str(answer)
    assert "Never" not in text
    assert "wants" not in text


def test_simulate_can_t_tell_where_nobody_makes_the_pods(lab: Lab) -> None:
    lab.apply(queue("team", quota=-1))
    lab.settle()
    found = simulate(lab, WORKSPACE)
    assert (found.when, found.within(0)) == (When.UNKNOWN, False)
    # What is known to fail says more than what is not known.
    assert simulate(lab, WORKSPACE, job("huge", "team", 1, gpus=99)).when is When.NEVER


def test_pods_of_a_kind_that_shares_its_name_with_another_are_its_own(lab: Lab) -> None:
    template = {
        "metadata": {
            "labels": {"kai.scheduler/queue": "team"},
            "annotations": {"autoscaling.knative.dev/min-scale": "2"},
        },
        "spec": pod_spec(),
    }
    core = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "kn"}, "spec": {"ports": [{"port": 80}]}}
    lab.apply([queue("team", quota=-1), owned("serving.knative.dev/v1", "Service", "kn", {"template": template}), core])
    lab.settle()
    answer = ask(lab, "Service.serving.knative.dev", "kn")
    assert (str(answer.verdict), answer.running) == ("running", 2)
    with pytest.raises(InputError):
        ask(lab, "Service", "kn")  # the core one has no pods
    pod = lab.cluster.list("Pod")[0]["metadata"]["name"]
    assert str(ask(lab, "Pod", pod).verdict) == "running"


def test_a_job_that_has_failed_says_so_and_why(lab: Lab) -> None:
    failing = job("failing", "team", 2, annotations={"kailab.dev/fail": "5"})
    failing["spec"]["backoffLimit"] = 0
    lab.apply([queue("team", quota=-1), failing])
    lab.settle()
    lab.advance(60)
    answer = ask(lab, "Job", "failing")
    assert (str(answer.verdict), answer.cause.code) == ("failed", CauseCode.FAILED)
    assert "BackoffLimitExceeded" in answer.cause.sentence
    assert "do not exist" not in answer.head
    pods = [pod for pod in lab.cluster.list("Pod") if pod["status"]["phase"] == "Failed"]
    assert str(ask(lab, "Pod", pods[0]["metadata"]["name"]).verdict) == "failed"


def test_pods_that_are_replaced_only_once_they_have_terminated_are_named(lab: Lab) -> None:
    labels = {"app": "web", "kai.scheduler/queue": "team"}
    template = {"metadata": {"labels": labels}, "spec": {**pod_spec(), "terminationGracePeriodSeconds": 86400}}
    spec = {"replicas": 2, "serviceName": "web", "selector": {"matchLabels": labels}, "template": template}
    lab.apply([queue("team", quota=-1), owned("apps/v1", "StatefulSet", "web", spec)])
    lab.settle()
    node = lab.cluster.list("Pod")[0]["spec"]["nodeName"]
    lab.fail_node(node)
    lab.advance(600)
    answer = ask(lab, "StatefulSet", "web", tried=False)
    assert answer.cause is not None
    assert answer.cause.sentence == (
        "StatefulSet web wants 2 pods, and none of them exist; "
        f"2 pods of it still terminate on {node}, which is not ready, so that they do not end."
    )


def test_terminating_pods_that_a_gang_waits_for_are_named_although_they_are_of_another_podgroup(lab: Lab) -> None:
    template = {"metadata": {"labels": {"kai.scheduler/queue": "team"}}, "spec": pod_spec(8)}
    leaders = {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": template}}
    group = owned("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "group", leaders)
    lab.apply([queue("team", quota=-1), group])
    lab.settle()
    node = lab.cluster.get("Pod", "group-0-1", "default")["spec"]["nodeName"]
    lab.fail_node(node)
    lab.delete("LeaderWorkerSet", "group")
    lab.settle()
    lab.apply(group)
    lab.settle()
    cause = ask(lab, "LeaderWorkerSet", "group", tried=False).cause
    assert cause is not None
    assert cause.sentence.endswith(
        "must start together, and 1 exists; "
        f"1 pod of it still terminates on {node}, which is not ready, so that they do not end."
    )


def test_a_job_that_has_reached_its_backoff_limit_has_failed_although_pods_of_it_still_terminate(lab: Lab) -> None:
    failing = job("failing", "team", 2)
    failing["spec"]["backoffLimit"] = 0
    failing["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 86400
    lab.apply([queue("team", quota=-1), failing])
    lab.settle()
    lab.fail_node(lab.cluster.list("Pod")[0]["spec"]["nodeName"])
    lab.advance(600)
    answer = ask(lab, "Job", "failing")
    assert lab.cluster.get("Job", "failing", "default")["status"]["terminating"] > 0
    assert (str(answer.verdict), answer.cause.code) == ("failed", CauseCode.FAILED)


def test_a_pod_that_leaves_exists(lab: Lab) -> None:
    web = deployment("web", 2)
    web["spec"]["strategy"] = {"type": "Recreate"}
    lab.apply([queue("team", quota=-1), web])
    lab.settle()
    for pod in lab.cluster.list("Pod"):
        lab.patch("Pod", pod["metadata"]["name"], {"metadata": {"finalizers": ["example.com/hold"]}})
    web["spec"]["template"]["spec"]["containers"][0]["image"] = "new"
    lab.apply(web)
    lab.settle()
    leaving = [pod for pod in lab.cluster.list("Pod") if pod["metadata"].get("deletionTimestamp")]
    answer = ask(lab, "Deployment", "web")
    assert len(leaving) == 2
    assert "2 leave" in answer.head
    assert "not exist" not in answer.head
    assert str(answer.verdict) == "later"


def test_pods_that_leave_a_node_that_is_not_ready_stay(lab: Lab) -> None:
    web = deployment("web", 2)
    web["spec"]["strategy"] = {"type": "Recreate"}
    lab.apply([queue("team", quota=-1), web])
    lab.settle()
    [node] = {pod["spec"]["nodeName"] for pod in lab.cluster.list("Pod")}
    lab.fail_node(node)
    web["spec"]["template"]["spec"]["containers"][0]["image"] = "new"
    lab.apply(web)
    lab.settle()
    answer = ask(lab, "Deployment", "web")
    assert answer.cause is not None
    assert (str(answer.verdict), answer.cause.code) == ("never", CauseCode.PODS_NOT_CREATED)
    assert f"2 pods of it still terminate on {node}, which is not ready" in answer.cause.sentence
    assert answer.steps[0].do == f"Make node {node} ready again."
    lab.recover_node(node)
    lab.settle()
    assert ask(lab, "Deployment", "web").running == 2


def test_a_pod_that_nobody_makes_again_does_not_run_later(lab: Lab) -> None:
    alone = owned("v1", "Pod", "alone", pod_spec())
    alone["metadata"]["annotations"] = {"kailab.dev/termination-seconds": "600"}
    alone["spec"]["terminationGracePeriodSeconds"] = 1000
    lab.apply([queue("team", quota=-1), alone])
    lab.settle()
    lab.delete("Pod", "alone")
    lab.settle()
    answer = ask(lab, "Pod", "alone")
    assert str(answer.verdict) == "never"
    assert answer.cause.sentence == "Pod alone is being deleted, and nothing makes it again."


def test_a_trainjob_names_the_runtime_that_it_waits_for(lab: Lab) -> None:
    lab.apply(
        [
            queue("team", quota=-1),
            owned("trainer.kubeflow.org/v1alpha1", "TrainJob", "t", {"runtimeRef": {"name": "absent"}}),
        ]
    )
    lab.settle()
    answer = ask(lab, "TrainJob", "t")
    assert (str(answer.verdict), answer.cause.code) == ("never", CauseCode.PODS_NOT_CREATED)
    assert "'absent' not found" in answer.cause.sentence
    assert "wants no pods" not in answer.cause.sentence


def test_of_subgroups_of_which_some_are_enough_the_smallest_must_start() -> None:
    leaves = [{"name": "a", "minMember": 2}, {"name": "b", "minMember": 3}]
    assert min_member({"spec": {"subGroups": leaves}}) == 5
    assert min_member({"spec": {"subGroups": leaves, "minSubGroup": 1}}) == 2
    nested = [
        {"name": "left", "minSubGroup": 1}, {"name": "right"},
        {"name": "a", "parent": "left", "minMember": 2}, {"name": "b", "parent": "left", "minMember": 3},
        {"name": "c", "parent": "right", "minMember": 4}, {"name": "d", "parent": "right", "minMember": 1},
    ]  # fmt: skip
    assert min_member({"spec": {"subGroups": nested}}) == 7
    assert min_member({"spec": {"subGroups": nested, "minSubGroup": 1}}) == 2
    assert min_member({"spec": {"minMember": 3}}) == 3
