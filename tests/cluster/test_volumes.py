"""Claims get volumes, and volumes decide where pods run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kailab.cluster.embedded import EmbeddedCluster
from kailab.lab import Lab, expect

QUEUE = {
    "apiVersion": "scheduling.run.ai/v2",
    "kind": "Queue",
    "metadata": {"name": "team"},
    "spec": {"resources": {name: {"quota": -1, "limit": -1} for name in ("gpu", "cpu", "memory")}},
}


def claim(name: str, storage_class: str | None, **spec: Any) -> dict[str, Any]:
    own = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}, **spec}
    own |= {} if storage_class is None else {"storageClassName": storage_class}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": own}


def volume(name: str, storage_class: str, node: str = "", size: str = "100Gi", **spec: Any) -> dict[str, Any]:
    own = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": storage_class, **spec}
    if node:
        expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        own["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": own}


def storage_class(name: str, provisioner: str, waits: bool = False, **fields: Any) -> dict[str, Any]:
    mode = "WaitForFirstConsumer" if waits else "Immediate"
    metadata = {"name": name, **fields.pop("metadata", {})}
    parts = {"provisioner": provisioner, "volumeBindingMode": mode, **fields}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": metadata, **parts}


def pod(name: str, *claims: str) -> dict[str, Any]:
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    spec = {"schedulerName": "kai-scheduler", "volumes": volumes, "containers": [{"name": "main", "image": "x"}]}
    metadata = {"name": name, "labels": {"kai.scheduler/queue": "team"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@pytest.fixture
def lab() -> Iterator[Lab]:
    with Lab.open("lesson") as opened:
        opened.apply(QUEUE)
        yield opened


def node_of(lab: Lab, name: str) -> str:
    lab.settle()
    return str(lab.get("Pod", name)["spec"].get("nodeName", ""))


def test_a_pod_runs_where_the_volume_of_its_claim_can_be_reached(lab: Lab) -> None:
    lab.apply([volume("disk", "local", "h100-0"), claim("data", "local"), pod("user", "data")])
    assert node_of(lab, "user") == "h100-0"
    assert lab.get("PersistentVolumeClaim", "data")["spec"]["volumeName"] == "disk"
    assert lab.get("PersistentVolume", "disk")["status"]["phase"] == "Bound"


def test_a_claim_that_waits_gets_the_volume_of_the_node_that_its_pod_gets(lab: Lab) -> None:
    lab.apply([storage_class("local", "kubernetes.io/no-provisioner", waits=True)])
    lab.apply([volume("one", "local", "a100-1"), volume("two", "local", "h100-0"), claim("data", "local")])
    lab.settle()
    assert lab.get("PersistentVolumeClaim", "data")["status"]["phase"] == "Pending"
    lab.apply([pod("user", "data")])
    chosen = {"a100-1": "one", "h100-0": "two"}[node_of(lab, "user")]
    assert lab.get("PersistentVolumeClaim", "data")["spec"]["volumeName"] == chosen


def test_a_pod_waits_while_no_volume_can_be_had_for_its_claim(lab: Lab) -> None:
    lab.apply(
        [
            storage_class("local", "kubernetes.io/no-provisioner", waits=True),
            claim("data", "local"),
            pod("user", "data"),
        ]
    )
    expect(lab.pod("user")).pending(pods=1).says("find available persistent volumes")
    lab.apply([volume("one", "local", "a100-1")])
    assert node_of(lab, "user") == "a100-1"


def test_a_provisioner_makes_a_volume_at_once_or_for_the_first_pod(lab: Lab) -> None:
    term = {"matchLabelExpressions": [{"key": "kubernetes.io/hostname", "values": ["l40s-1"]}]}
    lab.apply([storage_class("now", "example.com/disk")])
    lab.apply([storage_class("later", "example.com/disk", waits=True, allowedTopologies=[term])])
    lab.apply([claim("now", "now"), claim("later", "later")])
    lab.settle()
    assert [lab.get("PersistentVolumeClaim", name)["status"]["phase"] for name in ("now", "later")] == [
        "Bound",
        "Pending",
    ]
    lab.apply([pod("user", "now", "later")])
    assert node_of(lab, "user") == "l40s-1"
    assert lab.get("PersistentVolumeClaim", "later")["status"]["phase"] == "Bound"
    lab.delete("Pod", "user")
    lab.delete("PersistentVolumeClaim", "later")
    assert len(lab.get("PersistentVolume")) == 1


def test_a_claim_without_a_class_gets_the_default_one() -> None:
    cluster = EmbeddedCluster()
    notes = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    cluster.create(storage_class("usual", "example.com/disk", metadata=notes))
    cluster.create(claim("data", None))
    assert cluster.get("PersistentVolumeClaim", "data", "default")["spec"]["storageClassName"] == "usual"


@pytest.mark.parametrize(
    "other",
    [
        {"size": "1Gi"},
        {"accessModes": ["ReadOnlyMany"]},
        {"volumeMode": "Block"},
        {"claimRef": {"namespace": "default", "name": "somebody-elses"}},
    ],
)
def test_a_claim_gets_no_volume_that_does_not_fit_it(other: Any) -> None:
    cluster = EmbeddedCluster()
    cluster.create(volume("small", "hand", **other))
    cluster.create(claim("data", "hand"))
    assert cluster.get("PersistentVolumeClaim", "data", "default")["status"]["phase"] == "Pending"
    cluster.create(volume("fits", "hand"))
    assert cluster.get("PersistentVolumeClaim", "data", "default")["spec"]["volumeName"] == "fits"


def test_a_claim_whose_volume_is_deleted_is_lost_and_a_forked_cluster_binds_on() -> None:
    cluster = EmbeddedCluster()
    cluster.create(volume("one", "hand"))
    cluster.create(claim("data", "hand"))
    forked = cluster.fork()
    cluster.delete("PersistentVolume", "one")
    assert cluster.get("PersistentVolumeClaim", "data", "default")["status"]["phase"] == "Lost"
    assert forked.get("PersistentVolumeClaim", "data", "default")["status"]["phase"] == "Bound"
    forked.create(volume("two", "hand"))
    forked.create(claim("more", "hand"))
    assert forked.get("PersistentVolumeClaim", "more", "default")["spec"]["volumeName"] == "two"


def test_a_driver_makes_volumes_only_where_it_has_room(lab: Lab) -> None:
    lab.apply(
        storage_class("local", "disk.example.com", waits=True),
        {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "disk.example.com"}, "spec": {"storageCapacity": True}},
        *(
            {"apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity", "metadata": {"name": node}, "storageClassName": "local",
             "capacity": size, "nodeTopology": {"matchLabels": {"kubernetes.io/hostname": node}}}
            for node, size in (("a100-0", "5Gi"), ("a100-1", "15Gi"))
        ),
        claim("one", "local"), pod("first", "one"),
    )  # fmt: skip
    lab.settle()
    assert lab.get("Pod", "first")["spec"]["nodeName"] == "a100-1"
    # The volume has taken 10 of the 15 GiB.
    lab.apply(claim("two", "local"), pod("second", "two"))
    lab.settle()
    assert "did not have enough free storage" in str(lab.explain_pod("second"))
    lab.delete("Pod", "first")
    lab.delete("PersistentVolumeClaim", "one")
    lab.settle()
    assert lab.get("Pod", "second")["spec"]["nodeName"] == "a100-1"


def test_an_ephemeral_volume_has_a_claim_that_goes_with_its_pod(lab: Lab) -> None:
    template = {"metadata": {"labels": {"use": "scratch"}}, "spec": claim("x", "slow")["spec"]}
    user = pod("user")
    user["spec"]["volumes"] = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]
    lab.apply([storage_class("slow", "kubernetes.io/no-provisioner"), user])
    assert node_of(lab, "user") == ""
    lab.apply([volume("disk", "slow", "h100-0")])
    assert node_of(lab, "user") == "h100-0"
    made = lab.get("PersistentVolumeClaim", "user-scratch")
    assert (made["metadata"]["labels"], made["status"]["phase"]) == ({"use": "scratch"}, "Bound")
    lab.delete("Pod", "user")
    lab.settle()
    assert not lab.cluster.list("PersistentVolumeClaim")


def test_a_claim_that_a_quota_refuses_is_made_when_there_is_room(lab: Lab) -> None:
    hard = {"hard": {"persistentvolumeclaims": 1}}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": hard}
    user = pod("user")
    user["spec"]["volumes"] = [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": claim("x", None)["spec"]}}}]
    lab.apply([quota, claim("first", None)])
    lab.apply([user])
    assert node_of(lab, "user") == ""
    lab.delete("PersistentVolumeClaim", "first")
    assert node_of(lab, "user") != ""
