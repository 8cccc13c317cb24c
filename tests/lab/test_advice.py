"""What is worth saying of work that every API server accepts and KAI treats in another way than it looks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kailab.fleet.reading import read_fleet
from kailab.lab import Lab


@pytest.fixture
def advised(lab, queue):
    """The warnings at applying objects, in a lab with the queue ``a``."""
    lab.apply(queue("a", 8))
    return lambda *objects, **how: lab.apply(list(objects), **how).warnings


def _class(name: str, value: int) -> dict[str, Any]:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}


def _of_class(work: dict[str, Any], name: str) -> dict[str, Any]:
    work["spec"]["template"]["spec"]["priorityClassName"] = name
    return work


def test_a_class_of_100_is_said_to_make_work_non_preemptible(advised, job) -> None:
    (said,) = advised(_class("background", 100), _of_class(job("train", "a", 2), "background"))
    assert "spec.template.spec.priorityClassName: 'background' has the value 100" in said
    assert "non-preemptible" in said
    assert "kai.scheduler/preemptibility: preemptible" in said


def test_a_class_is_found_in_the_cluster_and_told_once(advised, job) -> None:
    assert advised(_class("background", 100)) == []
    assert len(advised(_of_class(job("x", "a", 1), "background"), _of_class(job("y", "a", 1), "background"))) == 1


def test_a_class_named_by_label_and_by_a_podgroup(advised, job) -> None:
    group = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"queue": "a", "minMember": 1, "priorityClassName": "high"},
    }
    said = advised(
        _class("high", 200), _class("top", 300), job("x", "a", 1, labels={"priorityClassName": "top"}), group
    )
    assert [text.partition(": 'top'")[1] or text.partition(": 'high'")[1] for text in said] == [": 'top'", ": 'high'"]


def test_a_class_in_a_replica_of_a_training_job(advised) -> None:
    pod = {
        "schedulerName": "kai-scheduler",
        "priorityClassName": "background",
        "containers": [{"name": "pytorch", "image": "x"}],
    }
    training = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "t", "labels": {"kai.scheduler/queue": "a"}},
        "spec": {"pytorchReplicaSpecs": {"Master": {"replicas": 1, "template": {"spec": pod}}}},
    }
    (said,) = advised(_class("background", 100), training)
    assert "spec.pytorchReplicaSpecs.Master.template.spec.priorityClassName" in said


def test_nothing_is_said_of_classes_that_are_as_they_look(advised, job) -> None:
    assert advised(_class("low", 99), _of_class(job("low", "a", 1), "low")) == []
    assert advised(_of_class(job("kai", "a", 1), "inference")) == []
    meant = {"kai.scheduler/preemptibility": "non-preemptible"}
    assert advised(_class("high", 500), _of_class(job("meant", "a", 1, labels=meant), "high")) == []
    stranger = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"priorityClassName": "high", "containers": [{"name": "main", "image": "x"}]},
    }
    (told,) = advised(stranger)
    assert "high" not in told


def test_pods_that_nobody_places_here_are_told(advised) -> None:
    stranger = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "main", "image": "x"}]},
    }
    assert advised(stranger) == [
        "Pod/p: spec.schedulerName: names no scheduler of this lab, so no scheduler places its pods: name kai-scheduler (and a queue, "
        "by the label kai.scheduler/queue), or open the lab with --scheduler kailab+kube-scheduler (kube-scheduler places them, as in a "
        "cluster) or --adopt-default-scheduler (kailab's does)"
    ]


POD = {"schedulerName": "nobody", "priorityClassName": "unheard", "containers": [{"name": "c", "image": "x"}]}
CLIQUES = {"cliques": [{"name": "a", "spec": {"roleName": "a", "replicas": 1, "podSpec": POD}}]}
GRAPH = {"services": {"a": {"extraPodSpec": {**POD, "mainContainer": {"image": "x"}, "containers": []}}}}
WORK = {"entrypoint": "a", "schedulerName": "nobody", "podPriorityClassName": "unheard",
        "templates": [{"name": "a", "container": {"image": "x"}}, {"name": "b", "container": {"image": "x"}}]}  # fmt: skip


@pytest.mark.parametrize(
    ("api_version", "kind", "spec", "path"),
    [
        ("grove.io/v1alpha1", "PodCliqueSet", {"replicas": 1, "template": CLIQUES}, "spec.template.cliques[0].spec.podSpec."),
        ("argoproj.io/v1alpha1", "Workflow", WORK, "spec."),
        ("serving.kserve.io/v1beta1", "InferenceService", {"predictor": POD}, "spec.predictor."),
        ("nvidia.com/v1alpha1", "DynamoGraphDeployment", GRAPH, "spec.services.a.extraPodSpec."),
        ("sparkoperator.k8s.io/v1beta2", "SparkApplication",
         {"type": "Python", "mainApplicationFile": "x", "driver": {"schedulerName": "nobody", "priorityClassName": "unheard"}}, "spec.driver."),
    ],
)  # fmt: skip
def test_pods_are_looked_into_whatever_form_their_kind_gives_them(lab, api_version, kind, spec, path) -> None:
    said = lab.apply({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, "spec": spec}).warnings
    assert sum(f"{path}schedulerName: 'nobody': no scheduler of this name" in text for text in said) == 1
    assert sum("there is no PriorityClass 'unheard'" in text for text in said) == 1


def test_work_in_kais_own_namespace(advised, job) -> None:
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kai-scheduler"}}
    (said,) = advised(space, job("x", "a", 1), namespace="kai-scheduler")
    assert "kai-scheduler is KAI's own namespace" in said
    assert "use another namespace" in said
    assert advised(job("y", "a", 1)) == []


def test_replicas_that_name_no_scheduler_and_a_queue_that_is_not_there(advised) -> None:
    training = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "t"},
        "spec": {
            "pytorchReplicaSpecs": {
                "Worker": {
                    "replicas": 1,
                    "template": {
                        "metadata": {"labels": {"kai.scheduler/queue": "typo"}},
                        "spec": {"containers": [{"name": "pytorch", "image": "x"}]},
                    },
                }
            }
        },
    }
    said = "\n".join(advised(training))
    assert "spec.pytorchReplicaSpecs.Worker.template.spec.schedulerName: is missing" in said
    assert "no queue 'typo'" in said


def test_kube_scheduler_has_no_such_rules(queue, job) -> None:
    with Lab.open("lesson", scheduler="kube-scheduler") as lab:
        assert lab.apply([queue("a", 8), _class("b", 100), _of_class(job("x", "a", 1), "b")]).warnings == []


@pytest.fixture
def two_vendors(queue):
    """A lab with a node of each vendor, and the queue ``a``."""
    pools = [
        {"name": name, "count": 1, "gpus": 8, "gpuModel": name, "gpuVendor": vendor, "cpu": 64, "memory": "1Ti"}
        for name, vendor in (("h100", "nvidia"), ("mi300x", "amd"))
    ]
    with Lab.open(
        read_fleet(json.dumps({"apiVersion": "kailab.dev/v1", "kind": "Fleet", "name": "f", "pools": pools}))
    ) as lab:
        lab.apply(queue("a", 8))
        yield lab


@pytest.mark.parametrize(("asked", "other"), [("amd.com/gpu", "h100-0"), ("nvidia.com/gpu", "mi300x-0")])
def test_gpus_of_one_vendor_may_be_had_of_the_other(two_vendors, job, asked, other) -> None:
    work = job("x", "a", 1)
    pod = work["spec"]["template"]["spec"]
    pod["containers"][0]["resources"] = {"limits": {asked: 1}}
    (said,) = two_vendors.apply([work]).warnings
    assert f"asks for {asked} but selects no nodes" in said
    assert other in said
    pod["nodeSelector"] = {"kubernetes.io/hostname": "h100-0" if other == "mi300x-0" else "mi300x-0"}
    work["metadata"]["name"] = "y"
    assert two_vendors.apply([work]).warnings == []


def test_where_all_nodes_are_of_one_vendor_there_is_nothing_to_say(advised, job) -> None:
    assert advised(job("x", "a", 1)) == []


def _pod(name: str, named: dict[str, str], **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "x"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": named},
        "spec": {"schedulerName": "kai-scheduler", "containers": containers, **spec},
    }


def test_spreading_over_a_topology_has_no_effect_under_kai(advised) -> None:
    spread = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]
    (said,) = advised(_pod("p", {"kai.scheduler/queue": "a"}, topologySpreadConstraints=spread))
    assert "Pod/p: spec.topologySpreadConstraints: has no effect: KAI does not spread pods by it" in said


def test_the_label_of_an_older_kai_is_told(advised) -> None:
    (said,) = advised(_pod("old", {"runai/queue": "a"}))
    assert "metadata.labels[runai/queue]: KAI reads it no longer" in said
    assert advised(_pod("both", {"runai/queue": "a", "kai.scheduler/queue": "a"})) == []
    (said,) = advised(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "labels": {"runai/queue": "a"}}}
    )
    assert "Namespace/n: metadata.labels[runai/queue]" in said


def test_quotas_beyond_the_nodes_are_told_at_the_top_too(lab, queue) -> None:
    assert lab.apply(queue("a", 16)).warnings == []
    (said,) = lab.apply(queue("b", 32)).warnings
    assert (
        "Queue/b: spec.resources.gpu.quota: quotas guarantee 48 GPUs in all (a, b), more than the 32 of all nodes"
        in said
    )
    assert lab.apply(queue("b", 8)).warnings == []


def test_a_queue_without_a_bound_guarantees_what_those_below_it_do(lab, queue) -> None:
    lab.apply(queue("root", -1))
    (said,) = lab.apply(queue("a", 20, parent="root"), queue("b", 20, parent="root")).warnings
    assert "quotas guarantee 40 GPUs in all (a, b)" in said


def _pod_with(name: str, **metadata: Any) -> dict[str, Any]:
    spec = {"schedulerName": "kai-scheduler", "containers": [{"name": "c", "image": "x"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


def test_of_pods_of_a_podgroup_that_a_user_made_its_queue_counts(advised) -> None:
    """Neither what their labels name nor that they have none keeps them pending; that its own queue is not there does."""
    group = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": "hand"}}
    notes = {"pod-group-name": "hand"}
    pods = [
        _pod_with("h0", labels={"kai.scheduler/queue": "nowhere"}, annotations=notes),
        _pod_with("h1", annotations=notes),
    ]
    assert advised({**group, "spec": {"queue": "a", "minMember": 2}}, *pods) == []
    (said,) = advised({**group, "metadata": {"name": "astray"}, "spec": {"queue": "nowhere", "minMember": 1}})
    assert "spec.queue: there is no queue 'nowhere'" in said


def test_a_runtime_is_no_work_and_stays_pending_by_no_label(advised) -> None:
    pod = {"schedulerName": "kai-scheduler", "containers": [{"name": "node", "image": "x"}]}
    step = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    role = {"name": "node", "template": {"metadata": {"labels": step}, "spec": {"template": {"spec": pod}}}}
    kinds = {"apiVersion": "trainer.kubeflow.org/v1alpha1"}
    spec = {"mlPolicy": {"numNodes": 1, "torch": {}}, "template": {"spec": {"replicatedJobs": [role]}}}
    runtime = {**kinds, "kind": "ClusterTrainingRuntime", "metadata": {"name": "r"}, "spec": spec}
    train = {**kinds, "kind": "TrainJob", "metadata": {"name": "t", "labels": {"kai.scheduler/queue": "a"}}}
    assert advised(runtime, {**train, "spec": {"runtimeRef": {"name": "r"}}}) == []


def test_a_namespace_may_say_the_queue_of_everything_in_it(advised) -> None:
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "labels": {"runai/queue": "a"}}}
    assert not [text for text in advised(space, _pod_with("one", namespace="team")) if "stays pending" in text]
    (said,) = advised(_pod_with("two"))
    assert "default-queue" in said


def test_what_is_no_work_or_another_schedulers_stays_pending_by_no_label(advised) -> None:
    label = {"kai.scheduler/queue": "nowhere"}
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "labels": label}}
    other = _pod_with("other", labels=label)
    other["spec"]["schedulerName"] = "volcano"
    assert not [text for text in advised(settings, other) if "stays pending" in text]


def test_a_queue_of_a_knative_service_that_its_revision_lacks_is_told(lab, queue) -> None:
    service = {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": {"name": "web"}}
    service["metadata"]["labels"] = {"kai.scheduler/queue": "a"}
    pod = {"schedulerName": "kai-scheduler", "containers": [{"image": "x"}]}
    (notice,) = lab.apply(queue("a", 8), {**service, "spec": {"template": {"spec": pod}}}).notices
    assert notice.where.field == "metadata.labels[kai.scheduler/queue]"
    labelled = {"metadata": {"labels": service["metadata"]["labels"]}, "spec": pod}
    assert not lab.apply({**service, "spec": {"template": labelled}}).notices


@pytest.mark.parametrize(
    ("field", "key", "whose"),
    [
        ("labels", "kueue.x-k8s.io/queue-name", "Kueue, where it runs, keeps the work suspended"),
        ("annotations", "scheduling.volcano.sh/group-name", "is for Volcano"),
        ("labels", "scheduling.x-k8s.io/pod-group", "is for the coscheduling plugin"),
    ],
)
def test_queues_and_gangs_of_other_schedulers_are_told(advised, job, field, key, whose) -> None:
    work = job("x", "a", 1)
    work["metadata"].setdefault(field, {})[key] = "mine"
    (said,) = advised(work)
    assert f"metadata.{field}[{key}]" in said
    assert whose in said
