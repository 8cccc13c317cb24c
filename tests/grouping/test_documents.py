"""The manifests of the lesson documents, taken from their text as it is, grouped on an embedded cluster."""

from __future__ import annotations

import copy

import pytest
import yaml

from kailab.cluster.embedded import EmbeddedCluster
from kailab.grouping import GroupingConfig, PodGrouper

GANGS = "seeds/000_bfcc7bef897d892a.txt"
RECIPE = "seeds/004_f9f5bab04071ff7e.txt"

# The manifests name no scheduler: there, KAI is the cluster's own.
CONFIG = GroupingConfig(scheduler_names=("kai-scheduler", "default-scheduler"))


def manifests_around(text: str, wanted: str) -> list[dict]:
    """The objects of the block of YAML around the first line ``wanted``: up to a blank line on either side."""
    lines = text.splitlines()
    at = lines.index(wanted)
    first = next(i for i in range(at, -1, -1) if lines[i].startswith("apiVersion:"))
    last = next(i for i in range(at, len(lines)) if not lines[i].strip())
    return list(yaml.safe_load_all("\n".join(lines[first:last])))


@pytest.fixture
def cluster():
    return EmbeddedCluster()


def add_namespace(cluster, name, labels=None):
    metadata = {"name": name, **({"labels": labels} if labels else {})}
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})


def pods_of(job: dict, specs: str) -> list[dict]:
    """The pods that the training operator makes of a job."""
    meta = job["metadata"]
    owner = {"apiVersion": job["apiVersion"], "kind": job["kind"], "name": meta["name"], "uid": meta["uid"]}
    pods = []
    for role, replica in job["spec"][specs].items():
        for index in range(replica["replicas"]):
            template = copy.deepcopy(replica["template"])
            labels = {
                **template["metadata"]["labels"],
                "training.kubeflow.org/replica-type": role.lower(),
                "training.kubeflow.org/replica-index": str(index),
            }
            identity = {"name": f"{meta['name']}-{role.lower()}-{index}", "namespace": meta["namespace"]}
            metadata = {**identity, "labels": labels, "ownerReferences": [{**owner, "controller": True}]}
            spec = {**template["spec"], "schedulerName": "kai-scheduler"}
            pods.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    return pods


def test_the_pytorch_job_is_a_gang_of_one_master_and_three_workers(shared, cluster):
    [job] = manifests_around(shared(GANGS).read_text(), "kind: PyTorchJob")
    add_namespace(cluster, "research-llm")
    job = cluster.create(job)
    for pod in pods_of(job, "pytorchReplicaSpecs"):
        pod["spec"].pop("priorityClassName")  # a class of that article's cluster
        cluster.create(pod)
    PodGrouper(cluster, CONFIG).step()
    [group] = cluster.list("PodGroup", "research-llm")
    assert group["spec"]["minMember"] == int(pod["metadata"]["labels"]["kai.nvidia.com/job-size"]) == 4
    assert group["spec"]["subGroups"] == [
        {"name": "master", "minMember": 1},
        {"name": "worker", "minMember": 3},
    ]
    assert group["metadata"]["ownerReferences"][0]["kind"] == "PyTorchJob"
    pods = cluster.list("Pod", "research-llm")
    assert [pod["metadata"]["labels"]["kai.scheduler/subgroup-name"] for pod in pods] == ["master", *["worker"] * 3]
    assert {pod["metadata"]["annotations"]["pod-group-name"] for pod in pods} == {group["metadata"]["name"]}


def test_the_four_bare_pods_are_one_gang(shared, cluster):
    wanted = '    kai.nvidia.com/job-id: "training-job-20250227-001"'
    pods = manifests_around(shared(GANGS).read_text(), wanted)
    assert len(pods) == 4
    for pod in pods:
        cluster.create({**pod, "metadata": {**pod["metadata"], "namespace": "default"}})
    PodGrouper(cluster, CONFIG).step()
    [group] = cluster.list("PodGroup")
    assert group["metadata"]["name"] == "pg-training-job-20250227-001"
    assert group["spec"]["minMember"] == 4
    names = {pod["metadata"]["annotations"]["pod-group-name"] for pod in cluster.list("Pod", "default")}
    assert names == {group["metadata"]["name"]}


def recipe(shared, kind: str) -> dict:
    blocks = shared(RECIPE).read_text().split("```yaml\n")[1:]
    documents = [doc for block in blocks for doc in yaml.safe_load_all(block.split("```")[0])]
    return next(doc for doc in documents if doc and doc.get("kind") == kind)


def test_the_namespace_label_is_the_queue_of_pods_that_name_none(shared, cluster):
    namespace = cluster.create(recipe(shared, "Namespace"))
    place = namespace["metadata"]["name"]
    spec = {"schedulerName": "kai-scheduler", "containers": [{"name": "c", "image": "i"}]}
    cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": place}, "spec": spec})
    PodGrouper(cluster).step()
    [group] = cluster.list("PodGroup", place)
    assert group["spec"]["queue"] == namespace["metadata"]["labels"]["runai/queue"] == "training"


def test_the_job_goes_to_the_queue_of_its_older_label(shared, cluster):
    job = recipe(shared, "Job")
    add_namespace(cluster, job["metadata"]["namespace"])
    job = cluster.create(job)
    template = job["spec"]["template"]
    meta = job["metadata"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"], "controller": True}
    metadata = {
        "name": "gpu-test-0",
        "namespace": meta["namespace"],
        "labels": template["metadata"]["labels"],
        "ownerReferences": [owner],
    }
    cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
    PodGrouper(cluster).step()
    [group] = cluster.list("PodGroup", meta["namespace"])
    assert group["spec"]["queue"] == "training"
