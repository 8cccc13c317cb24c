"""Names of objects that are in no manifest and not in the lab, told when what names them is applied."""

from __future__ import annotations

from typing import Any

import pytest

from kailab.lab import Lab

CLAIM = {"storageClassName": "fast", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
TOLD = "there is no StorageClass 'fast'; here pods that use the claim run without a volume; in a cluster the claim gets no volume"


def claim(name: str = "c", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": {**CLAIM, **spec}}


def template(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "x"}], **spec}}


def stateful_set() -> dict[str, Any]:
    claims = [{"metadata": {"name": "data"}, "spec": CLAIM}]
    selected = {"selector": {"matchLabels": {"app": "a"}}, "template": template()}
    spec = {"replicas": 0, "serviceName": "s", "volumeClaimTemplates": claims, **selected}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s"}, "spec": spec}


def leader_worker_set() -> dict[str, Any]:
    pods = {
        "size": 1,
        "workerTemplate": template(),
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": CLAIM}],
    }
    spec = {"replicas": 0, "leaderWorkerTemplate": pods}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "l"},
        "spec": spec,
    }


def with_ephemeral_volume() -> dict[str, Any]:
    volumes = [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": CLAIM}}}]
    job = {"suspend": True, "template": template(restartPolicy="Never", volumes=volumes)}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": job}


def warnings(*objects: dict[str, Any]) -> list[str]:
    with Lab.open("lesson") as lab:
        return [text for text in lab.apply(*objects).warnings if "StorageClass" in text]


@pytest.mark.parametrize(
    ("obj", "field"),
    [
        (claim(), "spec.storageClassName"),
        (stateful_set(), "spec.volumeClaimTemplates[0].spec.storageClassName"),
        (leader_worker_set(), "spec.leaderWorkerTemplate.volumeClaimTemplates[0].spec.storageClassName"),
        (
            with_ephemeral_volume(),
            "spec.template.spec.volumes[0].ephemeral.volumeClaimTemplate.spec.storageClassName",
        ),
    ],
)
def test_a_storage_class_that_is_not_there_is_told_once(obj, field):
    again = claim("again")
    (told,) = [text for text in warnings(obj, again) if f"{field}: {TOLD}" in text]
    assert "run without a volume" in told
    assert len(warnings(obj, again)) == 1


def test_one_that_is_there_or_comes_beside_it_and_a_volume_that_is_named_need_no_word():
    made = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "fast"},
        "provisioner": "example.com/disk",
    }
    assert not [text for text in warnings(claim(), made) if TOLD in text]
    assert not [text for text in warnings(claim(volumeName="pv-1")) if TOLD in text]
    assert not [text for text in warnings(claim(storageClassName="")) if TOLD in text]


def test_a_train_job_whose_runtime_is_not_there_is_told(lab) -> None:
    def train_job(work: str, **ref: str) -> dict[str, Any]:
        return {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": work}, "spec": {"runtimeRef": ref}}  # fmt: skip

    runtime = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "torch"},
        "spec": {"template": {"spec": {"replicatedJobs": []}}},
    }
    (said,) = lab.apply(train_job("t", name="torch")).warnings
    assert "TrainJob/t: spec.runtimeRef.name: there is no ClusterTrainingRuntime 'torch'" in said
    assert lab.apply(train_job("t", name="torch"), runtime).warnings == []
    (said,) = lab.apply(train_job("own", name="torch", kind="TrainingRuntime")).warnings
    assert "there is no TrainingRuntime 'torch'" in said


def ray_job() -> dict[str, Any]:
    spec = {"entrypoint": "x", "clusterSelector": {"ray.io/cluster": "mine"}}
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "a"}, "spec": spec}


def workflow(**template: Any) -> dict[str, Any]:
    spec = {"entrypoint": "main", "templates": [{"name": "main", **template}]}
    return {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": "a"}, "spec": spec}


def service(**model: Any) -> dict[str, Any]:
    spec = {"predictor": {"model": {"modelFormat": {"name": "sklearn"}, **model}}}
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": "a"},
        "spec": spec,
    }


REF = {"name": "shared", "template": "t", "clusterScope": True}


@pytest.mark.parametrize(
    ("obj", "field", "lacking"),
    [
        (ray_job(), "spec.clusterSelector", "RayCluster 'mine'"),
        (workflow(steps=[[{"name": "s", "templateRef": REF}]]), "templates[0].steps[0][0].templateRef.name", "ClusterWorkflowTemplate 'shared'"),
        (workflow(dag={"tasks": [{"name": "s", "templateRef": REF}]}), "dag.tasks[0].templateRef.name", "ClusterWorkflowTemplate 'shared'"),
        (service(runtime="own"), "predictor.model.runtime", "ClusterServingRuntime 'own'"),
        (service(modelFormat={"name": "own"}), "predictor.model.modelFormat.name", "the model format 'own'"),
    ],
)  # fmt: skip
def test_an_object_without_which_no_pods_are_made_is_told_until_it_is_there(lab, obj, field, lacking) -> None:
    (said,) = [text for text in lab.apply(obj).warnings if lacking in text]
    assert field in said
    there = [
        {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "mine"},
         "spec": {"headGroupSpec": {"template": {"spec": {"containers": [{"name": "head", "image": "x"}]}}}}},
        {"apiVersion": "argoproj.io/v1alpha1", "kind": "ClusterWorkflowTemplate", "metadata": {"name": "shared"}, "spec": {}},
        {"apiVersion": "serving.kserve.io/v1alpha1", "kind": "ClusterServingRuntime", "metadata": {"name": "own"},
         "spec": {"containers": [], "supportedModelFormats": [{"name": "own", "autoSelect": True}, {"name": "sklearn"}]}},
    ]  # fmt: skip
    assert not [text for text in lab.apply(obj, *there).warnings if lacking in text]


@pytest.mark.parametrize(
    ("named", "lacking"),
    [({}, "there is no default StorageClass"), ({"storageClassName": ""}, "there is no PersistentVolume")],
)
def test_a_claim_that_names_no_class_is_told_where_nothing_would_give_it_a_volume(named, lacking):
    spec = {key: value for key, value in CLAIM.items() if key != "storageClassName"}
    obj = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": {**spec, **named}}
    notes = {"storageclass.kubernetes.io/is-default-class": "true"}
    made = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "example.com/disk"}
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "spec": {"capacity": {"storage": "1Gi"}}}
    beside = [{**made, "metadata": {"name": "usual", "annotations": notes}}, {**volume, "metadata": {"name": "v"}}]
    with Lab.open("lesson") as lab:
        (told,) = [text for text in lab.apply(obj).warnings if lacking in text]
        assert "run without a volume" in told
        assert not [text for text in lab.apply(obj, *beside).warnings if lacking in text]
        assert not [text for text in lab.apply(obj).warnings if lacking in text]


def test_a_node_that_is_not_there_is_told_also_where_a_template_names_it():
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "a"}}, "template": template(nodeName="ghost")}
    work = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
    with Lab.open("lesson") as lab:
        (told,) = [text for text in lab.apply(work).warnings if "there is no node 'ghost'" in text]
        assert "spec.template.spec.nodeName" in told


def test_a_secret_that_a_container_needs_and_that_is_not_there_is_told():
    needed = {"valueFrom": {"secretKeyRef": {"name": "token", "key": "k"}}}
    spec = {
        "containers": [
            {"name": "c", "image": "x", "env": [{"name": "A", **needed}], "volumeMounts": [{"name": "m", "mountPath": "/m"}],
             "envFrom": [{"secretRef": {"name": "maybe", "optional": True}}]}
        ],
        "volumes": [{"name": "m", "secret": {"secretName": "mounted"}}, {"name": "u", "secret": {"secretName": "unmounted"}}],
    }  # fmt: skip
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    token = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token"}}
    with Lab.open("lesson") as lab:
        fields = [n.where.field for n in lab.apply(pod).notices if "no Secret" in n.message]
        assert fields == ["spec.containers[0].env[0].valueFrom.secretKeyRef.name", "spec.volumes[0].secret.secretName"]
        assert len([n for n in lab.apply(token, pod).notices if "no Secret" in n.message]) == 1


def test_explain_says_why_argo_ended_a_workflow_without_pods():
    spec = {"workflowTemplateRef": {"name": "gone"}}
    workflow = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": "w"}, "spec": spec}
    with Lab.open("lesson") as lab:
        lab.apply(workflow)
        lab.settle()
        assert "there is no workflow template 'gone'" in str(lab.explain_workload("Workflow", "w"))
