"""A RuntimeClass acts on the pods that name it, as the API server's admission has it."""

from __future__ import annotations

from typing import Any

import pytest

from kailab.errors import InputError
from kailab.lab import Lab

TOLERATION = {"key": "kata", "operator": "Exists", "effect": "NoSchedule"}


def runtime_class(name: str = "kata", **fields: Any) -> dict[str, Any]:
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": name},
        "handler": name,
        **fields,
    }


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": 1}
    base = {
        "schedulerName": "kai-scheduler",
        "containers": [{"name": "c", "image": "x", "resources": {"limits": limits}}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"kai.scheduler/queue": "team"}},
        "spec": {**base, **spec},
    }


def deployment(**spec: Any) -> dict[str, Any]:
    template = pod(**spec)
    labels = {**template["metadata"]["labels"], "app": "d"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "d"}},
            "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
        },
    }


@pytest.fixture
def lab(queue):
    with Lab.open("lesson") as lab:
        lab.apply(queue("team", -1))
        yield lab


def pods(lab: Lab) -> list[dict[str, Any]]:
    lab.settle()
    return lab.cluster.list("Pod")


def some_node(lab: Lab) -> str:
    return str(lab.cluster.list("Node")[-1]["metadata"]["name"])


@pytest.mark.parametrize("work", [pod, deployment])
def test_its_nodes_tolerations_and_overhead_are_the_pods(lab, work):
    node = some_node(lab)
    scheduling = {"nodeSelector": {"kubernetes.io/hostname": node}, "tolerations": [TOLERATION]}
    lab.apply(runtime_class(overhead={"podFixed": {"cpu": "500m"}}, scheduling=scheduling))
    lab.apply(work(runtimeClassName="kata", nodeSelector={"kubernetes.io/os": "linux"}))
    found = pods(lab)
    assert found
    for one in found:
        assert one["spec"]["nodeName"] == node
        assert one["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux", "kubernetes.io/hostname": node}
        assert TOLERATION in one["spec"]["tolerations"]
        assert one["spec"]["overhead"] == {"cpu": "500m"}


def test_what_it_adds_is_no_change_of_what_is_applied_again(lab):
    lab.apply(runtime_class(scheduling={"nodeSelector": {"kubernetes.io/os": "linux"}}))
    lab.apply(pod(runtimeClassName="kata"))
    lab.settle()
    assert [change.what for change in lab.apply(pod(runtimeClassName="kata")).changes] == ["unchanged"]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"overhead": {"cpu": "500m"}}, r"spec\.overhead"),
        ({"overhead": {"cpu": "500m"}, "runtimeClassName": "plain"}, r"spec\.overhead: is not the overhead of RuntimeClass 'plain'"),
        ({"overhead": {"cpu": "1"}, "runtimeClassName": "kata"}, r"spec\.overhead: is not the overhead of RuntimeClass 'kata'"),
        ({"nodeSelector": {"a": "c"}, "runtimeClassName": "kata"}, r"spec\.nodeSelector\[a\]: is 'c'.* asks for 'b'"),
    ],
)  # fmt: skip
def test_what_contradicts_it_is_refused(lab, spec, said):
    lab.apply(runtime_class("plain"))
    lab.apply(runtime_class(overhead={"podFixed": {"cpu": "500m"}}, scheduling={"nodeSelector": {"a": "b"}}))
    with pytest.raises(InputError, match=said):
        lab.apply(pod(**spec))
    assert pods(lab) == []
    lab.apply(deployment(**spec))
    assert pods(lab) == []
    told = [event["message"] for event in lab.cluster.list("Event") if event["reason"] == "FailedCreate"]
    assert any("spec." in message for message in told)


def test_the_same_amount_written_otherwise_is_no_contradiction(lab):
    lab.apply(runtime_class(overhead={"podFixed": {"cpu": "500m"}}))
    lab.apply(pod(runtimeClassName="kata", overhead={"cpu": 0.5}))
    assert len(pods(lab)) == 1


def test_pods_made_later_go_by_the_class_as_it_is_then(lab):
    lab.apply(runtime_class(), deployment(runtimeClassName="kata"))
    pods(lab)
    node = some_node(lab)
    lab.apply(runtime_class(scheduling={"nodeSelector": {"kubernetes.io/hostname": node}}))
    lab.scale("Deployment", "d", 4)
    where = [one["spec"].get("nodeSelector") for one in pods(lab)]
    assert where.count({"kubernetes.io/hostname": node}) == 2


def test_without_its_class_a_pod_is_refused(lab):
    """As by the API server's admission plugin: a pod at once, the pods of a workload until there is the class."""
    with pytest.raises(InputError, match=r"no RuntimeClass with name 'kata' was found \(there are: none\)"):
        lab.apply(pod(runtimeClassName="kata"))
    applied = lab.apply(deployment(runtimeClassName="kata"))
    (told,) = [text for text in applied.warnings if "kata" in text]
    assert "spec.runtimeClassName: there is no RuntimeClass 'kata': the pods are refused until there is one" in told
    assert pods(lab) == []
    answer = lab.explain("Deployment", "d")
    assert (answer.verdict, answer.cause.code) == ("never", "RuntimeClassMissing")
    lab.apply(runtime_class())
    assert len(pods(lab)) == 2
    assert not [text for text in lab.apply(pod("c", runtimeClassName="kata")).warnings if "kata" in text]
    both = lab.apply(runtime_class("gvisor"), pod("d", runtimeClassName="gvisor"))
    assert not [text for text in both.warnings if "gvisor" in text]
