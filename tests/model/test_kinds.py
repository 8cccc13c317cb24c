from __future__ import annotations

import pytest

from kailab.errors import InputError
from kailab.model import kinds


@pytest.mark.parametrize(
    ("text", "key"),
    [("pods", "Pod"), ("po", "Pod"), ("Pod", "Pod"), ("POD", "Pod"), ("deploy", "Deployment"), ("q", "Queue"),
     ("queues.scheduling.run.ai", "Queue"), ("queue.v2.scheduling.run.ai", "Queue"), ("pg", "PodGroup"), ("no", "Node"),
     ("svc", "Service"), ("ksvc", "Service.serving.knative.dev"), ("services.serving.knative.dev", "Service.serving.knative.dev"),
     ("pytorchjob", "PyTorchJob"), ("lws", "LeaderWorkerSet"), ("priorityclasses", "PriorityClass")],
)  # fmt: skip
def test_names_people_type(text, key):
    assert kinds.resolve(text) == key


def test_an_unknown_name_is_told_with_the_closest():
    with pytest.raises(InputError, match="did you mean Queue"):
        kinds.resolve("quues")


def test_unknown_kinds_in_use_can_be_named():
    others = ["Quota.kai.nvidia.com"]
    assert kinds.resolve("quotas", others) == "ResourceQuota" or kinds.resolve("quotas", others) == others[0]
    assert kinds.resolve("Quota.kai.nvidia.com", others) == others[0]


@pytest.mark.parametrize(
    ("api_version", "kind", "key"),
    [("v1", "Pod", "Pod"), ("v1", "Service", "Service"), ("serving.knative.dev/v1", "Service", "Service.serving.knative.dev"),
     ("kubeflow.org/v1", "MPIJob", "MPIJob"), ("kubeflow.org/v2beta1", "MPIJob", "MPIJob"),
     ("scheduling.volcano.sh/v1", "Queue", "Queue.scheduling.volcano.sh"), ("batch/v9", "Job", "Job"), ("v1", "Thing", "Thing")],
)  # fmt: skip
def test_keys_of_objects(api_version, kind, key):
    assert kinds.kind_key({"apiVersion": api_version, "kind": kind}) == key


def test_every_kind_is_found_by_all_its_names():
    for key, kind in kinds.KINDS.items():
        assert kinds.kind_key({"apiVersion": kind.api_version, "kind": kind.kind}) == key
        assert kinds.resolve(kind.resource) == key
        assert kinds.resolve(key) == key


def test_where_objects_live():
    assert kinds.is_namespaced("Pod")
    assert not kinds.is_namespaced("Queue")
    assert kinds.is_namespaced("Thing.example.com", {"metadata": {"namespace": "x"}})
    assert not kinds.is_namespaced("Thing.example.com", {"metadata": {}})
