"""Notebooks and InferenceServices: what their operators make of them."""

from __future__ import annotations

import pytest

from kailab.errors import Invalid

MODE = "serving.kserve.io/deploymentMode"


def notebook(world, **metadata):
    pod = {"schedulerName": "kai-scheduler", "containers": [{"name": "nb", "image": "x"}]}
    return world.add("kubeflow.org/v1", "Notebook", {"template": {"spec": pod}}, **metadata)


def test_a_notebook_is_a_stateful_set_of_one_pod_with_its_labels(world):
    notebook(world, labels={"kai.scheduler/queue": "team"}, annotations={"mine": "1", "notebooks.kubeflow.org/x": "2"})
    world.settle()
    (pod,) = world.pods(**{"kai.scheduler/queue": "team", "notebook-name": "a"})
    assert pod["metadata"]["name"] == "a-0"
    assert pod["metadata"]["annotations"] == {"mine": "1"}


def test_a_stopped_notebook_has_no_pod(world):
    notebook(world)
    for note, pods in (("2026-01-01T00:00:00Z", 0), (None, 1)):
        world.settle()
        patch = {"metadata": {"annotations": {"kubeflow-resource-stopped": note}}}
        world.cluster.patch("Notebook", "a", "default", patch)
        world.pass_time(60)
        assert len(world.pods()) == pods


def test_a_changed_notebook_has_a_new_pod(world):
    notebook(world)
    world.settle()
    pod = {"schedulerName": "kai-scheduler", "containers": [{"name": "nb", "image": "new"}]}
    world.cluster.patch("Notebook", "a", "default", {"spec": {"template": {"spec": pod}}})
    world.pass_time(60)
    assert world.pods()[0]["spec"]["containers"][0]["image"] == "new"


def inference_service(world, mode="RawDeployment", **spec):
    notes = {MODE: mode} if mode else {}
    return world.add("serving.kserve.io/v1beta1", "InferenceService", spec, annotations=notes)


def container(gpus=1):
    return {"image": "x", "resources": {"limits": {"nvidia.com/gpu": gpus}}}


@pytest.mark.parametrize("mode", ["RawDeployment", "Standard", "Serverless", None])
def test_each_component_has_the_pods_that_it_needs_at_least(world, mode):
    parts = {
        "predictor": {"minReplicas": 3, "containers": [container()]},
        "transformer": {"containers": [container(0)]},
    }
    inference_service(world, mode, **parts)
    world.settle()
    assert len(world.pods(component="predictor")) == 3
    assert len(world.pods(component="transformer")) == 1
    raw = mode in ("RawDeployment", "Standard")
    assert len(world.cluster.list("Service.serving.knative.dev")) == (0 if raw else 2)
    world.step()
    assert world.conditions("InferenceService")["Ready"] == "True"


def test_the_container_of_a_model_is_that_of_its_runtime_changed_by_it(world):
    base = {
        "name": "kserve-container",
        "image": "vllm",
        "resources": {"requests": {"cpu": "4"}, "limits": {"cpu": "8"}},
    }
    formats = [{"name": "huggingface", "autoSelect": True}]
    world.cluster.create({
        "apiVersion": "serving.kserve.io/v1alpha1", "kind": "ClusterServingRuntime", "metadata": {"name": "r"},
        "spec": {"supportedModelFormats": formats, "containers": [base], "nodeSelector": {"gpu": "yes"}},
    })  # fmt: skip
    model = {
        "modelFormat": {"name": "huggingface"},
        "storageUri": "hf://m",
        "resources": {"limits": {"nvidia.com/gpu": 2}},
    }
    inference_service(world, predictor={"model": model})
    world.settle()
    spec = world.pods()[0]["spec"]
    (main,) = spec["containers"]
    assert main["image"] == "vllm"
    assert main["resources"]["limits"] == {"cpu": "8", "nvidia.com/gpu": 2}
    assert spec["nodeSelector"] == {"gpu": "yes"}
    assert [one["name"] for one in spec["initContainers"]] == ["storage-initializer"]


def test_a_model_whose_runtime_the_lab_does_not_have_asks_for_what_kserves_own_do(world):
    model = {"modelFormat": {"name": "sklearn"}, "resources": {"limits": {"nvidia.com/gpu": 1}}}
    inference_service(world, predictor={"model": model})
    world.settle()
    (main,) = world.pods()[0]["spec"]["containers"]
    assert main["resources"]["requests"] == {"cpu": "1", "memory": "2Gi", "nvidia.com/gpu": 1}


def test_a_component_that_is_taken_out_loses_its_pods(world):
    inference_service(world, predictor={"containers": [container()]}, transformer={"containers": [container(0)]})
    world.settle()
    world.cluster.patch("InferenceService", "a", "default", {"spec": {"transformer": None}})
    world.pass_time(60)
    assert world.pods(component="transformer") == []
    assert len(world.pods()) == 1


def test_a_changed_scale_reaches_the_pods(world):
    inference_service(world, predictor={"minReplicas": 1, "containers": [container()]})
    world.settle()
    world.cluster.patch("InferenceService", "a", "default", {"spec": {"predictor": {"minReplicas": 2}}})
    world.pass_time(60)
    assert len(world.pods()) == 2


@pytest.mark.parametrize(
    "predictor", [{"sklearn": {"storageUri": "s3://m"}}, {"model": {"modelFormat": {"name": "sklearn"}}}]
)
def test_a_framework_says_what_a_model_of_its_format_says(world, predictor):
    inference_service(world, predictor=predictor)
    world.settle()
    (main,) = world.pods()[0]["spec"]["containers"]
    assert (main["name"], main["resources"]["limits"]["cpu"]) == ("kserve-container", "1")


def test_a_model_of_a_format_without_a_runtime_has_no_pods_until_there_is_one(world):
    inference_service(world, predictor={"model": {"modelFormat": {"name": "mine"}}})
    world.settle()
    assert world.pods() == []
    world.cluster.create({
        "apiVersion": "serving.kserve.io/v1alpha1", "kind": "ServingRuntime", "metadata": {"name": "r", "namespace": "default"},
        "spec": {"supportedModelFormats": [{"name": "mine", "autoSelect": True}], "containers": [{"name": "kserve-container", "image": "x"}]},
    })  # fmt: skip
    world.settle()
    assert len(world.pods()) == 1


def test_a_stopped_service_has_no_pods(world):
    inference_service(world, predictor={"containers": [container()]})
    world.settle()
    world.cluster.patch(
        "InferenceService", "a", "default", {"metadata": {"annotations": {"serving.kserve.io/stop": "true"}}}
    )
    world.pass_time(60)
    assert world.pods() == []


@pytest.mark.parametrize(
    "parts",
    [{"predictor": {}}, {"predictor": {"sklearn": {}, "pytorch": {}}}, {"predictor": {"sklearn": {}}, "explainer": {}}],
)
def test_a_component_without_one_implementation_is_refused(world, parts):
    with pytest.raises(Invalid, match="expected one of"):
        inference_service(world, **parts)


SMALL = {"cpu": "1", "memory": "2Gi"}
MODEL = {"modelFormat": {"name": "sklearn"}, "storageUri": "pvc://models/a"}


def test_a_container_of_the_users_own_gets_kserves_requests_and_limits(world):
    inference_service(
        world,
        predictor={"containers": [container()]},
        transformer={"containers": [{"image": "x", "resources": {"limits": {"cpu": "3"}}}]},
    )
    world.settle()
    resources = {
        pod["metadata"]["labels"]["component"]: pod["spec"]["containers"][0]["resources"] for pod in world.pods()
    }
    assert resources["predictor"]["requests"] == {"nvidia.com/gpu": 1, **SMALL}
    assert resources["transformer"] == {"requests": SMALL, "limits": {"cpu": "3", "memory": "2Gi"}}


@pytest.mark.parametrize(
    ("uri", "before", "beside", "claim"),
    [
        ("hf://m", ["storage-initializer"], [], None),
        ("pvc://models/a/b", [], [], "models"),
        ("oci://registry/m", ["modelcar-init"], ["modelcar"], None),
    ],
)
def test_what_brings_a_model_into_its_pods(world, uri, before, beside, claim):
    inference_service(world, predictor={"model": {**MODEL, "storageUri": uri}, "logger": {"mode": "all"}})
    world.settle(bind=False)
    spec = world.pods()[0]["spec"]
    assert [one["name"] for one in spec.get("initContainers", ())] == before
    assert [one["name"] for one in spec["containers"]] == ["kserve-container", *beside, "agent"]
    assert [volume["persistentVolumeClaim"]["claimName"] for volume in spec.get("volumes", ())] == (
        [claim] if claim else []
    )


@pytest.mark.parametrize(
    ("sizes", "gpus", "pods"),
    [
        ({"pipelineParallelSize": 2, "tensorParallelSize": 4}, 4, [("a-predictor", "4"), ("a-predictor-worker", "4")]),
        ({"pipelineParallelSize": 3}, 0, [("a-predictor", "1"), *[("a-predictor-worker", "1")] * 2]),
        ({"tensorParallelSize": 2}, 4, [("a-predictor", "2")]),
    ],
)
def test_workers_hold_the_gpus_that_the_sizes_ask_for(world, sizes, gpus, pods):
    resources = {"resources": {kind: {"nvidia.com/gpu": str(gpus)} for kind in ("requests", "limits")}} if gpus else {}
    predictor = {
        "model": {**MODEL, **resources},
        "workerSpec": {**sizes, "containers": [{"name": "worker-container", **resources}]},
    }
    notes = {MODE: "Standard", "serving.kserve.io/autoscalerClass": "none"}
    world.add("serving.kserve.io/v1beta1", "InferenceService", {"predictor": predictor}, annotations=notes)
    world.settle(bind=False)
    found = [
        (
            pod["metadata"]["labels"]["app"].removeprefix("isvc."),
            pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"],
        )
        for pod in world.pods()
    ]
    assert sorted(found) == pods


def test_of_several_runtimes_that_of_the_namespace_with_the_highest_priority_serves(world):
    for kind, name, priority, more in (
        ("ClusterServingRuntime", "all", 9, {}),
        ("ServingRuntime", "low", 1, {}),
        ("ServingRuntime", "high", 2, {}),
        ("ServingRuntime", "other-protocol", 3, {"protocolVersions": ["v2"]}),
        ("ServingRuntime", "disabled", 4, {"disabled": True}),
    ):
        served = {"name": "mine", "autoSelect": True, "priority": priority}
        spec = {"supportedModelFormats": [served], "containers": [{"name": "kserve-container", "image": name}], **more}
        namespace = {} if kind.startswith("Cluster") else {"namespace": "default"}
        world.cluster.create(
            {
                "apiVersion": "serving.kserve.io/v1alpha1",
                "kind": kind,
                "metadata": {"name": name, **namespace},
                "spec": spec,
            }
        )
    inference_service(world, predictor={"model": {"modelFormat": {"name": "mine"}}})
    world.settle()
    assert world.pods()[0]["spec"]["containers"][0]["image"] == "high"


def test_without_an_autoscaler_there_may_be_no_pods(world):
    notes = {MODE: "Standard", "serving.kserve.io/autoscalerClass": "none"}
    spec = {"predictor": {"containers": [container()], "minReplicas": 0}}
    world.add("serving.kserve.io/v1beta1", "InferenceService", spec, annotations=notes)
    world.settle()
    assert world.pods() == []


@pytest.mark.parametrize(
    ("notes", "predictor", "field"),
    [
        ({"serving.kserve.io/autoscalerClass": "vpa"}, {"model": MODEL}, "autoscalerClass"),
        ({}, {"model": MODEL, "minReplicas": 3, "maxReplicas": 2}, "minReplicas"),
        ({}, {"model": {**MODEL, "name": "m"}}, "model.name"),
        ({MODE: "RawDeployment"}, {"model": MODEL, "scaleMetric": "cpu"}, "scaleMetric"),
        ({}, {"model": MODEL, "deploymentStrategy": {"type": "Recreate"}}, "deploymentStrategy"),
        ({}, {"model": MODEL, "logger": {"mode": "some"}}, "logger.mode"),
        ({}, {"model": MODEL, "storageUris": [{"uri": "hf://a"}]}, "storageUris"),
        ({}, {"model": {**MODEL, "storage": {"key": "k"}}}, "model.storageUri"),
        ({}, {"model": MODEL, "workerSpec": {}}, "autoscalerClass"),
        ({"serving.kserve.io/autoscalerClass": "none"}, {"model": {**MODEL, "storageUri": "hf://a"}, "workerSpec": {}}, "storageUri"),
    ],
)  # fmt: skip
def test_what_kserves_webhook_refuses(world, notes, predictor, field):
    with pytest.raises(Invalid, match=field):
        world.add("serving.kserve.io/v1beta1", "InferenceService", {"predictor": predictor}, annotations=notes)


def test_a_service_keeps_its_mode_and_a_runtime_its_workers(world):
    inference_service(world, predictor={"containers": [container()]})
    world.settle()
    for mode, taken in (("Standard", True), ("Knative", False)):
        change = {"metadata": {"annotations": {MODE: mode}}}
        if taken:
            world.cluster.patch("InferenceService", "a", "default", change)
            continue
        with pytest.raises(Invalid, match="deploymentMode: field is immutable"):
            world.cluster.patch("InferenceService", "a", "default", change)
    workers = {"containers": [{"name": "worker-container", "image": "x"}]}
    world.add("serving.kserve.io/v1alpha1", "ServingRuntime", {"containers": [], "workerSpec": workers})
    with pytest.raises(Invalid, match="workerSpec: field is immutable"):
        world.cluster.patch("ServingRuntime", "a", "default", {"spec": {"workerSpec": None}})
    with pytest.raises(Invalid, match="no node 'root'"):
        world.add("serving.kserve.io/v1alpha1", "InferenceGraph", {"nodes": {"first": {"routerType": "Sequence"}}})
