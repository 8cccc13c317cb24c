"""ResourceQuotas and LimitRanges of an embedded lab refuse, fill in and count as those of an API server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kailab.cluster.embedded import EmbeddedCluster
from kailab.errors import Forbidden, InputError, Invalid
from kailab.lab import Lab
from kailab.model.objects import spec_of, status_of

QUEUE = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: org}
spec: {resources: {gpu: {quota: -1, limit: -1}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team}
spec: {parentQueue: org, resources: {gpu: {quota: -1, limit: -1}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}
"""


def pod(name: str, requests: Any = None, limits: Any = None, **spec: Any) -> dict[str, Any]:
    resources = {"requests": requests or {}, "limits": limits or {}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": "x", "resources": resources}], **spec},
    }


def quota(hard: dict[str, Any], **spec: Any) -> dict[str, Any]:
    metadata = {"name": "q", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard, **spec}}


def limits(*items: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": "l", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": list(items)}}


def deployment(replicas: int) -> dict[str, Any]:
    labels = {"app": "d", "kai.scheduler/queue": "team"}
    container = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    template = {"metadata": {"labels": labels}, "spec": {"schedulerName": "kai-scheduler", "containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "d"}}, "template": template}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "default"},
        "spec": spec,
    }


@pytest.fixture
def cluster() -> EmbeddedCluster:
    return EmbeddedCluster()


@pytest.fixture
def lab() -> Iterator[Lab]:
    with Lab.open("lesson") as opened:
        opened.apply(QUEUE)
        yield opened


def used(cluster: EmbeddedCluster) -> dict[str, str]:
    return dict(status_of(cluster.get("ResourceQuota", "q", "default"))["used"])


def test_a_pod_beyond_the_quota_is_refused_and_the_message_says_by_how_much(cluster: EmbeddedCluster) -> None:
    cluster.create(quota({"requests.cpu": "1", "pods": 5}))
    cluster.create(pod("one", {"cpu": "600m"}))
    with pytest.raises(
        Forbidden,
        match=r"exceeded quota: q, requested: requests.cpu=600m, used: requests.cpu=600m, limited: requests.cpu=1",
    ):
        cluster.create(pod("two", {"cpu": "600m"}))
    assert used(cluster) == {"requests.cpu": "600m", "pods": "1"}


def test_a_quota_of_cpu_asks_every_container_to_name_it(cluster: EmbeddedCluster) -> None:
    cluster.create(quota({"limits.memory": "1Gi"}))
    with pytest.raises(Forbidden, match=r"failed quota: q: must specify limits.memory for: main"):
        cluster.create(pod("none", {"memory": "1Mi"}))


def test_a_pod_that_has_ended_no_longer_counts_but_for_the_number_of_objects(cluster: EmbeddedCluster) -> None:
    cluster.create(quota({"requests.nvidia.com/gpu": 2, "pods": 3, "count/pods": 3}))
    cluster.create(pod("one", limits={"nvidia.com/gpu": 2}))
    assert used(cluster)["requests.nvidia.com/gpu"] == "2"
    cluster.patch("Pod", "one", "default", {"status": {"phase": "Succeeded"}}, "status")
    assert used(cluster) == {"requests.nvidia.com/gpu": "0", "pods": "0", "count/pods": "1"}
    cluster.delete("Pod", "one", "default", 0)
    assert used(cluster)["count/pods"] == "0"


def test_objects_of_any_kind_are_counted(cluster: EmbeddedCluster) -> None:
    cluster.create(
        quota({"count/jobs.batch": 1, "configmaps": 1, "gold.storageclass.storage.k8s.io/requests.storage": "1Gi"})
    )
    maps = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}
    cluster.create(maps)
    with pytest.raises(Forbidden, match="configmaps=1"):
        cluster.create({**maps, "metadata": {"name": "b", "namespace": "default"}})
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {
            "storageClassName": "gold",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "2Gi"}},
        },
    }
    with pytest.raises(Forbidden, match=r"requests\.storage=2Gi"):
        cluster.create(claim)
    cluster.create({**claim, "spec": {**claim["spec"], "storageClassName": "lead"}})


@pytest.mark.parametrize(
    ("scope", "inside", "outside"),
    [
        ({"scopes": ["BestEffort"]}, pod("in"), pod("out", {"cpu": 1})),
        ({"scopes": ["NotBestEffort"]}, pod("in", {"cpu": 1}), pod("out")),
        ({"scopes": ["Terminating"]}, pod("in", activeDeadlineSeconds=5), pod("out")),
        (
            {
                "scopeSelector": {
                    "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["train"]}]
                }
            },
            pod("in", priorityClassName="train"),
            pod("out", priorityClassName="build"),
        ),
    ],
)
def test_a_scope_limits_a_quota_to_some_pods(cluster: EmbeddedCluster, scope: Any, inside: Any, outside: Any) -> None:
    cluster.create(quota({"pods": 0}, **scope))
    cluster.create(outside)
    with pytest.raises(Forbidden):
        cluster.create(inside)


@pytest.mark.parametrize(
    ("hard", "scope"),
    [("requests.cpu", "BestEffort"), ("services", "Terminating"), ("persistentvolumeclaims", "NotBestEffort"), ("pods", "VolumeAttributesClass")],
)  # fmt: skip
def test_a_scope_can_t_bound_what_it_has_not(cluster: EmbeddedCluster, hard: str, scope: str) -> None:
    with pytest.raises(Invalid, match=f"can't be bounded in the scope {scope}"):
        cluster.create(quota({hard: 1}, scopes=[scope]))


@pytest.mark.parametrize(
    ("request_", "used_"),
    [
        ({"exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}, "32"),
        ({"firstAvailable": [{"name": "a", "deviceClassName": "gpu", "count": 4}, {"name": "b", "deviceClassName": "gpu"}]}, "4"),
    ],
)  # fmt: skip
def test_a_claim_for_all_devices_or_one_of_several_counts_the_most(
    cluster: EmbeddedCluster, request_: dict[str, Any], used_: str
) -> None:
    name = "gpu.deviceclass.resource.k8s.io/devices"
    cluster.create(quota({name: 40}))
    spec = {"devices": {"requests": [{"name": "r", **request_}]}}
    cluster.create(
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"}, "spec": spec}
    )
    assert used(cluster) == {name: used_}


def test_a_quota_of_a_class_bounds_something(lab: Lab) -> None:
    assert not lab.apply(quota({"fast.storageclass.storage.k8s.io/requests.storage": "1Gi"})).notices


def test_a_deployment_gets_the_pods_that_its_quota_allows_and_more_when_it_grows(lab: Lab) -> None:
    lab.apply([quota({"requests.nvidia.com/gpu": 2}), deployment(5)])
    lab.settle()
    assert len(lab.get("Pod")) == 2
    assert any("exceeded quota: q" in event["message"] for event in lab.get("Event"))
    lab.apply([quota({"requests.nvidia.com/gpu": 4})])
    lab.settle()
    assert len(lab.get("Pod")) == 4
    lab.delete("ResourceQuota", "q")
    lab.settle()
    assert len(lab.get("Pod")) == 5


def test_the_oldest_of_what_a_quota_refuses_gets_what_it_frees_in_a_lab_and_on_its_fork(lab: Lab) -> None:
    work = [deployment(1), deployment(1)]
    for one, name in zip(work, ("older", "newer"), strict=True):
        one["metadata"]["name"] = name
    lab.apply([quota({"requests.nvidia.com/gpu": 0}), work[0]])
    lab.advance(5)
    lab.apply(work[1])
    lab.settle()
    # The older one is refused once more, and so later than the newer one.
    lab.cluster.patch("Deployment", "older", "default", {"spec": {"replicas": 2}})
    lab.settle()
    with lab.fork() as fork:
        for each in (lab, fork):
            each.apply([quota({"requests.nvidia.com/gpu": 1})])
            each.settle()
            (made,) = each.get("Pod")
            assert made["metadata"]["name"].startswith("older-")


def test_a_fork_and_a_resumed_cluster_count_on(cluster: EmbeddedCluster) -> None:
    cluster.create(quota({"pods": 2}))
    cluster.create(pod("one"))
    for copy in (cluster.fork(), EmbeddedCluster.restore(cluster.dump())):
        copy.create(pod("two"))
        assert used(copy) == {"pods": "2"}
        with pytest.raises(Forbidden):
            copy.create(pod("three"))
    assert used(cluster) == {"pods": "1"}


def test_a_limit_range_gives_containers_what_they_do_not_say(cluster: EmbeddedCluster) -> None:
    cluster.create(limits({"type": "Container", "defaultRequest": {"cpu": "1"}, "max": {"memory": "1Gi"}}))
    created = cluster.create(pod("one", {"memory": "1Mi"}))
    assert spec_of(created)["containers"][0]["resources"] == {
        "requests": {"cpu": "1", "memory": "1Mi"},
        "limits": {"memory": "1Gi"},
    }


@pytest.mark.parametrize(
    ("item", "resources", "says"),
    [
        ({"max": {"cpu": 1}}, ({"cpu": 2}, {"cpu": 2}), "maximum cpu usage per Container is 1, but the limit is 2"),
        ({"min": {"cpu": 1}}, ({"cpu": "500m"}, {}), "minimum cpu usage per Container is 1, but the request is 500m"),
        ({"maxLimitRequestRatio": {"cpu": 2}}, ({"cpu": 1}, {"cpu": 3}), "the ratio is 3.0"),
        ({"maxLimitRequestRatio": {"cpu": 2}}, ({"cpu": 1}, {}), "no limit is specified"),
    ],
)
def test_a_pod_outside_of_the_bounds_of_a_limit_range_is_refused(
    cluster: EmbeddedCluster, item: Any, resources: Any, says: str
) -> None:
    cluster.create(limits({"type": "Container", **item}))
    with pytest.raises(Forbidden, match=says):
        cluster.create(pod("one", *resources))


def test_the_bounds_of_whole_pods_add_up_their_containers(cluster: EmbeddedCluster) -> None:
    cluster.create(limits({"type": "Pod", "max": {"cpu": 3}}))
    two = pod("two", {"cpu": 2}, {"cpu": 2})
    two["spec"]["containers"].append({**two["spec"]["containers"][0], "name": "second"})
    with pytest.raises(Forbidden, match="maximum cpu usage per Pod is 3, but the limit is 4"):
        cluster.create(two)


def test_pods_of_controllers_get_the_defaults_of_their_own_namespace(lab: Lab) -> None:
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}
    elsewhere = deployment(1)
    elsewhere["metadata"] = {"name": "d", "namespace": "other"}
    lab.apply([space, limits({"type": "Container", "defaultRequest": {"cpu": "3"}}), deployment(1), elsewhere])
    lab.settle()
    asked = {
        obj["metadata"]["namespace"]: obj["spec"]["containers"][0]["resources"]["requests"].get("cpu")
        for obj in lab.get("Pod", namespace=None)
    }
    assert asked == {"default": "3", "other": None}


@pytest.mark.parametrize(
    ("obj", "field"),
    [
        (quota({"gpus": 1}), "spec.hard"),
        (quota({"limits.memoryy": "1Gi"}), "spec.hard"),
        (quota({"pods": "-1"}), "spec.hard"),
        (quota({"pods": 1}, scopes=["Nope"]), "spec.scopes"),
        (quota({"pods": 1}, scopes=["BestEffort", "NotBestEffort"]), "spec.scopes"),
        (limits({"type": "Container", "min": {"cpu": 2}, "max": {"cpu": 1}}), "spec.limits"),
        (limits({"type": "Pod", "default": {"cpu": 2}}), "spec.limits"),
        (limits({"type": "Container", "maxLimitRequestRatio": {"cpu": "500m"}}), "spec.limits"),
    ],
)
def test_a_contradictory_quota_or_limit_range_is_refused(cluster: EmbeddedCluster, obj: Any, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        cluster.create(obj)
    assert refused.value.field.startswith(field)


def test_a_name_that_a_quota_counts_nothing_for_is_told(lab: Lab) -> None:
    hard = {
        "nvidia.com/gpu": 1,
        "limits.nvidia.com/gpu": 1,
        "requests.nvidia.com/gpu": 1,
        "count/jobs.batch": 1,
        "limits.cpu": 1,
    }
    said = lab.apply(
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}}
    ).warnings
    assert [text.partition("hard[")[2].partition("]")[0] for text in said] == [
        "nvidia.com/gpu",
        "limits.nvidia.com/gpu",
    ]
    assert all("counts only requests.nvidia.com/gpu" in text for text in said)


def test_an_unknown_field_is_refused_unless_the_user_says_otherwise(lab: Lab) -> None:
    work = deployment(1)
    work["spec"]["replica"] = 2
    with pytest.raises(InputError, match=r"spec.replica: unknown field; did you mean replicas\?"):
        lab.apply([work])
    assert any("spec.replica" in text for text in lab.apply([work], validate="warn").warnings)
    assert not [text for text in lab.apply([work], validate="ignore").warnings if "spec.replica" in text]


@pytest.mark.parametrize(
    ("kind", "api_version", "parts", "field"),
    [
        ("RuntimeClass", "node.k8s.io/v1", {"handler": "Bad Name"}, "handler"),
        (
            "RuntimeClass",
            "node.k8s.io/v1",
            {"handler": "a", "scheduling": {"nodeSelector": {"a": "x y"}}},
            "scheduling.nodeSelector",
        ),
        ("PersistentVolumeClaim", "v1", {"spec": {"accessModes": ["Nope"]}}, "spec.accessModes"),
        (
            "PersistentVolumeClaim",
            "v1",
            {"spec": {"accessModes": ["ReadWriteOncePod", "ReadWriteOnce"]}},
            "spec.accessModes",
        ),
        ("PodDisruptionBudget", "policy/v1", {"spec": {"minAvailable": 1, "maxUnavailable": 1}}, "spec.maxUnavailable"),
        ("PodDisruptionBudget", "policy/v1", {"spec": {"minAvailable": "101%"}}, "spec.minAvailable"),
    ],
)
def test_values_that_an_api_server_refuses_are_refused(
    cluster: EmbeddedCluster, kind: str, api_version: str, parts: Any, field: str
) -> None:
    metadata = {"name": "x"} if kind == "RuntimeClass" else {"name": "x", "namespace": "default"}
    with pytest.raises(Invalid) as refused:
        cluster.create({"apiVersion": api_version, "kind": kind, "metadata": metadata, **parts})
    assert refused.value.field.startswith(field)


def test_a_quota_of_volume_attributes_classes_counts_their_claims_alone() -> None:
    term = {"scopeName": "VolumeAttributesClass", "operator": "In", "values": ["gold"]}
    gold = quota({"persistentvolumeclaims": "1"}, scopeSelector={"matchExpressions": [term]})

    def claim(name: str, attributes: str) -> dict[str, Any]:
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {**spec, "volumeAttributesClassName": attributes},
        }

    with Lab.open() as lab:
        lab.apply(gold, claim("first", "gold"), claim("silver", "silver"), pod("p"))
        assert status_of(lab.cluster.get("ResourceQuota", "q", "default"))["used"] == {"persistentvolumeclaims": "1"}
        with pytest.raises(InputError, match="exceeded quota: q"):
            lab.apply(claim("second", "gold"))
