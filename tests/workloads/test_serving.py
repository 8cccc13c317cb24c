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
