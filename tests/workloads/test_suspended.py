"""Work that is suspended: where its pods may go can still be said, as Kueue says it when it admits the work."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from kailab.errors import Invalid

TOLERATIONS = [{"key": "gpu", "operator": "Exists"}]
NODES = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["fast"]}]}]}
AFFINITY = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": NODES}}
ALONE = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "host"}]}}


def job(world, **spec: Any) -> dict:
    return world.job(parallelism=1, **spec)


def job_set(world, **spec: Any) -> dict:
    inner = {"parallelism": 1, "completions": 1, "template": world.template("w", restart="Never")}
    entry = {"name": "w", "replicas": 1, "template": {"spec": inner}}
    return world.add("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [entry], **spec})


def template(obj: dict) -> dict:
    spec = obj["spec"]
    return spec["replicatedJobs"][0]["template"]["spec"]["template"] if obj["kind"] == "JobSet" else spec["template"]


def change(world, kind: str, suspend: bool | None = None, labels: dict | None = None, **pod_spec: Any) -> None:
    obj = deepcopy(world.cluster.get(kind, "a", "default"))
    template(obj)["spec"].update(pod_spec)
    template(obj)["metadata"]["labels"].update(labels or {})
    if suspend is not None:
        obj["spec"]["suspend"] = suspend
    world.cluster.update(obj)


@pytest.mark.parametrize("make", [job, job_set])
def test_a_suspended_one_is_told_where_to_go_and_goes_there(world, make):
    kind = make(world, suspend=True)["kind"]
    world.settle()
    change(world, kind, nodeSelector={"pool": "fast"}, tolerations=TOLERATIONS, labels={"flavor": "fast"})
    world.settle()
    assert world.pods() == []
    # What is told with the very write that resumes it counts, too.
    change(world, kind, suspend=False, nodeSelector={"pool": "faster"})
    world.settle(bind=False)
    (pod,) = world.pods()
    assert pod["spec"]["nodeSelector"] == {"pool": "faster"}
    assert pod["spec"]["tolerations"] == TOLERATIONS
    assert pod["metadata"]["labels"]["flavor"] == "fast"


@pytest.mark.parametrize("make", [job, job_set])
def test_a_running_one_is_suspended_and_resumed(world, make):
    kind = make(world)["kind"]
    world.settle()
    assert len(world.pods()) == 1
    change(world, kind, suspend=True)
    world.settle()
    assert world.pods() == []
    change(world, kind, suspend=False)
    world.settle(bind=False)
    assert len(world.pods()) == 1


@pytest.mark.parametrize(("make", "field"), [(job, "spec.template"), (job_set, "spec.replicatedJobs")])
def test_what_the_pods_are_stays_and_so_does_where_running_ones_go(world, make, field):
    kind = make(world, suspend=True)["kind"]
    world.settle()
    for pod_spec in (
        {"restartPolicy": "OnFailure"},
        {"containers": [{"name": "c", "image": "other"}]},
        {"affinity": ALONE},
    ):
        with pytest.raises(Invalid, match=rf"{field}: field is immutable"):
            change(world, kind, **pod_spec)
    change(world, kind, suspend=False)
    world.settle()
    with pytest.raises(Invalid, match=rf"{field}: field is immutable"):
        change(world, kind, nodeSelector={"pool": "fast"})


def test_of_a_suspended_job_the_node_affinity_too_of_a_job_set_not(world):
    """Kubernetes and JobSet differ there."""
    job(world, suspend=True)
    change(world, "Job", affinity=AFFINITY)
    job_set(world, suspend=True)
    with pytest.raises(Invalid, match="immutable"):
        change(world, "JobSet", affinity=AFFINITY)


def test_a_job_that_was_stopped_may_be_told_to_go_elsewhere(world):
    job(world)
    world.settle()
    world.cluster.patch("Job", "a", "default", {"spec": {"suspend": True}})
    world.settle()
    change(world, "Job", suspend=False, nodeSelector={"pool": "fast"})
    world.settle(bind=False)
    assert [pod["spec"].get("nodeSelector") for pod in world.pods()] == [{"pool": "fast"}]


def test_a_train_job_keeps_its_trainer_and_gets_patches_while_it_is_suspended(world):
    spec = {"runtimeRef": {"name": "torch"}, "trainer": {"numNodes": 1}, "suspend": True}
    world.add("trainer.kubeflow.org/v1alpha1", "TrainJob", spec)
    patches = {"runtimePatches": [{"manager": "kueue.x-k8s.io/manager"}]}

    def patch(**spec):
        return world.cluster.patch("TrainJob", "a", "default", {"spec": spec})

    with pytest.raises(Invalid, match=r"spec.trainer: field is immutable"):
        patch(trainer={"numNodes": 2})
    patch(suspend=False, **patches)
    with pytest.raises(Invalid, match=r"spec.runtimePatches: field is immutable"):
        patch(runtimePatches=[])
    patch(suspend=True, runtimePatches=[])
